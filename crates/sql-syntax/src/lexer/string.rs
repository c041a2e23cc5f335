//! Strings and quoted names: where they end, and what they say.
//!
//! A string goes on in a second one behind white space with a line's end in it. The token
//! covers all parts, and [`decode`] reads them again.

use super::token::TokenKind;
use super::{Lexer, is_name_part, is_name_start};
use crate::error::{Fault, Parsed, SyntaxError};
use crate::keyword::Keyword;

impl Lexer<'_> {
    /// A string whose quote is `prefix` bytes ahead.
    pub(super) fn string(&mut self, prefix: usize) -> Parsed<TokenKind> {
        let start = self.at;
        let escapes = prefix == 1 && matches!(self.byte(0), b'e' | b'E');
        self.at += prefix;
        loop {
            self.string_part(start, escapes)?;
            let Some(next) = continuation(self.bytes, self.at) else {
                return Ok(TokenKind::String);
            };
            self.at = next;
        }
    }

    fn string_part(&mut self, start: usize, escapes: bool) -> Parsed<()> {
        let bits = matches!(self.bytes[start], b'b' | b'B' | b'x' | b'X');
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => {
                    let message = match self.bytes[start] {
                        b'b' | b'B' => "unterminated bit string literal",
                        b'x' | b'X' => "unterminated hexadecimal string literal",
                        _ => "unterminated quoted string",
                    };
                    return Err(self.error(message, start));
                }
                // Bit strings have no quotes within them.
                Some(b'\'') if self.byte(1) == b'\'' && !bits => self.at += 2,
                Some(b'\'') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') if escapes && self.at + 1 < self.bytes.len() => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
    }

    pub(super) fn dollar_string(&mut self) -> Parsed<TokenKind> {
        let start = self.at;
        let mut tag = 1;
        if is_name_start(self.byte(tag)) {
            while is_name_part(self.byte(tag)) && self.byte(tag) != b'$' {
                tag += 1;
            }
        }
        if self.byte(tag) != b'$' {
            self.at += 1;
            return Ok(TokenKind::Other);
        }
        let delimiter = &self.text[start..=start + tag];
        match self.text[start + tag + 1..].find(delimiter) {
            Some(length) => {
                self.at = start + 2 * (tag + 1) + length;
                Ok(TokenKind::String)
            }
            None => {
                self.at = self.bytes.len();
                Err(self.error("unterminated dollar-quoted string", start))
            }
        }
    }

    /// A name in double quotes, which are `prefix` bytes ahead.
    pub(super) fn quoted_name(&mut self, prefix: usize) -> Parsed<TokenKind> {
        let start = self.at;
        self.at += prefix + 1;
        let first = self.at;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.error("unterminated quoted identifier", start)),
                Some(b'"') if self.byte(1) == b'"' => self.at += 2,
                Some(b'"') => break,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        if self.at == first + 1 {
            return Err(self.error("zero-length delimited identifier", start));
        }
        Ok(TokenKind::Name)
    }

    /// Makes one token of `U&'…' UESCAPE '!'`, once its last part has been read.
    pub(super) fn join_escape_clause(&mut self) -> Parsed<()> {
        let [.., token, word, escape] = &mut self.tokens[..] else {
            return Ok(());
        };
        if word.keyword != Keyword::Uescape || !has_unicode_escapes(token.text(self.text)) {
            return Ok(());
        }
        let at = escape.start;
        let text = escape.text(self.text);
        if escape.kind != TokenKind::String || !text.starts_with('\'') {
            let message = "UESCAPE must be followed by a simple string literal";
            return Err(self.error(message, at as usize));
        }
        if escape_character(text).is_none() {
            return Err(self.error("invalid Unicode escape character", at as usize));
        }
        token.end = escape.end;
        self.tokens.truncate(self.tokens.len() - 2);
        Ok(())
    }
}

fn has_unicode_escapes(token: &str) -> bool {
    let bytes = token.as_bytes();
    matches!(bytes, [b'u' | b'U', b'&', b'\'' | b'"', ..])
        && matches!(bytes.last(), Some(b'\'' | b'"'))
}

