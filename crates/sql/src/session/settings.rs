//! Settings: what SET sets and SHOW shows.
//!
//! Most are there because drivers and tools set them when they connect. Those
//! that have an effect say which; the others are checked, kept and shown, so that
//! a program that sets one and reads it back is not surprised.
//!
//! | setting | effect |
//! | --- | --- |
//! | `timezone` | conversion between `timestamptz` and text |
//! | `extra_float_digits` | digits of floating-point output |
//! | `lock_timeout`, `statement_timeout` | as in PostgreSQL |
//! | `default_transaction_*` | modes of transactions that do not say |
//! | `transaction_*` | modes of the transaction that runs |
//! | `work_mem` | memory for a statement's sorting and grouping |
//!
//! A value is kept as the text SHOW shows. What executing needs often is also kept
//! parsed, in [`Parsed`].
//!
//! Invariant: [`Settings`] is copied on write. Whoever may have to go back (a
//! transaction, a savepoint) keeps the pointer it had.

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_txn::Isolation;

use crate::error::{Error, Result, SqlState};
use crate::value::TimeZone;

/// How a setting's value is checked and written.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// `on` or `off`.
    Switch,
    /// A whole number in a range.
    Number(i64, i64),
    /// A time, in milliseconds unless it says otherwise.
    Time,
    /// An amount of memory, in kilobytes unless it says otherwise.
    Memory,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A list of names.
    List,
    /// A time zone.
    TimeZone,
    /// PostgreSQL's date styles, of which there is one.
    DateStyle,
    /// An encoding, of which there is one.
    Encoding,
    /// An isolation level.
    Isolation,
    /// Nobody can change it.
    Fixed,
}

/// A setting: its name as SHOW writes it, its value at start, its kind, whether
/// clients are told when it changes, and what it is for.
struct Definition {
    name: &'static str,
    initial: &'static str,
    kind: Kind,
    reported: bool,
    about: &'static str,
}

const fn setting(
    name: &'static str,
    initial: &'static str,
    kind: Kind,
    about: &'static str,
) -> Definition {
    Definition {
        name,
        initial,
        kind,
        reported: false,
        about,
    }
}

const fn reported(
    name: &'static str,
    initial: &'static str,
    kind: Kind,
    about: &'static str,
) -> Definition {
    Definition {
        name,
        initial,
        kind,
        reported: true,
        about,
    }
}

/// The version of PostgreSQL whose dialect this is, as `server_version`.
pub const SERVER_VERSION: &str = "15.0";

const MESSAGES: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error", "fatal", "panic",
];

