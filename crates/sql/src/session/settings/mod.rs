//! Settings: the configuration parameters of a session, for SET and SHOW.
//!
//! Most settings exist because drivers and tools set them when they connect. The table
//! lists those that have an effect; the session checks, stores and shows the others, so
//! that a program can set one and read it back.
//!
//! | setting | effect |
//! | --- | --- |
//! | `timezone` | conversion between `timestamptz` and text |
//! | `DateStyle`, `IntervalStyle` | text of dates, times and intervals |
//! | `client_encoding` | conversion of text that comes from the client or goes there |
//! | `extra_float_digits` | digits of floating-point output |
//! | `lock_timeout`, `statement_timeout`, `transaction_timeout`, `idle_*_timeout` | see [`timeouts`](super::timeouts) |
//! | `log_min_duration_statement` | which statements are logged as slow |
//! | `log_min_error_statement` | which failing statements are logged |
//! | `default_transaction_*` | default modes of transactions |
//! | `transaction_*` | modes of the running transaction |
//! | `coeval.read_from`, `coeval.read_max_lag` | the node that executes what only reads |
//! | `coeval.read_comparator` | the way to the state it reads, for measurements |
//! | `work_mem` | memory for a statement's sorting and grouping |
//!
//! A session stores a value as the text that SHOW returns. It also stores the values that
//! the executor needs often in parsed form, in [`Parsed`].
//!
//! Invariant: [`Settings`] is copied on write. A transaction or a savepoint that may have
//! to restore them keeps its pointer to the old copy.
mod check;
mod comparator;
mod date_style;
mod definitions;
mod kept;
mod stored;

use std::collections::BTreeMap;
use std::time::Duration;

use coeval_txn::Isolation;

use self::check::{MEMORY, TIMES, check, fixed, quantity};
use self::definitions::{DEFINITIONS, Definition, SettingKind, definition};
use super::identity::{Identity, Who};
use crate::access::LoginSetting;
use crate::error::{Error, Result, SqlState};
use crate::expression::ShownSetting;
use crate::output::Severity;
use crate::value::{DateFormat, DateOrder, Encoding, IntervalStyle, Style, TimeZone};

pub use self::comparator::ReadComparator;

pub(crate) use self::check::{UNCOMMITTED, is_uncommitted, isolation, isolation_name, switch};

/// The settings that the executor needs, in parsed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Value of `timezone`.
    pub time_zone: TimeZone,
    /// First part of `DateStyle`.
    pub date_format: DateFormat,
    /// Second part of `DateStyle`.
    pub date_order: DateOrder,
    /// Value of `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// Whether `bytea_output` is `escape`.
    pub bytes_as_escapes: bool,
    /// Value of `client_encoding`.
    pub client_encoding: Encoding,
    /// Value of `extra_float_digits`.
    pub extra_float_digits: i32,
    /// Value of `lock_timeout`; `None` for no limit.
    pub lock_timeout: Option<Duration>,
    /// Value of `statement_timeout`; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// Value of `transaction_timeout`; `None` for no limit.
    pub transaction_timeout: Option<Duration>,
    /// Value of `idle_in_transaction_session_timeout`; `None` for no limit.
    pub idle_in_transaction_session_timeout: Option<Duration>,
    /// Value of `idle_session_timeout`; `None` for no limit.
    pub idle_session_timeout: Option<Duration>,
    /// Value of `log_min_duration_statement`; `None` for never.
    pub slow_statement: Option<Duration>,
    /// Value of `log_min_error_statement`, as the failures that are logged.
    pub logged_failures: LoggedFailures,
    /// Value of `default_transaction_isolation`.
    pub isolation: Isolation,
    /// Value of `default_transaction_read_only`.
    pub read_only: bool,
    /// Value of `default_transaction_deferrable`.
    pub deferrable: bool,
    /// Value of `work_mem`, in bytes.
    pub work_memory: usize,
    /// Value of `client_min_messages`: minimum severity of notices; `None` sends none.
    pub least_notice: Option<Severity>,
    /// Value of `search_path`: names of schemas, unquoted.
    pub search_path: Vec<String>,
    /// Value of `coeval.read_from`.
    pub read_from: ReadFrom,
    /// Value of `coeval.read_max_lag`; `None` for no limit.
    pub read_max_lag: Option<Duration>,
}

