//! Settings, and what sessions do.

use crate::Value;
use crate::expression::EvaluationContext;
use crate::system::DATABASE;
use crate::system::table::system_table;

fn settings(context: &EvaluationContext<'_>) -> Vec<(String, String, String)> {
    context
        .settings
        .map(|settings| settings.all_settings())
        .unwrap_or_default()
}

/// A value's unit, if it is a number with one: the number, and the unit.
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

/// What kind of value it looks like.
fn kind(value: &str) -> &'static str {
    let (number, _) = split_unit(value);
    match number {
        "on" | "off" => "bool",
        _ if number.parse::<i64>().is_ok() => "integer",
        _ => "string",
    }
}

system_table! {
    /// Settings, as this session has them.
    PG_SETTINGS = PG_CATALOG 12104 View pg_settings;
    context => settings(context);
    (name, value, about) => {
        name: Text = &name,
        setting: Text = split_unit(&value).0,
        unit: Text = split_unit(&value).1,
        category: Text = "Settings",
        short_desc: Text = &about,
        extra_desc: Text = Value::Null,
        context: Text = "user",
        vartype: Text = kind(&value),
        source: Text = "session",
        min_val: Text = Value::Null,
        max_val: Text = Value::Null,
        enumvals: TextArray = Value::Null,
        boot_val: Text = Value::Null,
        reset_val: Text = Value::Null,
        sourcefile: Text = Value::Null,
        sourceline: Int4 = Value::Null,
        pending_restart: Bool = false,
    }
}

system_table! {
    /// Sessions: this one. What the others do is not to be seen here.
    PG_STAT_ACTIVITY = PG_CATALOG 12222 View pg_stat_activity;
    context => [context.session];
    session => {
        datid: Oid = DATABASE,
        datname: Name = session.database.clone(),
        pid: Int4 = session.process_id,
        leader_pid: Int4 = Value::Null,
        usesysid: Oid = session.session_role,
        usename: Name = session.session_user.clone(),
        application_name: Text = context
            .settings
            .and_then(|settings| settings.show_setting("application_name").ok()),
        client_addr: Text = Value::Null,
        client_hostname: Text = Value::Null,
        client_port: Int4 = Value::Null,
        backend_start: TimestampTz = Value::Null,
        xact_start: TimestampTz = Value::TimestampTz(session.style.now),
        query_start: TimestampTz = Value::TimestampTz(session.statement_start),
        state_change: TimestampTz = Value::TimestampTz(session.statement_start),
        wait_event_type: Text = Value::Null,
        wait_event: Text = Value::Null,
        state: Text = "active",
        backend_xid: Oid = Value::Null,
        backend_xmin: Oid = Value::Null,
        query_id: Int8 = Value::Null,
        query: Text = Value::Null,
        backend_type: Text = "client backend",
    }
}
