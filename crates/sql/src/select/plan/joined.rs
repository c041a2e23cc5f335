//! The planner of what UPDATE … FROM and DELETE … USING change: the rows of the target,
//! joined with those of a FROM list.
//!
//! The join is planned like that of a SELECT, so in any order. A projection puts the columns
//! of its rows back where the binder has numbered them: first the list's, then the
//! target's. Columns that nothing uses are null in it.

use std::sync::Arc;

use coeval_sql_syntax::tree::TableRef;

use super::from::{From, FromKind, FromNode, JoinKind, joined};
use super::join_tree::used_columns;
use super::pull_up::plan_shape;
use super::shape::Shape;
use super::simplify::{Logical, simplify};
use crate::Result;
use crate::catalog::Table;
use crate::expression::{Binder, Expression, Frame, Scope, ScopeRelation};
use crate::select::QueryPlan;

/// The names of a target and of a list, and the join of both.
pub(crate) struct JoinedTarget<'a> {
    /// The names: first the target's.
    pub(crate) scope: Scope<'a>,
    tree: FromNode,
    /// Number of columns of a joined row.
    width: usize,
    /// Position of the target's first column in a joined row.
    pub(crate) start: usize,
    /// Position of the target's record id, behind its last column.
    record: usize,
}

impl<'a> JoinedTarget<'a> {
    /// Binds the list, which does not see the target, and the target: `relation` gives its
    /// names over a row of the table that begins at a position.
    pub(crate) fn bind(
        binder: &mut Binder<'_>,
        table: &Arc<Table>,
        relation: impl FnOnce(usize) -> ScopeRelation,
        list: &[TableRef],
        frame: &'a Frame<'a>,
    ) -> Result<Self> {
        let mut from = From::new(binder, frame, true);
        let left = from.list(list)?;
        let start = from.width;
        let right = target(&mut from, table, relation(start))?;
        // The names of the target stand first wherever names are listed.
        if let Some(last) = from.scope.relations.pop() {
            from.scope.relations.insert(0, last);
        }
        let tree = match left {
            None => right,
            Some(left) => joined(JoinKind::Inner, left, right, Vec::new()),
        };
        Ok(Self {
            scope: from.scope,
            tree,
            width: from.width,
            start,
            record: start + table.columns.len(),
        })
    }

    /// The plan of the joined rows for which the condition is true, with the columns that
    /// it and the other expressions use.
    pub(crate) fn plan<'b>(
        self,
        binder: &mut Binder<'_>,
        condition: Option<&Expression>,
        others: impl IntoIterator<Item = &'b Expression>,
    ) -> Result<QueryPlan> {
        let mut used = used_columns(others);
        used.extend(used_columns(condition));
        used.insert(self.record);
        let column = |position: usize| match used.contains(&position) {
            true => Expression::Column(position),
            false => Expression::NULL,
        };
        let mut shape = Shape {
            tree: Some(self.tree),
            width: self.width,
            conditions: condition.map_or_else(Vec::new, |each| each.clone().conjuncts()),
            outputs: (0..self.width).map(column).collect(),
            grouped: None,
            distinct: false,
            ordered: false,
            levels: 1,
        };
        let mut rows: Vec<&mut Expression> = shape.outputs.iter_mut().collect();
        let mut logical = Logical {
            tree: &mut shape.tree,
            width: &mut shape.width,
            conditions: &mut shape.conditions,
            grouping: &mut shape.grouped,
            rows: &mut rows,
        };
        simplify(binder, &mut logical)?;
        plan_shape(binder, shape)
    }
}

/// Adds the target to the names. It needs no privilege for itself, but for its columns.
fn target(
    from: &mut From<'_, '_, '_>,
    table: &Arc<Table>,
    relation: ScopeRelation,
) -> Result<FromNode> {
    let width = table.columns.len() + 1;
    let record = from.width + table.columns.len();
    let shown = relation.name.clone();
    from.add(relation.name, relation.schema, relation.columns, None)?;
    if let Some(oid) = relation.table {
        from.is_table(oid, Some(record));
    }
    Ok(from.place(FromKind::Table(Arc::clone(table), shown), width))
}
