//! Redaction of passwords: a query string that is safe to log.

use std::borrow::Cow;

/// The text of a query string for logging: if a password may follow the word PASSWORD,
/// the text ends there. In a statement on roles that is whatever follows, because its author
/// may have forgotten the quotes.
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
    let roles_from = is_on_roles_from(text);
    if let Some(end) = roles_from.and_then(|from| encrypted_without_password(text, from)) {
        return Cow::Owned(format!("{} …", &loggable(&text[..end])));
    }
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
        let bare = roles_from.is_some_and(|from| from <= end) && !rest.is_empty() && !is_null(rest);
        if literal || bare {
            return Cow::Owned(format!("{} …", &text[..end]));
        }
        from = end;
    }
    Cow::Borrowed(text)
}

/// Whether a byte of a text is behind what may be a password, or in it.
pub(super) fn is_behind_password(text: &str, at: usize) -> bool {
    match loggable(text) {
        Cow::Owned(shown) => at + " …".len() >= shown.len(),
        Cow::Borrowed(_) => false,
    }
}

/// From where on a text may be a statement on roles: behind CREATE or ALTER and then ROLE,
/// USER or GROUP.
fn is_on_roles_from(text: &str) -> Option<usize> {
    let is_in =
        |among: &[&str], word: &str| among.iter().any(|each| word.eq_ignore_ascii_case(each));
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find(|word| is_in(&["create", "alter"], word))?;
    let word = words.find(|word| is_in(&["role", "user", "group"], word))?;
    Some(word.as_ptr() as usize + word.len() - text.as_ptr() as usize)
}

/// The end of the first word ENCRYPTED that something else than PASSWORD follows.
fn encrypted_without_password(text: &str, from: usize) -> Option<usize> {
    const WORD: &str = "encrypted";
    let lower = text[from..].to_ascii_lowercase();
    let ends = lower.match_indices(WORD).map(|(at, _)| at + WORD.len());
    let mut ends = ends.filter(|end| {
        let rest = lower[*end..].trim_start();
        !rest.is_empty() && !rest.starts_with("password")
    });
    ends.next().map(|end| from + end)
}

/// Whether nothing but NULL follows. What follows NULL may be the password.
fn is_null(rest: &str) -> bool {
    let rest = rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    rest.eq_ignore_ascii_case("null")
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
            "alter role a password secret",
            "create user a password \"secret\"",
            "alter group a password = secret",
            "alter role a password null_secret",
            "alter role a password null secret",
            "alter role a password null 'secret'",
            "alter role a encrypted 'secret'",
            "alter role a encrypted secret",
            "create role a unencrypted 'secret'",
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
            "alter role a password",
            "create table users (password text)",
        ] {
            assert_eq!(loggable(text), text);
        }
    }
}