/// All settings, by name without regard to case.
const DEFINITIONS: &[Definition] = &[
    reported(
        "application_name",
        "",
        Kind::Text,
        "Sets the application name to be reported in statistics and logs.",
    ),
    setting(
        "backslash_quote",
        "safe_encoding",
        Kind::Word(&["safe_encoding", "on", "off"]),
        "Sets whether \"\\'\" is allowed in string literals.",
    ),
    setting(
        "bytea_output",
        "hex",
        Kind::Word(&["hex", "escape"]),
        "Sets the output format for bytea.",
    ),
    setting(
        "check_function_bodies",
        "on",
        Kind::Switch,
        "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.",
    ),
    reported(
        "client_encoding",
        "UTF8",
        Kind::Encoding,
        "Sets the client's character set encoding.",
    ),
    setting(
        "client_min_messages",
        "notice",
        Kind::Word(MESSAGES),
        "Sets the message levels that are sent to the client.",
    ),
    reported(
        "DateStyle",
        "ISO, MDY",
        Kind::DateStyle,
        "Sets the display format for date and time values.",
    ),
    setting(
        "default_table_access_method",
        "heap",
        Kind::Word(&["heap"]),
        "Sets the default table access method for new tables.",
    ),
    setting(
        "default_tablespace",
        "",
        Kind::Text,
        "Sets the default tablespace to create tables and indexes in.",
    ),
    setting(
        "default_transaction_deferrable",
        "off",
        Kind::Switch,
        "Sets the default deferrable status of new transactions.",
    ),
    setting(
        "default_transaction_isolation",
        "read committed",
        Kind::Isolation,
        "Sets the transaction isolation level of each new transaction.",
    ),
    reported(
        "default_transaction_read_only",
        "off",
        Kind::Switch,
        "Sets the default read-only status of new transactions.",
    ),
    setting(
        "enable_seqscan",
        "on",
        Kind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "escape_string_warning",
        "on",
        Kind::Switch,
        "Warn about backslash escapes in ordinary string literals.",
    ),
    setting(
        "extra_float_digits",
        "1",
        Kind::Number(-15, 3),
        "Sets the number of digits displayed for floating-point values.",
    ),
    setting(
        "idle_in_transaction_session_timeout",
        "0",
        Kind::Time,
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    setting(
        "idle_session_timeout",
        "0",
        Kind::Time,
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    reported(
        "in_hot_standby",
        "off",
        Kind::Fixed,
        "Shows whether hot standby is currently active.",
    ),
    reported(
        "integer_datetimes",
        "on",
        Kind::Fixed,
        "Shows whether datetimes are integer based.",
    ),
    reported(
        "IntervalStyle",
        "postgres",
        Kind::Word(&["postgres"]),
        "Sets the display format for interval values.",
    ),
    reported(
        "is_superuser",
        "on",
        Kind::Fixed,
        "Shows whether the current user is a superuser.",
    ),
    setting("jit", "off", Kind::Switch, "Kept for clients that set it."),
    setting(
        "lc_collate",
        "C",
        Kind::Fixed,
        "Shows the collation order locale.",
    ),
    setting(
        "lc_ctype",
        "C.UTF-8",
        Kind::Fixed,
        "Shows the character classification and case conversion locale.",
    ),
    setting(
        "lc_messages",
        "C",
        Kind::Word(&["C"]),
        "Sets the language in which messages are displayed.",
    ),
    setting(
        "lc_monetary",
        "C",
        Kind::Word(&["C"]),
        "Sets the locale for formatting monetary amounts.",
    ),
    setting(
        "lc_numeric",
        "C",
        Kind::Word(&["C"]),
        "Sets the locale for formatting numbers.",
    ),
    setting(
        "lc_time",
        "C",
        Kind::Word(&["C"]),
        "Sets the locale for formatting date and time values.",
    ),
    setting(
        "lock_timeout",
        "0",
        Kind::Time,
        "Sets the maximum allowed duration of any wait for a lock.",
    ),
    setting(
        "log_min_messages",
        "warning",
        Kind::Word(MESSAGES),
        "Kept for clients that set it.",
    ),
    setting(
        "log_statement",
        "none",
        Kind::Word(&["none", "ddl", "mod", "all"]),
        "Kept for clients that set it.",
    ),
    setting(
        "maintenance_work_mem",
        "64MB",
        Kind::Memory,
        "Kept for clients that set it.",
    ),
    setting(
        "max_identifier_length",
        "63",
        Kind::Fixed,
        "Shows the maximum identifier length.",
    ),
    setting(
        "max_index_keys",
        "32",
        Kind::Fixed,
        "Shows the maximum number of index keys.",
    ),
    setting(
        "max_parallel_workers_per_gather",
        "0",
        Kind::Number(0, 1024),
        "Kept for clients that set it.",
    ),
    setting(
        "password_encryption",
        "scram-sha-256",
        Kind::Word(&["scram-sha-256"]),
        "Chooses the algorithm for encrypting passwords.",
    ),
    setting(
        "plan_cache_mode",
        "auto",
        Kind::Word(&["auto", "force_generic_plan", "force_custom_plan"]),
        "Kept for clients that set it.",
    ),
    setting(
        "quote_all_identifiers",
        "off",
        Kind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "row_security",
        "on",
        Kind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "search_path",
        "\"$user\", public",
        Kind::List,
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    reported(
        "server_encoding",
        "UTF8",
        Kind::Fixed,
        "Shows the server (database) character set encoding.",
    ),
    reported(
        "server_version",
        SERVER_VERSION,
        Kind::Fixed,
        "Shows the server version.",
    ),
    setting(
        "server_version_num",
        "150000",
        Kind::Fixed,
        "Shows the server version as an integer.",
    ),
    reported(
        "session_authorization",
        "",
        Kind::Fixed,
        "Shows the session user name.",
    ),
    reported(
        "standard_conforming_strings",
        "on",
        Kind::Word(&["on"]),
        "Causes '...' strings to treat backslashes literally.",
    ),
    setting(
        "statement_timeout",
        "0",
        Kind::Time,
        "Sets the maximum allowed duration of any statement.",
    ),
    setting(
        "synchronize_seqscans",
        "on",
        Kind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "synchronous_commit",
        "on",
        Kind::Word(&["on", "local", "remote_write", "remote_apply"]),
        "Sets the current transaction's synchronization level.",
    ),
    reported(
        "TimeZone",
        "Etc/UTC",
        Kind::TimeZone,
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    setting(
        "transaction_deferrable",
        "off",
        Kind::Switch,
        "Shows the current transaction's deferrable status.",
    ),
    setting(
        "transaction_isolation",
        "read committed",
        Kind::Isolation,
        "Sets the current transaction's isolation level.",
    ),
    setting(
        "transaction_read_only",
        "off",
        Kind::Switch,
        "Sets the current transaction's read-only status.",
    ),
    setting(
        "transform_null_equals",
        "off",
        Kind::Word(&["off"]),
        "Treats expr = NULL as expr IS NULL.",
    ),
    setting(
        "work_mem",
        "64MB",
        Kind::Memory,
        "Sets the maximum memory to be used for query workspaces.",
    ),
    setting(
        "xmloption",
        "content",
        Kind::Word(&["content", "document"]),
        "Kept for clients that set it.",
    ),
];

fn definition(name: &str) -> Option<&'static Definition> {
    DEFINITIONS
        .iter()
        .find(|definition| definition.name.eq_ignore_ascii_case(name))
}

/// What executing needs, so that nothing is parsed on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// `timezone`.
    pub time_zone: TimeZone,
    /// `extra_float_digits`.
    pub extra_float_digits: i32,
    /// `lock_timeout`; `None` for ever.
    pub lock_timeout: Option<Duration>,
    /// `statement_timeout`; `None` for ever.
    pub statement_timeout: Option<Duration>,
    /// `default_transaction_isolation`.
    pub isolation: Isolation,
    /// `default_transaction_read_only`.
    pub read_only: bool,
    /// `default_transaction_deferrable`.
    pub deferrable: bool,
    /// `work_mem`, in bytes.
    pub work_memory: usize,
    /// `search_path`: schemas, unquoted.
    pub search_path: Vec<String>,
}

/// A session's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What was set for the session, and what the client sent at start. By name
    /// as in [`DEFINITIONS`], or as written for those with a dot.
    session: BTreeMap<String, String>,
    /// What RESET goes back to, where that is not the initial value.
    start: BTreeMap<String, String>,
    /// What SET LOCAL covers until the transaction ends.
    local: BTreeMap<String, String>,
    parsed: Parsed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            session: BTreeMap::new(),
            start: BTreeMap::new(),
            local: BTreeMap::new(),
            parsed: Parsed {
                time_zone: TimeZone::default(),
                extra_float_digits: 1,
                lock_timeout: None,
                statement_timeout: None,
                isolation: Isolation::ReadCommitted,
                read_only: false,
                deferrable: false,
                work_memory: 64 << 20,
                search_path: vec!["$user".to_owned(), "public".to_owned()],
            },
        }
    }
}

