//! The SQL formatting function `format`.

use super::kinds::{ANY, TEXT};
use crate::catalog::quote_identifier;
use crate::expression::function::{Arguments, Function};
use crate::expression::{EvaluationContext, ROW};
use crate::value::Value;
use crate::{Error, Result, SqlState};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("format", &[TEXT], TEXT, format).null_aware(),
    Function::new("format", &[TEXT, ANY], TEXT, format)
        .null_aware()
        .variadic()
        .stable(),
];

/// SQL `format()`: `%s`, `%I`, `%L`, `%%` and, with a position, `%1$s`.
fn format(a: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    if a.values.first().is_none_or(Value::is_null) {
        return Ok(Value::Null);
    }
    let mut out = String::new();
    let mut next = 1;
    let mut rest = a.text(0);
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest[digits..].starts_with('$') {
            next = rest[..digits].parse::<i32>().map_or_else(
                |_| {
                    Err(Error::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        "number is out of range",
                    ))
                },
                |number| Ok(number as usize),
            )?;
            if next == 0 {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    "format specifies argument 0, but arguments are numbered from 1",
                ));
            }
            rest = &rest[digits + 1..];
        }
        let specifier = rest.chars().next().ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "unterminated format() type specifier",
            )
        })?;
        rest = &rest[specifier.len_utf8()..];
        if specifier == '%' {
            context.work(percent + ROW)?;
            out.push('%');
            continue;
        }
        let (Some(value), Some(column_type)) = (a.values.get(next), a.types.get(next)) else {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "too few arguments for format()",
            ));
        };
        next += 1;
        context.work(percent + ROW)?;
        let text = value.to_text(*column_type, &context.session.style);
        let more = text.as_deref().map_or(0, str::len);
        if out.len() + more > out.capacity() {
            context.claim(2 * (out.len() + more))?;
        }
        match (specifier, text) {
            ('s', text) => out.push_str(text.as_deref().unwrap_or("")),
            ('I', Some(text)) => out.push_str(&quote_identifier(&text)),
            ('I', None) => {
                return Err(Error::new(
                    SqlState("22004"),
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', Some(text)) => out.push_str(&super::strings::quote_literal(&text, context)?),
            ('L', None) => out.push_str("NULL"),
            (other, _) => {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized format() type specifier \"{other}\""),
                ));
            }
        }
    }
    out.push_str(rest);
    Ok(Value::text(out))
}
