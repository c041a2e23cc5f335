//! The binder of locking clauses: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.
//!
//! Of a table that several clauses name, the strongest mode counts, and the most impatient
//! way to wait: NOWAIT before SKIP LOCKED before waiting.

use std::fmt;
use std::sync::Arc;

use coeval_sql_syntax::tree::{self, LockStrength};
use coeval_txn::{LockWait, RowLock};
use smol_str::SmolStr;

use super::from::{FromKind, FromNode, JoinKind};
use super::node::{Lock, LockTarget, Node};
use crate::access::Privileges;
use crate::catalog::Table;
use crate::expression::{Binder, Expression, fold_name};
use crate::plan::RowReader;
use crate::system::SystemTable;
use crate::{Error, Result, SqlState};

/// What a locking clause asks for.
#[derive(Clone, Copy)]
struct Wanted {
    mode: RowLock,
    wait: LockWait,
}

impl Wanted {
    fn of(clause: &tree::Locking) -> Self {
        Self {
            mode: match clause.strength {
                LockStrength::Update => RowLock::Update,
                LockStrength::NoKeyUpdate => RowLock::NoKeyUpdate,
                LockStrength::Share => RowLock::Share,
                LockStrength::KeyShare => RowLock::KeyShare,
            },
            wait: match clause.wait {
                tree::LockWait::Wait => LockWait::Wait,
                tree::LockWait::NoWait => LockWait::NoWait,
                tree::LockWait::SkipLocked => LockWait::Skip,
            },
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FOR {}", self.mode)
    }
}

/// The clause in the words of messages.
pub(super) fn shown(clause: &tree::Locking) -> String {
    Wanted::of(clause).to_string()
}

/// Binds the locking clauses: the tables whose rows the query locks. `collected` names a
/// clause, such as GROUP BY, after which result rows no longer correspond to table
/// rows.
pub(super) fn bind_locks(
    binder: &mut Binder<'_>,
    locks: &[tree::Locking],
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
    let refuse = |clause: Wanted, table: &SystemTable| {
        let name = format!("{}.{}", table.schema(), table.name);
        Error::unsupported(format!("{clause} of the system table {name}"))
    };
    let mut targets: Vec<LockTarget> = Vec::new();
    for clause in locks {
        let named = &clause.tables;
        let clause = Wanted::of(clause);
        if let Some(collected) = collected {
            return Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("{clause} is not allowed with {collected}"),
            ));
        }
        if named.is_empty() {
            if let Some((table, _)) = system.first() {
                return Err(refuse(clause, table));
            }
            for (table, _, offset) in &tables {
                add_target(&mut targets, table, *offset, clause);
            }
        }
        for path in named {
            let [wanted] = path.0.as_slice() else {
                let message = format!("{clause} must specify unqualified relation names");
                return Err(Error::syntax(message).at(binder.position(path.at())));
            };
            let name = fold_name(wanted);
            if let Some((table, _)) = system.iter().find(|(_, alias)| *alias == name) {
                return Err(refuse(clause, table).at(binder.position(wanted.at)));
            }
            let mut found = false;
            for (table, _, offset) in tables.iter().filter(|(_, alias, _)| *alias == name) {
                add_target(&mut targets, table, *offset, clause);
                found = true;
            }
            if !found {
                return Err(Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("relation \"{name}\" in {clause} clause not found in FROM clause"),
                )
                .at(binder.position(wanted.at)));
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
        FromKind::Nothing | FromKind::Function(_) => Ok(()),
    }
}

/// Adds a table to those that are locked, or what the clause wants to the table's entry.
fn add_target(targets: &mut Vec<LockTarget>, table: &Arc<Table>, offset: usize, clause: Wanted) {
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