impl Settings {
    /// Settings as a session starts with: what the client sent becomes what RESET
    /// goes back to.
    pub(crate) fn at_start(
        user: &str,
        application_name: &str,
        parameters: &[(String, String)],
    ) -> Result<Self> {
        let mut settings = Self::default();
        settings
            .session
            .insert("session_authorization".to_owned(), user.to_owned());
        if !application_name.is_empty() {
            settings.set("application_name", &[application_name.to_owned()], false)?;
        }
        for (name, value) in parameters {
            if matches!(
                name.as_str(),
                "user" | "database" | "replication" | "options"
            ) || name.starts_with("_pq_.")
            {
                continue;
            }
            settings.set(name, std::slice::from_ref(value), false)?;
        }
        settings.start = settings.session.clone();
        Ok(settings)
    }

    /// What executing needs.
    #[must_use]
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// What SHOW shows.
    pub fn show(&self, name: &str) -> Result<&str> {
        let (key, initial) = match definition(name) {
            Some(definition) => (definition.name, Some(definition.initial)),
            None => (name, None),
        };
        self.local
            .get(key)
            .or_else(|| self.session.get(key))
            .map(String::as_str)
            .or(initial)
            .ok_or_else(|| unknown(name))
    }

    /// A setting's name as it is written in lists.
    #[must_use]
    pub fn canonical_name(name: &str) -> &str {
        definition(name).map_or(name, |definition| definition.name)
    }

