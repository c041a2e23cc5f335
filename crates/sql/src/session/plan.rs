//! Plans of statements by kind, and the table locks that they take.

use std::sync::Arc;

use coeval_txn::TableLock;
use coeval_types::StorageId;

use super::set::text_column;
use crate::access::Privileges;
use crate::catalog::{Catalog, Needs};
use crate::change::ChangePlan;
use crate::copy::CopyPlan;
use crate::output::Column;
use crate::route::{Reason, Route};
use crate::select::QueryPlan;

/// The plan of a statement, by kind of statement.
#[derive(Debug)]
pub(super) enum Plan {
    /// A statement that returns rows, such as SELECT.
    Query(Arc<QueryPlan>),
    /// INSERT, UPDATE or DELETE.
    Change(Box<ChangePlan>),
    /// Changes in WITH, and the statement behind them.
    With(Box<[ChangePlan]>, Box<Plan>),
    /// COPY in either direction.
    Copy(Arc<CopyPlan>),
    /// EXPLAIN of one of the above, or of an EXECUTE, and where that can run.
    Explain(Arc<Plan>, Route),
}

impl Plan {
    /// Whether the plan's result may depend on the database's contents, including its
    /// catalog.
    pub(super) fn looks(&self) -> bool {
        match self {
            Self::Query(query) => query.looks(),
            Self::Change(_) | Self::With(..) | Self::Copy(_) | Self::Explain(..) => true,
        }
    }

    /// Where the plan can run, if its expressions and system tables can run at `bound`.
    pub(super) fn route(&self, bound: Route) -> Route {
        let own = match self {
            Self::Query(query) if query.locks_rows() => Route::Leader(Reason::LocksRows),
            Self::Change(_) | Self::With(..) => Route::Leader(Reason::Writes),
            Self::Copy(copy) if matches!(**copy, CopyPlan::In(_)) => Route::Leader(Reason::Writes),
            Self::Query(_) | Self::Copy(_) | Self::Explain(..) => Route::Anywhere,
        };
        own.and(bound)
    }

    pub(super) fn columns(&self) -> Option<Vec<Column>> {
        match self {
            Self::Query(query) => Some(query.columns().to_vec()),
            Self::Change(change) => change
                .returning
                .as_ref()
                .map(|returning| returning.columns.clone()),
            Self::With(_, main) => main.columns(),
            Self::Copy(_) => None,
            Self::Explain(..) => Some(vec![text_column("QUERY PLAN")]),
        }
    }
}

/// A lock that a statement takes on a table that it names, before it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedLock {
    pub(super) storage: StorageId,
    pub(super) mode: TableLock,
    /// The table's schema version in the catalog that the plan was made with.
    pub(super) schema_version: u64,
}

/// The locks of a statement: ROW EXCLUSIVE on the table that it changes, ROW SHARE on those
/// of which it locks rows, which needs more than SELECT, and ACCESS SHARE on all others
/// that it names; ROW EXCLUSIVE on the sequences of which it takes numbers.
pub(super) fn planned_locks(plan: &Plan, needs: &Needs, catalog: &Catalog) -> Arc<[PlannedLock]> {
    let mut changed = Vec::new();
    note_changed(plan, &mut changed);
    let named = needs.tables().iter().filter_map(|(oid, privileges)| {
        let mode = if changed.contains(oid) {
            TableLock::RowExclusive
        } else if Privileges::SELECT.include(*privileges) {
            TableLock::AccessShare
        } else {
            TableLock::RowShare
        };
        let table = catalog.table_by_oid(*oid)?;
        Some(PlannedLock {
            storage: table.storage,
            mode,
            schema_version: table.schema_version,
        })
    });
    let sequences = needs.sequences().iter().filter_map(|oid| {
        let (_, sequence) = catalog.sequence(*oid)?;
        Some(PlannedLock {
            storage: sequence.storage,
            mode: TableLock::RowExclusive,
            schema_version: sequence.schema_version,
        })
    });
    named.chain(sequences).collect()
}

/// Notes the tables that a plan changes.
fn note_changed(plan: &Plan, changed: &mut Vec<u32>) {
    match plan {
        Plan::Change(change) => changed.push(change.table.oid),
        Plan::With(changes, main) => {
            changed.extend(changes.iter().map(|change| change.table.oid));
            note_changed(main, changed);
        }
        Plan::Copy(copy) => {
            if let CopyPlan::In(into) = &**copy {
                changed.push(into.table.oid);
            }
        }
        Plan::Query(_) | Plan::Explain(..) => {}
    }
}
