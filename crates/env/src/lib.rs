//! The only door to clock, chance, network, disk and threads.
//!
//! Everything whose answer depends on the world outside the process goes through
//! the free functions of this crate. They find the world they speak for in the
//! running task: the real one (tokio and std), or, with the feature `sim`, a
//! simulated one in which a seed decides everything and a machine can lose its
//! power between any two writes to its disk. Code above this crate is the same in
//! both and does not know which it is in:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::time::Duration;
//!
//! let started = coeval_env::now();
//! let task = coeval_env::spawn("worker", async {
//!     coeval_env::sleep(Duration::from_millis(1)).await;
//!     7
//! });
//! assert_eq!(task.await.unwrap(), 7);
//! assert!(started.elapsed() >= Duration::from_millis(1));
//! # });
//! ```
//!
//! # Rules
//!
//! - Whatever waits is async. Between two awaits a task runs as one step, which in
//!   simulation nothing interrupts; code may spin only where another core makes
//!   the progress it spins for.
//! - `select!` is written `biased`, and hash maps have fixed hashers: neither may
//!   draw chance behind this crate's back. clippy's `disallowed-methods` names the
//!   other side doors and what to use instead.
//! - In the simulated world a call from outside every task panics, because it
//!   belongs to no machine. In the real world any thread may call.
//! - Sleeping, spawning and the network need a tokio runtime around the caller.
//!   Clock, chance, files and dedicated threads do not.
//! - File calls of the real world block the thread they run on ([`fs`]): whoever
//!   does more than a little with files does so from a dedicated thread.

mod chance;
mod clock;
pub mod fs;
mod net;
mod real;
#[cfg(feature = "sim")]
pub mod sim;
mod task;
mod world;

pub use chance::{random_bytes, random_u64};
pub use clock::{
    Elapsed, Instant, Work, coarse_milliseconds, now, sleep, sleep_until, spend, timeout,
    wall_clock, work,
};
pub use net::{Listener, ReadHalf, Stream, WriteHalf, connect, listen};
pub use task::{
    JoinError, JoinHandle, block_in_place, give_way, scatter, spawn, spawn_dedicated,
    spawn_executor, yield_now,
};