fn escape_character(literal: &str) -> Option<char> {
    let mut inside = literal.strip_prefix('\'')?.strip_suffix('\'')?.chars();
    let escape = inside.next()?;
    let refused = matches!(escape, '+' | '\'' | '"' | ' ' | '\t' | '\n' | '\r' | '\x0c');
    let fits = inside.next().is_none() && !escape.is_ascii_hexdigit() && !refused;
    fits.then_some(escape)
}

/// Where the next part of a string begins, which ends at `at`: a quote behind white space
/// with a line's end in it. Comments count as white space, and the line's end has to be
/// before the first of them ends.
fn continuation(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut line = false;
    loop {
        match bytes.get(at)? {
            b'\n' | b'\r' => line = true,
            b' ' | b'\t' | b'\x0c' => {}
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                while !matches!(bytes.get(at)?, b'\n' | b'\r') {
                    at += 1;
                }
                continue;
            }
            b'\'' if line => return Some(at),
            _ => return None,
        }
        at += 1;
    }
}

/// What a string says.
pub(crate) fn decode(token: &str, at: u32) -> Parsed<String> {
    let bytes = token.as_bytes();
    match bytes[0] {
        b'$' => {
            let tag = token[1..].find('$').map_or(0, |tag| tag + 2);
            Ok(token[tag..token.len() - tag].to_owned())
        }
        b'e' | b'E' => escaped(token, at),
        b'u' | b'U' => unicode(token, at),
        b'\'' => Ok(plain(token, 0)),
        _ => Ok(plain(token, 1)),
    }
}

/// The inside of a string without escapes, or of each of its parts.
fn plain(token: &str, prefix: usize) -> String {
    let inside = &token[prefix + 1..token.len() - 1];
    if !inside.contains('\'') {
        return inside.to_owned();
    }
    let mut value = String::with_capacity(inside.len());
    for part in parts(token, prefix, false) {
        value.push_str(&part.replace("''", "'"));
    }
    value
}

/// What is between the quotes of each part.
fn parts(token: &str, prefix: usize, escapes: bool) -> Vec<&str> {
    let bytes = token.as_bytes();
    let mut parts = Vec::new();
    let mut start = prefix + 1;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => {
                parts.push(&token[start..at]);
                match continuation(bytes, at + 1) {
                    Some(next) => {
                        start = next + 1;
                        at = start;
                    }
                    None => break,
                }
            }
            _ => at += 1,
        }
    }
    parts
}

/// An error in the middle of a string. Within `E'…'` it shows what stands there.
fn invalid(what: &str, near: Option<&str>, at: u32) -> Box<SyntaxError> {
    let message = match near {
        Some(near) => format!("{what} at or near \"{near}\""),
        None => what.to_owned(),
    };
    SyntaxError::new(Fault::Syntax, message, at)
}

fn invalid_pair(near: Option<&str>, at: u32) -> Box<SyntaxError> {
    invalid("invalid Unicode surrogate pair", near, at)
}

/// Collects code points, of which two halves of a surrogate pair may follow each other.
#[derive(Default)]
struct CodePoints {
    first_half: Option<u32>,
}

impl CodePoints {
    fn take(&mut self, value: u32, near: Option<&str>, at: u32) -> Parsed<Option<char>> {
        match (self.first_half.take(), value) {
            (None, 0xd800..=0xdbff) => {
                self.first_half = Some(value);
                Ok(None)
            }
            (Some(first), 0xdc00..=0xdfff) => {
                let value = 0x1_0000 + ((first & 0x3ff) << 10) + (value & 0x3ff);
                Ok(char::from_u32(value))
            }
            (None, 0xdc00..=0xdfff) | (Some(_), _) => Err(invalid_pair(near, at)),
            (None, 0) => Err(invalid_value(near, at)),
            (None, value) => match char::from_u32(value) {
                Some(character) => Ok(Some(character)),
                None => Err(invalid_value(near, at)),
            },
        }
    }

