//! Root causes of failures: finds the earlier failure that a failure follows from, and
//! groups root causes by their feature.
//!
//! ```text
//!   line 12  CREATE TYPE public.mood AS ENUM …      0A000   a root cause: "CREATE TYPE"
//!   line 20  CREATE TABLE public.t (m public.mood)  42704   names mood: follows from line 12
//!   line 31  COPY public.t (m) FROM stdin           42P01   names t: follows from line 20,
//!                                                           and with it from line 12
//! ```
//!
//! The names that a failed statement would have created are remembered. A later statement
//! that fails because an object does not exist, and names one of these, follows from it.
//! The report names the first failure of the chain, because that is the one to fix.

use std::collections::BTreeMap;

use coeval_sql::{Error, SqlState};

/// Maximum number of remembered names. A script with more failures than that has many
/// causes.
const MAX_NAMES: usize = 100_000;

/// SQLSTATEs of errors about an object that does not exist.
const MISSING: [SqlState; 6] = [
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_OBJECT,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::INVALID_SQL_STATEMENT_NAME,
];

/// SQLSTATEs of errors about an object that exists already, which an earlier failure
/// cannot cause.
const THERE: [SqlState; 5] = [
    SqlState::DUPLICATE_TABLE,
    SqlState::DUPLICATE_OBJECT,
    SqlState::DUPLICATE_COLUMN,
    SqlState::DUPLICATE_SCHEMA,
    SqlState::DUPLICATE_PREPARED_STATEMENT,
];

/// Words that may be between CREATE and the kind of object.
const DECORATIONS: [&str; 15] = [
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "unique",
    "recursive",
    "materialized",
    "foreign",
    "procedural",
    "trusted",
    "constraint",
    "event",
];

/// The names that failed statements would have created, in lower case, each with the line
/// of the first failure of its chain.
#[derive(Debug, Default)]
pub(super) struct Causes(BTreeMap<String, u64>);

impl Causes {
    /// Records a failed statement. Returns the line of the failure that it follows from,
    /// if there is one.
    pub(super) fn failed(&mut self, statement: &str, line: u64, error: &Error) -> Option<u64> {
        let cause = MISSING
            .contains(&error.state())
            .then(|| self.named(&error.report().message))
            .flatten();
        let there = THERE.contains(&error.state());
        for name in made(statement) {
            if !there && self.0.len() < MAX_NAMES {
                self.0.entry(name).or_insert(cause.unwrap_or(line));
            }
        }
        cause
    }

    /// Records a statement that would run: the names that it creates exist now.
    pub(super) fn ran(&mut self, statement: &str) {
        if !self.0.is_empty() {
            for name in made(statement) {
                self.0.remove(&name);
            }
        }
    }

    /// The root cause behind one of the names in a message.
    fn named(&self, message: &str) -> Option<u64> {
        let names = identifiers(message);
        names.iter().find_map(|name| self.0.get(name)).copied()
    }
}

/// The feature by which the summary groups a failure.
pub(super) fn feature(statement: &str, error: &Error) -> String {
    let message = error.report().message.as_str();
    let state = error.state();
    if state == SqlState::FEATURE_NOT_SUPPORTED {
        return message
            .strip_suffix(" is not supported")
            .unwrap_or(message)
            .to_owned();
    }
    if state == SqlState::UNDEFINED_OBJECT && message.starts_with("role ") {
        return "roles that are not there".to_owned();
    }
    if state == SqlState::UNDEFINED_FUNCTION
        && let Some((function, _)) = message.split_once('(')
    {
        return function.to_owned();
    }
    let head = head(statement);
    if state == SqlState::SYNTAX_ERROR {
        return format!("{head}, as it is written");
    }
    format!("{head} ({})", state.0)
}

/// The first words of a statement, such as `CREATE INDEX`.
fn head(statement: &str) -> String {
    let words = words(statement, 8);
    let mut words = words.iter().map(|word| word.to_ascii_uppercase());
    let Some(first) = words.next() else {
        return "a statement".to_owned();
    };
    if !matches!(
        first.as_str(),
        "CREATE" | "ALTER" | "DROP" | "COMMENT" | "SECURITY" | "REFRESH"
    ) {
        return first;
    }
    let is_decoration = |word: &String| DECORATIONS.contains(&word.to_ascii_lowercase().as_str());
    match words.find(|word| !is_decoration(word)) {
        Some(second) => format!("{first} {second}"),
        None => first,
    }
}

/// The names that a statement would create, without their schemas.
fn made(statement: &str) -> Vec<String> {
    let tokens = words(statement, 24);
    let word = |at: usize| tokens.get(at).map(|word| word.to_ascii_lowercase());
    let is = |at: usize, what: &str| word(at).is_some_and(|word| word == what);
    let mut at = 1;
    if is(0, "create") {
        while word(at).is_some_and(|word| DECORATIONS.contains(&word.as_str())) {
            at += 1;
        }
        // This word is the kind of object.
        at += 1;
        if is(at, "concurrently") {
            at += 1;
        }
    } else if is(0, "alter") && is(1, "table") {
        at = 2;
        if is(at, "if") {
            at += 2;
        }
        if is(at, "only") {
            at += 1;
        }
        // The table's name; the statement would create the added column or constraint.
        at += 1;
        if !is(at, "add") {
            return Vec::new();
        }
        at += 1;
        if is(at, "column") || is(at, "constraint") {
            at += 1;
        }
    } else {
        return Vec::new();
    }
    if is(at, "if") {
        at += 3;
    }
    tokens
        .get(at)
        .map(|name| last_part(name))
        .into_iter()
        .collect()
}

