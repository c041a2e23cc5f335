//! Memory that several threads share without locks.
//!
//! - [`sync`]: atomics, cells and threads from std, loom or shuttle, whichever
//!   the build was asked for. All lock-free code of this crate and of storage
//!   goes through it, so that what is checked is what runs.
//! - [`epoch`]: when memory that was unlinked from a shared structure may be
//!   freed.
//! - [`ring`]: the window of the log that is being written.
//! - [`padded`]: keeps what different threads write on different cache lines.
//!
//! # How it is checked
//!
//! ```text
//! cargo test -p coeval-memory
//! RUSTFLAGS="--cfg loom" cargo test -p coeval-memory --release --test loom
//! cargo +nightly miri test -p coeval-memory
//! ```
//!
//! Loom tries every interleaving and every value that the memory model lets a
//! load return, within a bound on preemptions; Miri checks that every access is
//! to memory that is alive. A build for loom uses its own target folder if
//! `CARGO_TARGET_DIR` says so, which spares rebuilding the rest.

pub mod epoch;
pub mod padded;
pub mod ring;
pub mod sync;