    fn end(&self, near: Option<&str>, at: u32) -> Parsed<()> {
        match self.first_half {
            Some(_) => Err(invalid_pair(near, at)),
            None => Ok(()),
        }
    }
}

fn invalid_value(near: Option<&str>, at: u32) -> Box<SyntaxError> {
    invalid("invalid Unicode escape value", near, at)
}

/// As many hexadecimal digits as `count` says, no fewer.
fn hexadecimal(text: &str, count: usize) -> Option<u32> {
    let digits = text.get(..count)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// `E'…'`.
fn escaped(token: &str, at: u32) -> Parsed<String> {
    let mut value = Vec::with_capacity(token.len());
    let mut points = CodePoints::default();
    let mut wild = false;
    for part in parts(token, 1, true) {
        let offset = |rest: &str| at + (rest.as_ptr() as usize - token.as_ptr() as usize) as u32;
        let mut rest = part;
        while let Some(first) = rest.bytes().next() {
            let here = offset(rest);
            let second = rest.as_bytes().get(1).copied().unwrap_or(0);
            if first != b'\\' || !matches!(second, b'u' | b'U') {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                points.end(Some(&rest[..length]), here)?;
            }
            if first == b'\'' {
                value.push(b'\'');
                rest = &rest[2..];
                continue;
            }
            if first != b'\\' || rest.len() == 1 {
                value.push(first);
                // A character of several bytes is copied byte by byte.
                let length = rest.chars().next().map_or(1, char::len_utf8);
                value.extend_from_slice(&rest.as_bytes()[1..length]);
                rest = &rest[length..];
                continue;
            }
            rest = &rest[1..];
            match second {
                b'u' | b'U' => {
                    let count = if second == b'u' { 4 } else { 8 };
                    let start = here as usize - at as usize;
                    let Some(point) = hexadecimal(&rest[1..], count) else {
                        return Err(invalid_escape(
                            here,
                            "Unicode escapes must be \\uXXXX or \\UXXXXXXXX.",
                        ));
                    };
                    if let Some(character) =
                        points.take(point, token.get(start..=start + 1 + count), here)?
                    {
                        let mut buffer = [0; 4];
                        value.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                    }
                    rest = &rest[1 + count..];
                }
                b'x' if hexadecimal(&rest[1..], 1).is_some() => {
                    let count = if hexadecimal(&rest[1..], 2).is_some() {
                        2
                    } else {
                        1
                    };
                    value.push(hexadecimal(&rest[1..], count).unwrap_or(0) as u8);
                    wild = true;
                    rest = &rest[1 + count..];
                }
                b'0'..=b'7' => {
                    let digits = rest
                        .bytes()
                        .take(3)
                        .take_while(|byte| matches!(byte, b'0'..=b'7'));
                    let count = digits.count();
                    value.push(u32::from_str_radix(&rest[..count], 8).unwrap_or(0) as u8);
                    wild = true;
                    rest = &rest[count..];
                }
                _ => {
                    let single = match second {
                        b'b' => b"\x08",
                        b'f' => b"\x0c",
                        b'n' => b"\n",
                        b'r' => b"\r",
                        b't' => b"\t",
                        b'v' => b"\x0b",
                        _ => &rest.as_bytes()[..rest.chars().next().map_or(1, char::len_utf8)],
                    };
                    value.extend_from_slice(single);
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    rest = &rest[length..];
                }
            }
        }
        points.end(Some("'"), at + token.len() as u32 - 1)?;
    }
    if wild && value.contains(&0) {
        return Err(invalid_bytes(&[0], at));
    }
    String::from_utf8(value).map_err(|error| {
        let from = error.utf8_error().valid_up_to();
        let length = error.utf8_error().error_len().unwrap_or(1);
        let bytes = error.as_bytes();
        invalid_bytes(&bytes[from..(from + length).min(bytes.len())], at)
    })
}

fn invalid_bytes(bytes: &[u8], at: u32) -> Box<SyntaxError> {
    let shown: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    SyntaxError::new(
        Fault::InvalidBytes,
        format!(
            "invalid byte sequence for encoding \"UTF8\": {}",
            shown.join(" ")
        ),
        at,
    )
}

fn invalid_escape(at: u32, hint: &'static str) -> Box<SyntaxError> {
    let mut error = SyntaxError::new(Fault::InvalidEscape, "invalid Unicode escape", at);
    error.hint = Some(hint);
    error
}

/// `U&'…'` or `U&"…"`, with or without UESCAPE.
fn unicode(token: &str, at: u32) -> Parsed<String> {
    let quote = token.as_bytes()[2] as char;
    let (escape, inside) = split_escape(token, quote);
    let doubled = [quote, quote].iter().collect::<String>();
    let mut value = String::with_capacity(inside.len());
    let mut points = CodePoints::default();
    let mut rest = inside.as_str();
    let end = at + token.len() as u32 - 1;
    while let Some(first) = rest.chars().next() {
        let at = at + 3 + (inside.len() - rest.len()) as u32;
        if first != escape {
            points.end(None, at)?;
            value.push(first);
            rest = rest
                .strip_prefix(&doubled)
                .unwrap_or(&rest[first.len_utf8()..]);
            continue;
        }
        rest = &rest[escape.len_utf8()..];
        if let Some(after) = rest.strip_prefix(escape) {
            points.end(None, at)?;
            value.push(escape);
            rest = after;
            continue;
        }
        let (skip, count) = if rest.starts_with('+') {
            (1, 6)
        } else {
            (0, 4)
        };
        let Some(point) = rest
            .get(skip..)
            .and_then(|digits| hexadecimal(digits, count))
        else {
            let mut error = invalid("invalid Unicode escape", None, at);
            error.hint = Some("Unicode escapes must be \\XXXX or \\+XXXXXX.");
            return Err(error);
        };
        if let Some(character) = points.take(point, None, at)? {
            value.push(character);
        }
        rest = &rest[skip + count..];
    }
    points.end(None, end)?;
    Ok(value)
}

/// The escape character, and what is between the quotes.
fn split_escape(token: &str, quote: char) -> (char, String) {
    let (body, escape) = if quote == '\'' {
        let inside = parts(token, 2, false).concat();
        let last = continued_end(token, quote);
        (inside, &token[last..])
    } else {
        let last = continued_end(token, quote);
        (token[3..last - 1].to_owned(), &token[last..])
    };
    let clause = escape.rfind('\'').and_then(|end| {
        let start = escape[..end].rfind('\'')?;
        escape_character(&escape[start..=end])
    });
    (clause.unwrap_or('\\'), body)
}

/// Where the last part ends, and UESCAPE may begin.
fn continued_end(token: &str, quote: char) -> usize {
    let bytes = token.as_bytes();
    let quote = quote as u8;
    let mut at = 3;
    loop {
        match bytes.get(at) {
            None => return bytes.len(),
            Some(&byte) if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            Some(&byte) if byte == quote => match continuation(bytes, at + 1) {
                Some(next) if quote == b'\'' => at = next + 1,
                _ => return at + 1,
            },
            Some(_) => at += 1,
        }
    }
}

/// What a name says: in lower case if it is bare, as written if it is quoted.
pub(crate) fn name(token: &str, at: u32) -> Parsed<smol_str::SmolStr> {
    let bytes = token.as_bytes();
    Ok(match bytes {
        [b'"', ..] => {
            let inside = &token[1..token.len() - 1];
            if inside.contains('"') {
                inside.replace("\"\"", "\"").into()
            } else {
                inside.into()
            }
        }
        [b'u' | b'U', b'&', b'"', ..] => {
            let name = unicode(token, at)?;
            name.into()
        }
        _ if bytes.iter().any(u8::is_ascii_uppercase) => {
            let mut buffer = [0; 64];
            match buffer.get_mut(..bytes.len()) {
                Some(lower) => {
                    lower.copy_from_slice(bytes);
                    lower.make_ascii_lowercase();
                    std::str::from_utf8(lower).map_or_else(|_| token.into(), Into::into)
                }
                None => token.to_ascii_lowercase().into(),
            }
        }
        _ => token.into(),
    })
}