/// The node that executes the statements of a client that only read, if the client is not
/// connected to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadFrom {
    /// The leader.
    Leader,
    /// The client's node, in a state that includes everything that was acknowledged before
    /// the statement arrived.
    #[default]
    Fresh,
    /// The client's node, in a state that includes the session's own commits.
    Session,
    /// The client's node, in the state that it has.
    Any,
}

impl ReadFrom {
    /// The value of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "leader" => Self::Leader,
            "fresh" => Self::Fresh,
            "session" => Self::Session,
            "any" => Self::Any,
            _ => return None,
        })
    }

    /// The value's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Fresh => "fresh",
            Self::Session => "session",
            Self::Any => "any",
        }
    }
}

/// The failures of statements that the server logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedFailures {
    /// Every failure.
    All,
    /// Those that end the session.
    EndsOfSessions,
    /// None.
    None,
}

/// What a session begins with.
pub(crate) struct Beginning<'a> {
    /// The role that has logged in.
    pub(crate) login: Who,
    pub(crate) application_name: &'a str,
    /// The server's settings, as name and value.
    pub(crate) defaults: &'a [(String, String)],
    /// Those of the role and the database.
    pub(crate) stored: &'a [LoginSetting],
    /// Those of the client's startup message.
    pub(crate) parameters: &'a [(String, String)],
}

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Values set for the session, including those of the startup message. Keyed by the
    /// name in [`DEFINITIONS`], or by the name as written if it contains a dot.
    session: BTreeMap<String, String>,
    /// Values that the server's configuration sets for all sessions.
    server: BTreeMap<String, String>,
    /// Whose the values are that the session's role or the database has for it, as
    /// `pg_settings` says it.
    stored: BTreeMap<String, &'static str>,
    /// Values that RESET restores, where they differ from the initial value.
    start: BTreeMap<String, String>,
    /// Session values that SET LOCAL hides until the transaction ends.
    local: BTreeMap<String, String>,
    identity: Identity,
    /// Identity that SET LOCAL ROLE or SET LOCAL SESSION AUTHORIZATION set for the
    /// transaction.
    local_identity: Option<Identity>,
    parsed: Parsed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            session: BTreeMap::new(),
            server: BTreeMap::new(),
            stored: BTreeMap::new(),
            start: BTreeMap::new(),
            local: BTreeMap::new(),
            identity: Identity::default(),
            local_identity: None,
            parsed: Parsed {
                time_zone: TimeZone::default(),
                date_format: DateFormat::default(),
                date_order: DateOrder::default(),
                interval_style: IntervalStyle::default(),
                bytes_as_escapes: false,
                client_encoding: Encoding::Utf8,
                extra_float_digits: 1,
                lock_timeout: None,
                statement_timeout: None,
                transaction_timeout: None,
                idle_in_transaction_session_timeout: None,
                idle_session_timeout: None,
                slow_statement: None,
                logged_failures: LoggedFailures::All,
                isolation: Isolation::ReadCommitted,
                read_only: false,
                deferrable: false,
                work_memory: 64 << 20,
                least_notice: Some(Severity::Notice),
                search_path: vec!["$user".to_owned(), "public".to_owned()],
                read_from: ReadFrom::Fresh,
                read_max_lag: None,
            },
        }
    }
}

