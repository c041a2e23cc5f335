//! Operators: the longest run of operator characters, cut before a comment, and without a
//! trailing `+` or `-` unless a character that no standard operator has is in it.

use super::Lexer;
use super::token::TokenKind;
use crate::error::Parsed;

/// Longest operator, in bytes.
const LONGEST: usize = 63;

pub(super) fn is_part(byte: u8) -> bool {
    matches!(
        byte,
        b'~' | b'!'
            | b'@'
            | b'#'
            | b'^'
            | b'&'
            | b'|'
            | b'`'
            | b'?'
            | b'+'
            | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'<'
            | b'>'
            | b'='
    )
}

impl Lexer<'_> {
    pub(super) fn operator(&mut self) -> Parsed<TokenKind> {
        let start = self.at;
        if start < self.signs_until {
            self.at = start + 1;
            return Ok(match self.bytes[start] {
                b'+' => TokenKind::Plus,
                _ => TokenKind::Minus,
            });
        }
        let mut end = start;
        while self.bytes.get(end).copied().is_some_and(is_part) {
            if matches!(self.bytes.get(end..end + 2), Some(b"/*" | b"--")) && end > start {
                break;
            }
            end += 1;
        }
        let special = |byte: &u8| {
            matches!(
                byte,
                b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%'
            )
        };
        if !self.bytes[start..end].iter().any(special) {
            // What is cut off is not read again: no comment begins in it.
            self.signs_until = end;
            while end > start + 1 && matches!(self.bytes[end - 1], b'+' | b'-') {
                end -= 1;
            }
        }
        self.at = end;
        let kind = match &self.bytes[start..end] {
            b"+" => TokenKind::Plus,
            b"-" => TokenKind::Minus,
            b"*" => TokenKind::Star,
            b"/" => TokenKind::Slash,
            b"%" => TokenKind::Percent,
            b"^" => TokenKind::Caret,
            b"<" => TokenKind::Less,
            b">" => TokenKind::Greater,
            b"=" => TokenKind::Equal,
            b"=>" => TokenKind::Arrow,
            b"<=" => TokenKind::LessEquals,
            b">=" => TokenKind::GreaterEquals,
            b"<>" | b"!=" => TokenKind::NotEquals,
            _ => TokenKind::Operator,
        };
        if end - start > LONGEST {
            return Err(self.error("operator too long", start));
        }
        Ok(kind)
    }
}
