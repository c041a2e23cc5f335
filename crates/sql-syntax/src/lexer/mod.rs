//! The lexer: PostgreSQL's token rules (its `scan.l`), over a whole text at once.
//!
//! Size and the depth of brackets are counted here, before anything is parsed, so a text
//! that is beyond the limits costs no more than its tokens. Numbers of PostgreSQL 16 and
//! later (`0x1F`, `1_000`) are read as well.

pub(crate) mod number;
mod operator;
pub mod string;
pub mod token;

use crate::Limits;
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword;
use token::{Token, TokenKind};

/// All tokens of `text`, with [`TokenKind::End`] behind them.
pub fn tokens(text: &str, limits: &Limits) -> Parsed<Vec<Token>> {
    if text.len() > limits.bytes {
        return Err(SyntaxError::new(
            Fault::TooLong,
            format!("statement is longer than {} bytes", limits.bytes),
            0,
        ));
    }
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        depth: 0,
        limits,
        tokens: Vec::with_capacity(text.len() / 4 + 2),
        signs_until: 0,
    };
    lexer.run()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    limits: &'a Limits,
    tokens: Vec<Token>,
    /// Up to where a run of signs is known that are operators of one character each.
    signs_until: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name_part(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl Lexer<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The error that PostgreSQL's scanner makes of a message: it shows the text from `start`
    /// to where the scanner stands.
    fn error(&self, message: &str, start: usize) -> Box<SyntaxError> {
        let near = self.text.get(start..self.at).unwrap_or("");
        let message = if start >= self.bytes.len() {
            format!("{message} at end of input")
        } else {
            format!("{message} at or near \"{near}\"")
        };
        SyntaxError::new(Fault::Syntax, message, start as u32)
    }

    fn run(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks()?;
            let start = self.at;
            if start >= self.bytes.len() {
                self.push(TokenKind::End, Keyword::NotAKeyword, start)?;
                return Ok(());
            }
            let (kind, keyword) = self.token()?;
            self.push(kind, keyword, start)?;
            self.join_escape_clause()?;
        }
    }

    fn push(&mut self, kind: TokenKind, keyword: Keyword, start: usize) -> Parsed<()> {
        match kind {
            TokenKind::Open | TokenKind::OpenBracket => {
                self.depth += 1;
                if self.depth > self.limits.depth {
                    return Err(too_deep(start as u32));
                }
            }
            TokenKind::Close | TokenKind::CloseBracket => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.tokens.len() >= self.limits.tokens {
            return Err(SyntaxError::new(
                Fault::TooLong,
                format!("statement has more than {} tokens", self.limits.tokens),
                start as u32,
            ));
        }
        self.tokens.push(Token {
            kind,
            keyword,
            start: start as u32,
            end: self.at as u32,
        });
        Ok(())
    }

    /// White space, `-- …` and nested `/* … */`.
    fn skip_blanks(&mut self) -> Parsed<()> {
        loop {
            match self.byte(0) {
                byte if is_space(byte) => self.at += 1,
                b'-' if self.byte(1) == b'-' => self.skip_line(),
                b'/' if self.byte(1) == b'*' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && !matches!(self.byte(0), b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Parsed<()> {
        let start = self.at;
        let mut depth = 0_usize;
        while self.at < self.bytes.len() {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.error("unterminated /* comment", start))
    }

    fn token(&mut self) -> Parsed<(TokenKind, Keyword)> {
        let none = Keyword::NotAKeyword;
        let kind = match self.byte(0) {
            b'\'' => self.string(0)?,
            b'e' | b'E' if self.byte(1) == b'\'' => self.string(1)?,
            b'b' | b'B' if self.byte(1) == b'\'' => self.string(1).map(|_| TokenKind::BitString)?,
            b'x' | b'X' if self.byte(1) == b'\'' => self.string(1).map(|_| TokenKind::HexString)?,
            b'u' | b'U' if self.byte(1) == b'&' && self.byte(2) == b'\'' => self.string(2)?,
            b'u' | b'U' if self.byte(1) == b'&' && self.byte(2) == b'"' => self.quoted_name(2)?,
            // A string of the national character set is the word NCHAR and a string.
            b'n' | b'N' if self.byte(1) == b'\'' => {
                self.at += 1;
                return Ok((TokenKind::Keyword, Keyword::Nchar));
            }
            b'"' => self.quoted_name(0)?,
            byte if is_name_start(byte) => return Ok(self.word()),
            b'0'..=b'9' => self.number()?,
            b'.' if self.byte(1).is_ascii_digit() => self.number()?,
            b'$' => self.dollar()?,
            _ => self.symbol()?,
        };
        Ok((kind, none))
    }

    fn word(&mut self) -> (TokenKind, Keyword) {
        let start = self.at;
        while is_name_part(self.byte(0)) && self.at < self.bytes.len() {
            self.at += 1;
        }
        match Keyword::find(&self.text[start..self.at]) {
            Keyword::NotAKeyword => (TokenKind::Name, Keyword::NotAKeyword),
            keyword => (TokenKind::Keyword, keyword),
        }
    }

    fn one(&mut self, kind: TokenKind) -> TokenKind {
        self.at += 1;
        kind
    }

    fn symbol(&mut self) -> Parsed<TokenKind> {
        let kind = match self.byte(0) {
            b'(' => TokenKind::Open,
            b')' => TokenKind::Close,
            b'[' => TokenKind::OpenBracket,
            b']' => TokenKind::CloseBracket,
            b',' => TokenKind::Comma,
            b';' => TokenKind::Semicolon,
            b'.' if self.byte(1) == b'.' => {
                self.at += 1;
                TokenKind::DotDot
            }
            b'.' => TokenKind::Dot,
            b':' => match self.byte(1) {
                b':' => {
                    self.at += 1;
                    TokenKind::Cast
                }
                b'=' => {
                    self.at += 1;
                    TokenKind::ColonEquals
                }
                _ => TokenKind::Colon,
            },
            byte if operator::is_part(byte) => return self.operator(),
            // Only ASCII comes here: what is above it begins a name.
            _ => TokenKind::Other,
        };
        Ok(self.one(kind))
    }
}

/// What is nested more deeply than the limits permit.
pub(crate) fn too_deep(at: u32) -> Box<SyntaxError> {
    let mut error = SyntaxError::new(Fault::TooDeep, "statement is nested too deeply", at);
    error.hint = Some("Write it with fewer brackets or subqueries within each other.");
    error
}
