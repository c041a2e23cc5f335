//! System tables of session activity, settings and server statistics.

use crate::Value;
use crate::expression::{EvaluationContext, ShownSetting};
use crate::instance::activity::Shown;
use crate::instance::{HostMetric, HostSetting, Totals};
use crate::system::DATABASE;
use crate::system::table::system_table;

/// A setting of the session or of the server.
struct Setting {
    name: String,
    value: String,
    unit: Option<String>,
    source: String,
    /// Who can change the setting: as `pg_settings` says it, and as `coeval.settings`
    /// says it.
    context: (&'static str, &'static str),
    about: String,
    initial: Option<String>,
    reset: Option<String>,
}

/// Splits a value such as `10ms` into its number and its unit.
fn split_unit(value: &str) -> (&str, Option<&str>) {
    const UNITS: [&str; 9] = ["ms", "s", "min", "h", "d", "kB", "MB", "GB", "TB"];
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &value[digits.len()..];
    if UNITS.contains(&unit) && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        (digits, Some(unit))
    } else {
        (value, None)
    }
}

/// Data type of a setting, inferred from its value.
fn kind(value: &str) -> &'static str {
    match value {
        "on" | "off" => "bool",
        _ if value.parse::<i64>().is_ok() => "integer",
        _ => "string",
    }
}

impl From<ShownSetting> for Setting {
    fn from(shown: ShownSetting) -> Self {
        let (value, unit) = split_unit(&shown.value);
        Self {
            unit: unit.map(str::to_owned),
            value: value.to_owned(),
            name: shown.name,
            source: shown.source.to_owned(),
            context: if shown.fixed {
                ("internal", "never")
            } else {
                ("user", "session")
            },
            about: shown.about,
            initial: Some(split_unit(&shown.initial).0.to_owned()),
            reset: Some(split_unit(&shown.reset).0.to_owned()),
        }
    }
}

impl From<HostSetting> for Setting {
    fn from(setting: HostSetting) -> Self {
        Self {
            name: setting.name,
            value: setting.value,
            unit: setting.unit.map(str::to_owned),
            source: setting.source,
            context: ("postmaster", "restart"),
            about: setting.about,
            initial: None,
            reset: None,
        }
    }
}

fn settings(context: &EvaluationContext<'_>) -> Vec<Setting> {
    let of_session = context.settings.map(|settings| settings.all_settings());
    let mut all: Vec<Setting> = of_session
        .into_iter()
        .flatten()
        .map(Setting::from)
        .collect();
    let host = context.session.around.host();
    let superuser = context.catalog.access().is_superuser(context.session.role);
    let of_host = host.map(|host| host.settings()).unwrap_or_default();
    for setting in of_host
        .into_iter()
        .filter(|setting| superuser || !setting.for_superusers)
    {
        // Skips server settings that are only initial values of session settings.
        if !all.iter().any(|known| known.name == setting.name) {
            all.push(setting.into());
        }
    }
    all
}

fn metrics(context: &EvaluationContext<'_>) -> Vec<HostMetric> {
    let host = context.session.around.host();
    host.map(|host| host.metrics()).unwrap_or_default()
}

/// Statistics of the only database, and its number of sessions.
fn totals(context: &EvaluationContext<'_>) -> [(Totals, i32); 1] {
    let around = &context.session.around;
    let totals = around.host().map(|host| host.totals()).unwrap_or_default();
    let sessions = around.activities().all().len();
    [(totals, i32::try_from(sessions).unwrap_or(i32::MAX))]
}

