//! The query planner: turns a query's syntax tree into plan nodes by fixed rules.
//!
//! The planner uses no statistics and does not search. It reads tables in the order of
//! the FROM list, each by the best access path that its conditions allow, where columns
//! of earlier tables count as known; it checks a condition as soon as its columns are
//! available. An input that cannot use an index is collected once, and hashed by its
//! equality keys if it has any.
//!
//! - [`query`]: WITH, set operations, VALUES, LIMIT.
//! - [`select`]: one SELECT: its list and order; [`group`], [`lock`]: the clauses GROUP
//!   BY and FOR UPDATE.
//! - [`from`]: the join tree of the FROM list, and the scope that it defines;
//!   [`function`]: functions in it.
//! - [`join_tree`]: turns the join tree into nodes, and distributes the conditions over
//!   it.

mod explain;
mod from;
mod function;
mod group;
mod join_tree;
mod lock;
mod name;
mod node;
mod query;
mod select;

pub(crate) use explain::explain;
pub(crate) use function::{bind_set_function, is_set_function};
pub(crate) use node::{
    Aggregate, Cache, FullJoin, Join, Lock, LockTarget, Node, ProjectSet, Scan, SetFunction,
    SetKind, SetOperation, Sort,
};
pub(crate) use query::with_tables;
pub use query::{CommonTable, plan_cursor, plan_in_frame, plan_query, plan_source};
pub use select::bind_list;
