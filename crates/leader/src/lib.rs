//! Replication: several nodes that are one database. Transactions of `occ` run over a log
//! that is on the disks of a majority.
//!
//! This crate owns the threads and files of a cluster node, and nothing else: which entry
//! is committed is decided by `consensus`, a pure function that this crate feeds; how a
//! transaction is validated is decided by `occ`.
//!
//! - [`node`]: a node, which assembles consensus, log, engine and the connections to the
//!   other nodes (`coeval_peers`).
//! - [`recovery`]: a cluster whose majority is lost for ever.

pub mod node;
pub mod recovery;
