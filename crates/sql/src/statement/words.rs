//! Parser primitives for words, names and options.

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::Failure;
use super::command::{Argument, CopyOption};
use super::text::Text;
use crate::error::Error;

pub(super) type Parse<T> = Result<T, Failure>;

pub(super) fn unsupported(feature: &str, token: &TokenWithSpan, text: &Text) -> Failure {
    Error::unsupported(feature)
        .at(text.position(token.span.start))
        .into()
}

pub(super) fn unexpected<T>(parser: &Parser<'_>, expected: &str) -> Parse<T> {
    Ok(parser.expected(expected, parser.peek_token())?)
}

/// The word of a token, if the token is a word without quotes.
pub(super) fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(Word {
            value,
            quote_style: None,
            ..
        }) => Some(value),
        _ => None,
    }
}

pub(super) fn is(token: &Token, expected: &str) -> bool {
    word(token).is_some_and(|word| word.eq_ignore_ascii_case(expected))
}

pub(super) fn next_is(parser: &Parser<'_>, ahead: usize, expected: &str) -> bool {
    is(&parser.peek_nth_token(ahead).token, expected)
}

/// Consumes the next token if it is this word.
pub(super) fn eat(parser: &mut Parser<'_>, expected: &str) -> bool {
    let found = next_is(parser, 0, expected);
    if found {
        parser.next_token();
    }
    found
}

pub(super) fn need(parser: &mut Parser<'_>, expected: &str) -> Parse<()> {
    if eat(parser, expected) {
        Ok(())
    } else {
        unexpected(parser, expected)
    }
}

/// A name, folded to lower case unless quoted.
pub(super) fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

pub(super) fn identifier(parser: &mut Parser<'_>) -> Parse<String> {
    Ok(fold(&parser.parse_identifier()?))
}

/// Parses a word, a string or a signed number.
pub(super) fn value(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) {
        "-"
    } else {
        let _ = parser.consume_token(&Token::Plus);
        ""
    };
    let token = parser.next_token();
    match &token.token {
        Token::Number(number, _) => Ok(format!("{sign}{number}")),
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
            if sign.is_empty() =>
        {
            Ok(text.clone())
        }
        Token::DollarQuotedString(text) if sign.is_empty() => Ok(text.value.clone()),
        Token::Word(word) if sign.is_empty() => Ok(match word.quote_style {
            None => word.value.to_lowercase(),
            Some(_) => word.value.clone(),
        }),
        _ => parser.expected("a value", token),
    }
}

/// Parses a list of options in parentheses: `(name [argument], …)`.
pub(super) fn options(parser: &mut Parser<'_>) -> Parse<Vec<CopyOption>> {
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let location = parser.peek_token().span.start;
        let name = value(parser)?;
        let argument = match parser.peek_token().token {
            Token::Comma | Token::RParen => Argument::None,
            Token::Mul => {
                parser.next_token();
                Argument::Star
            }
            Token::LParen => {
                parser.next_token();
                let list = parser.parse_comma_separated(|parser| {
                    parser.parse_identifier().map(|ident| fold(&ident))
                })?;
                parser.expect_token(&Token::RParen)?;
                Argument::List(list)
            }
            _ => Argument::Text(value(parser)?),
        };
        Ok(CopyOption {
            name,
            argument,
            location,
        })
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(options)
}
