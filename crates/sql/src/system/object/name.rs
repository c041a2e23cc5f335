//! Parser of qualified names inside strings: `public.orders`, `"Odd Name"`.

use crate::value::truncate_name;
use crate::{Error, Result, SqlState};

fn invalid() -> Error {
    Error::new(SqlState::INVALID_NAME, "invalid name syntax")
}

/// Splits a name at its dots and folds unquoted parts to lower case; error 42602.
pub(super) fn parse_name(text: &str) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut characters = quoted.char_indices().peekable();
            let end = loop {
                match characters.next() {
                    None => return Err(invalid()),
                    Some((at, '"')) => {
                        if characters.next_if(|(_, next)| *next == '"').is_none() {
                            break at + 1;
                        }
                        name.push('"');
                    }
                    Some((_, other)) => name.push(other),
                }
            };
            part = name;
            rest = quoted[end..].trim_start();
        } else {
            let end = rest
                .find(|c: char| c == '.' || c == '"' || c.is_whitespace())
                .unwrap_or(rest.len());
            part = rest[..end].to_lowercase();
            rest = rest[end..].trim_start();
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(truncate_name(&part).to_owned());
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_name;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parse_name("Public.Orders").unwrap(), ["public", "orders"]);
        assert_eq!(
            parse_name("\"Odd \"\"Name\" . x").unwrap(),
            ["Odd \"Name", "x"]
        );
        for bad in ["", ".", "a.", ".a", "a b", "\"a", "a\"b\"", "\"\""] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
