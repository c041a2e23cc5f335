//! SQL functions that report the session, the server and its settings.

use std::net::SocketAddr;

use coeval_txn::Engine;

use super::{BOOL, INT4, MOMENT, NAME, NAMES, OID, TEXT};
use crate::expression::{ArgumentKind, Arguments, EvaluationContext, Function, Place};
use crate::instance::Interruption;
use crate::instance::SERVER_VERSION;
use crate::system::TEMPORARY;
use crate::system::relation::search_path;
use crate::value::{DataType, Encoding};
use crate::{Error, Result, SqlState, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("version", &[], TEXT, |_, _| Ok(Value::text(version()))).stable(),
    Function::new("current_user", &[], NAME, user).stable(),
    Function::new("session_user", &[], NAME, |_, context| {
        Ok(Value::Text(context.session.session_user.clone()))
    })
    .stable(),
    Function::new("current_role", &[], NAME, user).stable(),
    Function::new("user", &[], NAME, user).stable(),
    Function::new("current_database", &[], NAME, database).stable(),
    Function::new("current_catalog", &[], NAME, database).stable(),
    Function::new("current_schema", &[], NAME, |_, context| {
        let path = named_path(context);
        Ok(path
            .first()
            .map_or(Value::Null, |first| Value::text(*first)))
    })
    .stable(),
    Function::new("current_schemas", &[BOOL], NAMES, |a, context| {
        let path = if a.truth(0) {
            search_path(context)
        } else {
            named_path(context)
        };
        Ok(Value::Array(path.into_iter().map(Value::text).collect()))
    })
    .stable(),
    Function::new("current_setting", &[TEXT], TEXT, |a, context| {
        setting(a.text(0), context)
    })
    .stable_of_settings(),
    Function::new(
        "current_setting",
        &[TEXT, BOOL],
        TEXT,
        |a, context| match setting(a.text(0), context) {
            Err(error) if a.truth(1) && error.state() == SqlState::UNDEFINED_OBJECT => {
                Ok(Value::Null)
            }
            other => other,
        },
    )
    .stable_of_settings(),
    Function::new("set_config", &[TEXT, TEXT, BOOL], TEXT, |a, context| {
        if a.values[0].is_null() {
            return Err(Error::new(
                SqlState::NULL_VALUE_NOT_ALLOWED,
                "SET requires parameter name",
            ));
        }
        let value = (!a.values[1].is_null()).then(|| a.text(1));
        let local = !a.values[2].is_null() && a.truth(2);
        match context.settings {
            Some(settings) => settings
                .set_setting(a.text(0), value, local)
                .map(Value::text),
            None => Err(Error::unsupported("set_config here")),
        }
    })
    .null_aware()
    .volatile(Place::Session),
    Function::new("current_query", &[], TEXT, |_, _| Ok(Value::Null)).stable(),
    Function::new("pg_backend_pid", &[], INT4, |_, context| {
        Ok(Value::Int4(context.session.process_id))
    })
    .stable(),
    Function::new("pg_is_in_recovery", &[], BOOL, |_, _| {
        Ok(Value::Bool(false))
    })
    .volatile(Place::Anywhere),
    Function::new("pg_my_temp_schema", &[], OID, |_, context| {
        let exists = context.catalog.has_temporary();
        Ok(Value::Oid(if exists { TEMPORARY } else { 0 }))
    })
    .stable(),
    // No session sees another's.
    Function::new("pg_is_other_temp_schema", &[OID], BOOL, |_, _| {
        Ok(Value::Bool(false))
    })
    .stable(),
    Function::new("pg_postmaster_start_time", &[], MOMENT, |_, context| {
        let host = context.session.around.host();
        Ok(host.map_or(Value::Null, |host| Value::TimestampTz(host.started())))
    })
    .stable_on_leader(),
    Function::new("pg_cancel_backend", &[INT4], BOOL, |a, context| {
        interrupt(a, context, Interruption::Cancel)
    })
    .volatile(Place::Interrupts),
    Function::new("pg_terminate_backend", &[INT4], BOOL, |a, context| {
        interrupt(a, context, Interruption::Terminate)
    })
    .volatile(Place::Interrupts),
    Function::new(
        "pg_blocking_pids",
        &[INT4],
        ArgumentKind::Is(DataType::Int4Array),
        |a, context| {
            let process_id = i32::try_from(a.integer(0)).unwrap_or(0);
            let mut blocking = context.session.around.advisory.blocking(process_id);
            let blocked = context.engine.map(Engine::blocked).unwrap_or_default();
            let own = blocked
                .iter()
                .filter(|each| each.waiter.session == Some(process_id) && process_id != 0);
            let holders = own.flat_map(|each| &each.holders);
            blocking.extend(holders.filter_map(|holder| holder.session));
            Ok(Value::Array(
                blocking.into_iter().map(Value::Int4).collect(),
            ))
        },
    )
    .volatile(Place::Leader),
    Function::new("pg_conf_load_time", &[], MOMENT, |_, _| Ok(Value::Null)).stable_on_leader(),
    Function::new("getdatabaseencoding", &[], NAME, |_, _| {
        Ok(Value::text("UTF8"))
    })
    .stable(),
    Function::new("pg_client_encoding", &[], NAME, |_, context| {
        setting("client_encoding", context)
    })
    .stable_of_settings(),
    Function::new("pg_encoding_to_char", &[INT4], NAME, |a, _| {
        let known = Encoding::numbered(a.integer(0));
        Ok(Value::text(known.map_or("", Encoding::name)))
    }),
    Function::new("pg_char_to_encoding", &[NAME], INT4, |a, _| {
        let known = Encoding::named(a.text(0)).and_then(Result::ok);
        Ok(Value::Int4(known.map_or(-1, Encoding::number)))
    }),
    nothing("inet_server_addr", TEXT),
    nothing("inet_server_port", INT4),
    Function::new("inet_client_addr", &[], TEXT, |_, context| {
        let client = client(context);
        Ok(client.map_or(Value::Null, |client| Value::text(client.ip().to_string())))
    })
    .stable(),
    Function::new("inet_client_port", &[], INT4, |_, context| {
        let client = client(context);
        Ok(client.map_or(Value::Null, |client| Value::Int4(client.port().into())))
    })
    .stable(),
];

