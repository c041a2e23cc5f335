//! The list of all settings, with their kinds and initial values.

use super::comparator::ReadComparator;
use crate::instance::SERVER_VERSION;

/// The kind of a setting: how its values are checked and written.
#[derive(Clone, Copy, Debug)]
pub(super) enum SettingKind {
    /// The value is Boolean: `on` or `off`.
    Switch,
    /// The value is a whole number between a minimum and a maximum.
    Number(i64, i64),
    /// The value is a duration, in milliseconds if it has no unit.
    Time,
    /// The value is a duration, or -1 for never.
    TimeOrNever,
    /// The value is an amount of memory, in kilobytes if it has no unit.
    StatementMemory,
    /// The value is a number between a minimum and a maximum.
    Real(f64, f64),
    /// The value is an amount of memory, in blocks of 8 kB if it has no unit.
    Blocks,
    /// The value is one of the listed words.
    Word(&'static [&'static str]),
    /// The value is any text.
    Text,
    /// The value is a list of names.
    List,
    /// The value is a time zone.
    TimeZone,
    /// The value is a style of dates, and an order of their parts.
    DateStyle,
    /// The value is a character encoding.
    Encoding,
    /// The value is an isolation level.
    Isolation,
    /// A setting that cannot be changed.
    Fixed,
}

/// A setting: its name as SHOW writes it, its initial value, its kind, whether the
/// protocol reports changes to clients, which roles may set it, and its description.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) initial: &'static str,
    pub(super) kind: SettingKind,
    pub(super) reported: bool,
    /// Whether only superusers may set it: the setting is about the server's log, for
    /// example, and other roles must not hide their statements from the log, or flood it.
    pub(super) restricted: bool,
    pub(super) about: &'static str,
}

const fn setting(
    name: &'static str,
    initial: &'static str,
    kind: SettingKind,
    about: &'static str,
) -> Definition {
    Definition {
        name,
        initial,
        kind,
        reported: false,
        restricted: false,
        about,
    }
}

/// A setting that only superusers may set.
const fn restricted(
    name: &'static str,
    initial: &'static str,
    kind: SettingKind,
    about: &'static str,
) -> Definition {
    Definition {
        restricted: true,
        ..setting(name, initial, kind, about)
    }
}

const fn reported(
    name: &'static str,
    initial: &'static str,
    kind: SettingKind,
    about: &'static str,
) -> Definition {
    Definition {
        reported: true,
        ..setting(name, initial, kind, about)
    }
}

const MESSAGES: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error", "fatal", "panic",
];

/// The values of `coeval.read_from`.
const READ_FROM: &[&str] = &["leader", "fresh", "any", "session"];

