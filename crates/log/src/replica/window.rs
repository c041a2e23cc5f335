//! The send window: the newest part of a leader's log, cached in memory for sending it to
//! followers.
//!
//! ```text
//!   files ─────────────────────────────┐
//!                        ┌── window ───┼──────────────┐
//!   ─────────────────────┼─────────────┼──────────────┼───▶
//!                     start         written        filled
//! ```
//!
//! The flusher puts each group here before it writes it, so that the group is sent to
//! followers while it is written to the local disk. A group is a contiguous part of the
//! ring's complete prefix, so it consists of whole frames. Written groups are evicted when
//! the window exceeds its limit: followers then read them from the files. A group is copied
//! once, out of the ring, so that the ring has space again as soon as the kernel has its
//! copy; sending copies nothing.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use coeval_types::Lsn;
use tokio::sync::{Notify, watch};

use crate::frame::frame_bytes;

/// A run of whole frames of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Log offset at which they begin.
    pub start: Lsn,
    /// The frames.
    pub bytes: Bytes,
}

impl Frames {
    /// Log offset at which they end.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.start.0 + self.bytes.len() as u64)
    }
}

/// Offsets at which the frames in `bytes` start. The frames are valid, so their lengths are
/// right.
pub(super) fn frame_starts(start: Lsn, bytes: &[u8]) -> impl Iterator<Item = Lsn> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let length = bytes.get(at..)?.get(4..8)?;
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        let here = Lsn(start.0 + at as u64);
        at += frame_bytes(u64::from(length)) as usize;
        Some(here)
    })
}

/// Progress of a leader's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogProgress {
    /// Log offset before which everything can be sent to followers.
    pub filled: Lsn,
    /// Log offset before which everything is durable on this node.
    pub flushed: Lsn,
    /// Whether the log has ended, so that nothing is added any more.
    pub ended: bool,
}

/// Result of looking up a log offset in the window.
pub(super) enum Look {
    /// The frames from the offset on that are contiguous in memory.
    Bytes(Bytes),
    /// The log there is in the files only, up to this offset.
    InFiles(Lsn),
    /// The log has not reached the offset yet.
    Nothing,
}

#[derive(Debug)]
struct State {
    groups: VecDeque<Frames>,
    bytes: u64,
    start: Lsn,
    written: Lsn,
}

/// The send window. See the module.
#[derive(Debug)]
pub(crate) struct Window {
    state: Mutex<State>,
    /// Approximate most bytes of written groups that it holds.
    limit: u64,
    progress: watch::Sender<LogProgress>,
    /// Notifications; see `news`.
    news: Notify,
    wanted_flushed: AtomicU64,
}

