//! The binder of FOR UPDATE and FOR SHARE.

use std::collections::BTreeSet;
use std::sync::Arc;

use coeval_txn::LockWait;
use sqlparser::ast::{LockClause, NonBlock, Spanned};

use super::from::{FromKind, FromNode, JoinKind};
use super::node::{Lock, LockTarget, Node};
use crate::access::Privileges;
use crate::catalog::Table;
use crate::expression::{Binder, Expression, fold_name};
use crate::plan::RowReader;
use crate::{Error, Result, SqlState};

/// Binds the locking clause: the tables whose rows the query locks. `collected` names a
/// clause, such as GROUP BY, after which result rows no longer correspond to table
/// rows.
pub(super) fn bind_locks(
    binder: &mut Binder<'_>,
    locks: &[LockClause],
    tree: Option<&FromNode>,
    conditions: &[Expression],
    collected: Option<&str>,
) -> Result<Option<Lock>> {
    let [clause, rest @ ..] = locks else {
        return Ok(None);
    };
    if !rest.is_empty() {
        return Err(Error::unsupported("more than one FOR UPDATE or FOR SHARE"));
    }
    if let Some(collected) = collected {
        return Err(Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("FOR {} is not allowed with {collected}", clause.lock_type),
        ));
    }
    let wait = match clause.nonblock {
        None => LockWait::Wait,
        Some(NonBlock::Nowait) => LockWait::NoWait,
        Some(NonBlock::SkipLocked) => LockWait::Skip,
    };
    let wanted = match &clause.of {
        None => None,
        Some(name) => name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .map(fold_name),
    };
    let mut targets = Vec::new();
    let mut names = BTreeSet::new();
    if let Some(tree) = tree {
        collect_targets(tree, wanted.as_deref(), wait, &mut targets, &mut names)?;
    }
    if let Some(wanted) = wanted
        && !names.contains(&wanted)
    {
        return Err(Error::new(
            SqlState::UNDEFINED_TABLE,
            format!(
                "relation \"{wanted}\" in FOR {} clause not found in FROM clause",
                clause.lock_type
            ),
        )
        .at(clause
            .of
            .as_ref()
            .and_then(|name| binder.position(name.span()))));
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

fn collect_targets(
    node: &FromNode,
    wanted: Option<&str>,
    wait: LockWait,
    targets: &mut Vec<LockTarget>,
    names: &mut BTreeSet<String>,
) -> Result<()> {
    match &node.kind {
        FromKind::Table(table, alias) => {
            names.insert(alias.to_string());
            if wanted.is_none_or(|wanted| wanted == alias) {
                targets.push(target(table, node.start, wait));
            }
            Ok(())
        }
        FromKind::Join(_, sides, _) => {
            for side in &**sides {
                collect_targets(side, wanted, wait, targets, names)?;
            }
            Ok(())
        }
        FromKind::Derived(..) => Err(Error::unsupported("FOR UPDATE of a subquery in FROM")),
        FromKind::System(_) | FromKind::Function(_) => Ok(()),
    }
}

fn target(table: &Arc<Table>, offset: usize, wait: LockWait) -> LockTarget {
    LockTarget {
        table: Arc::clone(table),
        offset,
        record: offset + table.columns.len(),
        reader: RowReader::new(table),
        wait,
    }
}
