//! Shared-memory primitives: lock-free structures, memory reclamation and memory
//! accounting.
//!
//! - [`sync`]: atomics, cells and threads from std, loom or shuttle, depending on the
//!   build. All lock-free code of this crate and of storage uses it, so that the checkers
//!   run the production code.
//! - [`epoch`]: epoch-based reclamation of memory unlinked from a shared structure.
//! - [`heap`]: accounting of the memory that the process has allocated.
//! - [`allocator`]: the server's global allocator.
//! - [`ring`]: the append ring, the in-memory window of the log being written.
//! - [`counters`]: sharded statistics counters.
//! - [`padded`]: keeps data written by different threads on different cache lines.
//! - [`prefetch`](mod@prefetch): prefetching of cache lines.
//! - [`tally`]: counts a thread's allocations, for tests that bound them.
//!
//! # Model checking
//!
//! ```text
//! cargo test -p coeval-memory
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p coeval-memory --tests
//! RUSTFLAGS="--cfg shuttle" cargo test --target-dir target/shuttle -p coeval-memory --tests
//! MIRIFLAGS=-Zmiri-strict-provenance cargo +nightly miri test -p coeval-memory --lib
//! ```
//!
//! Loom tries every interleaving with at most two preemptions (more if
//! `LOOM_MAX_PREEMPTIONS` is set) and every value that the memory model lets a load return;
//! shuttle tries random interleavings; Miri checks that every access is to live memory.
//! Under the first two, tests inject faults into the code and expect the checker to find
//! them.

pub mod allocator;
pub mod counters;
pub mod epoch;
pub mod heap;
pub mod padded;
pub mod prefetch;
pub mod ring;
pub mod sync;
pub mod tally;
