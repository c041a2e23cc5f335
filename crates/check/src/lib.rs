//! Judges: what clients were told, against what a database shows.
//!
//! A judge knows histories and nothing else: no engine, no wire, no clock. It is
//! handed what was attempted, what became of it as far as the client could tell,
//! and what was there afterwards, and it answers with everything that cannot be.
//! Whoever drives the database (processes, the simulator, a property test) uses the
//! same judge.
//!
//! - [`ledger`]: transfers between accounts, each with a line in a ledger. Finds
//!   acknowledged work that is gone, work nobody asked for, halves of transactions.
//! - [`balance`]: the invariant of TPC-B, which `pgbench` leaves behind.
//! - [`history`]: what the other judges are handed, and its files.
//! - [`transactions`]: isolation levels, by cycles in a graph of dependencies.
//! - [`registers`]: linearizability of each register, and Γ, how far from it.
//! - [`recency`]: reads that miss acknowledged commits; clients that go back in time.
//! - [`bank`]: a total that nobody may change.
//!
//! Each judge's tests show it histories that are wrong, and see it object.

pub mod balance;
pub mod bank;
pub mod history;
pub mod ledger;
pub mod recency;
pub mod registers;
pub mod transactions;
