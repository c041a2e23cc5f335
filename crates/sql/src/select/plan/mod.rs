//! Planning: a query's syntax tree becomes nodes.
//!
//! There are no statistics and no search. Tables are read in the order of the FROM
//! list; each by the path that its conditions allow, the columns of the tables
//! before it counting as known; conditions are checked as soon as their columns
//! are there. What cannot use an index is collected once, and found by equal keys
//! where there are some.
//!
//! - [`query`]: WITH, set operations, VALUES, LIMIT.
//! - [`select`]: one SELECT: its list and order; [`group`], [`lock`]: the clauses
//!   GROUP BY and FOR UPDATE.
//! - [`from`]: the FROM list as a tree of joins, and which names it makes;
//!   [`function`]: functions in it.
//! - [`access`]: that tree as nodes, with its conditions spread over it.

mod access;
mod explain;
mod from;
mod function;
mod group;
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
pub use query::{CommonTable, plan_in_frame, plan_query, plan_source};
pub use select::bind_list;
