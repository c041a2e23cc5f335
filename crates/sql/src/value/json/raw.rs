//! Looks into a value of the type `json`: its text is searched, and parts of it are returned
//! as they are written.

use super::Work;
use super::parse::{Lexer, Token};
use crate::Result;

/// What a JSON text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawKind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl RawKind {
    /// The name of the kind, as `json_typeof` gives it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    const fn of(token: Token) -> Option<Self> {
        Some(match token {
            Token::String => Self::String,
            Token::Number => Self::Number,
            Token::ObjectStart => Self::Object,
            Token::ArrayStart => Self::Array,
            Token::True | Token::False => Self::Bool,
            Token::Null => Self::Null,
            Token::ObjectEnd | Token::ArrayEnd | Token::Comma | Token::Colon | Token::End => {
                return None;
            }
        })
    }
}

/// An element of an array, or a value of an object with its key.
#[derive(Clone, Debug)]
pub(crate) struct RawChild<'a> {
    /// The key, decoded; `None` in an array.
    pub(crate) key: Option<String>,
    pub(crate) text: &'a str,
    pub(crate) kind: RawKind,
}

/// What a JSON text is.
pub(crate) fn kind_of(text: &str) -> Result<RawKind> {
    let mut lexer = Lexer::new(text, false);
    lexer.next()?;
    RawKind::of(lexer.token).ok_or_else(|| unexpected(&lexer))
}

/// The JSON text without blanks around it.
pub(crate) fn value_of(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

fn unexpected(lexer: &Lexer<'_>) -> crate::Error {
    lexer.fail(format!("Token \"{}\" is invalid.", lexer.shown()))
}

/// The elements of an array or the pairs of an object, in the order they are written; none
/// of a scalar.
pub(crate) fn children<'a>(text: &'a str, work: Work<'_>) -> Result<Vec<RawChild<'a>>> {
    let mut lexer = Lexer::new(text, false);
    lexer.next()?;
    let is_object = lexer.token == Token::ObjectStart;
    let mut found = Vec::new();
    if !is_object && lexer.token != Token::ArrayStart {
        return Ok(found);
    }
    loop {
        // Only keys at this level are decoded.
        lexer.decodes = is_object;
        lexer.next()?;
        lexer.decodes = false;
        let mut key = None;
        if matches!(lexer.token, Token::ObjectEnd | Token::ArrayEnd) {
            return Ok(found);
        }
        if is_object {
            key = Some(std::mem::take(&mut lexer.text));
            lexer.next()?;
            lexer.next()?;
        }
        let start = lexer.start;
        let kind = RawKind::of(lexer.token).ok_or_else(|| unexpected(&lexer))?;
        let mut depth = 0_usize;
        loop {
            match lexer.token {
                Token::ObjectStart | Token::ArrayStart => depth += 1,
                Token::ObjectEnd | Token::ArrayEnd => depth = depth.saturating_sub(1),
                Token::End => return Err(unexpected(&lexer)),
                Token::String
                | Token::Number
                | Token::Comma
                | Token::Colon
                | Token::True
                | Token::False
                | Token::Null => {}
            }
            if depth == 0 {
                break;
            }
            lexer.next()?;
        }
        work(lexer.end - start)?;
        found.push(RawChild {
            key,
            text: &text[start..lexer.end],
            kind,
        });
        lexer.next()?;
        if lexer.token != Token::Comma {
            return Ok(found);
        }
    }
}
