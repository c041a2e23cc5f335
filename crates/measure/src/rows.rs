//! Test rows that identify their record and version, and a deterministic random number
//! generator.

use coeval_storage::Value;
use coeval_types::{RowBuilder, RowRef};

/// A row with one cell of `bytes` bytes, at least 10, which contains the numbers of the
/// record and of the version.
///
/// # Panics
/// If `bytes` is less than 10.
#[must_use]
pub fn row_of(record: usize, version: u16, bytes: usize) -> Value {
    let mut cell = vec![0x5A; bytes];
    cell[..8].copy_from_slice(&(record as u64).to_le_bytes());
    cell[8..10].copy_from_slice(&version.to_le_bytes());
    let (mut builder, mut row) = (RowBuilder::new(), Vec::new());
    builder.push(Some(&cell));
    builder.finish(&mut row);
    Value::row(RowRef::trusted(&row))
}

/// The numbers of record and version in a row of [`row_of`].
///
/// # Panics
/// If the row was not made by [`row_of`].
#[must_use]
pub fn tag_of(row: RowRef<'_>) -> (usize, u16) {
    let cell = row.cell(0).expect("a row has its cell");
    let record = u64::from_le_bytes(cell[..8].try_into().expect("eight bytes"));
    let version = u16::from_le_bytes(cell[8..10].try_into().expect("two bytes"));
    (record as usize, version)
}

/// A pseudo-random number generator that yields the same numbers in every run.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A random number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // Marsaglia, "Xorshift RNGs", the generator with 13, 7 and 17; its upper half,
        // scaled without a division.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}
