//! Dump of the settings that sessions begin with: those of roles, as `pg_dumpall --roles-only`
//! writes them, of the database, and of roles in it, as `pg_dump --create` does.
//!
//! ```text
//! ALTER ROLE ada SET lock_timeout TO '5s';
//! ALTER DATABASE bank SET search_path TO '$user', 'public';
//! ```
//!
//! The settings of the database name it as the dump's connection did: where a database has
//! another name, these statements fail.

use tokio_postgres::Client;

use super::roles::{Names, quoted};
use super::schema::text;
use crate::client::rows;

/// Settings whose values are lists of names, each of which is a string of its own in SET.
const LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// The settings as statements.
pub(super) async fn read(client: &Client, names: &Names) -> Result<Vec<String>, String> {
    let asked = "SELECT pg_catalog.quote_ident(pg_catalog.current_database()), setdatabase, \
         setrole, setconfig FROM pg_catalog.pg_db_role_setting \
         LEFT JOIN pg_catalog.pg_database ON pg_database.oid = setdatabase \
         WHERE setdatabase = 0 OR datname = pg_catalog.current_database() ORDER BY 2, 3";
    let mut statements = Vec::new();
    for row in rows(client, asked).await? {
        let database = text(&row, 0)?;
        let in_database = text(&row, 1)? != "0";
        let of = match text(&row, 2)? {
            "0" if in_database => format!("DATABASE {database}"),
            role => {
                let role = match role {
                    "0" => Some("ALL"),
                    number => names.of_number(number),
                };
                // A role of the system, or one that was dropped since.
                let Some(role) = role else { continue };
                match in_database {
                    true => format!("ROLE {role} IN DATABASE {database}"),
                    false => format!("ROLE {role}"),
                }
            }
        };
        for setting in elements(text(&row, 3)?) {
            if let Some((name, value)) = setting.split_once('=') {
                let (name, value) = (identifier(name), value_of(name, value));
                statements.push(format!("ALTER {of} SET {name} TO {value};"));
            }
        }
    }
    Ok(statements)
}

/// The elements of an array of texts, as the server prints it.
fn elements(array: &str) -> Vec<String> {
    let inside = array
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    split(inside.unwrap_or_default(), |characters| {
        // A backslash within quotes.
        (characters.clone().next() == Some('\\')).then(|| characters.nth(1))?
    })
}

/// The names in a list of names.
fn list(value: &str) -> Vec<String> {
    split(value, |characters| {
        let mut ahead = characters.clone();
        let is_doubled = ahead.next() == Some('"') && ahead.next() == Some('"');
        is_doubled.then(|| characters.nth(1))?
    })
}

/// Splits at commas outside of quotes. `escaped` takes a character with its escape from the
/// front of what is within quotes, if there is one.
fn split(text: &str, escaped: impl Fn(&mut std::str::Chars<'_>) -> Option<char>) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut part: Option<String> = None;
    let (mut is_quoted, mut characters) = (false, text.chars());
    loop {
        if is_quoted && let Some(character) = escaped(&mut characters) {
            part.get_or_insert_default().push(character);
            continue;
        }
        match characters.next() {
            None => break,
            Some('"') => {
                is_quoted = !is_quoted;
                part.get_or_insert_default();
            }
            Some(',') if !is_quoted => parts.extend(part.take()),
            Some(' ') if !is_quoted && part.is_none() => {}
            Some(character) => part.get_or_insert_default().push(character),
        }
    }
    parts.extend(part);
    parts
}

/// Formats a setting's value for SET.
fn value_of(name: &str, value: &str) -> String {
    let names = match LISTS.iter().any(|list| name.eq_ignore_ascii_case(list)) {
        true => list(value),
        false => vec![value.to_owned()],
    };
    // An empty list is an empty name.
    match &names[..] {
        [] => quoted(""),
        names => names
            .iter()
            .map(|name| quoted(name))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn identifier(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_lists_are_split() {
        assert_eq!(
            elements(r#"{lock_timeout=5s,"search_path=a, \"B c\"","my.x=a\\b,c",my.y=}"#),
            [
                "lock_timeout=5s",
                r#"search_path=a, "B c""#,
                r"my.x=a\b,c",
                "my.y="
            ]
        );
        assert_eq!(elements("{}"), [""; 0]);
        assert_eq!(
            list(r#""$user", public,"B ""c"", d""#),
            ["$user", "public", r#"B "c", d"#]
        );
        assert_eq!(
            value_of("search_path", r#""$user", public"#),
            "'$user', 'public'"
        );
        assert_eq!(value_of("search_path", ""), "''");
        assert_eq!(value_of("my.x", "it's, so"), "'it''s, so'");
        assert_eq!(identifier("my.x"), "\"my.x\"");
    }
}
