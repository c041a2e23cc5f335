//! The serial engine, the oracle of the tests: it runs transactions one at a time.
//!
//! Every other protocol claims that its transactions behave *as if* executed one after
//! another. This engine does that literally: [`poll_begin`](crate::Engine::poll_begin)
//! waits until the previous transaction has ended, so no transactions are concurrent, no
//! call waits for a lock and no commit fails. This engine's results are correct by
//! inspection, and tests compare the other engines with it.
//!
//! ```text
//!  session a   begin ── get x = 1 ── update x = 2 ── commit
//!  session b         begin …waits………………………………………………begin ── get x = 2 ── commit
//! ```
//!
//! A session's temporary tables run on it, too: only their session reaches them, and that
//! runs one transaction at a time.
//!
//! Data are in ordered maps of the standard library; a rollback or an abort walks an undo
//! log backwards. In memory only: nothing survives the process.
//!
//! Where other engines *may* be lenient, the oracle is strict, so that a caller's mistake
//! shows here first: a write without its row lock, or a schema change without its exclusive
//! table lock, fails with [`Error::Unknown`](crate::Error::Unknown).
//!
//! Invariants:
//! - Every index holds one entry for each live row, and no other entry.
//! - The undo log, walked backwards, restores the rows as of the transaction's begin.
//! - The gate is closed exactly while a transaction that has not ended exists.

mod database;
mod engine;
mod transaction;

pub use engine::Serial;
