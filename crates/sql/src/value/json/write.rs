//! Printer of `jsonb`, and the escapes of JSON strings.

use std::io::Write;

use super::super::operations::Representation;
use super::super::{DataType, Style, types};
use super::{JsonView, deeper};

/// Appends a string in quotes, with PostgreSQL's escapes.
pub(crate) fn escape_into(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut plain = 0;
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0C => b"\\f",
            0..0x20 => b"",
            _ => continue,
        };
        out.extend_from_slice(&bytes[plain..at]);
        plain = at + 1;
        if escape.is_empty() {
            write!(out, "\\u{byte:04x}").expect("a vector takes every write");
        } else {
            out.extend_from_slice(escape);
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

/// Appends a scalar; nothing for an array or an object.
fn write_scalar(view: &JsonView<'_>, out: &mut Vec<u8>) {
    match view {
        JsonView::Null => out.extend_from_slice(b"null"),
        JsonView::Bool(true) => out.extend_from_slice(b"true"),
        JsonView::Bool(false) => out.extend_from_slice(b"false"),
        JsonView::Number(number) => {
            let column_type = DataType::Numeric.into();
            types::Numeric::write_text(number, column_type, &Style::default(), out);
        }
        JsonView::String(text) => escape_into(text, out),
        JsonView::Array(_) | JsonView::Object(_) => {}
    }
}

/// Appends a value as `jsonb` prints it: `{"a": 1, "b": [2, 3]}`.
pub(crate) fn write(view: JsonView<'_>, out: &mut Vec<u8>) {
    match view {
        JsonView::Array(array) => deeper(|| {
            out.push(b'[');
            for (position, element) in array.iter().enumerate() {
                if position > 0 {
                    out.extend_from_slice(b", ");
                }
                write(element, out);
            }
            out.push(b']');
        }),
        JsonView::Object(object) => deeper(|| {
            out.push(b'{');
            for (position, (key, value)) in object.iter().enumerate() {
                if position > 0 {
                    out.extend_from_slice(b", ");
                }
                escape_into(key, out);
                out.extend_from_slice(b": ");
                write(value, out);
            }
            out.push(b'}');
        }),
        JsonView::Null | JsonView::Bool(_) | JsonView::Number(_) | JsonView::String(_) => {
            write_scalar(&view, out);
        }
    }
}

/// Appends a value as `jsonb_pretty` prints it, inside `level` containers.
pub(crate) fn write_pretty(view: JsonView<'_>, level: usize, out: &mut Vec<u8>) {
    let line = |level: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.resize(out.len() + 4 * level, b' ');
    };
    match view {
        JsonView::Array(array) => deeper(|| {
            out.push(b'[');
            for (position, element) in array.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                line(level + 1, out);
                write_pretty(element, level + 1, out);
            }
            line(level, out);
            out.push(b']');
        }),
        JsonView::Object(object) => deeper(|| {
            out.push(b'{');
            for (position, (key, value)) in object.iter().enumerate() {
                if position > 0 {
                    out.push(b',');
                }
                line(level + 1, out);
                escape_into(key, out);
                out.extend_from_slice(b": ");
                write_pretty(value, level + 1, out);
            }
            line(level, out);
            out.push(b'}');
        }),
        JsonView::Null | JsonView::Bool(_) | JsonView::Number(_) | JsonView::String(_) => {
            write_scalar(&view, out);
        }
    }
}
