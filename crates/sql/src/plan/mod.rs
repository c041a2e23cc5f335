//! How a statement finds a table's rows.
//!
//! Of the conditions in a WHERE clause, those that compare an index's columns with
//! something known before the row is become a path through that index. The others
//! stay behind as a filter.
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
//! The choice needs no statistics: a path to one row is best; else the index with
//! the most columns fixed, one with a further range before one without. It depends
//! on nothing but the statement and the catalog, so it is made once for a prepared
//! statement; only the keys are computed for each execution.
//!
//! - [`access`]: choosing a path.
//! - [`bounds`]: the keys of a path, for one execution.
//! - [`row`]: a stored row as values.
//!
//! Invariant: path and filter together let exactly those rows through for which
//! all conditions are true.

pub mod access;
pub mod bounds;
mod describe;
pub mod row;

pub use access::{Access, List, Path, RangeLimit};
pub use bounds::{KeyRange, Keys};
pub use row::RowReader;
