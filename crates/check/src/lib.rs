//! Judges: checkers that compare what clients observed with what the database guarantees.
//!
//! A judge knows histories and nothing else: no engine, no wire protocol, no clock. Its
//! input is the operations that clients attempted, the outcomes that they learned, and the
//! state of the database afterwards; its output is every violation in them. Every driver of
//! the database (processes, the simulator, a property test) uses the same judges.
//!
//! - [`ledger`]: transfers between accounts, each with a line in a ledger. Finds lost
//!   acknowledged transfers, invented transfers, and torn transactions.
//! - [`balance`]: the consistency condition of TPC-B, for databases that `pgbench` has
//!   used.
//! - [`history`]: the input of the other judges, and its file formats.
//! - [`transactions`]: isolation levels, by cycles in the dependency graph.
//! - [`registers`]: linearizability of each register, and Γ, the distance from it.
//! - [`gamma`]: Γ per value over time, its share and percentiles, beside pauses.
//! - [`recency`]: stale reads that miss acknowledged commits; sessions that go back in
//!   time.
//! - [`bank`]: a total that transfers must preserve.
//!
//! Each judge's tests give it incorrect histories, and check that it reports the violation.

pub mod balance;
pub mod bank;
pub mod gamma;
pub mod history;
pub mod ledger;
pub mod recency;
pub mod registers;
pub mod transactions;