/// The part after the last dot of a name, without quotes, in lower case.
fn last_part(name: &str) -> String {
    let mut part = String::new();
    let mut quoted = false;
    for character in name.chars() {
        match character {
            '"' => quoted = !quoted,
            '.' if !quoted => part.clear(),
            other => part.extend(other.to_lowercase()),
        }
    }
    part
}

/// The first words of a statement, names with their quotes and dots; a punctuation mark
/// is a word of its own.
fn words(statement: &str, most: usize) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in statement.chars() {
        let last = words.last_mut().expect("never empty");
        if character == '"' {
            quoted = !quoted;
            last.push(character);
        } else if quoted || character.is_alphanumeric() || "_.$".contains(character) {
            last.push(character);
        } else {
            if !last.is_empty() {
                words.push(String::new());
            }
            if !character.is_whitespace() {
                words.last_mut().expect("never empty").push(character);
                words.push(String::new());
            }
        }
        if words.len() > most {
            break;
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The possible names in a message: the last part of each quoted name, and the name of a
/// function before its parentheses.
fn identifiers(message: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = message;
    while let Some((_, quoted)) = rest.split_once('"') {
        let Some((name, behind)) = quoted.split_once('"') else {
            break;
        };
        names.push(last_part(name));
        rest = behind;
    }
    if let Some((before, _)) = message.split_once('(')
        && let Some(name) = before.rsplit(' ').next()
    {
        names.push(last_part(name));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_make_names() {
        for (statement, name) in [
            ("CREATE TABLE public.t (a int);", "t"),
            ("create table if not exists \"My.Table\" ()", "my.table"),
            ("CREATE TYPE public.mood AS ENUM ('a');", "mood"),
            (
                "CREATE OR REPLACE FUNCTION public.f(a integer) RETURNS int",
                "f",
            ),
            ("CREATE MATERIALIZED VIEW s.v AS SELECT 1", "v"),
            (
                "create unique index concurrently if not exists i on t (a)",
                "i",
            ),
            (
                "ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (a)",
                "t_pkey",
            ),
            ("alter table t add column if not exists c int", "c"),
            ("alter table t add c int", "c"),
        ] {
            assert_eq!(made(statement), [name], "{statement}");
        }
        for statement in [
            "",
            "drop table t",
            "alter table t drop c",
            "create",
            "select 1",
        ] {
            assert!(made(statement).is_empty(), "{statement}");
        }
    }

    #[test]
    fn a_chain_leads_to_its_beginning() {
        let mut causes = Causes::default();
        let missing = |message: &str| Error::new(SqlState::UNDEFINED_TABLE, message);
        let create = Error::unsupported("CREATE TYPE");
        assert_eq!(
            causes.failed("create type mood as enum ('a')", 3, &create),
            None
        );
        let table = Error::new(SqlState::UNDEFINED_OBJECT, "type \"mood\" does not exist");
        assert_eq!(causes.failed("create table t (m mood)", 5, &table), Some(3));
        let copy = missing("relation \"public.t\" does not exist");
        assert_eq!(causes.failed("copy t from stdin", 7, &copy), Some(3));
        let other = missing("relation \"u\" does not exist");
        assert_eq!(causes.failed("select * from u", 9, &other), None);
        causes.ran("create table t (m text)");
        assert_eq!(causes.failed("copy t from stdin", 11, &copy), None);
        // A statement that names a missing object does not follow from it if its error is
        // another.
        let duplicate = Error::new(SqlState::DUPLICATE_OBJECT, "type \"mood\" exists");
        assert_eq!(causes.failed("create type mood", 12, &duplicate), None);
    }

    #[test]
    fn failures_are_counted_by_what_is_missing() {
        let feature = |statement: &str, error: Error| super::feature(statement, &error);
        assert_eq!(
            feature("create view v", Error::unsupported("CREATE VIEW")),
            "CREATE VIEW"
        );
        let function = Error::new(
            SqlState::UNDEFINED_FUNCTION,
            "function nextval(unknown) does not exist",
        );
        assert_eq!(feature("alter table t", function), "function nextval");
        let role = Error::new(SqlState::UNDEFINED_OBJECT, "role \"ada\" does not exist");
        assert_eq!(feature("alter table t", role), "roles that are not there");
        let unique = Error::new(SqlState::UNIQUE_VIOLATION, "…");
        assert_eq!(
            feature("CREATE UNIQUE INDEX i", unique),
            "CREATE INDEX (23505)"
        );
        assert_eq!(
            feature("create or replace trigger x", Error::syntax("…")),
            "CREATE TRIGGER, as it is written"
        );
    }
}