    /// Every setting: name, value, what it is for.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        DEFINITIONS.iter().map(|definition| {
            (
                definition.name,
                self.show(definition.name).unwrap_or(definition.initial),
                definition.about,
            )
        })
    }

    /// Those that clients are told of, name and value.
    pub fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        DEFINITIONS
            .iter()
            .filter(|definition| definition.reported)
            .map(|definition| {
                (
                    definition.name,
                    self.show(definition.name).unwrap_or(definition.initial),
                )
            })
    }

    /// Changes a setting, after checking the value.
    pub(crate) fn set(&mut self, name: &str, values: &[String], local: bool) -> Result<()> {
        let (key, value) = match definition(name) {
            Some(definition) => (definition.name.to_owned(), check(definition, values)?),
            None if name.contains('.') => (name.to_owned(), values.join(", ")),
            None => return Err(unknown(name)),
        };
        self.parse(&key, &value);
        if local {
            self.local.insert(key, value);
        } else {
            self.local.remove(&key);
            self.session.insert(key, value);
        }
        Ok(())
    }

    /// Goes back to the value the session started with.
    pub(crate) fn reset(&mut self, name: &str, local: bool) -> Result<()> {
        let Some(definition) = definition(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            self.session.remove(name);
            self.local.remove(name);
            return Ok(());
        };
        if matches!(definition.kind, Kind::Fixed) {
            return Err(fixed(name));
        }
        let value = self
            .start
            .get(definition.name)
            .map_or(definition.initial, String::as_str)
            .to_owned();
        self.parse(definition.name, &value);
        if local {
            self.local.insert(definition.name.to_owned(), value);
        } else {
            self.local.remove(definition.name);
            self.session.insert(definition.name.to_owned(), value);
        }
        Ok(())
    }

    /// Goes back to the values the session started with, all of them.
    pub(crate) fn reset_all(&mut self) {
        self.session = self.start.clone();
        self.local.clear();
        self.parse_all();
    }

    /// Whether anything ends with the transaction.
    pub(crate) fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// The transaction has ended.
    pub(crate) fn end_local(&mut self) {
        self.local.clear();
        self.parse_all();
    }

    fn parse_all(&mut self) {
        for definition in DEFINITIONS {
            let value = self
                .show(definition.name)
                .unwrap_or(definition.initial)
                .to_owned();
            self.parse(definition.name, &value);
        }
    }

    /// Keeps [`Parsed`] up to date. The value has been checked.
    fn parse(&mut self, name: &str, value: &str) {
        let parsed = &mut self.parsed;
        let time = || {
            let milliseconds = quantity(value, TIMES).unwrap_or(0);
            (milliseconds > 0).then(|| Duration::from_millis(milliseconds.unsigned_abs()))
        };
        match name {
            "TimeZone" => parsed.time_zone = TimeZone::named(value).unwrap_or_default(),
            "extra_float_digits" => parsed.extra_float_digits = value.parse().unwrap_or(1),
            "lock_timeout" => parsed.lock_timeout = time(),
            "statement_timeout" => parsed.statement_timeout = time(),
            "default_transaction_isolation" => {
                parsed.isolation = isolation(value).unwrap_or_default();
            }
            "default_transaction_read_only" => parsed.read_only = value == "on",
            "default_transaction_deferrable" => parsed.deferrable = value == "on",
            "work_mem" => {
                let kilobytes = quantity(value, MEMORY).unwrap_or(64 << 10).max(64);
                parsed.work_memory = usize::try_from(kilobytes).unwrap_or(usize::MAX / 1024) * 1024;
            }
            "search_path" => {
                parsed.search_path = value
                    .split(',')
                    .map(|name| name.trim().trim_matches('"').to_owned())
                    .filter(|name| !name.is_empty())
                    .collect();
            }
            _ => {}
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

fn fixed(name: &str) -> Error {
    Error::new(
        SqlState::CANT_CHANGE_RUNTIME_PARAM,
        format!("parameter \"{name}\" cannot be changed"),
    )
}

fn invalid(name: &str, value: &str) -> Error {
    Error::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// An isolation level's name in SQL.
pub(crate) const fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::SnapshotIsolation => "repeatable read",
        Isolation::Serializable => "serializable",
    }
}

/// The isolation level of this name in SQL.
pub(crate) fn isolation(name: &str) -> Option<Isolation> {
    match name.to_ascii_lowercase().as_str() {
        "read committed" | "read uncommitted" => Some(Isolation::ReadCommitted),
        "repeatable read" => Some(Isolation::SnapshotIsolation),
        "serializable" => Some(Isolation::Serializable),
        _ => None,
    }
}

/// The switch position of this name in SQL.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Units with how many of the smallest they are.
type Units = &'static [(&'static str, i64)];
const TIMES: Units = &[
    ("ms", 1),
    ("s", 1000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const MEMORY: Units = &[("kB", 1), ("MB", 1 << 10), ("GB", 1 << 20), ("TB", 1 << 30)];

/// A number with a unit, in the smallest.
fn quantity(value: &str, units: Units) -> Option<i64> {
    let value = value.trim();
    let split = value
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(value.len());
    let number: i64 = value[..split].trim().parse().ok()?;
    let unit = value[split..].trim();
    let factor = if unit.is_empty() {
        1
    } else {
        units.iter().find(|(name, _)| *name == unit)?.1
    };
    number.checked_mul(factor)
}

/// A quantity in the largest unit that takes it without a remainder.
fn write_quantity(value: i64, units: Units) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let (name, factor) = units
        .iter()
        .rev()
        .find(|(_, factor)| value % factor == 0)
        .expect("the smallest takes all");
    format!("{}{name}", value / factor)
}

/// Checks a value and writes it as SHOW will.
fn check(definition: &Definition, values: &[String]) -> Result<String> {
    let name = definition.name;
    if !matches!(definition.kind, Kind::List | Kind::DateStyle) && values.len() != 1 {
        return Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("SET {name} takes only one argument"),
        ));
    }
    let value = values.first().map_or("", String::as_str);
    let wrong = || invalid(name, value);
    Ok(match definition.kind {
        Kind::Switch => if switch(value).ok_or_else(|| {
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("parameter \"{name}\" requires a Boolean value"),
            )
        })? {
            "on"
        } else {
            "off"
        }
        .to_owned(),
        Kind::Number(least, most) => {
            let number: i64 = value.trim().parse().map_err(|_| wrong())?;
            if !(least..=most).contains(&number) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})"
                    ),
                ));
            }
            number.to_string()
        }
        Kind::Time | Kind::Memory => {
            let units = if matches!(definition.kind, Kind::Time) {
                TIMES
            } else {
                MEMORY
            };
            let number = quantity(value, units).ok_or_else(wrong)?;
            if !(0..=i64::from(i32::MAX)).contains(&number) {
                return Err(Error::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{name}\" (0 .. {})",
                        i32::MAX
                    ),
                ));
            }
            write_quantity(number, units)
        }
        Kind::Word(words) => {
            let word = match switch(value) {
                Some(true) if words.contains(&"on") => "on".to_owned(),
                Some(false) if words.contains(&"off") => "off".to_owned(),
                _ => value.to_owned(),
            };
            words
                .iter()
                .find(|known| known.eq_ignore_ascii_case(&word))
                .map(|known| (*known).to_owned())
                .ok_or_else(|| {
                    wrong().with_hint(format!("Available values: {}.", words.join(", ")))
                })?
        }
        Kind::Text => value.to_owned(),
        Kind::List => values.join(", "),
        Kind::TimeZone => TimeZone::named(value)
            .map(|zone| match zone {
                TimeZone::Place(_) => zone.to_string(),
                // As it can be read again.
                TimeZone::Fixed(_) => value.to_owned(),
            })
            .ok_or_else(wrong)?,
        Kind::DateStyle => {
            let mut order = "MDY";
            for word in values.iter().flat_map(|value| value.split(',')) {
                match word.trim().to_ascii_lowercase().as_str() {
                    "iso" | "default" => {}
                    "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
                    "dmy" | "euro" | "european" => order = "DMY",
                    "ymd" => order = "YMD",
                    "sql" | "postgres" | "german" => {
                        return Err(Error::unsupported("a DateStyle other than ISO"));
                    }
                    _ => return Err(invalid(name, &values.join(", "))),
                }
            }
            format!("ISO, {order}")
        }
        Kind::Encoding => {
            let plain: String = value
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .collect::<String>()
                .to_ascii_lowercase();
            if !matches!(plain.as_str(), "utf8" | "unicode") {
                return Err(Error::unsupported("a client encoding other than UTF8"));
            }
            "UTF8".to_owned()
        }
        Kind::Isolation => isolation(value)
            .map(|level| match value.to_ascii_lowercase().as_str() {
                "read uncommitted" => "read uncommitted",
                _ => isolation_name(level),
            })
            .ok_or_else(wrong)?
            .to_owned(),
        Kind::Fixed => return Err(fixed(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut Settings, name: &str, value: &str) -> Result<()> {
        settings.set(name, &[value.to_owned()], false)
    }

    #[test]
    fn values_are_checked_and_written_as_shown() {
        let mut settings = Settings::default();
        set(&mut settings, "LOCK_TIMEOUT", "90000").unwrap();
        assert_eq!(settings.show("lock_timeout").unwrap(), "90s");
        assert_eq!(
            settings.parsed().lock_timeout,
            Some(Duration::from_secs(90))
        );
        set(&mut settings, "work_mem", "4MB").unwrap();
        assert_eq!(settings.parsed().work_memory, 4 << 20);
        set(&mut settings, "timezone", "europe/berlin").unwrap();
        assert_eq!(settings.show("TimeZone").unwrap(), "Europe/Berlin");
        assert!(set(&mut settings, "timezone", "nowhere").is_err());
        assert!(set(&mut settings, "client_encoding", "LATIN1").is_err());
        set(&mut settings, "client_encoding", "utf-8").unwrap();
        assert!(set(&mut settings, "no_such_thing", "1").is_err());
        set(&mut settings, "my.own", "1").unwrap();
        assert_eq!(settings.show("my.own").unwrap(), "1");
        assert!(set(&mut settings, "server_version", "1").is_err());
    }

    #[test]
    fn local_values_end_and_reset_goes_back_to_the_start() {
        let parameters = vec![("timezone".to_owned(), "Asia/Tokyo".to_owned())];
        let mut settings = Settings::at_start("me", "psql", &parameters).unwrap();
        settings.set("timezone", &["UTC".to_owned()], true).unwrap();
        assert_eq!(settings.parsed().time_zone.to_string(), "UTC");
        settings.end_local();
        assert_eq!(settings.parsed().time_zone.to_string(), "Asia/Tokyo");
        set(&mut settings, "timezone", "UTC").unwrap();
        settings.reset("timezone", false).unwrap();
        assert_eq!(settings.show("timezone").unwrap(), "Asia/Tokyo");
        assert_eq!(settings.show("application_name").unwrap(), "psql");
        assert_eq!(settings.show("session_authorization").unwrap(), "me");
    }
}
