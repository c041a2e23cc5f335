//! Built-in SQL functions on `bytea`.

use std::sync::Arc;

use super::kinds::{BYTEA, INT4, INT8, TEXT};
use crate::expression::EvaluationContext;
use crate::expression::function::{Arguments, Function};
use crate::value::types::bytes::{from_escapes, from_hex, hex};
use crate::value::{Value, utf8};
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("length", &[BYTEA], INT4, |a, _| count(a.bytes(0).len())),
    Function::new("octet_length", &[BYTEA], INT4, |a, _| {
        count(a.bytes(0).len())
    }),
    Function::new("bit_length", &[BYTEA], INT4, |a, _| {
        count(a.bytes(0).len().saturating_mul(8))
    }),
    Function::new("bit_count", &[BYTEA], INT8, |a, context| {
        context.work(a.bytes(0).len())?;
        let ones: u64 = a.bytes(0).iter().map(|b| u64::from(b.count_ones())).sum();
        Ok(Value::Int8(ones as i64))
    }),
    Function::new("substring", &[BYTEA, INT4], BYTEA, substring),
    Function::new("substring", &[BYTEA, INT4, INT4], BYTEA, substring),
    Function::new("substr", &[BYTEA, INT4], BYTEA, substring),
    Function::new("substr", &[BYTEA, INT4, INT4], BYTEA, substring),
    Function::new("overlay", &[BYTEA, BYTEA, INT4], BYTEA, overlay),
    Function::new("overlay", &[BYTEA, BYTEA, INT4, INT4], BYTEA, overlay),
    Function::new("position", &[BYTEA, BYTEA], INT4, position),
    Function::new("byteacat", &[BYTEA, BYTEA], BYTEA, |a, context| {
        let length = a.bytes(0).len().saturating_add(a.bytes(1).len());
        context.claim(length)?;
        context.work(length)?;
        Ok(bytes([a.bytes(0), a.bytes(1)].concat()))
    }),
    Function::new("get_byte", &[BYTEA, INT4], INT4, |a, _| {
        let at = index(a.integer(1), a.bytes(0).len())?;
        Ok(Value::Int4(i32::from(a.bytes(0)[at])))
    }),
    Function::new("set_byte", &[BYTEA, INT4, INT4], BYTEA, |a, context| {
        let at = index(a.integer(1), a.bytes(0).len())?;
        context.work(a.bytes(0).len())?;
        let mut changed = a.bytes(0).to_vec();
        changed[at] = a.integer(2) as u8;
        Ok(bytes(changed))
    }),
    Function::new("get_bit", &[BYTEA, INT8], INT4, |a, _| {
        let at = index(a.integer(1), a.bytes(0).len().saturating_mul(8))?;
        Ok(Value::Int4(i32::from(a.bytes(0)[at / 8] >> (at % 8) & 1)))
    }),
    Function::new("set_bit", &[BYTEA, INT8, INT4], BYTEA, |a, context| {
        let at = index(a.integer(1), a.bytes(0).len().saturating_mul(8))?;
        if !matches!(a.integer(2), 0 | 1) {
            return Err(wrong("new bit must be 0 or 1"));
        }
        context.work(a.bytes(0).len())?;
        let mut changed = a.bytes(0).to_vec();
        let mask = 1 << (at % 8);
        changed[at / 8] = match a.integer(2) {
            0 => changed[at / 8] & !mask,
            _ => changed[at / 8] | mask,
        };
        Ok(bytes(changed))
    }),
    Function::new("btrim", &[BYTEA, BYTEA], BYTEA, |a, context| {
        trim(a, true, true, context)
    }),
    Function::new("ltrim", &[BYTEA, BYTEA], BYTEA, |a, context| {
        trim(a, true, false, context)
    }),
    Function::new("rtrim", &[BYTEA, BYTEA], BYTEA, |a, context| {
        trim(a, false, true, context)
    }),
    Function::new("encode", &[BYTEA, TEXT], TEXT, encode),
    Function::new("decode", &[TEXT, TEXT], BYTEA, decode),
    Function::new("convert_from", &[BYTEA, TEXT], TEXT, convert_from),
    Function::new("convert_to", &[TEXT, TEXT], BYTEA, convert_to),
];

