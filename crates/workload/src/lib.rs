//! Workload generators that drive an engine in this process or a server over the wire, as
//! its users would.
//!
//! The crate holds two families. **Workloads under one driver** serve measurements,
//! simulations and long runs: each runs through the transaction contract in this process
//! and over the wire, without knowing which.
//!
//! - [`workload`]: the definition of a workload: tables, initial rows, transactions, a
//!   final check.
//! - [`loads`]: the workloads YCSB, hybrid YCSB, bank, list-append, rw-register,
//!   SmallBank, TPC-C.
//! - [`store`]: the database under load, an engine or a server.
//! - [`driver`]: clients in a closed or open loop, latencies, reports, histories.
//! - [`distribution`]: how often each key is accessed.
//! - [`plot`]: charts of the results.
//!
//! **Special-purpose loads** drive a server over the wire, as a process that is started
//! and killed, and depend on nothing else of it: they run as well against any other
//! server that speaks the protocol, which is how they are tested themselves.
//!
//! - [`server`]: a server as a child process: start, wait until it answers, kill.
//! - [`crash`]: clients that record every acknowledgement, a kill at a random moment, a
//!   restart, and the ledger judge, repeated on one data directory.
//! - [`faults`]: the same with every other kind of fault that can be caused from
//!   outside.
//! - [`cluster`]: the nodes of a cluster as processes, and what each of them counts.
//! - [`freshness`]: pairs of a write and a read on different nodes, and stale reads.
//! - [`isolation`]: PostgreSQL's isolation specs, on a server and on a PostgreSQL.
//! - [`overload`]: a test with more clients than a server can serve.
//! - [`pipelines`]: a raw client that knows what each of its requests is owed.
//! - [`pgbench`]: PostgreSQL's own `pgbench`, unmodified, and a check that its balances
//!   add up.
//! - [`reports`]: long reads on a follower beside writers and definitions, and how its memory
//!   use develops.
//! - [`soak`]: updates for a long time beside a long scan, and how the server's memory
//!   use develops.
//! - [`stops`]: stops of a follower under `any` reads, and how old their answers are.
//!
//! [`build`] refuses to measure a binary whose build profile is not `dist`. The histories
//! that both families record are passed to the judges of `coeval-check`. [`chance`] is the
//! seeded random number generator. All of them use the environment of `coeval-env`, inside
//! a tokio runtime.

pub mod build;
pub mod chance;
pub mod cluster;
pub mod crash;
pub mod distribution;
pub mod driver;
pub mod faults;
pub mod freshness;
pub mod hostile;
pub mod isolation;
pub mod loads;
pub mod overload;
pub mod pgbench;
pub mod pipelines;
pub mod plot;
pub mod reports;
pub mod server;
pub mod soak;
pub mod stops;
pub mod store;
mod wire;
pub mod workload;

pub use wire::{Connection, connect, connect_to};
