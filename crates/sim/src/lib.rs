//! The deterministic simulator: runs whole databases under one seed, with workloads,
//! fault injection, and judges.
//!
//! ```text
//!            seed ──────────────┬──────────────────┬─────────────────┐
//!              ▼                ▼                  ▼                 │
//!   clients: a workload ─▶ the engine's own   ◀─ a plan of faults    │
//!              │           code, on a machine                        ▼
//!              │           of coeval_env::sim                    what disks, links
//!              ▼                                                 and clocks do
//!   their history        ─▶ judges ◀─ the final data
//! ```
//!
//! A run is identified by a [`Scenario`] (engine, access of the clients, workload,
//! isolation level, class of faults) and a seed; nothing else decides what happens, so a
//! failed run can be repeated:
//!
//! ```
//! use coeval_sim::{Options, Scenario};
//!
//! let scenario: Scenario = "occ/bank/serializable/power".parse().unwrap();
//! let options = Options::new(scenario, 7);
//! let first = coeval_sim::run(&options);
//! assert_eq!(first.objections, Vec::<String>::new(), "{}", options.command());
//! assert_eq!(coeval_sim::run(&options).trace_hash, first.trace_hash);
//! ```
//!
//! # What runs
//!
//! The engine itself, not a model of it. With `occ` or `serial` the clients run on the
//! engine's machine and use the contract of `coeval_txn`. With `server` a whole server
//! listens (sessions, SQL, engine, log), and each client has a machine of its own and
//! speaks PostgreSQL's protocol over simulated links. With `cluster` three nodes of
//! `coeval_leader` have a machine each; a client uses the engine of the leader, on the
//! leader's machine, until that node is no longer the leader, and continues on the next
//! one. With `servers` three whole servers form a cluster, and clients connect over links
//! to any of them. Clusters raise their version to the newest as real ones do, and under two
//! seeds of three followers [execute reads](Reads). A node that loses its disk is replaced as an operator would do it. The
//! properties of consensus are checked after each step of any node.
//!
//! # How a run goes
//!
//! The simulator creates the tables. Clients begin, and [faults](plan) are injected. Then
//! the faults stop, and one of two requirements is checked ([`Mode`]):
//!
//! - *safety*: the power fails once more, and the recovered data is checked;
//! - *liveness*: without any intervention, every client has to commit something within
//!   [`run::BOUND`] of virtual time, and then the data is checked.
//!
//! After that each node of a cluster is made leader in turn, and all have to show the
//! same rows. While clients work, nodes that show the same commit are compared as they follow.
//!
//! A server may refuse to start after its files were damaged, and that ends its run; in a
//! cluster, only one node's files are damaged, and the two others continue. A server must
//! not refuse after any other fault, and must never return wrong data. No task may panic,
//! and none may wait for ever.
//!
//! # Judges
//!
//! Each [workload] defines the invariants of its clients' history, and most are checked
//! by the judges of `coeval_check`: transfers by the ledger judge, histories of lists and
//! registers by those of isolation, read recency and session guarantees.
//!
//! # When a judge finds a violation
//!
//! [`shrink`] searches for a shorter run with fewer faults, and the simulator prints the
//! [command](command) that repeats it. Its arguments are added, with the reason, to the
//! regression runs (`crates/sim/seeds.txt`), which a test of this crate replays.
//!
//! # Testing the simulator itself
//!
//! The simulator injects the known bugs of `coeval_types::planted`, one at a time, and
//! each must be caught in the scenario and by the judge that [`campaign`] lists; the command
//! `planted` prints how many seeds that took. Every judge and every class of faults has
//! such a bug.
//!
//! # Throughput of a simulated machine
//!
//! By default, work takes no virtual time. With the [`costs`] that were measured on a
//! real machine it does, and [`throughput`] plots the throughput of a server with a given
//! number of cores. Campaigns use no costs.

pub mod campaign;
pub mod client_session;
mod cluster_node;
pub mod command;
pub mod costs;
#[cfg(test)]
mod matrix;
mod nemesis;
pub mod observe;
mod operator;
mod panics;
pub mod plan;
pub mod probe;
mod reads;
mod report;
pub mod run;
mod scenario;
pub mod server;
pub mod shrink;
pub mod system_under_test;
pub mod throughput;
mod watchdog;
pub mod workload;

pub use reads::Reads;
pub use report::Report;
pub use run::{Mode, Options, run};
pub use scenario::{Class, Engine, Load, Scenario};
