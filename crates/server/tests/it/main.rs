//! Whole servers, real sockets, real clients.
//!
//! - `crash`, `pgbench`, `readme`: the binary as its users drive it, killed on the way.

mod crash;
mod pgbench;
mod readme;
