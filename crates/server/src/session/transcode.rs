//! Character encodings on the wire: messages of a client that speaks another encoding than
//! UTF-8, and answers to it.
//!
//! ```text
//!   client ── LATIN1 ──▶ received ── UTF-8 ──▶ decode, parse, execute
//!   client ◀── LATIN1 ── answered ◀── UTF-8 ── errors, notices, names of columns
//! ```
//!
//! Rows and COPY data are written in the client's encoding from the beginning, because
//! only there it is known which of their bytes are text.

use std::borrow::Cow;

use coeval_pgwire::Frame;
use coeval_pgwire::frame::kind;
use coeval_sql::Error;
use coeval_sql::value::Encoding;

/// The contents of a client's message in UTF-8. Values in binary format stay as they are.
pub(super) fn received<'frame>(
    frame: Frame<'frame>,
    encoding: Encoding,
) -> Result<Cow<'frame, [u8]>, Error> {
    let contents = frame.contents;
    if !encoding.converts() || contents.is_ascii() {
        return Ok(Cow::Borrowed(contents));
    }
    match frame.kind {
        kind::QUERY | kind::COPY_FAIL => encoding.decode(contents),
        kind::DESCRIBE | kind::CLOSE => strings(contents, 1, 1, encoding),
        kind::PARSE => strings(contents, 0, 2, encoding),
        kind::EXECUTE => strings(contents, 0, 1, encoding),
        kind::BIND => bind(contents, encoding),
        _ => Ok(Cow::Borrowed(contents)),
    }
}

/// Converts so many strings that stand behind `skip` bytes, and leaves the rest.
fn strings(
    contents: &[u8],
    skip: usize,
    count: usize,
    encoding: Encoding,
) -> Result<Cow<'_, [u8]>, Error> {
    let mut end = skip.min(contents.len());
    for _ in 0..count {
        let Some(length) = contents[end..].iter().position(|byte| *byte == 0) else {
            // The decoder says what is wrong with it.
            return Ok(Cow::Borrowed(contents));
        };
        end += length + 1;
    }
    let (text, rest) = contents.split_at(end);
    let mut converted = encoding.decode(text)?.into_owned();
    converted.extend_from_slice(rest);
    Ok(Cow::Owned(converted))
}

/// Converts the names and the text parameters of a Bind message.
fn bind(contents: &[u8], encoding: Encoding) -> Result<Cow<'_, [u8]>, Error> {
    let Some(converted) = converted_bind(contents, encoding).transpose()? else {
        return Ok(Cow::Borrowed(contents));
    };
    Ok(Cow::Owned(converted))
}

/// `None` if the message is damaged, which the decoder will say.
fn converted_bind(contents: &[u8], encoding: Encoding) -> Option<Result<Vec<u8>, Error>> {
    let count = |bytes: &[u8], at: usize| {
        let [high, low] = *bytes.get(at..at + 2)?.first_chunk::<2>()?;
        Some(usize::from(u16::from_be_bytes([high, low])))
    };
    let portal = contents.iter().position(|byte| *byte == 0)?;
    let statement = contents[portal + 1..].iter().position(|byte| *byte == 0)?;
    let mut at = portal + 1 + statement + 1;
    let mut out = match encoding.decode(&contents[..at]) {
        Ok(names) => names.into_owned(),
        Err(error) => return Some(Err(error)),
    };
    let formats = count(contents, at)?;
    let codes = contents.get(at + 2..at + 2 + 2 * formats)?;
    let is_binary = |parameter: usize| {
        let code = if formats == 1 { 0 } else { parameter };
        codes.get(2 * code + 1).is_some_and(|code| *code == 1)
    };
    let after = at + 2 + 2 * formats;
    let parameters = count(contents, after)?;
    out.extend_from_slice(&contents[at..after + 2]);
    at = after + 2;
    for parameter in 0..parameters {
        let length = i32::from_be_bytes(*contents.get(at..at + 4)?.first_chunk::<4>()?);
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            out.extend_from_slice(&length.to_be_bytes());
            continue;
        };
        let value = contents.get(at..at + length)?;
        at += length;
        let value = match is_binary(parameter) {
            true => Cow::Borrowed(value),
            false => match encoding.decode(value) {
                Ok(value) => value,
                Err(error) => return Some(Err(error)),
            },
        };
        let length = i32::try_from(value.len()).ok()?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&value);
    }
    out.extend_from_slice(contents.get(at..)?);
    Some(Ok(out))
}

