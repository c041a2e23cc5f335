//! Whole databases under one seed: workloads, faults, judges.
//!
//! ```text
//!            seed ──────────────┬──────────────────┬─────────────────┐
//!              ▼                ▼                  ▼                 │
//!   clients: a workload ─▶ the engine's own   ◀─ a plan of faults    │
//!              │           code, on a machine                        ▼
//!              │           of coeval_env::sim                    what disks, links
//!              ▼                                                 and clocks do
//!   what they were told ─▶ judges ◀─ what is there in the end
//! ```
//!
//! A run is named by a [`Scenario`] (engine, how clients reach it, workload, isolation
//! level, class of faults) and a seed; nothing else decides what happens, so a run that
//! fails can be had again:
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
//! The engine itself, not a model of it. As `occ` or `serial` the clients live on the
//! engine's machine and use the contract of `coeval_txn`; as `server` a whole server
//! listens (sessions, SQL, engine, log), and each client has a machine of its own and
//! speaks PostgreSQL's protocol over simulated links. As `cluster` three nodes of
//! `coeval_leader` have a machine each; a client uses the engine of a node that leads, on
//! that node's machine, until it does not lead any more, and goes on where another does. As
//! `servers` three whole servers are a cluster, and clients come over links to any of them. A
//! node that loses its disk is replaced as an operator would do it.
//! The properties of consensus are looked at after each step of any of them.
//!
//! # How a run goes
//!
//! The tables are made. Clients begin, and [faults](plan) happen to them. Then the
//! faults stop, and one of two things is asked for ([`Mode`]):
//!
//! - *safety*: the power fails once more, and what comes back is looked at;
//! - *liveness*: nothing else is done. Every client has to get something committed
//!   within [`run::BOUND`] of virtual time, and then the database is looked at.
//!
//! After that each node of a cluster is handed the lead in turn, and all have to show the same
//! rows.
//!
//! A server may refuse to start after its files were damaged, and that is the end of
//! that run; of a cluster, one node's files are damaged, and the two others go on. It may
//! not do so after anything else, and never serves what is wrong. No task may panic, and
//! none may wait for ever.
//!
//! # What judges
//!
//! Each [workload] knows what must hold of what its clients were told, and most of it is
//! for the judges of `coeval_check` to say: transfers go to the ledger judge, histories
//! of lists and registers to those of isolation, recency and sessions.
//!
//! # When something is found
//!
//! [`shrink`] looks for a shorter run and fewer faults, and the [command](command) that
//! replays it is printed. Its arguments go, with their reason, to the runs that are kept
//! (`crates/sim/seeds.txt`), which a test of this crate replays.
//!
//! # Whether anything would be found
//!
//! Bugs of `coeval_types::planted` are put back, one at a time, and have to be caught
//! in the scenario and by the judge that [`court`] names; the command `planted` prints
//! how many seeds that took. No judge and no class of faults is without such a bug.
//!
//! # How much a machine would do
//!
//! In those runs work takes no time. With [`costs`] that were measured on a real machine it
//! does, and [`throughput`] draws what a server of so many cores would do. The court's runs
//! choose none.

mod cluster;
pub mod command;
pub mod costs;
pub mod court;
pub mod dock;
mod nemesis;
mod operator;
mod panics;
pub mod plan;
pub mod probe;
mod report;
pub mod run;
mod scenario;
pub mod server;
pub mod session;
pub mod shrink;
pub mod throughput;
mod watchdog;
pub mod workload;

pub use report::Report;
pub use run::{Mode, Options, run};
pub use scenario::{Class, Engine, Load, Scenario};
