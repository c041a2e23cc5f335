//! Sequences: numbers that are handed out once each, outside of transactions.
//!
//! A sequence is an object of the catalog, which says how it counts; how far it has counted
//! is not. A transaction that takes a number and rolls back leaves a gap, so that others need
//! not wait for it. That takes two parts, as in PostgreSQL, which writes 32 numbers ahead to
//! its log:
//!
//! ```text
//!   catalog row          s: state 7, from 1 by 1           versioned, transactional
//!   row of state 7       33                                a transaction of its own
//!   memory of the leader 4 is the last, 29 are reserved    handed out under a mutex
//!
//!     nextval ── are numbers reserved? ──yes──────────────────────▶ 5
//!                     │ no
//!                     └─ begin, write 66, commit: installed ──────▶ 34
//! ```
//!
//! **No number comes twice**, whichever node is killed when. The row of a state holds a number that
//! is not before any that was handed out: the leader writes it first, in a short transaction
//! of its own, and hands out numbers up to it once that is installed. Commits are durable in
//! the order of their timestamps, and timestamps follow the order of reservations. So
//!
//! - a commit that contains a number comes behind the commit of the row that covers it: what
//!   survives a kill or a failover with the number survives with the row;
//! - an answer with a number that no commit contains (`SELECT nextval('s')`) depends on the
//!   row's commit, also if another session has made it: it leaves once that is durable;
//! - the leader that starts next begins behind the row's number. A leader that was deposed
//!   and does not know yet hands out numbers only up to a row that the next leader has too,
//!   or its answers depend on a commit that never gets durable.
//!
//! What is lost is what was reserved and not handed out: 32 numbers at most, and those that
//! sessions have cached.
//!
//! **A change of a sequence** (ALTER SEQUENCE, TRUNCATE … RESTART IDENTITY) that sets it back
//! or makes it count otherwise gives it a new state, as PostgreSQL gives it a new file: the
//! catalog row names it with the number that it begins with, so that a rollback returns to
//! the old state, and others see the new one with the commit. Each sequence has a storage
//! that has no rows and is there for its table lock: a transaction that takes numbers holds it ROW
//! EXCLUSIVE to the end of the transaction, and a change waits for that, so that no session takes
//! numbers of the old state which the new one will hand out again.
//!
//! `setval` writes the row as a reservation does, and is no part of its transaction.
//!
//! - [`number`]: the arithmetic.
//! - [`store`]: the rows of states.
//! - [`registry`]: the states that the leader has in memory.
//! - [`session`]: what a session knows of sequences: `currval`, and numbers it has cached.
//! - [`text`]: sequences in expressions that the catalog keeps.

mod number;
mod registry;
mod session;
mod store;
mod text;

pub(crate) use number::{Counting, Progress, Settled};
pub(crate) use registry::{Sequences, State};
pub(crate) use session::{SessionSequences, Used};
pub(crate) use store::{SEQUENCE_STORAGE, clean, definition, delete};
pub(crate) use text::{named_sequences, with_names, with_numbers};
