//! Faults on real processes: what a test does to a server from outside.
//!
//! ```text
//!   clients ──▶ Proxy ──▶ server ──▶ files
//!               delay     SIGKILL     sync fails, disk full, … (Controls)
//!               throttle  SIGSTOP     what is not synced is lost (Controls)
//!               stall     SIGCONT     bits flip (Damage)
//!               cut                   clock (Controls)
//! ```
//!
//! - [`proxy`]: a way for connections that delays, throttles, stalls one way or both,
//!   and cuts. Everything happens on loopback and needs no privileges.
//! - [`controls`]: faults inside the server's own process, at the door to disk and
//!   clock, which a debug build obeys.
//! - [`damage`]: edits of the files of a server that does not run.
//! - [`dock`]: rounds of load, fault, restart and look, for one kind of fault at a
//!   time, with the ledger judge.
//!
//! Packets cannot be lost or reordered within a connection from here: what that does to
//! one is delay, which the proxy makes. Network namespaces and firewalls need rights
//! that a test does not have everywhere; a cluster's links will go through proxies too.

pub mod controls;
pub mod damage;
pub mod dock;
pub mod proxy;
