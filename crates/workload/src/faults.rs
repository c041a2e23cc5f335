//! Fault injection on real server processes: faults that a test causes from outside.
//!
//! ```text
//!   clients ──▶ Proxy ──▶ server ──▶ files
//!               delay     SIGKILL     sync fails, disk full, … (Controls)
//!               throttle  SIGSTOP     what is not synced is lost (Controls)
//!               stall     SIGCONT     bits flip (Damage)
//!               cut                   clock (Controls)
//! ```
//!
//! - [`proxy`]: a TCP proxy that delays, throttles, stalls in one direction or both,
//!   and cuts connections. Everything happens on loopback and needs no privileges.
//! - [`namespace`]: a network namespace for the server, whose firewall drops packets,
//!   where the machine and the user's privileges allow it.
//! - [`controls`]: faults inside the server's own process, in the environment's disk
//!   and clock, which a debug build of the server obeys.
//! - [`corruption`]: edits of every kind of file of a stopped server, and how the
//!   server's next start handles them.
//! - [`harness`]: the fault harness: clients under load, repeated faults, and the judges,
//!   for one workload, isolation level and kind of fault at a time.
//!
//! TCP keeps the bytes of one connection in order, however packets are reordered. To a
//! server, reordered packets therefore look like bytes of one connection that overtake
//! those of another; the proxy's jitter causes the same.

pub mod controls;
pub mod corruption;
pub mod harness;
pub mod namespace;
pub mod proxy;
