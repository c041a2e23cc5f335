//! The real environment: tokio for time, tasks and network; std for files and threads.
//!
//! Only this module may call the functions that clippy's `disallowed-methods` bans
//! elsewhere.
#![allow(clippy::disallowed_methods, reason = "this is the environment itself")]

pub(crate) mod clock;
#[cfg(debug_assertions)]
mod faults;
pub(crate) mod fs;
pub(crate) mod net;
pub(crate) mod permissions;
pub(crate) mod random;
pub(crate) mod task;
