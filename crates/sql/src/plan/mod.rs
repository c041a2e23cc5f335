//! Access paths: how a statement finds a table's rows through its indexes.
//!
//! The planner turns conditions of a WHERE clause that compare an index's columns with
//! values known in advance into an access path through that index. The other conditions
//! remain as a filter.
//!
//! ```text
//!   table t, primary key (a, b)
//!
//!   where a = $1 and b = 2             the one row with key ($1, 2)
//!   where a = $1 and b > 5 and c = 1   keys from ($1, 5) on that begin with $1;
//!                                      filter c = 1
//!   where a = $1 and b in (2, 3)    the two rows with those keys
//!   where c = 1                        the whole table; filter c = 1
//! ```
//!
//! The choice needs no statistics: a path to one row is best; otherwise the index with
//! the most fixed columns, preferably with a range on the next one. It depends only on
//! the statement and the catalog, so the planner makes it once for a prepared
//! statement; each execution computes only the keys.
//!
//! - [`access_path`]: access path selection.
//! - [`bounds`]: an access path's keys in one execution.
//! - [`row`]: decoding of a stored row to values.
//!
//! Invariant: path and filter together return exactly those rows for which all
//! conditions are true.

pub mod access_path;
pub mod bounds;
mod describe;
pub mod row;

pub use access_path::{Access, List, Path, RangeLimit};
pub use bounds::{KeyRange, Keys};
pub use row::RowReader;
