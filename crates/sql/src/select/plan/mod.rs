//! The query planner: turns a query's syntax tree into plan nodes.
//!
//! ```text
//!   bind ── simplify ── arrange ── spread
//!   names   flatten,    order of   access paths,
//!   types   pull up,    joins by   hash joins
//!           reduce      cost
//! ```
//!
//! Each SELECT is bound to a logical form: a tree of joins, and conditions over its columns.
//! Rewrites of that form depend on nothing but its meaning; the order of joins depends on
//! the number of rows of each table. At last the tree becomes nodes, and each condition is
//! checked as soon as its columns are available. An input that no index serves is collected
//! once, and hashed by its equality keys if it has any.
//!
//! - [`query`]: set operations, VALUES, LIMIT; [`with`]: common table expressions.
//! - [`select`]: one SELECT; [`output`]: its list and order; [`group`], [`window`], [`lock`]:
//!   the clauses GROUP BY, WINDOW and FOR UPDATE.
//! - [`from`]: the join tree of the FROM list, and the scope that it defines;
//!   [`resolve`]: names of relations; [`function`]: functions in it.
//! - [`shape`]: the logical form; [`simplify`], [`flatten`], [`pull_up`],
//!   [`push_down`]: its rewrites.
//! - [`estimate`]: numbers of rows; [`join_order`]: the order of joins; [`layout`]: the
//!   positions of columns in rows.
//! - [`relation`]: which relation a name stands for; [`view`]: views in FROM; [`joined`]: what
//!   UPDATE … FROM and DELETE … USING change.
//! - [`join_tree`]: turns the join tree into nodes, and distributes the conditions over
//!   it; [`explain`]: shows them.

mod estimate;
mod explain;
mod explain_text;
mod flatten;
mod from;
mod function;
mod group;
mod join_order;
mod join_tree;
mod joined;
mod json_function;
mod layout;
mod lock;
mod name;
mod node;
mod output;
mod pull_up;
mod push_down;
mod query;
mod relation;
mod select;
mod shape;
mod simplify;
mod view;
mod window;
mod with;

pub(crate) use explain::describe;
pub(crate) use explain_text::{Described, Relationship, quoted};
pub(crate) use from::from_scope;
pub(crate) use function::{SetPlace, bind_set_function, is_set_function};
pub(crate) use joined::JoinedTarget;
pub(crate) use name::column_name;
pub(crate) use node::{
    Aggregate, Cache, FullJoin, Join, Lock, LockTarget, Matching, Node, ProjectSet, Scan,
    SetFunction, SetKind, SetOperation, Sort, Window, WithTies,
};
pub use output::bind_list;
pub(crate) use pull_up::hash_subqueries;
pub(crate) use query::plan_with_shape;
pub use query::{plan_cursor, plan_in_frame, plan_query, plan_source};
pub(crate) use shape::Shape;
pub(crate) use view::{Beneath, Views, beneath, inside_view, named_columns, one_relation};
pub use with::CommonTable;
pub(crate) use with::{
    Common, Reading, Recursive, With, around, changes_rows, define as define_tables, with_tables,
};
