//! Real files, for what a recovering node does to its disk: it takes as long on the
//! virtual clock as it took.

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

/// Each place of the log has as much of a file.
const PLACE: u64 = 136;

/// The recovering node's log, what it sets aside, and the leader's log.
#[derive(Debug)]
pub struct Files {
    log: File,
    aside: File,
    leader: File,
}

/// Calls on real files are done when they return.
fn done<Output>(future: impl Future<Output = Output>) -> Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("files of the real world block until they are done"),
    }
}

impl Files {
    /// Files in this folder, with a log of so many places, written and flushed.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn new(folder: &Path, places: u64) -> io::Result<Self> {
        let make = |name: &str| -> io::Result<File> {
            let file = done(fs::open(folder.join(name), OpenOptions::CREATE_NEW))?;
            // Some room behind, so that no write makes a file longer.
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

    /// Puts entries in their places, and flushes them. How long that takes.
    pub(super) fn write(&self, entries: &[Entry]) -> io::Result<Duration> {
        let watch = Stopwatch::start();
        if let Some(first) = entries.first() {
            done(self.log.write_at(&frames(entries), first.start.0 * PLACE))?;
        }
        done(self.log.sync_data())?;
        Ok(watch.elapsed())
    }

    /// Puts entries aside and flushes them, then in their places and flushes those, as a
    /// log is replaced that must not be lost in between.
    pub(super) fn replace(&self, entries: &[Entry]) -> io::Result<Duration> {
        let Some(first) = entries.first() else {
            return Ok(Duration::ZERO);
        };
        let watch = Stopwatch::start();
        done(self.aside.write_at(&frames(entries), first.start.0 * PLACE))?;
        done(self.aside.sync_data())?;
        Ok(watch.elapsed() + self.write(entries)?)
    }

    /// Reads so many places of the leader's log.
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

/// Bytes as long as the entries' frames would be, with what they hold.
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
