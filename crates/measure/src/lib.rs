//! What programs that measure parts of an engine have in common: rows, clocks, memory,
//! files, and a cluster on a virtual clock.
//!
//! ```text
//!   bench/ems          ──▶ bin/ems          ──▶ coeval_storage's records and their comparators
//!   bench/frs          ──▶ bin/frs          ──▶ coeval_consensus on the virtual clock of `cluster`
//!   bench/index        ──▶ bin/index        ──▶ coeval_storage's ordered index, and scc's
//!   bench/recovery     ──▶ bin/recovery     ──▶ coeval_occ's engine with a directory
//!   bench/replay       ──▶ bin/replay       ──▶ coeval_occ's tables that follow a log
//!   bench/rocc         ──▶ bin/rocc         ──▶ coeval_occ's engine under each of its validators
//!   bench/transactions ──▶ bin/transactions ──▶ the same, one short transaction after the other
//!                            └──────▶ Output: raw CSV, charts as SVG and PNG, what it says as text
//! ```
//!
//! A program here measures one thing beside its rivals in one run, takes turns with them,
//! and checks what they answer. Times are of the clock, and of the processor where other
//! work on the machine would blur them.

mod clock;
pub mod cluster;
mod memory;
mod output;
mod rows;
pub mod table;

/// Why there is no result.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The one in the middle.
///
/// # Panics
/// When there is none.
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
