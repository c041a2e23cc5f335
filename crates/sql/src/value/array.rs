//! Text format of one-dimensional arrays: `{1,2,NULL,"a b"}`.

use super::{ColumnType, DataType, Style, Value};
use crate::{Error, Result, SqlState};

fn malformed(text: &str, detail: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{text}\""),
    )
    .with_detail(detail.to_owned())
}

/// Whether PostgreSQL skips the character around the elements of an array: ASCII's white
/// space, and no other that Unicode knows, so that those stay part of the element.
const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Characters of an array literal between two looks at the work meter.
const LOOK_AFTER: usize = 4096;

/// Parses an array literal, or the blank-separated list of a vector.
pub(super) fn parse(
    text: &str,
    data_type: DataType,
    element: DataType,
    style: &Style,
) -> Result<Vec<Value>> {
    parse_array(text, data_type, element, style, &mut |_| Ok(()))
}

/// [`Value::parse`] for an array of any length: tells `work` how many bytes it has
/// read, and ends when that fails.
pub(crate) fn parse_array(
    text: &str,
    data_type: DataType,
    element: DataType,
    style: &Style,
    work: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<Value>> {
    let element_type = ColumnType::from(element);
    if data_type.is_vector() {
        return text
            .split(is_space)
            .filter(|word| !word.is_empty())
            .map(|word| Value::parse(word, element_type, style))
            .collect();
    }
    let Some(inner) = text.trim_matches(is_space).strip_prefix('{') else {
        return Err(malformed(
            text,
            "Array value must start with \"{\" or dimension information.",
        ));
    };
    let Some(inner) = inner.strip_suffix('}') else {
        return Err(malformed(text, "Unexpected end of input."));
    };
    if inner.trim_matches(is_space).is_empty() {
        return Ok(Vec::new());
    }
    let mut elements = Vec::new();
    let mut characters = inner.chars().peekable();
    let mut read = 0;
    let mut look = || {
        read += 1;
        if read < LOOK_AFTER {
            return Ok(());
        }
        work(std::mem::take(&mut read))
    };
    loop {
        while characters.next_if(|c| is_space(*c)).is_some() {}
        let mut word = String::new();
        // Up to here the element was quoted or escaped, so its blanks are part of it.
        let mut kept_end = 0;
        // An element is either quoted as a whole or not at all.
        let mut form = Form::Empty;
        loop {
            look()?;
            match characters.next() {
                None | Some(',') if form == Form::Empty => {
                    return Err(malformed(text, "Unexpected \",\" character."));
                }
                None => {
                    elements.push(finish(&word, form, kept_end, element_type, style)?);
                    return Ok(elements);
                }
                Some(',') => {
                    elements.push(finish(&word, form, kept_end, element_type, style)?);
                    break;
                }
                Some('"') => {
                    if form != Form::Empty {
                        return Err(malformed(text, "Unexpected array element."));
                    }
                    form = Form::Quoted;
                    loop {
                        look()?;
                        match characters.next() {
                            None => return Err(malformed(text, "Unexpected end of input.")),
                            Some('"') => break,
                            Some('\\') => word.extend(characters.next()),
                            Some(other) => word.push(other),
                        }
                    }
                    kept_end = word.len();
                }
                Some(other) if form == Form::Quoted && !is_space(other) => {
                    return Err(match other {
                        '{' | '}' | '\\' => {
                            malformed(text, &format!("Unexpected \"{other}\" character."))
                        }
                        _ => malformed(text, "Unexpected array element."),
                    });
                }
                Some('\\') => {
                    form = Form::Escaped;
                    word.extend(characters.next());
                    kept_end = word.len();
                }
                Some('{' | '}') => {
                    return Err(Error::unsupported("an array of more than one dimension"));
                }
                Some(other) => {
                    if form == Form::Empty {
                        form = Form::Plain;
                    }
                    word.push(other);
                }
            }
        }
    }
}

/// How an element of an array literal is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Empty,
    Plain,
    /// With a backslash somewhere.
    Escaped,
    Quoted,
}

/// Converts one element of an array literal; its blanks count up to `kept_end`.
fn finish(
    word: &str,
    form: Form,
    kept_end: usize,
    element: ColumnType,
    style: &Style,
) -> Result<Value> {
    let (kept, behind) = word.split_at(kept_end);
    let trimmed = &word[..kept.len() + behind.trim_end_matches(is_space).len()];
    if form == Form::Plain && trimmed.eq_ignore_ascii_case("null") {
        return Ok(Value::Null);
    }
    Value::parse(trimmed, element, style)
}

/// Prints an array, or a vector as its blank-separated list.
pub(super) fn write(elements: &[Value], column_type: ColumnType, style: &Style, out: &mut Vec<u8>) {
    // The meter that never stops cannot fail.
    let _ = write_array(elements, column_type, style, out, &mut |_| Ok(()));
}

/// [`Value::write_text`] for an array of any length: tells `work` how many bytes it
/// has written, and ends when that fails.
pub(crate) fn write_array(
    elements: &[Value],
    column_type: ColumnType,
    style: &Style,
    out: &mut Vec<u8>,
    work: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let element = ColumnType {
        data_type: column_type.data_type.element().unwrap_or(DataType::Text),
        modifier: column_type.modifier,
    };
    if column_type.data_type.is_vector() {
        for (position, value) in elements.iter().enumerate() {
            if position > 0 {
                out.push(b' ');
            }
            value.write_text(element, style, out);
        }
        return Ok(());
    }
    let mut word = Vec::new();
    out.push(b'{');
    for (position, value) in elements.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        work(word.len() + size_of::<Value>())?;
        word.clear();
        if !value.write_text(element, style, &mut word) {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let plain = !word.is_empty()
            && !word.eq_ignore_ascii_case(b"null")
            && !word
                .iter()
                .any(|byte| b"{},\"\\ \t\n\r\x0b\x0c".contains(byte));
        if plain {
            out.extend_from_slice(&word);
        } else {
            out.push(b'"');
            for byte in &word {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(*byte);
            }
            out.push(b'"');
        }
    }
    out.push(b'}');
    Ok(())
}