/// The settings with an effect, and some without, sorted by name without regard to case.
pub(super) const DEFINITIONS: &[Definition] = &[
    reported(
        "application_name",
        "",
        SettingKind::Text,
        "Sets the application name to be reported in statistics and logs.",
    ),
    setting(
        "backslash_quote",
        "safe_encoding",
        SettingKind::Word(&["safe_encoding", "on", "off"]),
        "Sets whether \"\\'\" is allowed in string literals.",
    ),
    setting(
        "bytea_output",
        "hex",
        SettingKind::Word(&["hex", "escape"]),
        "Sets the output format for bytea.",
    ),
    setting(
        "check_function_bodies",
        "on",
        SettingKind::Switch,
        "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.",
    ),
    reported(
        "client_encoding",
        "UTF8",
        SettingKind::Encoding,
        "Sets the client's character set encoding.",
    ),
    setting(
        "client_min_messages",
        "notice",
        SettingKind::Word(MESSAGES),
        "Sets the message levels that are sent to the client.",
    ),
    restricted(
        "coeval.read_comparator",
        "none",
        SettingKind::Word(ReadComparator::NAMES),
        "Has a follower read as other systems do, to be measured beside coeval.read_from = fresh.",
    ),
    restricted(
        "coeval.read_comparator_wait",
        "4ms",
        SettingKind::Time,
        "Sets how long a read with coeval.read_comparator = adaptive waits before it asks.",
    ),
    setting(
        "coeval.read_from",
        "fresh",
        SettingKind::Word(READ_FROM),
        "Chooses the node that executes statements that only read.",
    ),
    setting(
        "coeval.read_max_lag",
        "0",
        SettingKind::Time,
        "Sets how old the state may be that a node reads with coeval.read_from = any; 0 for no limit.",
    ),
    reported(
        "DateStyle",
        "ISO, MDY",
        SettingKind::DateStyle,
        "Sets the display format for date and time values.",
    ),
    setting(
        "default_table_access_method",
        "heap",
        SettingKind::Word(&["heap"]),
        "Sets the default table access method for new tables.",
    ),
    setting(
        "default_tablespace",
        "",
        SettingKind::Text,
        "Sets the default tablespace to create tables and indexes in.",
    ),
    setting(
        "default_transaction_deferrable",
        "off",
        SettingKind::Switch,
        "Sets the default deferrable status of new transactions.",
    ),
    setting(
        "default_transaction_isolation",
        "read committed",
        SettingKind::Isolation,
        "Sets the transaction isolation level of each new transaction.",
    ),
    reported(
        "default_transaction_read_only",
        "off",
        SettingKind::Switch,
        "Sets the default read-only status of new transactions.",
    ),
    setting(
        "enable_seqscan",
        "on",
        SettingKind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "escape_string_warning",
        "on",
        SettingKind::Switch,
        "Warn about backslash escapes in ordinary string literals.",
    ),
    setting(
        "extra_float_digits",
        "1",
        SettingKind::Number(-15, 3),
        "Sets the number of digits displayed for floating-point values.",
    ),
    setting(
        "idle_in_transaction_session_timeout",
        "0",
        SettingKind::Time,
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    setting(
        "idle_session_timeout",
        "0",
        SettingKind::Time,
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    reported(
        "in_hot_standby",
        "off",
        SettingKind::Fixed,
        "Shows whether hot standby is currently active.",
    ),
    reported(
        "integer_datetimes",
        "on",
        SettingKind::Fixed,
        "Shows whether datetimes are integer based.",
    ),
    reported(
        "IntervalStyle",
        "postgres",
        SettingKind::Word(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "Sets the display format for interval values.",
    ),
    reported(
        "is_superuser",
        "on",
        SettingKind::Fixed,
        "Shows whether the current user is a superuser.",
    ),
    setting(
        "jit",
        "off",
        SettingKind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "lc_collate",
        "C",
        SettingKind::Fixed,
        "Shows the collation order locale.",
    ),
    setting(
        "lc_ctype",
        "C.UTF-8",
        SettingKind::Fixed,
        "Shows the character classification and case conversion locale.",
    ),
    restricted(
        "lc_messages",
        "C",
        SettingKind::Word(&["C"]),
        "Sets the language in which messages are displayed.",
    ),
    setting(
        "lc_monetary",
        "C",
        SettingKind::Word(&["C"]),
        "Sets the locale for formatting monetary amounts.",
    ),
    setting(
        "lc_numeric",
        "C",
        SettingKind::Word(&["C"]),
        "Sets the locale for formatting numbers.",
    ),
    setting(
        "lc_time",
        "C",
        SettingKind::Word(&["C"]),
        "Sets the locale for formatting date and time values.",
    ),
    setting(
        "lock_timeout",
        "0",
        SettingKind::Time,
        "Sets the maximum allowed duration of any wait for a lock.",
    ),
    restricted(
        "log_min_duration_statement",
        "-1",
        SettingKind::TimeOrNever,
        "Sets the minimum execution time above which statements are logged.",
    ),
    restricted(
        "log_min_error_statement",
        "error",
        SettingKind::Word(MESSAGES),
        "Causes all statements generating error at or above this level to be logged.",
    ),
    restricted(
        "log_min_messages",
        "warning",
        SettingKind::Word(MESSAGES),
        "Kept for clients that set it.",
    ),
    restricted(
        "log_statement",
        "none",
        SettingKind::Word(&["none", "ddl", "mod", "all"]),
        "Kept for clients that set it.",
    ),
    setting(
        "maintenance_work_mem",
        "64MB",
        SettingKind::StatementMemory,
        "Kept for clients that set it.",
    ),
    setting(
        "max_identifier_length",
        "63",
        SettingKind::Fixed,
        "Shows the maximum identifier length.",
    ),
    setting(
        "max_index_keys",
        "32",
        SettingKind::Fixed,
        "Shows the maximum number of index keys.",
    ),
    setting(
        "max_parallel_workers_per_gather",
        "0",
        SettingKind::Number(0, 1024),
        "Kept for clients that set it.",
    ),
    setting(
        "password_encryption",
        "scram-sha-256",
        SettingKind::Word(&["scram-sha-256"]),
        "Chooses the algorithm for encrypting passwords.",
    ),
    setting(
        "plan_cache_mode",
        "auto",
        SettingKind::Word(&["auto", "force_generic_plan", "force_custom_plan"]),
        "Kept for clients that set it.",
    ),
    setting(
        "quote_all_identifiers",
        "off",
        SettingKind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "row_security",
        "on",
        SettingKind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "role",
        "none",
        SettingKind::Fixed,
        "Shows the current role.",
    ),
    setting(
        "search_path",
        "\"$user\", public",
        SettingKind::List,
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    reported(
        "server_encoding",
        "UTF8",
        SettingKind::Fixed,
        "Shows the server (database) character set encoding.",
    ),
    reported(
        "server_version",
        SERVER_VERSION,
        SettingKind::Fixed,
        "Shows the server version.",
    ),
    setting(
        "server_version_num",
        "150000",
        SettingKind::Fixed,
        "Shows the server version as an integer.",
    ),
    reported(
        "session_authorization",
        "",
        SettingKind::Fixed,
        "Shows the session user name.",
    ),
    reported(
        "standard_conforming_strings",
        "on",
        SettingKind::Word(&["on"]),
        "Causes '...' strings to treat backslashes literally.",
    ),
    setting(
        "statement_timeout",
        "0",
        SettingKind::Time,
        "Sets the maximum allowed duration of any statement.",
    ),
    setting(
        "synchronize_seqscans",
        "on",
        SettingKind::Switch,
        "Kept for clients that set it.",
    ),
    setting(
        "synchronous_commit",
        "on",
        SettingKind::Word(&["on", "local", "remote_write", "remote_apply"]),
        "Sets the current transaction's synchronization level.",
    ),
    reported(
        "TimeZone",
        "Etc/UTC",
        SettingKind::TimeZone,
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    setting(
        "timezone_abbreviations",
        "Default",
        SettingKind::Word(&["Default"]),
        "Selects a file of time zone abbreviations.",
    ),
    setting(
        "transaction_deferrable",
        "off",
        SettingKind::Switch,
        "Shows the current transaction's deferrable status.",
    ),
    setting(
        "transaction_isolation",
        "read committed",
        SettingKind::Isolation,
        "Sets the current transaction's isolation level.",
    ),
    setting(
        "transaction_read_only",
        "off",
        SettingKind::Switch,
        "Sets the current transaction's read-only status.",
    ),
    setting(
        "transaction_timeout",
        "0",
        SettingKind::Time,
        "Sets the maximum allowed duration of any transaction within a session.",
    ),
    setting(
        "transform_null_equals",
        "off",
        SettingKind::Word(&["off"]),
        "Treats expr = NULL as expr IS NULL.",
    ),
    setting(
        "work_mem",
        "64MB",
        SettingKind::StatementMemory,
        "Sets the maximum memory to be used for query workspaces.",
    ),
    setting(
        "xmloption",
        "content",
        SettingKind::Word(&["content", "document"]),
        "Kept for clients that set it.",
    ),
];

/// All settings, those without an effect last.
pub(super) fn all() -> impl Iterator<Item = &'static Definition> {
    DEFINITIONS.iter().chain(super::kept::KEPT)
}

/// The setting of this name, without regard to case.
pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    all().find(|definition| definition.name.eq_ignore_ascii_case(name))
}