fn bytes(bytes: Vec<u8>) -> Value {
    Value::Bytes(Arc::from(bytes))
}

fn count(number: usize) -> Result<Value> {
    Ok(Value::Int4(i32::try_from(number).unwrap_or(i32::MAX)))
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Checks the position of a byte or a bit.
fn index(position: i64, length: usize) -> Result<usize> {
    usize::try_from(position)
        .ok()
        .filter(|at| *at < length)
        .ok_or_else(|| {
            Error::new(
                SqlState::ARRAY_SUBSCRIPT_ERROR,
                format!(
                    "index {position} out of valid range, 0..{}",
                    length as i64 - 1
                ),
            )
        })
}

fn negative_length() -> Error {
    Error::new(
        SqlState::SUBSTRING_ERROR,
        "negative substring length not allowed",
    )
}

fn substring(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let all = a.bytes(0);
    let from = a.integer(1);
    let until = match a.values.get(2) {
        None => i64::MAX,
        Some(_) if a.integer(2) < 0 => return Err(negative_length()),
        Some(_) => from + a.integer(2),
    };
    let start = usize::try_from(from - 1).unwrap_or(0).min(all.len());
    let end = usize::try_from(until - 1)
        .unwrap_or(0)
        .clamp(start, all.len());
    context.work(end - start)?;
    Ok(Value::Bytes(Arc::from(&all[start..end])))
}

fn overlay(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (all, new, from) = (a.bytes(0), a.bytes(1), a.integer(2));
    if from <= 0 {
        return Err(negative_length());
    }
    let length = match a.values.get(3) {
        None => new.len() as i64,
        Some(_) => a.integer(3),
    };
    let head = usize::try_from(from - 1).unwrap_or(0).min(all.len());
    let tail = usize::try_from(from - 1 + length)
        .unwrap_or(0)
        .min(all.len());
    let whole = all.len() + new.len();
    context.claim(whole)?;
    context.work(whole)?;
    Ok(bytes([&all[..head], new, &all[tail..]].concat()))
}

/// Where the second value is in the first, from 1; 0 if it is not there.
fn position(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let (all, wanted) = (a.bytes(0), a.bytes(1));
    if wanted.is_empty() {
        return count(1);
    }
    for (at, found) in all.windows(wanted.len()).enumerate() {
        // What a comparison costs is where both begin to differ.
        let same = found.iter().zip(wanted).take_while(|(x, y)| x == y).count();
        context.work(1 + same)?;
        if same == wanted.len() {
            return count(at + 1);
        }
    }
    count(0)
}

fn trim(
    a: Arguments<'_>,
    at_start: bool,
    at_end: bool,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    context.work(a.bytes(0).len() + a.bytes(1).len())?;
    let mut unwanted = [false; 256];
    for byte in a.bytes(1) {
        unwanted[usize::from(*byte)] = true;
    }
    let unwanted = |byte: &u8| unwanted[usize::from(*byte)];
    let mut rest = a.bytes(0);
    while let [first, behind @ ..] = rest
        && at_start
        && unwanted(first)
    {
        rest = behind;
    }
    while let [before @ .., last] = rest
        && at_end
        && unwanted(last)
    {
        rest = before;
    }
    Ok(Value::Bytes(Arc::from(rest)))
}

fn no_encoding(name: &str) -> Error {
    wrong(format!("unrecognized encoding: \"{name}\""))
}

/// Characters in a line of base64.
const BASE64_LINE: usize = 76;

fn encode(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    use base64::Engine;
    let all = a.bytes(0);
    let mut out = Vec::new();
    match a.text(1).to_ascii_lowercase().as_str() {
        "hex" => {
            context.claim(all.len().saturating_mul(2))?;
            for chunk in all.chunks(16 << 10) {
                context.work(chunk.len())?;
                out.extend(chunk.iter().flat_map(|byte| hex(*byte)));
            }
        }
        "base64" => {
            context.claim(all.len().saturating_mul(3) / 2)?;
            let line = BASE64_LINE / 4 * 3;
            for chunk in all.chunks(line) {
                context.work(chunk.len())?;
                let encoded = base64::engine::general_purpose::STANDARD.encode(chunk);
                out.extend_from_slice(encoded.as_bytes());
                if chunk.len() == line {
                    out.push(b'\n');
                }
            }
        }
        "escape" => {
            context.claim(all.len().saturating_mul(4))?;
            context.work(all.len())?;
            for byte in all {
                match byte {
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    1..0x80 => out.push(*byte),
                    other => out.extend_from_slice(&[
                        b'\\',
                        b'0' + (other >> 6),
                        b'0' + (other >> 3 & 7),
                        b'0' + (other & 7),
                    ]),
                }
            }
        }
        _ => return Err(no_encoding(a.text(1))),
    }
    Ok(Value::text(String::from_utf8_lossy(&out)))
}

fn decode(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    let text = a.text(0);
    context.work(text.len())?;
    Ok(bytes(match a.text(1).to_ascii_lowercase().as_str() {
        "hex" => from_hex(text)?,
        "base64" => from_base64(text)?,
        "escape" => from_escapes(text.as_bytes()).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                "invalid input syntax for type bytea",
            )
        })?,
        _ => return Err(no_encoding(a.text(1))),
    }))
}

