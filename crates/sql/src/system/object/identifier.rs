//! SQL `parse_ident()`: takes a qualified name apart as an SQL identifier.
//!
//! It is stricter than the names of objects in casts such as `regclass`: an unquoted
//! part consists of the characters of an identifier only, and no part is cut.

use crate::{Error, Result, SqlState};

/// Whether PostgreSQL's scanner skips the character between tokens.
const fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

fn starts(character: char) -> bool {
    character == '_' || character.is_ascii_alphabetic() || !character.is_ascii()
}

fn continues(character: char) -> bool {
    starts(character) || character.is_ascii_digit() || character == '$'
}

/// The parts of a qualified identifier, unquoted ones in lower case; error 22023. Unless
/// `strict`, whatever stands behind the last part is ignored.
pub(in crate::system) fn parse_identifier(text: &str, strict: bool) -> Result<Vec<String>> {
    let invalid = |detail: Option<&str>| {
        let error = Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("string is not a valid identifier: \"{text}\""),
        );
        match detail {
            Some(detail) => error.with_detail(detail.to_owned()),
            None => error,
        }
    };
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut behind = quoted;
            loop {
                let Some(end) = behind.find('"') else {
                    return Err(invalid(Some("String has unclosed double quotes.")));
                };
                name.push_str(&behind[..end]);
                behind = &behind[end + 1..];
                let Some(doubled) = behind.strip_prefix('"') else {
                    break;
                };
                name.push('"');
                behind = doubled;
            }
            if name.is_empty() {
                return Err(invalid(Some("Quoted identifier must not be empty.")));
            }
            parts.push(name);
            rest = behind;
        } else if rest.starts_with(starts) {
            let end = rest.find(|c| !continues(c)).unwrap_or(rest.len());
            parts.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        } else {
            return Err(invalid(if rest.starts_with('.') {
                Some("No valid identifier before \".\".")
            } else if parts.is_empty() {
                None
            } else {
                Some("No valid identifier after \".\".")
            }));
        }
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start_matches(is_space),
            None if rest.is_empty() || !strict => return Ok(parts),
            None => return Err(invalid(None)),
        }
    }
}
