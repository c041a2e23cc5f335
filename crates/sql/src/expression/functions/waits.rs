//! Built-in SQL functions that may wait: `pg_sleep` and its like, and those of advisory
//! locks.

use std::task::Context;
use std::time::Duration;

use super::kinds::{BOOL, FLOAT8, INT4, INT8, INTERVAL, MOMENT};
use crate::expression::EvaluationContext;
use crate::expression::function::{ArgumentKind, Arguments, Body, Function, Place};
use crate::expression::suspension::{Begun, Sleep, WaitKind};
use crate::instance::advisory::{AdvisoryKey, AdvisoryMode, Locking, Span};
use crate::output::{Notice, Severity};
use crate::value::{DataType, Value, moments};
use crate::{Error, Result, SqlState};

const VOID: ArgumentKind = ArgumentKind::Is(DataType::Void);
const ONE: &[ArgumentKind] = &[INT8];
const TWO: &[ArgumentKind] = &[INT4, INT4];

/// The longest sleep, in seconds: longer than a server runs.
const FOR_EVER: f64 = 1e9;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("pg_sleep", &[FLOAT8], VOID, |a, context| {
        sleep("pg_sleep", a.double(0), context)
    })
    .volatile(Place::Anywhere),
    // How long a month is depends on when the sleep begins.
    Function::new("pg_sleep_for", &[INTERVAL], VOID, |a, context| {
        let from = EvaluationContext::clock();
        let until = moments::add_in_zone(from, a.interval(0), &context.session.style)?;
        sleep("pg_sleep_for", (until - from) as f64 / 1e6, context)
    })
    .volatile(Place::Anywhere),
    Function::new("pg_sleep_until", &[MOMENT], VOID, |a, context| {
        let until = match a.values.first() {
            Some(Value::TimestampTz(moment)) => *moment,
            _ => i64::MIN,
        };
        let left = until as f64 - EvaluationContext::clock() as f64;
        sleep("pg_sleep_until", left / 1e6, context)
    })
    .volatile(Place::Anywhere),
    advisory("pg_advisory_lock", ONE, VOID, |a, context| {
        wait_for("pg_advisory_lock", a, (EXCLUSIVE, Span::Session), context)
    }),
    advisory("pg_advisory_lock", TWO, VOID, |a, context| {
        wait_for("pg_advisory_lock", a, (EXCLUSIVE, Span::Session), context)
    }),
    advisory("pg_advisory_lock_shared", ONE, VOID, |a, context| {
        wait_for(
            "pg_advisory_lock_shared",
            a,
            (SHARED, Span::Session),
            context,
        )
    }),
    advisory("pg_advisory_lock_shared", TWO, VOID, |a, context| {
        wait_for(
            "pg_advisory_lock_shared",
            a,
            (SHARED, Span::Session),
            context,
        )
    }),
    advisory("pg_advisory_xact_lock", ONE, VOID, |a, context| {
        wait_for(
            "pg_advisory_xact_lock",
            a,
            (EXCLUSIVE, Span::Transaction),
            context,
        )
    }),
    advisory("pg_advisory_xact_lock", TWO, VOID, |a, context| {
        wait_for(
            "pg_advisory_xact_lock",
            a,
            (EXCLUSIVE, Span::Transaction),
            context,
        )
    }),
    advisory("pg_advisory_xact_lock_shared", ONE, VOID, |a, context| {
        wait_for(
            "pg_advisory_xact_lock_shared",
            a,
            (SHARED, Span::Transaction),
            context,
        )
    }),
    advisory("pg_advisory_xact_lock_shared", TWO, VOID, |a, context| {
        wait_for(
            "pg_advisory_xact_lock_shared",
            a,
            (SHARED, Span::Transaction),
            context,
        )
    }),
    advisory("pg_try_advisory_lock", ONE, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_lock",
            a,
            (EXCLUSIVE, Span::Session),
            context,
        )
    }),
    advisory("pg_try_advisory_lock", TWO, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_lock",
            a,
            (EXCLUSIVE, Span::Session),
            context,
        )
    }),
    advisory("pg_try_advisory_lock_shared", ONE, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_lock_shared",
            a,
            (SHARED, Span::Session),
            context,
        )
    }),
    advisory("pg_try_advisory_lock_shared", TWO, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_lock_shared",
            a,
            (SHARED, Span::Session),
            context,
        )
    }),
    advisory("pg_try_advisory_xact_lock", ONE, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_xact_lock",
            a,
            (EXCLUSIVE, Span::Transaction),
            context,
        )
    }),
    advisory("pg_try_advisory_xact_lock", TWO, BOOL, |a, context| {
        try_for(
            "pg_try_advisory_xact_lock",
            a,
            (EXCLUSIVE, Span::Transaction),
            context,
        )
    }),
    advisory(
        "pg_try_advisory_xact_lock_shared",
        ONE,
        BOOL,
        |a, context| {
            try_for(
                "pg_try_advisory_xact_lock_shared",
                a,
                (SHARED, Span::Transaction),
                context,
            )
        },
    ),
    advisory(
        "pg_try_advisory_xact_lock_shared",
        TWO,
        BOOL,
        |a, context| {
            try_for(
                "pg_try_advisory_xact_lock_shared",
                a,
                (SHARED, Span::Transaction),
                context,
            )
        },
    ),
    advisory("pg_advisory_unlock", ONE, BOOL, |a, context| {
        unlock("pg_advisory_unlock", a, EXCLUSIVE, context)
    }),
    advisory("pg_advisory_unlock", TWO, BOOL, |a, context| {
        unlock("pg_advisory_unlock", a, EXCLUSIVE, context)
    }),
    advisory("pg_advisory_unlock_shared", ONE, BOOL, |a, context| {
        unlock("pg_advisory_unlock_shared", a, SHARED, context)
    }),
    advisory("pg_advisory_unlock_shared", TWO, BOOL, |a, context| {
        unlock("pg_advisory_unlock_shared", a, SHARED, context)
    }),
    advisory("pg_advisory_unlock_all", &[], VOID, |_, context| {
        context.once("pg_advisory_unlock_all", |context| {
            if let Some(locks) = &context.session.advisory {
                locks.unlock_all();
            }
            Ok(Begun::Done(nothing()))
        })
    }),
];

