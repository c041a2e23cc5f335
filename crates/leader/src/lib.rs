//! Several nodes that are one database: transactions of `occ`, over a log that is on the
//! disks of a majority.
//!
//! Threads and files of a cluster live here, and nothing else of it: which entry
//! is committed is for `consensus` to say, a pure function that this crate feeds; how a
//! transaction is validated is for `occ`.
//!
//! The one room is [`node`]: a node, which puts consensus, log, engine and its connections
//! to the other nodes (`coeval_peers`) together.

pub mod node;
