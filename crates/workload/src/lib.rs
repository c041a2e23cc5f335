//! Loads that drive a server over the wire, as its users would.
//!
//! A workload knows SQL and PostgreSQL's protocol, and nothing of what is behind
//! them: each runs as well against any other server that speaks the protocol, which
//! is how the workloads themselves are tried. What they bring back goes to the
//! judges of `coeval-check`.
//!
//! - [`server`]: a server as a process: start, wait until it answers, kill.
//! - [`crash`]: clients that remember what they were told, a kill at a random
//!   moment, a restart, and the ledger judge; again and again on one directory.
//! - [`overload`]: more clients than a server can serve.
//! - [`pgbench`]: PostgreSQL's own `pgbench`, unmodified, and whether the balances
//!   it leaves behind add up.
//! - [`soak`]: updates for a long time, a long scan inside, and what memory does.
//! - [`chance`]: numbers that a seed decides.
//!
//! The loads run on the real world of `coeval-env` inside a tokio runtime.

pub mod chance;
pub mod crash;
pub mod overload;
pub mod pgbench;
pub mod server;
pub mod soak;
mod wire;

pub use wire::{Connection, connect};