/// All sessions, and whether the current role may see their statements: it needs the
/// privileges of the session's role, otherwise it sees only that the session exists.
fn sessions(context: &EvaluationContext<'_>) -> Vec<(Shown, bool)> {
    let (access, own) = (context.catalog.access(), context.session.role);
    let all = context.session.around.activities().all();
    all.into_iter()
        .map(|each| {
            let mine = each.process_id == context.session.process_id;
            let known = mine || access.has_privileges_of(own, each.role);
            (each, known)
        })
        .collect()
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn moment(microseconds: Option<i64>) -> Value {
    microseconds.map_or(Value::Null, Value::TimestampTz)
}

system_table! {
    /// Settings: those of this session, then those of the server.
    PG_SETTINGS = PG_CATALOG 12104 View pg_settings;
    context => settings(context);
    each => {
        name: Text = &each.name,
        setting: Text = &each.value,
        unit: Text = each.unit.as_ref(),
        category: Text = "Settings",
        short_desc: Text = &each.about,
        extra_desc: Text = Value::Null,
        context: Text = each.context.0,
        vartype: Text = kind(&each.value),
        source: Text = &each.source,
        min_val: Text = Value::Null,
        max_val: Text = Value::Null,
        enumvals: TextArray = Value::Null,
        boot_val: Text = each.initial.as_ref(),
        reset_val: Text = each.reset.as_ref(),
        sourcefile: Text = Value::Null,
        sourceline: Int4 = Value::Null,
        pending_restart: Bool = false,
    }
}

system_table! {
    /// Settings, with the source of each value and who can change it.
    COEVAL_SETTINGS = COEVAL 15_011 View settings;
    context => settings(context);
    each => {
        name: Text = &each.name,
        value: Text = &each.value,
        unit: Text = each.unit.as_ref(),
        source: Text = &each.source,
        changeable: Text = each.context.1,
        description: Text = &each.about,
    }
}

system_table! {
    /// The metrics that the server exports at /metrics.
    COEVAL_METRICS = COEVAL 15_012 View metrics;
    context => metrics(context);
    each => {
        name: Text = each.name,
        labels: Text = each.labels,
        value: Float8 = Value::Float8(each.value),
        unit: Text = each.unit,
        description: Text = each.about,
    }
}

system_table! {
    /// All sessions and their current statements.
    PG_STAT_ACTIVITY = PG_CATALOG 12222 View pg_stat_activity;
    context => sessions(context);
    (each, known) => {
        datid: Oid = DATABASE,
        datname: Name = &each.database,
        pid: Int4 = each.process_id,
        leader_pid: Int4 = Value::Null,
        usesysid: Oid = each.role,
        usename: Name = &each.user,
        application_name: Text = &each.application_name,
        client_addr: Text = each.client.filter(|_| known).map(|client| client.ip().to_string()),
        client_hostname: Text = Value::Null,
        client_port: Int4 = each.client.filter(|_| known).map(|client| i32::from(client.port())),
        backend_start: TimestampTz = moment(Some(each.started).filter(|_| known)),
        xact_start: TimestampTz = moment(each.transaction_start.filter(|_| known)),
        query_start: TimestampTz = moment(each.query_start.filter(|_| known)),
        state_change: TimestampTz = moment(Some(each.state_change).filter(|_| known)),
        wait_event_type: Text = each.wait.filter(|_| known).map(|(sort, _)| sort),
        wait_event: Text = each.wait.filter(|_| known).map(|(_, event)| event),
        state: Text = known.then(|| each.state.name()),
        backend_xid: Oid = Value::Null,
        backend_xmin: Oid = Value::Null,
        query_id: Int8 = Value::Null,
        query: Text = if known { &each.query } else { "<insufficient privilege>" },
        backend_type: Text = "client backend",
    }
}

system_table! {
    /// Statistics of the only database since the server started. The engine reads no
    /// blocks from disk, so their counters are 0; it does not count rows that it read
    /// without returning them.
    PG_STAT_DATABASE = PG_CATALOG 12246 View pg_stat_database;
    context => totals(context);
    (totals, sessions) => {
        datid: Oid = DATABASE,
        datname: Name = context.session.database.clone(),
        numbackends: Int4 = sessions,
        xact_commit: Int8 = count(totals.committed),
        xact_rollback: Int8 = count(totals.rolled_back),
        blks_read: Int8 = 0_i64,
        blks_hit: Int8 = 0_i64,
        tup_returned: Int8 = count(totals.returned),
        tup_fetched: Int8 = count(totals.returned),
        tup_inserted: Int8 = count(totals.inserted),
        tup_updated: Int8 = count(totals.updated),
        tup_deleted: Int8 = count(totals.deleted),
        conflicts: Int8 = count(totals.conflicts),
        temp_files: Int8 = 0_i64,
        temp_bytes: Int8 = 0_i64,
        deadlocks: Int8 = count(totals.deadlocks),
        checksum_failures: Int8 = Value::Null,
        checksum_last_failure: TimestampTz = Value::Null,
        blk_read_time: Float8 = Value::Float8(0.0),
        blk_write_time: Float8 = Value::Float8(0.0),
        session_time: Float8 = Value::Null,
        active_time: Float8 = Value::Null,
        idle_in_transaction_time: Float8 = Value::Null,
        sessions: Int8 = Value::Null,
        sessions_abandoned: Int8 = Value::Null,
        sessions_fatal: Int8 = Value::Null,
        sessions_killed: Int8 = Value::Null,
        stats_reset: TimestampTz = moment(context
            .session
            .around
            .host()
            .map(|host| host.started())),
    }
}