/// Converts the whole messages at the end of a buffer, from `start` on.
pub(super) fn answered(buffer: &mut Vec<u8>, start: usize, encoding: Encoding) {
    if !encoding.converts() || buffer[start..].is_ascii() {
        return;
    }
    let messages = buffer.split_off(start);
    let mut rest = messages.as_slice();
    while let Some((&[kind, a, b, c, d], _)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let Some((message, behind)) = rest.split_at_checked(length + 1) else {
            break;
        };
        rest = behind;
        let text = &message[5..];
        match kind {
            // ErrorResponse, NoticeResponse, ParameterStatus: strings and ASCII.
            b'E' | b'N' | b'S' if !text.is_ascii() => {
                let at = buffer.len();
                buffer.extend_from_slice(&message[..5]);
                buffer.extend_from_slice(text);
                encoding.encode(buffer, at + 5);
                set_length(buffer, at);
            }
            // RowDescription.
            b'T' if !text.is_ascii() => description(buffer, message, encoding),
            _ => buffer.extend_from_slice(message),
        }
    }
    buffer.extend_from_slice(rest);
}

/// Writes the length of the message that begins at `at` and is the last one.
fn set_length(buffer: &mut [u8], at: usize) {
    let length = u32::try_from(buffer.len() - at - 1).unwrap_or(u32::MAX);
    buffer[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
}

/// Appends a RowDescription: each field is a name and eighteen bytes.
fn description(buffer: &mut Vec<u8>, message: &[u8], encoding: Encoding) {
    let at = buffer.len();
    let (head, mut fields) = message.split_at(message.len().min(7));
    buffer.extend_from_slice(head);
    while let Some(end) = fields.iter().position(|byte| *byte == 0) {
        let name = buffer.len();
        buffer.extend_from_slice(&fields[..end]);
        encoding.encode(buffer, name);
        let numbers = fields.len().min(end + 1 + 18);
        buffer.extend_from_slice(&fields[end..numbers]);
        fields = &fields[numbers..];
    }
    buffer.extend_from_slice(fields);
    set_length(buffer, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(kind: u8, contents: &[u8]) -> Vec<u8> {
        let frame = Frame { kind, contents };
        received(frame, Encoding::Latin1).unwrap().into_owned()
    }

    #[test]
    fn texts_of_messages_are_converted_and_numbers_are_not() {
        assert_eq!(
            utf8(kind::QUERY, b"select '\xe4'\0"),
            "select 'ä'\0".as_bytes()
        );
        let parse = [b"s\0select '\xe4'\0".as_slice(), &[0, 1, 0, 0, 0, 0xe4]].concat();
        let expected = ["s\0select 'ä'\0".as_bytes(), &[0, 1, 0, 0, 0, 0xe4]].concat();
        assert_eq!(utf8(kind::PARSE, &parse), expected);
        assert_eq!(utf8(kind::DESCRIBE, b"S\xe4\0"), "Sä\0".as_bytes());
    }

    #[test]
    fn text_parameters_are_converted_and_binary_ones_are_not() {
        let bind = [
            b"\0s\0".as_slice(),
            &[0, 2, 0, 0, 0, 1],
            &[
                0, 3, 0, 0, 0, 1, 0xe4, 0, 0, 0, 1, 0xe4, 0xff, 0xff, 0xff, 0xff,
            ],
            &[0, 1, 0, 1],
        ]
        .concat();
        let expected = [
            b"\0s\0".as_slice(),
            &[0, 2, 0, 0, 0, 1],
            &[
                0, 3, 0, 0, 0, 2, 0xc3, 0xa4, 0, 0, 0, 1, 0xe4, 0xff, 0xff, 0xff, 0xff,
            ],
            &[0, 1, 0, 1],
        ]
        .concat();
        assert_eq!(utf8(kind::BIND, &bind), expected);
        for end in 0..bind.len() {
            // A damaged message is for the decoder to refuse.
            let _ = utf8(kind::BIND, &bind[..end]);
        }
    }

    #[test]
    fn answers_are_converted_where_they_are_text() {
        let field = [0x80; 18];
        let mut description = b"T\0\0\0\0\0\x01\xc3\xa4\0".to_vec();
        description.extend_from_slice(&field);
        set_length(&mut description, 0);
        let mut error = b"E\0\0\0\0MNo \xc3\xa4\0\0".to_vec();
        set_length(&mut error, 0);
        let row = b"D\0\0\0\x08\0\0\xc3\xa4".to_vec();
        let mut buffer = [b"\xc3\xa4".to_vec(), description, error, row.clone()].concat();
        answered(&mut buffer, 2, Encoding::Latin1);
        let mut expected = b"\xc3\xa4T\0\0\0\x1a\0\x01\xe4\0".to_vec();
        expected.extend_from_slice(&field);
        expected.extend_from_slice(b"E\0\0\0\x0bMNo \xe4\0\0");
        expected.extend_from_slice(&row);
        assert_eq!(buffer, expected);
    }
}
