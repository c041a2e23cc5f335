//! System tables of lock waits and of transaction conflicts.

use std::time::Duration;

use coeval_txn::{Blocked, ConflictCount, Party};

use crate::Value;
use crate::contention::{Lookup, Words};
use crate::expression::EvaluationContext;
use crate::system::table::system_table;
use crate::value::calendar;

/// Lock waits: one row per transaction that holds the lock; one row without a holder if
/// it has just released the lock.
fn locks(context: &EvaluationContext<'_>) -> Vec<(Blocked, Option<Party>, Words)> {
    let Some(engine) = context.engine else {
        return Vec::new();
    };
    let mut lookup = Lookup::durable(context.catalog, engine, context.session.role);
    let mut rows = Vec::new();
    for blocked in engine.blocked() {
        let words = lookup.words(&blocked.place);
        if blocked.holders.is_empty() {
            rows.push((blocked, None, words));
            continue;
        }
        for holder in &blocked.holders {
            rows.push((blocked.clone(), Some(*holder), words.clone()));
        }
    }
    rows
}

fn conflicts(context: &EvaluationContext<'_>) -> Vec<(ConflictCount, Words)> {
    let Some(engine) = context.engine else {
        return Vec::new();
    };
    let mut lookup = Lookup::durable(context.catalog, engine, context.session.role);
    engine
        .conflicts()
        .into_iter()
        .map(|conflict| {
            let words = lookup.words(&conflict.last_place);
            (conflict, words)
        })
        .collect()
}

fn transaction(party: Option<Party>) -> Option<i64> {
    party.map(|party| party.transaction.0 as i64)
}

fn session(party: Option<Party>) -> Option<i32> {
    party?.session.filter(|session| *session != 0)
}

fn timestamp(since_unix_epoch: Duration) -> Value {
    let micros = i64::try_from(since_unix_epoch.as_micros()).unwrap_or(i64::MAX);
    Value::TimestampTz(micros - calendar::UNIX_EPOCH)
}

system_table! {
    /// Locks that a transaction waits for, one row per transaction that holds the lock.
    /// Uncontended locks are stored in the rows that they lock and are not listed.
    LOCKS = COEVAL 15001 View locks;
    context => locks(context);
    (blocked, holder, words) => {
        waiting_pid: Int4 = session(Some(blocked.waiter)),
        waiting_transaction: Int8 = transaction(Some(blocked.waiter)),
        holding_pid: Int4 = session(holder),
        holding_transaction: Int8 = transaction(holder),
        mode: Text = blocked.kind.name(),
        relation: Name = words.table,
        index: Name = words.index,
        key: Text = words.key,
        waited_ms: Int8 = blocked.waited.as_millis() as i64,
    }
}

system_table! {
    /// Conflicts since the server started, counted by table, index and cause:
    /// transactions that failed with 40001, 40P01 or 55P03, including those that the
    /// server restarted internally.
    CONFLICTS = COEVAL 15002 View conflicts;
    context => conflicts(context);
    (conflict, words) => {
        relation: Name = words.table,
        index: Name = words.index,
        cause: Text = conflict.why.name(),
        count: Int8 = conflict.count as i64,
        last_at: TimestampTz = timestamp(conflict.last),
        last_key: Text = words.key,
        last_pid: Int4 = session(Some(conflict.last_loser)),
        last_transaction: Int8 = transaction(Some(conflict.last_loser)),
        last_other_pid: Int4 = session(conflict.last_winner),
        last_other_transaction: Int8 = transaction(conflict.last_winner),
    }
}
