//! Several nodes that are one database: transactions of `occ`, over a log that is on the
//! disks of a majority.
//!
//! Threads, sockets and files of a cluster live here, and nothing else of it: which entry
//! is committed is for `consensus` to say, a pure function that this crate feeds; how a
//! transaction is validated is for `occ`.
//!
//! The rooms:
//!
//! - [`peers`]: connections between the members of a cluster, who may come in, and what
//!   becomes of what one of them sends faster than another takes.
//! - [`node`]: a node, which puts consensus, log, engine and connections together.

pub mod node;
pub mod peers;
