//! Fault injection for real disks and clocks, for tests of whole processes.
//!
//! In a debug build, a process with the environment variable [`VARIABLE`] obeys the lines
//! of the file that it names. The process reads the file anew at each call, so that a test
//! may change the faults while it runs. A release build contains none of this.
//!
//! | line | effect |
//! | --- | --- |
//! | `sync fails` | syncs report EIO, and do nothing |
//! | `sync lies` | syncs report success, and do nothing: no database withstands that |
//! | `sync takes 200` | syncs take 200 milliseconds longer |
//! | `write fails` | writes report EIO |
//! | `disk full` | files do not grow: ENOSPC |
//! | `clock ahead -5000` | the wall clock is ahead by this many milliseconds |
//! | `unsynced lost` | unsynced writes stay within the process, and are lost with it |
//!
//! The last one simulates the effect of a power loss on a disk, for a process that is
//! killed: unsynced bytes are in no file. Names and lengths are not held back, and no
//! unsynced byte survives; the simulated disk is the one that tries every mixture.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// Environment variable with the path of the fault file.
const VARIABLE: &str = "DOCK_FAULTS";

static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();

/// A file's identity: device and inode.
type Identity = (u64, u64);
/// Unsynced writes, oldest first: offset and bytes.
type Writes = Vec<(u64, Vec<u8>)>;

static UNSYNCED: Mutex<BTreeMap<Identity, Writes>> = Mutex::new(BTreeMap::new());

fn unsynced() -> MutexGuard<'static, BTreeMap<Identity, Writes>> {
    UNSYNCED.lock().expect("no panic under this lock")
}

/// Path of the fault file, in a process under test.
fn file() -> Option<&'static PathBuf> {
    let file = FILE.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    file.as_ref()
}

/// The rest of the line that starts with `beginning`, if there is such a line.
fn line(beginning: &str) -> Option<String> {
    let text = std::fs::read_to_string(file()?).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(beginning))?;
    Some(found.trim().to_owned())
}

fn milliseconds(beginning: &str) -> Option<i64> {
    line(beginning)?.parse().ok()
}

fn failure() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

/// How far the wall clock is ahead, in milliseconds.
pub(super) fn clock_ahead() -> i64 {
    milliseconds("clock ahead").unwrap_or(0)
}

/// Returns an error if files may not grow.
pub(super) fn check_growth() -> io::Result<()> {
    match line("disk full") {
        Some(_) => Err(io::ErrorKind::StorageFull.into()),
        None => Ok(()),
    }
}

fn identity(file: &std::fs::File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Handles a write. Returns `true` when the write is done and the caller must not touch the
/// file.
pub(super) fn write(file: &std::fs::File, bytes: &[u8], offset: u64) -> io::Result<bool> {
    if self::file().is_none() {
        return Ok(false);
    }
    if line("write fails").is_some() {
        return Err(failure());
    }
    if offset + bytes.len() as u64 > file.metadata()?.len() {
        check_growth()?;
    }
    if line("unsynced lost").is_none() {
        return Ok(false);
    }
    let identity = identity(file)?;
    let mut unsynced = unsynced();
    let writes = unsynced.entry(identity).or_default();
    writes.push((offset, bytes.to_vec()));
    Ok(true)
}

/// Handles a sync. Returns `true` when the caller must skip the real one.
pub(super) fn sync(file: &std::fs::File) -> io::Result<bool> {
    if let Some(more) = milliseconds("sync takes") {
        std::thread::sleep(Duration::from_millis(more.unsigned_abs()));
    }
    if line("sync fails").is_some() {
        return Err(failure());
    }
    if line("sync lies").is_some() {
        return Ok(true);
    }
    // Locked, so that a concurrent read finds the bytes either here or in the file.
    let mut unsynced = unsynced();
    let writes = unsynced.remove(&identity(file)?);
    for (offset, bytes) in writes.unwrap_or_default() {
        file.write_all_at(&bytes, offset)?;
    }
    Ok(false)
}

/// Reads a file with its unsynced writes applied.
pub(super) fn read(file: &std::fs::File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    if self::file().is_none() {
        return file.read_at(buffer, offset);
    }
    let unsynced = unsynced();
    let mut filled = file.read_at(buffer, offset)?;
    let Some(writes) = unsynced.get(&identity(file)?) else {
        return Ok(filled);
    };
    buffer[filled..].fill(0);
    let end = offset + buffer.len() as u64;
    for (at, bytes) in writes {
        let (from, to) = ((*at).max(offset), (at + bytes.len() as u64).min(end));
        if from >= to {
            continue;
        }
        let place = |position: u64, origin: u64| {
            usize::try_from(position - origin).expect("within a buffer")
        };
        buffer[place(from, offset)..place(to, offset)]
            .copy_from_slice(&bytes[place(from, *at)..place(to, *at)]);
        filled = filled.max(place(to, offset));
    }
    Ok(filled)
}

/// A file's length with its unsynced writes applied.
pub(super) fn len(file: &std::fs::File, length: u64) -> io::Result<u64> {
    let unsynced = unsynced();
    if unsynced.is_empty() {
        return Ok(length);
    }
    let writes = unsynced.get(&identity(file)?).into_iter().flatten();
    let ends = writes.map(|(at, bytes)| at + bytes.len() as u64);
    Ok(ends.max().unwrap_or(0).max(length))
}

/// Truncates the unsynced writes of a file that gets this length.
pub(super) fn cut(file: &std::fs::File, length: u64) -> io::Result<()> {
    let mut unsynced = unsynced();
    if unsynced.is_empty() {
        return Ok(());
    }
    if let Some(writes) = unsynced.get_mut(&identity(file)?) {
        writes.retain_mut(|(at, bytes)| {
            let room = length.saturating_sub(*at);
            bytes.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            room > 0
        });
    }
    Ok(())
}

/// Drops the unsynced writes of a file that is removed, because its inode may be reused.
pub(super) fn forget(path: &Path) {
    let mut unsynced = unsynced();
    if !unsynced.is_empty()
        && let Ok(metadata) = std::fs::metadata(path)
    {
        unsynced.remove(&(metadata.dev(), metadata.ino()));
    }
}
