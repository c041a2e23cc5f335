//! Queries: SELECT, VALUES, and what they are made of.
//!
//! ```text
//!   select b.name, count(*) from a join b on b.id = a.b where a.x > 5 group by b.name
//!
//!   Project name, count
//!    └ Aggregate by name                       plan: a tree of nodes, made once
//!       └ Join
//!          ├ Scan a        filter x > 5
//!          └ Scan b        key (a.b)           looked up for every row of a
//! ```
//!
//! Planning ([`plan`]) makes a [`QueryPlan`], which depends on the statement and
//! the schema only and is shared by all executions. Executing it is a [`Cursor`]:
//! the plan's nodes, each with its state, from which rows are pulled one at a
//! time. Nothing is collected but by sorting, grouping and the inner side of a
//! join without an index, all within the statement's memory.
//!
//! **Rows grow from the left.** The FROM list gives every column a fixed position
//! in one row, in the order of the list. A node is opened over a *driving row*, the
//! columns known before it, and produces that row with its own columns appended.
//! So a join is a loop: for every row of the left side the right side is opened
//! over that row, and what the right side produces is the joined row. An index
//! lookup, a LATERAL subquery and an ON condition find the left side's columns
//! where they always are.
//!
//! **Nodes stop between rows.** Reads are synchronous, but a long execution lets
//! others run: when the context's budget is spent a node returns
//! [`Step::Pause`](execute::Step) with its state kept, and goes on when called
//! again. The same way it waits for row locks.

mod execute;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use execute::Cursor;
pub(crate) use execute::row_bytes;
pub use plan::{CommonTable, bind_list, plan_in_frame, plan_query, plan_source};

use crate::catalog::Table;
use crate::expression::Expression;
use crate::output::Column;
use crate::value::ColumnType;

pub(crate) use plan::{Node, SetFunction, bind_set_function, is_set_function};

/// A planned query. Immutable, shared by executions.
#[derive(Debug)]
pub struct QueryPlan {
    pub(crate) root: Node,
    columns: Vec<Column>,
    volatile: bool,
    looks: bool,
    /// The tables of which rows are locked.
    locked: Vec<Arc<Table>>,
}

impl QueryPlan {
    fn new(root: Node, columns: Vec<Column>) -> Self {
        let volatile = root.any_expression(&|each| each.is_volatile());
        let looks = root.any_node(&Node::looks) || root.any_expression(&|each| each.looks());
        let mut locked = Vec::new();
        root.collect_locked(&mut locked);
        Self {
            root,
            columns,
            volatile,
            looks,
            locked,
        }
    }

    /// A plan that computes one expression over the rows of another.
    #[must_use]
    pub fn project(plan: Arc<Self>, expression: Expression) -> Self {
        Self::new(
            Node::Project {
                input: Box::new(Node::Plan(plan)),
                expressions: vec![expression],
            },
            vec![Column {
                name: "?column?".to_owned(),
                column_type: ColumnType::from(crate::DataType::Unknown),
                table_oid: 0,
                attribute: 0,
            }],
        )
    }

    /// The columns it returns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether two executions may differ though nothing they read does.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// Whether what it returns may depend on anything in the database, its catalog
    /// included.
    #[must_use]
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// Whether it locks rows: FOR UPDATE and its like.
    #[must_use]
    pub fn locks_rows(&self) -> bool {
        !self.locked.is_empty()
    }

    /// The tables of which it locks rows.
    pub(crate) fn locked_tables(&self) -> &[Arc<Table>] {
        &self.locked
    }

    /// What it will do, a line a node, as EXPLAIN shows it.
    #[must_use]
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        plan::explain(&self.root, 0, &mut lines);
        lines
    }
}
