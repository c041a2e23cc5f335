//! Loads that drive an engine or a server, as their users would.
//!
//! Two families live here. **Workloads under one driver** are what measurements,
//! simulations and long runs are made of: each runs over the transaction contract in this
//! process and over the wire, without knowing which.
//!
//! - [`workload`]: what a load is: tables, rows, transactions, a check at the end.
//! - [`loads`]: YCSB, hybrid YCSB, bank, list-append, rw-register, SmallBank, TPC-C.
//! - [`store`]: what they work on, an engine or a server.
//! - [`driver`]: clients in closed or open loop, latencies, reports, histories.
//! - [`distribution`]: which keys are met how often.
//! - [`plot`]: charts of what came of it.
//!
//! **Loads of a purpose** drive a server over the wire, as a process that is started and
//! killed, and know nothing of what is behind it: they run as well against any other
//! server that speaks the protocol, which is how they themselves are tried.
//!
//! - [`server`]: a server as a process: start, wait until it answers, kill.
//! - [`crash`]: clients that remember what they were told, a kill at a random
//!   moment, a restart, and the ledger judge; again and again on one directory.
//! - [`faults`]: the same with every other kind of fault that can be made from outside.
//! - [`overload`]: more clients than a server can serve.
//! - [`pgbench`]: PostgreSQL's own `pgbench`, unmodified, and whether the balances
//!   it leaves behind add up.
//! - [`soak`]: updates for a long time, a long scan inside, and what memory does.
//!
//! What either bring back goes to the judges of `coeval-check`. [`chance`] has the numbers
//! that a seed decides. They run in the world of `coeval-env`, inside a tokio runtime.

pub mod chance;
pub mod crash;
pub mod distribution;
pub mod driver;
pub mod faults;
pub mod loads;
pub mod overload;
pub mod pgbench;
pub mod plot;
pub mod server;
pub mod soak;
pub mod store;
mod wire;
pub mod workload;

pub use wire::{Connection, connect, connect_to};
