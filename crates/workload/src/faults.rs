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
//! - [`namespace`]: a network namespace for the server, whose firewall loses packets,
//!   where this machine and our rights have them.
//! - [`controls`]: faults inside the server's own process, at the door to disk and
//!   clock, which a debug build obeys.
//! - [`corruption`]: edits of every kind of file of a server that does not run, and what
//!   a start makes of them.
//! - [`dock`]: clients at work, a fault again and again, and the judges: for a workload,
//!   an isolation level and a kind of fault at a time.
//!
//! Within a connection bytes keep their order, whatever packets do: that is what TCP is
//! for. So what packets in the wrong order do to a server is that one connection's
//! bytes overtake another's, which the proxy's jitter makes.

pub mod controls;
pub mod corruption;
pub mod dock;
pub mod namespace;
pub mod proxy;
