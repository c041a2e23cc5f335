//! Columns that say which version of their row is there, as registers of a history.
//!
//! ```text
//!   district (2, 7):  d_next_o_id 3001 ─▶ 3002 ─▶ 3003      loaded with 3001
//!   in a history:     read 1002000007: null, write 1002000007: 1, … 2, …
//! ```
//!
//! What a workload writes may have been there before: a balance comes back. But some
//! columns have no value twice, because they only grow, or because each write has a
//! number of its own. To a judge such a column is a register, and whoever reads or writes
//! the row by way of a session has read or written it. What the rows held when they were
//! loaded counts as never written.
//!
//! A column that grows would have the same value again after an attempt that was undone.
//! So nothing is told of what an attempt did that is known to be undone; somebody who has
//! seen it has read what nobody wrote.

use coeval_check::history::{Operation, Register};

use super::row::Cells;
use super::schema::Table;

/// A column of rows that are there from the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// Which table, by its position.
    pub table: usize,
    /// Which column; it holds numbers.
    pub column: usize,
    /// What it holds when it is loaded, and never again.
    pub first: i64,
}

/// Room that one column of a primary key has in the number of a register.
const PART: u64 = 1_000_000;
/// Room that all of them have.
const KEY: u64 = PART * PART * PART;

/// The number of a register: that of its column among all, and six digits for each
/// column of the primary key.
fn number(at: usize, table: &Table, row: &impl Cells) -> u64 {
    let parts = (0..table.key).map(|column| row.integer(column).cast_unsigned());
    let key = parts.fold(0_u64, |key, part| key.wrapping_mul(PART).wrapping_add(part));
    at as u64 * KEY + key % KEY
}

/// What a row that was read says, for a history.
pub(super) fn reads(
    versions: &[Versions],
    tables: &[Table],
    table: usize,
    row: &impl Cells,
    mut note: impl FnMut(Operation),
) {
    for (at, version) in versions.iter().enumerate() {
        if version.table == table {
            let value = row.integer(version.column) - version.first;
            note(Operation::Read {
                key: number(at, &tables[table], row),
                value: Some(match value {
                    0 => Register::Absent,
                    value => Register::Value(value),
                }),
            });
        }
    }
}

/// What a row becomes in which these columns have changed, for a history.
pub(super) fn writes(
    versions: &[Versions],
    tables: &[Table],
    table: usize,
    row: &impl Cells,
    columns: &[usize],
    mut note: impl FnMut(Operation),
) {
    for (at, version) in versions.iter().enumerate() {
        if version.table == table && columns.contains(&version.column) {
            note(Operation::Write {
                key: number(at, &tables[table], row),
                value: row.integer(version.column) - version.first,
            });
        }
    }
}
