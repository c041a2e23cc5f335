//! Real files for a recovering node's disk: an operation takes as long on the virtual
//! clock as it took in real time.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_consensus::{Content, Entry};
use coeval_env::fs::{self, File, OpenOptions};
use coeval_types::Lsn;

use super::model::entry_bytes;
use crate::Stopwatch;

/// Bytes of file per log position.
const PLACE: u64 = 136;

/// The recovering node's log, the file for its copies, and the leader's log.
#[derive(Debug)]
pub struct Files {
    log: File,
    aside: File,
    leader: File,
}

/// Runs a future on real files, which is complete at its first poll.
fn done<Output>(future: impl Future<Output = Output>) -> Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("files of the real world block until they are done"),
    }
}

impl Files {
    /// Creates files in this folder, with a log of `places` entries, written and synced.
    ///
    /// # Errors
    /// If the files cannot be created.
    pub fn new(folder: &Path, places: u64) -> io::Result<Self> {
        let make = |name: &str| -> io::Result<File> {
            let file = done(fs::open(folder.join(name), OpenOptions::CREATE_NEW))?;
            // Preallocated space after the log, so that no write extends a file.
            done(file.allocate((places + (1 << 20)) * PLACE))?;
            let block = vec![0x5A; 1 << 20];
            let mut at = 0;
            while at < places * PLACE {
                done(file.write_at(&block, at))?;
                at += block.len() as u64;
            }
            done(file.sync_all())?;
            Ok(file)
        };
        Ok(Self {
            log: make("log")?,
            aside: make("aside")?,
            leader: make("leader")?,
        })
    }

    /// Writes entries at their positions, and syncs. Returns the time that took.
    pub(super) fn write(&self, entries: &[Entry]) -> io::Result<Duration> {
        let watch = Stopwatch::start();
        if let Some(first) = entries.first() {
            done(self.log.write_at(&frames(entries), first.start.0 * PLACE))?;
        }
        done(self.log.sync_data())?;
        Ok(watch.elapsed())
    }

    /// Writes entries to the copy and syncs, then writes them at their positions and
    /// syncs, as for a crash-safe replacement of log.
    pub(super) fn replace(&self, entries: &[Entry]) -> io::Result<Duration> {
        let Some(first) = entries.first() else {
            return Ok(Duration::ZERO);
        };
        let watch = Stopwatch::start();
        done(self.aside.write_at(&frames(entries), first.start.0 * PLACE))?;
        done(self.aside.sync_data())?;
        Ok(watch.elapsed() + self.write(entries)?)
    }

    /// Reads `places` entries of the leader's log.
    pub(super) fn read(&self, from: Lsn, places: usize) -> io::Result<Duration> {
        let watch = Stopwatch::start();
        let mut buffer = vec![0; places * PLACE as usize];
        let mut filled = 0;
        while filled < buffer.len() {
            let at = from.0 * PLACE + filled as u64;
            match done(self.leader.read_at(&mut buffer[filled..], at))? {
                0 => break,
                count => filled += count,
            }
        }
        std::hint::black_box(&buffer);
        Ok(watch.elapsed())
    }
}

/// Bytes of the length of the entries' frames, with the entries' payloads.
fn frames(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * PLACE as usize);
    for entry in entries {
        let end = bytes.len() + entry_bytes(entry).max(PLACE) as usize;
        if let Content::Payload(payload) = &entry.content {
            bytes.extend_from_slice(payload);
        }
        bytes.resize(end, 0);
    }
    bytes
}
