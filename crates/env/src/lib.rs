//! The environment abstraction: the only access to clocks, randomness, network, disk and
//! threads, with a real and a simulated implementation.
//!
//! Every call whose result depends on the world outside the process is a free function of this
//! crate. The function finds its environment in the running task: the real one (tokio and std),
//! or, with the feature `sim`, a simulated one in which a seed decides every result and a
//! machine can lose its power between any two writes to its disk. Code above this crate is the
//! same in both, and does not know in which it runs:
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
//! - Every function that waits is async. Between two awaits a task runs as one step, which a
//!   simulation never interrupts; code may spin only where another core makes the progress it
//!   waits for.
//! - `select!` is written `biased`, and hash maps have fixed hashers: neither may use
//!   randomness that this crate does not control. clippy's `disallowed-methods` names other
//!   functions that bypass this crate, and their replacements.
//! - In a simulated world a call from outside every task panics, because it belongs to no
//!   machine. In the real environment any thread may call.
//! - Sleeping, spawning and the network need a tokio runtime around the caller. Clocks,
//!   randomness, files and dedicated threads do not.
//! - File calls of the real environment block the thread they run on ([`fs`]): code that uses
//!   files heavily runs on a dedicated thread.

/// The Cargo profile that this program is built with, as its folder below `target` is
/// called: `debug`, `release`, `dist`.
pub const BUILD_PROFILE: &str = env!("COEVAL_BUILD_PROFILE");

mod clock;
pub mod fs;
mod location;
mod net;
mod random;
mod real;
#[cfg(feature = "sim")]
pub mod sim;
mod task;
mod world;

pub use clock::{
    Elapsed, Instant, Work, coarse_milliseconds, now, sleep, sleep_until, slice_is_over, spend,
    timeout, wall_clock, work,
};
pub use location::{Location, LocationError};
pub use net::{Listener, ReadHalf, Stream, WriteHalf, connect, free_port, listen, resolve};
pub use random::{random_bytes, random_u64};
pub use task::{
    JoinError, JoinHandle, block_in_place, give_way, hand_over, scatter, spawn, spawn_blocking,
    spawn_dedicated, spawn_executor, wake_after_others, yield_now,
};