/// Decodes base64 with blanks anywhere.
fn from_base64(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut read, mut ended) = (0_u32, 0, 0);
    for character in text.chars() {
        let digit = match character {
            ' ' | '\n' | '\t' | '\r' => continue,
            'A'..='Z' => character as u32 - 'A' as u32,
            'a'..='z' => character as u32 - 'a' as u32 + 26,
            '0'..='9' => character as u32 - '0' as u32 + 52,
            '+' => 62,
            '/' => 63,
            '=' => {
                // The end of a group that has two or three digits.
                if ended == 0 {
                    ended = match read {
                        2 => 1,
                        3 => 2,
                        _ => {
                            return Err(wrong("unexpected \"=\" while decoding base64 sequence"));
                        }
                    };
                }
                0
            }
            other => {
                return Err(wrong(format!(
                    "invalid symbol \"{other}\" found while decoding base64 sequence"
                )));
            }
        };
        group = group << 6 | digit;
        read += 1;
        if read == 4 {
            out.push((group >> 16) as u8);
            if ended == 0 || ended > 1 {
                out.push((group >> 8) as u8);
            }
            if ended == 0 || ended > 2 {
                out.push(group as u8);
            }
            (group, read) = (0, 0);
        }
    }
    if read != 0 {
        return Err(wrong("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

/// A character set that `convert_from` and `convert_to` know.
enum CharacterSet {
    Utf8,
    Latin1,
}

fn character_set(name: &str, which: &str) -> Result<CharacterSet> {
    let plain: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(CharacterSet::Utf8),
        "latin1" | "iso88591" => Ok(CharacterSet::Latin1),
        _ => Err(wrong(format!("invalid {which} encoding name \"{name}\""))),
    }
}

fn convert_from(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    context.work(a.bytes(0).len())?;
    match character_set(a.text(1), "source")? {
        CharacterSet::Utf8 => Ok(Value::text(utf8(a.bytes(0))?)),
        CharacterSet::Latin1 => {
            context.claim(a.bytes(0).len().saturating_mul(2))?;
            let text: String = a.bytes(0).iter().map(|byte| char::from(*byte)).collect();
            crate::value::check_text(&text)?;
            Ok(Value::text(text))
        }
    }
}

fn convert_to(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    context.work(a.text(0).len())?;
    match character_set(a.text(1), "destination")? {
        CharacterSet::Utf8 => Ok(bytes(a.text(0).as_bytes().to_vec())),
        CharacterSet::Latin1 => {
            let mut out = Vec::with_capacity(a.text(0).len());
            for character in a.text(0).chars() {
                match u8::try_from(character) {
                    Ok(byte) => out.push(byte),
                    Err(_) => {
                        let shown: Vec<String> = character
                            .to_string()
                            .bytes()
                            .map(|byte| format!("0x{byte:02x}"))
                            .collect();
                        return Err(Error::new(
                            SqlState::UNTRANSLATABLE_CHARACTER,
                            format!(
                                "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"",
                                shown.join(" ")
                            ),
                        ));
                    }
                }
            }
            Ok(bytes(out))
        }
    }
}
