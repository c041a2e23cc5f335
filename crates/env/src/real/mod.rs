//! The real world: tokio for time, tasks and network; std for files and threads.
//!
//! The one place that may call what clippy's `disallowed-methods` bans elsewhere.
#![allow(clippy::disallowed_methods, reason = "this is the door itself")]

pub(crate) mod chance;
pub(crate) mod clock;
#[cfg(debug_assertions)]
mod faults;
pub(crate) mod fs;
pub(crate) mod net;
pub(crate) mod task;