const EXCLUSIVE: AdvisoryMode = AdvisoryMode::Exclusive;
const SHARED: AdvisoryMode = AdvisoryMode::Shared;

/// A function of advisory locks, which the node that leads keeps.
const fn advisory(
    name: &'static str,
    arguments: &'static [ArgumentKind],
    result: ArgumentKind,
    body: Body,
) -> Function {
    Function::new(name, arguments, result, body).volatile(Place::Leader)
}

/// The value of type `void`.
fn nothing() -> Value {
    Value::text("")
}

fn sleep(name: &'static str, seconds: f64, context: &mut EvaluationContext<'_>) -> Result<Value> {
    context.once(name, |context| {
        if seconds.is_nan() || seconds <= 0.0 {
            return Ok(Begun::Done(nothing()));
        }
        if !context.can_wait() {
            return Err(cannot_wait(name));
        }
        let time = Duration::from_secs_f64(seconds.min(FOR_EVER));
        let sleep = Sleep::until(coeval_env::now() + time, context.session);
        Ok(Begun::Waits(WaitKind::Moment(sleep), nothing()))
    })
}

/// SQLSTATE 0A000: the function is called where the executor cannot wait.
fn cannot_wait(name: &str) -> Error {
    Error::unsupported(format_args!("a wait of {name} here"))
        .with_hint("Call the function in the list of a SELECT, or in FROM.")
}

/// The lock that a call names.
fn key(a: Arguments<'_>) -> AdvisoryKey {
    match a.values {
        [Value::Int4(first), Value::Int4(second)] => AdvisoryKey::Two(*first, *second),
        _ => AdvisoryKey::One(a.integer(0)),
    }
}

fn wait_for(
    name: &'static str,
    a: Arguments<'_>,
    (mode, span): (AdvisoryMode, Span),
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    context.once(name, |context| {
        let Some(locks) = &context.session.advisory else {
            return Err(Error::unsupported(format_args!("{name} here")));
        };
        let limit = context.can_wait().then_some(context.session.lock_timeout);
        let task = Context::from_waker(&context.waker);
        match locks.lock((key(a), mode, span), limit, &task)? {
            Locking::Granted => Ok(Begun::Done(nothing())),
            Locking::Busy => Err(cannot_wait(name)),
            Locking::Waits(wait) => Ok(Begun::Waits(WaitKind::Lock(wait), nothing())),
        }
    })
}

fn try_for(
    name: &'static str,
    a: Arguments<'_>,
    (mode, span): (AdvisoryMode, Span),
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    context.once(name, |context| {
        let Some(locks) = &context.session.advisory else {
            return Err(Error::unsupported(format_args!("{name} here")));
        };
        let task = Context::from_waker(&context.waker);
        let taken = locks.lock((key(a), mode, span), None, &task)?;
        Ok(Begun::Done(Value::Bool(matches!(taken, Locking::Granted))))
    })
}

fn unlock(
    name: &'static str,
    a: Arguments<'_>,
    mode: AdvisoryMode,
    context: &mut EvaluationContext<'_>,
) -> Result<Value> {
    context.once(name, |context| {
        let locks = context.session.advisory.as_ref();
        let held = locks.is_some_and(|locks| locks.unlock(key(a), mode));
        if let Some(settings) = context.settings
            && !held
        {
            let message = format!("you don't own a lock of type {}", mode.name());
            settings.warn(Notice::new(Severity::Warning, SqlState("01000"), message));
        }
        Ok(Begun::Done(Value::Bool(held)))
    })
}
