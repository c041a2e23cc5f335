//! The binder of locking clauses: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.
//!
//! Of a table that several clauses name, the strongest mode counts, and the most impatient
//! way to wait: NOWAIT before SKIP LOCKED before waiting.

use std::sync::Arc;

use coeval_txn::LockWait;
use smol_str::SmolStr;
use sqlparser::ast::LockClause;

use super::from::{FromKind, FromNode, JoinKind};
use super::node::{Lock, LockTarget, Node};
use crate::access::Privileges;
use crate::catalog::Table;
use crate::expression::{Binder, Expression, fold_name};
use crate::plan::RowReader;
use crate::statement::Locking;
use crate::system::SystemTable;
use crate::{Error, Result, SqlState};

/// Binds the locking clauses: the tables whose rows the query locks. `collected` names a
/// clause, such as GROUP BY, after which result rows no longer correspond to table
/// rows.
pub(super) fn bind_locks(
    binder: &mut Binder<'_>,
    locks: &[LockClause],
    tree: Option<&FromNode>,
    conditions: &[Expression],
    collected: Option<&str>,
) -> Result<Option<Lock>> {
    if locks.is_empty() {
        return Ok(None);
    }
    let (mut tables, mut system) = (Vec::new(), Vec::new());
    if let Some(tree) = tree {
        collect_tables(tree, &mut tables, &mut system)?;
    }
    let refuse = |clause: &Locking<'_>, table: &SystemTable| {
        let name = format!("{}.{}", table.schema(), table.name);
        Error::unsupported(format!("{clause} of the system table {name}"))
    };
    let mut targets: Vec<LockTarget> = Vec::new();
    for clause in locks {
        let clause = Locking::of(clause);
        if let Some(collected) = collected {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{clause} is not allowed with {collected}"),
            ));
        }
        if clause.tables.is_empty() {
            if let Some((table, _)) = system.first() {
                return Err(refuse(&clause, table));
            }
            for (table, _, offset) in &tables {
                add_target(&mut targets, table, *offset, &clause);
            }
        }
        for wanted in &clause.tables {
            let name = fold_name(wanted);
            if let Some((table, _)) = system.iter().find(|(_, alias)| *alias == name) {
                return Err(refuse(&clause, table).at(binder.position(wanted.span)));
            }
            let mut found = false;
            for (table, _, offset) in tables.iter().filter(|(_, alias, _)| *alias == name) {
                add_target(&mut targets, table, *offset, &clause);
                found = true;
            }
            if !found {
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("relation \"{name}\" in {clause} clause not found in FROM clause"),
                )
                .at(binder.position(wanted.span)));
            }
        }
    }
    for target in &targets {
        binder.needs.table(target.table.oid, Privileges::UPDATE);
    }
    let mut conditions = conditions.to_vec();
    if let Some(tree) = tree {
        inner_conditions(tree, &mut conditions);
    }
    Ok(Some(Lock {
        input: Node::One,
        targets,
        condition: (!conditions.is_empty()).then(|| Expression::all_of(conditions)),
    }))
}

/// Collects the join conditions that every result row satisfies: those of inner joins.
fn inner_conditions(node: &FromNode, conditions: &mut Vec<Expression>) {
    if let FromKind::Join(JoinKind::Inner, sides, on) = &node.kind {
        conditions.extend(on.iter().cloned());
        for side in &**sides {
            inner_conditions(side, conditions);
        }
    }
}

/// Appends the tables of FROM, with their names and the positions of their columns, and the
/// system tables, whose rows are computed and have no locks.
fn collect_tables(
    node: &FromNode,
    tables: &mut Vec<(Arc<Table>, String, usize)>,
    system: &mut Vec<(&'static SystemTable, SmolStr)>,
) -> Result<()> {
    match &node.kind {
        FromKind::Table(table, alias) => {
            tables.push((Arc::clone(table), alias.to_string(), node.start));
            Ok(())
        }
        FromKind::Join(_, sides, _) => {
            for side in &**sides {
                collect_tables(side, tables, system)?;
            }
            Ok(())
        }
        FromKind::Derived(..) => Err(Error::unsupported("FOR UPDATE of a subquery in FROM")),
        FromKind::System(table, alias) => {
            system.push((table, alias.clone()));
            Ok(())
        }
        FromKind::Function(_) => Ok(()),
    }
}

/// Adds a table to those that are locked, or what the clause wants to the table's entry.
fn add_target(
    targets: &mut Vec<LockTarget>,
    table: &Arc<Table>,
    offset: usize,
    clause: &Locking<'_>,
) {
    if let Some(target) = targets.iter_mut().find(|target| target.offset == offset) {
        target.mode = target.mode.max(clause.mode);
        target.wait = match (target.wait, clause.wait) {
            (LockWait::NoWait, _) | (_, LockWait::NoWait) => LockWait::NoWait,
            (LockWait::Skip, _) | (_, LockWait::Skip) => LockWait::Skip,
            (LockWait::Wait, LockWait::Wait) => LockWait::Wait,
        };
        return;
    }
    targets.push(LockTarget {
        table: Arc::clone(table),
        offset,
        record: offset + table.columns.len(),
        reader: RowReader::new(table),
        mode: clause.mode,
        wait: clause.wait,
    });
}
