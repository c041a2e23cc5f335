//! Queries: the planner and executor for SELECT, VALUES and set operations.
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
//! The planner ([`plan`]) makes a [`QueryPlan`], which depends on the statement and the
//! schema only and is shared by all executions. An execution is a [`Cursor`]: it pulls
//! rows through the plan's nodes one at a time. Only sorting, grouping and the inner
//! side of a join without an index collect rows, all within the statement's memory.
//!
//! **Rows grow from the left.** The FROM list gives every column a fixed position in
//! one row, in the order of the list. A node is opened over a *driving row*, the
//! columns of the relations before it, and returns that row with its own columns
//! appended. So a join is a loop: for every row of the left side it opens the right
//! side over that row, and the right side returns the joined row. An index lookup, a
//! LATERAL subquery and an ON condition find the left side's columns at their fixed
//! positions.
//!
//! **Nodes stop between rows.** Reads are synchronous, but a long execution lets other
//! tasks run: when the context's row budget is used up, a node returns
//! [`Pulled::Pause`](execute::Pulled) with its state kept, and continues at the next call.
//! A node waits for row locks in the same way.

mod execute;
#[cfg(test)]
mod join_tests;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use execute::Cursor;
pub(crate) use execute::{CommonRows, WorkingTables, forget_commons, row_bytes};
pub use plan::{CommonTable, bind_list, plan_cursor, plan_in_frame, plan_query, plan_source};

use crate::expression::{Expression, Instrument};
use crate::output::Column;
use crate::value::ColumnType;

pub(crate) use plan::{
    Beneath, Common, Described, JoinedTarget, Node, Relationship, SetFunction, SetKind, SetPlace,
    Shape, Views, beneath, bind_set_function, changes_rows, column_name, define_tables, from_scope,
    hash_subqueries, inside_view, is_set_function, named_columns, one_relation, plan_with_shape,
    quoted, with_tables,
};

/// A planned query. Immutable, and shared by all executions.
#[derive(Debug)]
pub struct QueryPlan {
    pub(crate) root: Node,
    columns: Vec<Column>,
    volatile: bool,
    looks: bool,
    /// Whether the query locks rows.
    locks_rows: bool,
    records: Vec<u32>,
}

impl QueryPlan {
    fn new(root: Node, columns: Vec<Column>) -> Self {
        let volatile = root.any_expression(&|each| each.is_volatile());
        let looks = root.any_node(&Node::looks) || root.any_expression(&|each| each.looks());
        let locks_rows = root.any_node(&|node| match node {
            Node::Lock(_) => true,
            Node::Common(common) => common.plan.locks_rows,
            _ => false,
        });
        Self {
            root,
            columns,
            volatile,
            looks,
            locks_rows,
            records: Vec::new(),
        }
    }

    /// A plan that computes one expression over the rows of another plan.
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

    /// The plan behind WITH, whose tables it reads.
    #[must_use]
    pub(crate) fn behind(self: Arc<Self>, tables: Vec<Arc<Common>>) -> Self {
        let columns = self.columns.clone();
        Self::new(plan::around(Node::Plan(self), tables, 0), columns)
    }

    /// The columns of the result.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// OIDs of the tables whose records follow the columns in each row, for a cursor.
    #[must_use]
    pub fn records(&self) -> &[u32] {
        &self.records
    }

    /// Whether two executions over equal inputs may return different rows.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// Whether the result may depend on anything in the database, including its
    /// catalog.
    #[must_use]
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// Whether the query locks rows: FOR UPDATE and its like.
    #[must_use]
    pub fn locks_rows(&self) -> bool {
        self.locks_rows
    }

    /// The plan in words; with what has been counted, if it has run.
    pub(crate) fn describe(&self, counted: Option<&Instrument>, verbose: bool) -> Described {
        plan::describe(self, counted, verbose)
    }

    /// The plan as EXPLAIN prints it without costs.
    #[cfg(test)]
    pub(crate) fn explain(&self) -> Vec<String> {
        use crate::statement::ExplainOptions;
        let options = ExplainOptions {
            costs: false,
            ..ExplainOptions::default()
        };
        self.describe(None, false).text(&options)
    }
}
