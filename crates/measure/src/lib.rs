//! What programs that measure parts of an engine have in common: rows, clocks, memory,
//! files, and a cluster on a virtual clock.
//!
//! ```text
//!   bench/ems      ──▶ bin/ems      ──▶ coeval_storage's records and their comparators
//!   bench/frs      ──▶ bin/frs      ──▶ coeval_consensus on the virtual clock of `cluster`
//!   bench/index    ──▶ bin/index    ──▶ coeval_storage's ordered index, and scc's
//!   bench/recovery ──▶ bin/recovery ──▶ coeval_occ's engine with a directory
//!   bench/rocc     ──▶ bin/rocc     ──▶ the same under each of its validators
//!                        └──────▶ Output: raw CSV, charts as SVG and PNG, what it says as text
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

pub use clock::{Stopwatch, process_time, processor_time};
pub use memory::resident_bytes;
pub use output::Output;
pub use rows::{Chance, row_of, tag_of};
