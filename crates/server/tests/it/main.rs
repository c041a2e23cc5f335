//! Whole servers, real sockets, real clients.
//!
//! - `flows`, `copy`, `cancel`, `drivers`: what good clients do.
//! - `hostile`, `gone`: what bad and vanishing ones do. Each of these tests ends by
//!   seeing that another session of the same server goes on working.
//! - `timeouts`, `limits`, `admission`: how long things may take, how large they may
//!   be, how many there may be at once.
//! - `process`, `tools`: the binary itself, under signals, psql and pgbench.
//! - `dump`: a database as SQL, read back by Coeval and by PostgreSQL.
//! - `crash`, `pgbench`, `readme`: the binary as its users drive it, killed on the way.

mod admission;
mod cancel;
mod copy;
mod crash;
mod drivers;
mod dump;
mod flows;
mod gone;
mod hostile;
mod limits;
mod pgbench;
mod portals;
mod postgres;
mod process;
mod readme;
mod support;
mod timeouts;
mod tools;
mod wire;
