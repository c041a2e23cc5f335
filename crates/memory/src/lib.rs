//! Memory that several threads share without locks.
//!
//! - [`sync`]: atomics, cells and threads from std, loom or shuttle, whichever
//!   the build was asked for. All lock-free code of this crate and of storage
//!   goes through it, so that what is checked is what runs.
//! - [`epoch`]: when memory that was unlinked from a shared structure may be
//!   freed.
//! - [`heap`]: how much memory the process has taken.
//! - [`allocator`]: where the server's program takes it from.
//! - [`ring`]: the window of the log that is being written.
//! - [`counters`]: numbers that many threads add to.
//! - [`padded`]: keeps what different threads write on different cache lines.
//! - [`prefetch`](mod@prefetch): asks for memory before it is needed.
//! - [`tally`]: how often a thread allocates, for tests that bound it.
//!
//! # How it is checked
//!
//! ```text
//! cargo test -p coeval-memory
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p coeval-memory --tests
//! RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle -p coeval-memory --tests
//! MIRIFLAGS=-Zmiri-strict-provenance cargo +nightly miri test -p coeval-memory --lib
//! ```
//!
//! Loom tries every interleaving with at most two preemptions (more if
//! `LOOM_MAX_PREEMPTIONS` says so) and every value that the memory model lets a
//! load return; shuttle tries random interleavings; Miri checks that every access
//! is to memory that is alive. Under the first two, tests put faults back into the
//! code and expect to find them.

pub mod allocator;
pub mod counters;
pub mod epoch;
pub mod heap;
pub mod padded;
pub mod prefetch;
pub mod ring;
pub mod sync;
pub mod tally;
