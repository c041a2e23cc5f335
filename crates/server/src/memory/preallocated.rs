//! Preallocation: takes memory from the kernel before the database needs it (decision
//! 0033).
//!
//! The allocator reserves arenas until they have the requested size, and the kernel
//! populates that many bytes of them:
//!
//! ```text
//!   2,560 MB requested, an arena of 1 GiB exists
//!     reserve   20000000000-20040000000   1 GiB         exists
//!               20040000000-200a0000000   1.5 GiB       new
//!     populate  64 MiB at a time, from the first address to the last
//! ```
//!
//! The allocator chooses the arena that a thread allocates from; so all of them are
//! populated, up to the requested size.
//!
//! The server refuses a request that would do harm: more than three quarters of the
//! limit, because the program, the log and other parts of the arenas need the rest; and
//! more than is free, which the kernel would grant all the same, and then kill a process
//! for. Free memory is not known everywhere ([`machine`]).

use std::io;
use std::ops::Range;

use coeval_memory::allocator;
use tracing::info;

use super::occupied::arenas;
use super::{MEBIBYTE, budget, machine};
use crate::Settings;
use crate::settings::SettingsError;

/// Number of bytes populated by one call of the kernel.
const STEP: usize = 64 << 20;

/// Takes from the kernel what `memory_preallocated_megabytes` asks for. The process does
/// this once, before anything has grown.
///
/// # Errors
///
/// When the request exceeds the limit or the machine's free memory, or the kernel
/// refuses.
pub async fn preallocate(settings: &Settings) -> Result<(), SettingsError> {
    let megabytes = settings.memory_preallocated_megabytes;
    if megabytes == 0 {
        return Ok(());
    }
    let refuse = |reason| {
        Err(SettingsError::Value {
            name: "memory_preallocated_megabytes",
            origin: None,
            reason,
        })
    };
    let most = budget(settings).await.limit / 4 * 3 / MEBIBYTE;
    if megabytes > most {
        return refuse(format!(
            "{megabytes} is more than {most}, which is three quarters of what the database may \
             take; see memory_limit_megabytes"
        ));
    }
    // Where the kernel does not report free memory, the administrator is responsible for
    // the size.
    let free = machine::memory().await.and_then(|memory| memory.free);
    let most = free.map_or(u64::MAX, |bytes| bytes / 16 * 15) / MEBIBYTE;
    if megabytes > most {
        return refuse(format!(
            "{megabytes} is more than {most}, which is what is free at this moment of the memory \
             of the machine or the container, but for a sixteenth; ask for less, or end what \
             else takes memory here"
        ));
    }
    let began = coeval_env::now();
    let taking = coeval_env::spawn_dedicated("preallocation", move || async move {
        take(megabytes * MEBIBYTE)
    });
    let taken = taking
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)));
    if let Err(error) = taken {
        return refuse(format!(
            "cannot be had: {error}; ask for less, or for 0, which takes memory when it is needed"
        ));
    }
    let milliseconds = began.elapsed().as_millis();
    info!(megabytes, milliseconds, "memory is preallocated");
    Ok(())
}

/// Populates this many bytes of arenas.
fn take(bytes: u64) -> io::Result<()> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    let there: usize = arenas()?.iter().map(Range::len).sum();
    if !allocator::reserve(bytes.saturating_sub(there)) {
        let reason = "the allocator can have no more arenas";
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, reason));
    }
    let mut left = bytes;
    for arena in arenas()? {
        let end = arena.end.min(arena.start.saturating_add(left));
        left -= end - arena.start;
        for start in (arena.start..end).step_by(STEP) {
            allocator::populate(start..end.min(start + STEP))?;
        }
    }
    if left > 0 {
        return Err(io::Error::other(
            "this program's allocator has no arenas that are told apart",
        ));
    }
    Ok(())
}
