//! The oracle: transactions that really do run one at a time.
//!
//! Every other protocol claims that its transactions behave *as if* they had run
//! one after another. Here they do: [`poll_begin`](crate::Engine::poll_begin)
//! waits until the transaction before has ended, so nothing is ever concurrent,
//! no lock is ever waited for and no commit ever fails. What this engine answers
//! is right by inspection, and the others are compared with it.
//!
//! ```text
//!  session a   begin ── get x = 1 ── update x = 2 ── commit
//!  session b         begin …waits………………………………………………begin ── get x = 2 ── commit
//! ```
//!
//! Data are ordered maps from the standard library; a savepoint or an abort walks
//! an undo log backwards. Memory only: nothing survives the process.
//!
//! Where others *may* be lenient, the oracle is strict, so that a caller's mistake
//! shows here first: a write without its row lock, or a change of a schema without
//! its exclusive table lock, is [`Error::Unknown`](crate::Error::Unknown).
//!
//! Invariants:
//! - Every index holds one entry for each live row, and no other entry.
//! - The undo log, walked backwards, turns the present rows into those of the
//!   moment the transaction began.
//! - The gate is closed exactly while a transaction that has not ended exists.

mod database;
mod engine;
mod transaction;

pub use engine::Serial;