impl Window {
    /// An empty window at `start`, before which everything is durable.
    pub(super) fn new(start: Lsn, limit: u64) -> Self {
        Self {
            state: Mutex::new(State {
                groups: VecDeque::new(),
                bytes: 0,
                start,
                written: start,
            }),
            limit,
            progress: watch::Sender::new(LogProgress {
                filled: start,
                flushed: start,
                ended: false,
            }),
            news: Notify::new(),
            wanted_flushed: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Called by the flusher: adds a group that is about to be written.
    pub(crate) fn push(&self, start: Lsn, (first, second): (&[u8], &[u8])) {
        let mut bytes = BytesMut::with_capacity(first.len() + second.len());
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        let group = Frames {
            start,
            bytes: bytes.freeze(),
        };
        let filled = group.end();
        let mut state = self.state();
        state.bytes += group.bytes.len() as u64;
        state.groups.push_back(group);
        drop(state);
        self.progress
            .send_modify(|progress| progress.filled = filled);
        self.news.notify_one();
    }

    /// Called by the flusher: everything before `end` is in the files.
    pub(crate) fn written(&self, end: Lsn) {
        let mut state = self.state();
        state.written = end;
        while state.bytes > self.limit
            && let Some(oldest) = state.groups.pop_front_if(|oldest| oldest.end() <= end)
        {
            state.bytes -= oldest.bytes.len() as u64;
            state.start = oldest.end();
        }
    }

    /// Called by the flusher: everything before `end` is durable on this node.
    pub(crate) fn flushed(&self, end: Lsn) {
        let mut before = end;
        self.progress
            .send_modify(|progress| before = std::mem::replace(&mut progress.flushed, end));
        fence(Ordering::SeqCst);
        if before.0 < self.wanted_flushed.load(Ordering::Relaxed) {
            self.news.notify_one();
        }
    }

    /// Requests notifications of flushes until everything before `end` is durable.
    pub(super) fn want_flushed(&self, end: Lsn) {
        self.wanted_flushed.fetch_max(end.0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Waits for a notification: see `news`.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Marks the log as ended: nothing is added any more.
    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.ended = true);
        self.news.notify_one();
    }

    /// The log's current progress.
    pub(super) fn now(&self) -> LogProgress {
        *self.progress.borrow()
    }

    /// The log's progress, as a channel to watch.
    pub(super) fn progress(&self) -> watch::Receiver<LogProgress> {
        self.progress.subscribe()
    }

    /// Log offset of the frame that contains `at`, if it is in the window.
    pub(super) fn frame_around(&self, at: Lsn) -> Option<Lsn> {
        let state = self.state();
        let behind = state.groups.partition_point(|group| group.end() <= at);
        let group = state.groups.get(behind).filter(|group| group.start <= at)?;
        let starts = frame_starts(group.start, &group.bytes);
        starts.take_while(|start| *start <= at).last()
    }

    /// Looks up the frames from `from` on.
    pub(super) fn look(&self, from: Lsn) -> Look {
        let state = self.state();
        if from < state.start {
            return Look::InFiles(state.start);
        }
        let behind = state.groups.partition_point(|group| group.end() <= from);
        match state.groups.get(behind) {
            Some(group) => {
                let at = (from.0 - group.start.0) as usize;
                Look::Bytes(group.bytes.slice(at..))
            }
            None => Look::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_flush_is_news_if_it_is_wanted() {
        let window = Window::new(Lsn(64), 100);
        let has_news = || {
            let mut context = Context::from_waker(Waker::noop());
            pin!(window.news()).poll(&mut context).is_ready()
        };
        assert!(!has_news());
        window.push(Lsn(64), (&[7; 64], &[]));
        assert!(has_news());
        window.flushed(Lsn(128));
        assert!(!has_news(), "nobody waits for it");
        window.want_flushed(Lsn(192));
        window.flushed(Lsn(160));
        assert!(has_news(), "on the way there");
        window.flushed(Lsn(256));
        assert!(has_news());
        window.flushed(Lsn(320));
        assert!(!has_news(), "it is past what was wanted");
        window.end();
        assert!(has_news());
    }

    #[test]
    fn what_is_written_leaves_when_there_is_too_much() {
        let window = Window::new(Lsn(4096), 100);
        let group = [7; 64];
        for number in 0..4_u64 {
            window.push(Lsn(4096 + number * 64), (&group[..40], &group[40..]));
        }
        assert_eq!(window.progress().borrow().filled, Lsn(4096 + 256));
        assert!(matches!(window.look(Lsn(4096 + 256)), Look::Nothing));
        let rest = |from| match window.look(Lsn(from)) {
            Look::Bytes(bytes) => Ok(bytes.len()),
            Look::InFiles(until) => Err(until.0),
            Look::Nothing => Ok(0),
        };
        assert_eq!(rest(4096), Ok(64), "not written yet, so it stays");
        assert_eq!(rest(4096 + 72), Ok(56));
        window.written(Lsn(4096 + 128));
        assert_eq!(rest(4096), Err(4096 + 128));
        assert_eq!(rest(4096 + 128), Ok(64), "both stay that are not written");
        window.written(Lsn(4096 + 256));
        assert_eq!(rest(4096 + 128), Err(4096 + 192));
        assert_eq!(rest(4096 + 192), Ok(64));
    }
}