const fn nothing(name: &'static str, result: ArgumentKind) -> Function {
    Function::new(name, &[], result, |_, _| Ok(Value::Null)).stable()
}

/// Result of `version()`: it begins with PostgreSQL's version, because client programs
/// parse it.
fn version() -> String {
    format!(
        "PostgreSQL {SERVER_VERSION} (Coeval {}) on {}-{}, {}-bit",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        usize::BITS
    )
}

fn user(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(Value::Text(context.session.user.clone()))
}

fn database(_: Arguments<'_>, context: &mut EvaluationContext<'_>) -> Result<Value> {
    Ok(Value::Text(context.session.database.clone()))
}

/// Address of this session's client.
fn client(context: &EvaluationContext<'_>) -> Option<SocketAddr> {
    let activities = context.session.around.activities();
    activities.client(context.session.process_id)
}

/// Cancels or terminates the session with this process id, on this node or, if only that of
/// its client knows it, there; returns false if it does not exist.
fn interrupt(
    a: Arguments<'_>,
    context: &mut EvaluationContext<'_>,
    how: Interruption,
) -> Result<Value> {
    let process_id = i32::try_from(a.integer(0)).unwrap_or(0);
    let others = context.session.elsewhere.as_ref();
    let done = others.and_then(|others| others.done(process_id, how));
    let is_there = match done {
        Some(is_there) => is_there,
        None => interrupted(process_id, context, how)?,
    };
    if let Some(others) = others {
        others.note(process_id, how, is_there);
    }
    Ok(Value::Bool(is_there))
}

/// Interrupts the session; returns whether it exists.
fn interrupted(
    process_id: i32,
    context: &EvaluationContext<'_>,
    how: Interruption,
) -> Result<bool> {
    let around = &context.session.around;
    let Some(page) = around.activities().find(process_id) else {
        let others = context.session.elsewhere.as_ref();
        let found = others.map(|others| others.find(process_id)).transpose()?;
        let (Some(session), Some(host)) = (found.flatten(), around.host()) else {
            return Ok(false);
        };
        may_interrupt(session.role, context)?;
        host.interrupt_elsewhere(session, how);
        return Ok(true);
    };
    may_interrupt(page.role(), context)?;
    let Some(session) = page.interrupt() else {
        return Ok(false);
    };
    // A session executes one statement at a time, here or where its client is.
    let is_active = page.is_active();
    match how {
        Interruption::Cancel => session.cancel(),
        Interruption::Terminate => session.terminate(),
    }
    if !is_active {
        session.cancel_at_client();
    }
    Ok(true)
}

/// Fails unless the session's role may interrupt a session of this role.
fn may_interrupt(role: u32, context: &EvaluationContext<'_>) -> Result<()> {
    let (access, own) = (context.catalog.access(), context.session.role);
    let above = access.is_superuser(role) && !access.is_superuser(own);
    if above || !access.has_privileges_of(own, role) {
        return Err(Error::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "must be a member of the role whose session is being interrupted",
        ));
    }
    Ok(())
}

/// The search path without schemas that are searched implicitly.
fn named_path<'a>(context: &'a EvaluationContext<'_>) -> Vec<&'a str> {
    let named = |name: &&str| context.session.search_path.iter().any(|each| each == *name);
    search_path(context).into_iter().filter(named).collect()
}

fn setting(name: &str, context: &EvaluationContext<'_>) -> Result<Value> {
    match context.settings {
        Some(settings) => {
            let shown = settings.show_setting(name);
            let shown = shown.or_else(|unknown| {
                let superuser = context.catalog.access().is_superuser(context.session.role);
                context.session.around.setting(name, superuser, unknown)
            });
            shown.map(Value::text)
        }
        None => Err(Error::unsupported("current_setting here")),
    }
}
