//! The system table of locks, `pg_locks`: advisory locks, held and awaited, and the waits
//! for locks of rows, keys and tables.
//!
//! A row's lock that no transaction waits for is a word in its record, and a table's is in its
//! table: neither is listed, as in PostgreSQL, where rows' locks are in the rows.

use coeval_txn::{Blocked, ConflictLocation, LockKind, TableLock};

use crate::Value;
use crate::expression::EvaluationContext;
use crate::instance::advisory::ShownLock;
use crate::system::DATABASE;
use crate::system::table::system_table;

/// A row of `pg_locks`.
struct Row {
    kind: &'static str,
    relation: Option<u32>,
    transaction: Option<u32>,
    /// `classid`, `objid` and `objsubid`.
    key: Option<(u32, u32, i16)>,
    process_id: Option<i32>,
    mode: &'static str,
    granted: bool,
    waits_since: Option<i64>,
}

impl From<ShownLock> for Row {
    fn from(shown: ShownLock) -> Self {
        Self {
            kind: "advisory",
            relation: None,
            transaction: None,
            key: Some(shown.key.numbers()),
            process_id: Some(shown.process_id),
            mode: shown.mode.name(),
            granted: shown.granted,
            waits_since: shown.waits_since,
        }
    }
}

/// Name of a table lock's mode in PostgreSQL.
const fn mode_name(mode: TableLock) -> &'static str {
    match mode {
        TableLock::AccessShare => "AccessShareLock",
        TableLock::RowShare => "RowShareLock",
        TableLock::RowExclusive => "RowExclusiveLock",
        TableLock::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        TableLock::Share => "ShareLock",
        TableLock::ShareRowExclusive => "ShareRowExclusiveLock",
        TableLock::Exclusive => "ExclusiveLock",
        TableLock::AccessExclusive => "AccessExclusiveLock",
    }
}

fn waits(blocked: &Blocked, now: i64, context: &EvaluationContext<'_>) -> Row {
    let storage = blocked.place.storage();
    let mut tables = context.catalog.tables();
    let relation = tables
        .find(|table| table.storage == storage)
        .map(|table| table.oid);
    // A session that waits for a row waits for the transaction that holds it.
    let holder = blocked.holders.first();
    let transaction = holder.map(|holder| holder.transaction.0 as u32);
    let of_table = matches!(blocked.place, ConflictLocation::Table { .. });
    Row {
        kind: if of_table {
            "relation"
        } else {
            "transactionid"
        },
        relation: relation.filter(|_| of_table),
        transaction: transaction.filter(|_| !of_table),
        key: None,
        process_id: blocked.waiter.session.filter(|session| *session != 0),
        mode: match blocked.kind {
            LockKind::Table(mode) => mode_name(mode),
            LockKind::Row | LockKind::Key => "ShareLock",
        },
        granted: false,
        waits_since: Some(now - i64::try_from(blocked.waited.as_micros()).unwrap_or(0)),
    }
}

fn rows(context: &EvaluationContext<'_>) -> Vec<Row> {
    let shown = context.session.around.advisory.shown();
    let mut rows: Vec<Row> = shown.into_iter().map(Row::from).collect();
    if let Some(engine) = context.engine {
        let now = EvaluationContext::clock();
        let blocked = engine.blocked();
        rows.extend(blocked.iter().map(|each| waits(each, now, context)));
    }
    rows
}

system_table! {
    /// Advisory locks, and waits for locks of rows and tables.
    PG_LOCKS = PG_CATALOG 12073 View pg_locks;
    context => rows(context);
    each => {
        locktype: Text = each.kind,
        database: Oid = each.transaction.is_none().then_some(DATABASE),
        relation: Oid = each.relation,
        page: Int4 = Value::Null,
        tuple: Int2 = Value::Null,
        virtualxid: Text = Value::Null,
        transactionid: Oid = each.transaction,
        classid: Oid = each.key.map(|key| key.0),
        objid: Oid = each.key.map(|key| key.1),
        objsubid: Int2 = each.key.map(|key| key.2),
        virtualtransaction: Text = each.process_id.map(|process| format!("{process}/0")),
        pid: Int4 = each.process_id,
        mode: Text = each.mode,
        granted: Bool = each.granted,
        fastpath: Bool = false,
        waitstart: TimestampTz = each.waits_since.map(Value::TimestampTz),
    }
}
