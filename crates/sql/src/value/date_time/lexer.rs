//! Lexer of dates, times and intervals: splits a text into fields by the characters they
//! begin with, and guesses from their punctuation what they may be.

use super::fault::Fault;
use super::words;

/// Maximum number of fields.
const MAX_FIELDS: usize = 25;
/// Maximum length of all fields together, in bytes.
const MAX_LENGTH: usize = 256;

/// What a field may be, by its punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::value) enum Shape {
    /// `2026-11-21`, `21-nov-2026`, `america/new_york`
    Date,
    /// `12:34:56.7`
    Time,
    /// A signed number: `+01:30`
    Zone,
    /// Digits, perhaps with a point.
    Number,
    /// Letters.
    Word,
    /// Letters behind a sign.
    Signed,
}

/// A field: its text in lower case, and what it may be.
#[derive(Clone, Debug)]
pub(in crate::value) struct Field {
    pub(in crate::value) shape: Shape,
    pub(in crate::value) text: String,
}

impl Field {
    pub(in crate::value) fn first(&self) -> u8 {
        self.text.as_bytes().first().copied().unwrap_or(0)
    }
}

/// The bytes of a text that are still to be read.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0)
    }

    fn take(&mut self, out: &mut String) {
        if let Some((first, rest)) = self.rest.split_first() {
            out.push(char::from(first.to_ascii_lowercase()));
            self.rest = rest;
        }
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool, out: &mut String) {
        while !self.rest.is_empty() && wanted(self.peek()) {
            self.take(out);
        }
    }

    fn skip_while(&mut self, unwanted: impl Fn(u8) -> bool) {
        while !self.rest.is_empty() && unwanted(self.peek()) {
            self.rest = &self.rest[1..];
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
}

/// Splits a text into its fields.
pub(in crate::value) fn split(text: &str) -> Result<Vec<Field>, Fault> {
    let mut bytes = Bytes {
        rest: text.as_bytes(),
    };
    let mut fields: Vec<Field> = Vec::new();
    let mut length = 0;
    while !bytes.rest.is_empty() {
        let first = bytes.peek();
        if is_space(first) {
            bytes.skip_while(is_space);
            continue;
        }
        let mut word = String::new();
        let shape = if is_digit(first) {
            digits(&mut bytes, &mut word)
        } else if first == b'.' {
            bytes.take(&mut word);
            bytes.take_while(is_digit, &mut word);
            Shape::Number
        } else if is_letter(first) {
            letters(&mut bytes, &mut word)
        } else if matches!(first, b'+' | b'-') {
            bytes.take(&mut word);
            bytes.skip_while(is_space);
            if is_digit(bytes.peek()) {
                bytes.take_while(
                    |byte| is_digit(byte) || matches!(byte, b':' | b'.' | b'-'),
                    &mut word,
                );
                Shape::Zone
            } else if is_letter(bytes.peek()) {
                bytes.take_while(is_letter, &mut word);
                Shape::Signed
            } else {
                return Err(Fault::Format);
            }
        } else if first.is_ascii_punctuation() {
            bytes.skip_while(|byte| byte == first);
            continue;
        } else {
            return Err(Fault::Format);
        };
        length += word.len() + 1;
        if fields.len() == MAX_FIELDS || length > MAX_LENGTH {
            return Err(Fault::Format);
        }
        fields.push(Field { shape, text: word });
    }
    Ok(fields)
}

/// A field that begins with a digit: a date, a time or a number.
fn digits(bytes: &mut Bytes<'_>, word: &mut String) -> Shape {
    bytes.take_while(is_digit, word);
    match bytes.peek() {
        b':' => {
            bytes.take_while(|byte| is_digit(byte) || matches!(byte, b':' | b'.'), word);
            Shape::Time
        }
        separator @ (b'-' | b'/' | b'.') => {
            bytes.take(word);
            if !is_digit(bytes.peek()) {
                // The month is a word.
                let date = |byte: u8| byte.is_ascii_alphanumeric() || byte == separator;
                bytes.take_while(date, word);
                return Shape::Date;
            }
            bytes.take_while(is_digit, word);
            if bytes.peek() == separator {
                bytes.take_while(|byte| is_digit(byte) || byte == separator, word);
                return Shape::Date;
            }
            if separator == b'.' {
                Shape::Number
            } else {
                Shape::Date
            }
        }
        _ => Shape::Number,
    }
}

/// A field that begins with a letter: a word, or a date or time zone with punctuation.
fn letters(bytes: &mut Bytes<'_>, word: &mut String) -> Shape {
    bytes.take_while(is_letter, word);
    let next = bytes.peek();
    let is_date = match next {
        b'-' | b'/' | b'.' => true,
        // A known word in front of digits is a field of its own: `may1`.
        b'+' | b'0'..=b'9' => words::lookup(word).is_none(),
        _ => false,
    };
    if !is_date {
        return Shape::Word;
    }
    bytes.take_while(
        |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
        },
        word,
    );
    Shape::Date
}
