//! Numbers and parameters. A word directly behind a number is an error, as in PostgreSQL 15.

use super::token::TokenKind;
use super::{Lexer, is_name_part, is_name_start};
use crate::error::Parsed;

/// The value of a token of kind [`TokenKind::Integer`] or [`TokenKind::Number`] that is whole, if it
/// fits in 31 bits.
pub(crate) fn small(digits: &str) -> Option<i32> {
    let plain;
    let digits = if digits.contains('_') {
        plain = digits.replace('_', "");
        &plain
    } else {
        digits
    };
    let based = |base| i32::from_str_radix(&digits[2..], base).ok();
    match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => based(16),
        [b'0', b'o' | b'O', ..] => based(8),
        [b'0', b'b' | b'B', ..] => based(2),
        _ => digits.parse().ok(),
    }
}

impl Lexer<'_> {
    /// Digits, with single underscores between them.
    fn digits(&mut self, is_digit: fn(u8) -> bool) {
        while is_digit(self.byte(0)) || self.byte(0) == b'_' && is_digit(self.byte(1)) {
            self.at += 1;
        }
    }

    pub(super) fn number(&mut self) -> Parsed<TokenKind> {
        let start = self.at;
        let base: Option<fn(u8) -> bool> = match (self.byte(0), self.byte(1)) {
            (b'0', b'x' | b'X') => Some(|byte| byte.is_ascii_hexdigit()),
            (b'0', b'o' | b'O') => Some(|byte| matches!(byte, b'0'..=b'7')),
            (b'0', b'b' | b'B') => Some(|byte| matches!(byte, b'0' | b'1')),
            _ => None,
        };
        let mut whole = true;
        match base {
            Some(is_digit) if is_digit(self.byte(2)) => {
                self.at += 2;
                self.digits(is_digit);
            }
            _ => {
                self.digits(|byte| byte.is_ascii_digit());
                // `1..10` is 1, `..` and 10.
                if self.byte(0) == b'.' && self.byte(1) != b'.' {
                    whole = false;
                    self.at += 1;
                    self.digits(|byte| byte.is_ascii_digit());
                }
                if matches!(self.byte(0), b'e' | b'E') {
                    let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
                    if self.byte(1 + sign).is_ascii_digit() {
                        whole = false;
                        self.at += 2 + sign;
                        self.digits(|byte| byte.is_ascii_digit());
                    } else if sign == 1 {
                        self.at += 2;
                        return Err(self.error("trailing junk after numeric literal", start));
                    }
                }
            }
        }
        if is_name_start(self.byte(0)) {
            self.junk();
            return Err(self.error("trailing junk after numeric literal", start));
        }
        if whole && small(&self.text[start..self.at]).is_some() {
            Ok(TokenKind::Integer)
        } else {
            Ok(TokenKind::Number)
        }
    }

    fn junk(&mut self) {
        while is_name_part(self.byte(0)) {
            self.at += 1;
        }
    }

    /// `$1`, `$$…$$`, or a lone dollar.
    pub(super) fn dollar(&mut self) -> Parsed<TokenKind> {
        let start = self.at;
        if self.byte(1).is_ascii_digit() {
            self.at += 1;
            while self.byte(0).is_ascii_digit() {
                self.at += 1;
            }
            if is_name_start(self.byte(0)) {
                self.junk();
                return Err(self.error("trailing junk after parameter", start));
            }
            return Ok(TokenKind::Parameter);
        }
        self.dollar_string()
    }
}
