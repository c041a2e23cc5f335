//! Redaction of passwords: a query string that is safe to log.

use std::borrow::Cow;

/// The text of a query string for logging: if a password may follow the word PASSWORD,
/// the text ends there.
///
/// ```
/// use coeval_sql::statement::loggable;
/// let text = "create role app login password 'secret' connection limit 5";
/// assert_eq!(loggable(text), "create role app login password …");
/// assert_eq!(loggable("select password from t"), "select password from t");
/// ```
#[must_use]
pub fn loggable(text: &str) -> Cow<'_, str> {
    const WORD: &str = "password";
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = bytes[from..]
        .windows(WORD.len())
        .position(|window| window.eq_ignore_ascii_case(WORD.as_bytes()))
    {
        let end = from + found + WORD.len();
        let rest = text[end..].trim_start();
        // Checks whether a string, in any notation, or a comment follows the word.
        let mut start = rest.bytes();
        let literal = match start.next() {
            Some(b'\'' | b'$' | b'/' | b'-') => true,
            Some(b'e' | b'E') => start.next() == Some(b'\''),
            Some(b'u' | b'U') => start.next() == Some(b'&'),
            _ => false,
        };
        if literal {
            return Cow::Owned(format!("{} …", &text[..end]));
        }
        from = end;
    }
    Cow::Borrowed(text)
}

/// Truncates the text of a statement that is known to contain a password.
pub(super) fn without_password(text: &str) -> String {
    let place = text.to_ascii_lowercase().find("password");
    match place {
        Some(place) => format!("{} …", &text[..place + "password".len()]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::MemoryBudget;
    use crate::statement::parse;

    #[test]
    fn no_way_of_writing_a_password_gets_through() {
        for text in [
            "create role a password 'secret'",
            "CREATE USER a PASSWORD'secret'",
            "alter role a encrypted password\n\t'secret' valid until 'infinity'",
            "alter role a password E'sec\\'ret'",
            "alter role a password $$secret$$",
            "alter role a password $x$secret$x$",
            "alter role a password U&'secret'",
            "alter role a password /* it is */ 'secret'",
            "alter role a password -- it is\n 'secret'",
            "select 1; alter role a password 'secret'; select 2",
            "alter role password password 'secret'",
        ] {
            assert!(!loggable(text).contains("secret"), "{text}");
            for statement in parse(text, &MemoryBudget::default()).into_iter().flatten() {
                assert!(!statement.text().contains("secret"), "{text}");
                assert!(!format!("{statement:?}").contains("secret"), "{text}");
            }
        }
    }

    #[test]
    fn other_statements_stay_whole() {
        for text in [
            "select password from users where password = 'x'",
            "update users set password = $1",
            "set password_encryption = 'scram-sha-256'",
            "alter role a password null",
        ] {
            assert_eq!(loggable(text), text);
        }
    }
}
