//! Shared parts of the programs that measure components of the engine: rows, clocks,
//! memory, files, and a cluster on a virtual clock.
//!
//! ```text
//!   bench/aloha-kv     ──▶ bin/aloha-kv     ──▶ coeval_epoch's nodes and its comparators
//!   bench/ems          ──▶ bin/ems          ──▶ coeval_storage's records and `comparators`
//!   bench/frs          ──▶ bin/frs          ──▶ coeval_consensus on the virtual clock of `cluster`
//!   bench/index        ──▶ bin/index        ──▶ coeval_storage's ordered index, and scc's
//!   bench/recovery     ──▶ bin/recovery     ──▶ coeval_occ's engine with a directory
//!   bench/replay       ──▶ bin/replay       ──▶ coeval_occ's tables that follow a log
//!   bench/rocc         ──▶ bin/rocc         ──▶ coeval_occ's engine under each of `validators`
//!   bench/transactions ──▶ bin/transactions ──▶ the same, one short transaction after the other
//!                            └──────▶ Output: raw CSV, charts as SVG and PNG, the printed text
//! ```
//!
//! Each program measures one component beside its rivals in one run, alternates between
//! them, and verifies their answers. Times are real time, or CPU time where other work on
//! the machine would distort the results.

mod clock;
pub mod comparators;
mod memory;
mod output;
mod rows;
pub mod table;
pub mod validators;
pub mod virtual_cluster;

/// Error of a measurement.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The median of `numbers`.
///
/// # Panics
/// If there are no numbers.
#[must_use]
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

pub use clock::{Stopwatch, process_time, processor_time};
pub use memory::resident_bytes;
pub use output::Output;
pub use rows::{Chance, row_of, tag_of};
