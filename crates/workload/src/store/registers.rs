//! Version columns: columns that identify a row's version, recorded as registers in a
//! history.
//!
//! ```text
//!   district (2, 7):  d_next_o_id 3001 ─▶ 3002 ─▶ 3003      loaded with 3001
//!   in a history:     read 1002000007: null, write 1002000007: 1, … 2, …
//! ```
//!
//! Values that a workload writes may recur: a balance can return. But some columns never
//! have the same value twice, because they only grow, or because each write has a number
//! of its own. To a judge such a column is a register, and a session that reads or writes
//! the row has read or written the register. The initial value of a loaded row counts as
//! never written.
//!
//! A growing column would have the same value again after an aborted attempt. So the
//! writes of an aborted attempt are not recorded; a transaction that has seen one has
//! read a value that was never written.

use coeval_check::history::{Operation, Register};

use super::row::Cells;
use super::schema::Table;

/// A version column of rows that exist from the load on.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    /// Position of the table.
    pub table: usize,
    /// Position of the column, which holds numbers.
    pub column: usize,
    /// The value after the load, which never recurs.
    pub first: i64,
}

/// Range of register numbers for one column of a primary key.
const PART: u64 = 1_000_000;
/// Range of register numbers for an entire primary key.
const KEY: u64 = PART * PART * PART;

/// Register number: the version column's index, followed by six digits for each column of
/// the primary key.
fn number(at: usize, table: &Table, row: &impl Cells) -> u64 {
    let parts = (0..table.key).map(|column| row.integer(column).cast_unsigned());
    let key = parts.fold(0_u64, |key, part| key.wrapping_mul(PART).wrapping_add(part));
    at as u64 * KEY + key % KEY
}

/// Records the reads that follow from reading a row.
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

/// Records the writes that follow from writing these columns of a row.
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
