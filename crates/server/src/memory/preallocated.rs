//! Memory that is taken from the kernel before it is needed (decision 0033).
//!
//! The first bytes of the allocator's arenas are made to be there, as many as are asked
//! for, with more arenas where there are too few of them:
//!
//! ```text
//!   2,560 MB asked for, an arena of 1 GiB there
//!     reserve   20000000000-20040000000   1 GiB         there already
//!               20040000000-200a0000000   1.5 GiB       new
//!     populate  64 MiB at a time, from the first address to the last
//! ```
//!
//! Which of several arenas a thread allocates from is the allocator's affair; all of them
//! are populated, but for what they are larger than asked for.
//!
//! Refused is what would not do any good: more than three quarters of the limit, because
//! the program, the log and what lies elsewhere in arenas need their part of it; and more
//! than is free, which the kernel would promise all the same, and then end a process for;
//! what is free is not known everywhere ([`machine`]).

use std::io;
use std::ops::Range;

use coeval_memory::allocator;
use tracing::info;

use super::occupied::arenas;
use super::{MEBIBYTE, budget, machine};
use crate::Settings;
use crate::settings::SettingsError;

/// So many bytes are asked of the kernel at once.
const STEP: usize = 64 << 20;

/// Takes from the kernel what `memory_preallocated_megabytes` asks for. Done once in a
/// process, before anything has grown.
///
/// # Errors
///
/// When that is more than the limit or the machine allows, or the kernel refuses.
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
    // Where nobody says how much is free, who asks for it has to know.
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

/// Has so many bytes of arenas there.
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