impl Settings {
    /// Settings at the start of a session: the server's, then those of the role and the
    /// database, then those of the client's startup message. RESET restores them. For a setting
    /// of the server or the client that cannot be set, `refused` decides whether that is an
    /// error. One of the role or the database is left out; also returns these errors.
    pub(crate) fn at_start(
        beginning: Beginning<'_>,
        refused: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<(Self, Vec<Error>)> {
        let Beginning {
            login,
            application_name,
            defaults,
            stored,
            parameters,
        } = beginning;
        let mut settings = Self::default();
        let mut set = |settings: &mut Self, name: &str, value: &String| {
            let set = settings.set(name, std::slice::from_ref(value), false);
            set.or_else(&mut *refused)
        };
        for (name, value) in defaults {
            set(&mut settings, name, value)?;
        }
        settings.server = settings.session.clone();
        settings.set_identity(Identity::new(login), false);
        let left_out = settings.take_stored(stored);
        let mut set = |settings: &mut Self, name: &str, value: &String| {
            set(settings, name, value)?;
            settings.stored.remove(Self::canonical_name(name));
            Ok::<(), Error>(())
        };
        if !application_name.is_empty() {
            set(
                &mut settings,
                "application_name",
                &application_name.to_owned(),
            )?;
        }
        for (name, value) in parameters {
            if matches!(
                name.as_str(),
                "user" | "database" | "replication" | "options"
            ) || name.starts_with("_pq_.")
            {
                continue;
            }
            set(&mut settings, name, value)?;
        }
        settings.start = settings.session.clone();
        Ok((settings, left_out))
    }

    /// A style for values that are written for the client.
    pub(crate) fn style_for_client(&self, style: Style) -> Style {
        Style {
            encoding: self.parsed.client_encoding,
            ..style
        }
    }

    /// The settings that the executor needs, in parsed form.
    #[must_use]
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// The roles as which the session acts.
    pub(crate) fn identity(&self) -> &Identity {
        self.local_identity.as_ref().unwrap_or(&self.identity)
    }

    /// The roles as which the session will act after the transaction.
    pub(crate) fn lasting_identity(&self) -> &Identity {
        &self.identity
    }

    /// Settings whose session value differs from the value at start, as name and value.
    pub(crate) fn set_for_session(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.session.iter();
        let set = all.filter(|(name, value)| match definition(name) {
            Some(definition) if matches!(definition.kind, SettingKind::Fixed) => false,
            Some(definition) => {
                let start = self.start.get(*name);
                start.map_or(definition.initial, String::as_str) != value.as_str()
            }
            None => self.start.get(*name) != Some(*value),
        });
        set.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of this setting in [`Settings::set_for_session`].
    pub(crate) fn value_for_session(&self, name: &str) -> Option<&str> {
        let mut set = self.set_for_session();
        set.find(|(set, _)| *set == name).map(|(_, value)| value)
    }

    /// Restores a setting that was set on another node or for the role, without checking again whether
    /// the session's role may set it.
    pub(crate) fn take_over(&mut self, name: &str, value: &str) -> Result<()> {
        let key = match definition(name) {
            Some(definition) => definition.name,
            None if name.contains('.') => name,
            None => return Err(unknown(name)),
        };
        let value = match definition(name) {
            Some(definition) => {
                let current = self.show(definition.name).unwrap_or(definition.initial);
                check(definition, &[value.to_owned()], current)?
            }
            None => value.to_owned(),
        };
        self.parse(key, &value);
        self.session.insert(key.to_owned(), value);
        Ok(())
    }

    /// Changes the roles as which the session acts.
    pub(crate) fn set_identity(&mut self, identity: Identity, local: bool) {
        if local {
            self.local_identity = Some(identity);
        } else {
            self.local_identity = None;
            self.identity = identity;
        }
        self.show_identity();
    }

    /// Updates the settings that show the roles as which the session acts.
    fn show_identity(&mut self) {
        let identity = self.identity();
        let role = identity.current.as_ref().map(|who| who.name.to_string());
        let superuser = if identity.current().superuser {
            "on"
        } else {
            "off"
        };
        let shown = [
            ("role", role.unwrap_or_else(|| "none".to_owned())),
            ("session_authorization", identity.session().name.to_string()),
            ("is_superuser", superuser.to_owned()),
        ];
        for (name, value) in shown {
            self.session.insert(name.to_owned(), value);
        }
    }

    /// Restores the value at the start of a setting that was reset on another node.
    pub(crate) fn give_back(&mut self, name: &str) {
        let Some(definition) = definition(name) else {
            match self.start.get(name) {
                Some(value) => self.session.insert(name.to_owned(), value.clone()),
                None => self.session.remove(name),
            };
            return;
        };
        let key = definition.name;
        let value = self.start.get(key).cloned();
        self.parse(key, value.as_deref().unwrap_or(definition.initial));
        match value {
            Some(value) => self.session.insert(key.to_owned(), value),
            None => self.session.remove(key),
        };
    }

    /// The value that SHOW returns.
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

    /// Name of a setting as lists write it.
    #[must_use]
    pub fn canonical_name(name: &str) -> &str {
        definition(name).map_or(name, |definition| definition.name)
    }

    /// All settings, with their values and descriptions.
    #[must_use]
    pub fn all(&self) -> Vec<ShownSetting> {
        let mut definitions: Vec<_> = definitions::all().collect();
        definitions.sort_by_cached_key(|definition| definition.name.to_ascii_lowercase());
        definitions
            .into_iter()
            .map(|definition| {
                let name = definition.name;
                let value = self.show(name).unwrap_or(definition.initial);
                let start = self.start.get(name);
                let reset = start.map_or(definition.initial, String::as_str);
                ShownSetting {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    initial: definition.initial.to_owned(),
                    reset: reset.to_owned(),
                    source: if value != reset {
                        "session"
                    } else if let Some(source) = self.stored.get(name) {
                        source
                    } else if value == definition.initial {
                        "default"
                    } else if self.server.get(name) == start {
                        "server"
                    } else if start.is_some() {
                        "client"
                    } else {
                        "default"
                    },
                    fixed: matches!(definition.kind, SettingKind::Fixed),
                    about: definition.about.to_owned(),
                }
            })
            .collect()
    }

    /// The settings that the protocol reports to clients, as name and value.
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

    /// Sets a setting, after checking the value.
    pub(crate) fn set(&mut self, name: &str, values: &[String], local: bool) -> Result<()> {
        let (key, value) = match definition(name) {
            Some(definition) if !self.may_set(definition) => return Err(denied(definition)),
            Some(definition) => {
                let current = self.show(definition.name).unwrap_or(definition.initial);
                let value = check(definition, values, current)?;
                (definition.name.to_owned(), value)
            }
            None if name.contains('.') => {
                check::custom_name(name)?;
                (name.to_owned(), values.join(", "))
            }
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

    /// Whether the current role may set it.
    fn may_set(&self, definition: &Definition) -> bool {
        !definition.restricted || self.identity().current().superuser
    }

    /// Restores the value of a setting at the start of the session.
    pub(crate) fn reset(&mut self, name: &str, local: bool) -> Result<()> {
        let Some(definition) = definition(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            self.local.remove(name);
            self.give_back(name);
            return Ok(());
        };
        if matches!(definition.kind, SettingKind::Fixed) {
            return Err(fixed(name));
        }
        if !self.may_set(definition) {
            return Err(denied(definition));
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

    /// Restores the values of all settings at the start of the session.
    pub(crate) fn reset_all(&mut self) {
        self.session = self.start.clone();
        self.local.clear();
        self.show_identity();
        self.parse_all();
    }

    /// Whether the transaction's end will restore a setting.
    pub(crate) fn has_local(&self) -> bool {
        !self.local.is_empty() || self.local_identity.is_some()
    }

    /// Restores the session's values, at the end of a transaction.
    pub(crate) fn end_local(&mut self) {
        self.local.clear();
        self.local_identity = None;
        self.show_identity();
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

    /// Updates [`Parsed`] from a value that has been checked.
    fn parse(&mut self, name: &str, value: &str) {
        let parsed = &mut self.parsed;
        let time = || time(value).filter(|time| !time.is_zero());
        match name {
            "TimeZone" => parsed.time_zone = TimeZone::named(value).unwrap_or_default(),
            "DateStyle" => (parsed.date_format, parsed.date_order) = date_style::parts(value),
            "IntervalStyle" => {
                parsed.interval_style = IntervalStyle::named(value).unwrap_or_default();
            }
            "bytea_output" => parsed.bytes_as_escapes = value == "escape",
            "client_encoding" => {
                let encoding = Encoding::named(value).and_then(Result::ok);
                parsed.client_encoding = encoding.unwrap_or_default();
            }
            "extra_float_digits" => parsed.extra_float_digits = value.parse().unwrap_or(1),
            "lock_timeout" => parsed.lock_timeout = time(),
            "statement_timeout" => parsed.statement_timeout = time(),
            "transaction_timeout" => parsed.transaction_timeout = time(),
            "idle_in_transaction_session_timeout" => {
                parsed.idle_in_transaction_session_timeout = time();
            }
            "idle_session_timeout" => parsed.idle_session_timeout = time(),
            "log_min_duration_statement" => {
                let milliseconds = quantity(value, TIMES).unwrap_or(-1);
                parsed.slow_statement = milliseconds.try_into().ok().map(Duration::from_millis);
            }
            "log_min_error_statement" => {
                parsed.logged_failures = match value {
                    // PostgreSQL counts its level log above error here.
                    "log" | "fatal" => LoggedFailures::EndsOfSessions,
                    "panic" => LoggedFailures::None,
                    _ => LoggedFailures::All,
                };
            }
            "default_transaction_isolation" => {
                parsed.isolation = isolation(value).unwrap_or_default();
            }
            "default_transaction_read_only" => parsed.read_only = value == "on",
            "default_transaction_deferrable" => parsed.deferrable = value == "on",
            "work_mem" => {
                let kilobytes = quantity(value, MEMORY).unwrap_or(64 << 10).max(64);
                parsed.work_memory = usize::try_from(kilobytes).unwrap_or(usize::MAX / 1024) * 1024;
            }
            "client_min_messages" => {
                parsed.least_notice = match value {
                    "log" => Some(Severity::Log),
                    "info" => Some(Severity::Info),
                    "notice" => Some(Severity::Notice),
                    "warning" => Some(Severity::Warning),
                    "error" | "fatal" | "panic" => None,
                    _ => Some(Severity::Debug),
                };
            }
            "coeval.read_from" => parsed.read_from = ReadFrom::named(value).unwrap_or_default(),
            "coeval.read_max_lag" => parsed.read_max_lag = time(),
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

/// Parses a duration as settings write it: a number of milliseconds, or a number with a
/// unit, as `5s` or `1.5 min`. `None` when the text is not a duration, or exceeds
/// PostgreSQL's range.
#[must_use]
pub fn time(value: &str) -> Option<Duration> {
    let milliseconds = quantity(value, TIMES)?;
    let milliseconds = i32::try_from(milliseconds).ok()?;
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The inverse of [`time`]: writes the largest unit that divides the duration exactly.
#[must_use]
pub fn write_time(time: Duration) -> String {
    let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    check::write_quantity(milliseconds, TIMES)
}

fn denied(definition: &Definition) -> Error {
    Error::new(
        SqlState::INSUFFICIENT_PRIVILEGE,
        format!("permission denied to set parameter \"{}\"", definition.name),
    )
    .with_hint("Only superusers may set it; for all sessions it is a setting of the server.")
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
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
        assert!(set(&mut settings, "client_encoding", "KOI8R").is_err());
        assert!(set(&mut settings, "client_encoding", "none").is_err());
        set(&mut settings, "client_encoding", "iso-8859-1").unwrap();
        assert_eq!(settings.show("client_encoding").unwrap(), "LATIN1");
        set(&mut settings, "client_encoding", "utf-8").unwrap();
        assert!(set(&mut settings, "no_such_thing", "1").is_err());
        set(&mut settings, "my.own", "1").unwrap();
        assert_eq!(settings.show("my.own").unwrap(), "1");
        assert!(set(&mut settings, "server_version", "1").is_err());
    }

    #[test]
    fn failures_are_logged_as_postgresql_logs_them() {
        let mut settings = Settings::default();
        assert_eq!(settings.parsed().logged_failures, LoggedFailures::All);
        for (level, expected) in [
            ("debug5", LoggedFailures::All),
            ("warning", LoggedFailures::All),
            ("error", LoggedFailures::All),
            ("log", LoggedFailures::EndsOfSessions),
            ("fatal", LoggedFailures::EndsOfSessions),
            ("panic", LoggedFailures::None),
        ] {
            set(&mut settings, "log_min_error_statement", level).unwrap();
            assert_eq!(settings.parsed().logged_failures, expected, "{level}");
        }
        assert!(set(&mut settings, "log_min_error_statement", "never").is_err());
    }

    #[test]
    fn minus_one_turns_the_log_of_slow_statements_off() {
        let mut settings = Settings::default();
        let limit = |settings: &Settings| settings.parsed().slow_statement;
        assert_eq!(limit(&settings), None);
        set(&mut settings, "log_min_duration_statement", "1500").unwrap();
        assert_eq!(limit(&settings), Some(Duration::from_millis(1500)));
        assert_eq!(
            settings.show("log_min_duration_statement").unwrap(),
            "1500ms"
        );
        set(&mut settings, "log_min_duration_statement", "0").unwrap();
        assert_eq!(limit(&settings), Some(Duration::ZERO));
        set(&mut settings, "log_min_duration_statement", "-1").unwrap();
        assert_eq!(limit(&settings), None);
        assert!(set(&mut settings, "log_min_duration_statement", "-2").is_err());
        assert!(set(&mut settings, "statement_timeout", "-1").is_err());
    }

    #[test]
    fn what_is_about_the_servers_log_is_for_superusers() {
        let someone = |superuser| Who {
            role: 17_000,
            name: "someone".into(),
            superuser,
        };
        let start = |superuser, parameters: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
            let parameters: Vec<_> = parameters.iter().map(owned).collect();
            let beginning = Beginning {
                login: someone(superuser),
                application_name: "",
                defaults: &[],
                stored: &[],
                parameters: &parameters,
            };
            Settings::at_start(beginning, &mut Err).map(|(settings, _)| settings)
        };
        for name in [
            "log_min_duration_statement",
            "log_min_error_statement",
            "Log_Statement",
            "lc_messages",
        ] {
            let mut settings = start(false, &[]).unwrap();
            let value = settings.show(name).unwrap().to_owned();
            for refused in [
                set(&mut settings, name, &value),
                settings.reset(name, false),
                start(false, &[(name, &value)]).map(|_| ()),
            ] {
                let state = refused.map_err(|error| error.state());
                assert_eq!(state, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{name}");
            }
            set(&mut start(true, &[(name, &value)]).unwrap(), name, &value).unwrap();
        }
    }

    #[test]
    fn local_values_end_and_reset_goes_back_to_the_start() {
        let parameters = vec![("timezone".to_owned(), "Asia/Tokyo".to_owned())];
        let me = Who {
            role: 10,
            name: "me".into(),
            superuser: true,
        };
        let beginning = Beginning {
            login: me,
            application_name: "psql",
            defaults: &[],
            stored: &[],
            parameters: &parameters,
        };
        let (mut settings, _) = Settings::at_start(beginning, &mut Err).unwrap();
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
