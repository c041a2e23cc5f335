//! The driver's state for one term that its node leads.

use std::collections::VecDeque;
use std::sync::Arc;

use coeval_consensus::{Content, Entry, Write};
use coeval_log::{LogNews, LogStream};
use coeval_occ::Engine;
use coeval_types::Lsn;

/// A term that this node leads.
#[derive(Debug)]
pub(super) struct Lead {
    /// Start and end of the term's mark in the log.
    pub(super) mark: (Lsn, Lsn),
    /// Log offset up to which consensus knows the log.
    pub(super) end: Lsn,
    /// Writes of consensus, each with the offset to which the log must be flushed for it.
    unflushed: VecDeque<(u64, Lsn)>,
    /// The log's stream and flush notices, once the log is open.
    pub(super) log: Option<(LogStream, LogNews)>,
    /// Whether the driver has asked the disk thread for the engine.
    pub(super) is_asked: bool,
    pub(super) engine: Option<Arc<Engine>>,
}

impl Lead {
    /// A term that begins with this mark.
    pub(super) fn new(mark: &Entry) -> Self {
        Self {
            mark: (mark.start, mark.end),
            end: mark.start,
            unflushed: VecDeque::new(),
            log: None,
            is_asked: false,
            engine: None,
        }
    }

    /// The mark in a write that begins a term.
    pub(super) fn mark_of(write: Option<&Write>) -> Option<&Entry> {
        let first = write?.entries.first()?;
        matches!(first.content, Content::Mark(_)).then_some(first)
    }

    /// Notes a write of consensus that the log's own thread brings to disk.
    pub(super) fn wants(&mut self, write: &Write) {
        if let Some(last) = write.entries.last() {
            self.end = last.end;
        }
        self.unflushed.push_back((write.number, self.end));
    }

    /// Removes the writes that are flushed, and returns the number of the last one.
    pub(super) fn flushed(&mut self) -> Option<u64> {
        let (_, news) = self.log.as_ref()?;
        let flushed = news.now().flushed;
        let mut last = None;
        while let Some((number, _)) = self.unflushed.pop_front_if(|(_, end)| *end <= flushed) {
            last = Some(number);
        }
        last
    }

    /// The last write not reported yet, for a log that has retired and flushed everything.
    pub(super) fn last_write(&self) -> Option<u64> {
        self.unflushed.back().map(|(number, _)| *number)
    }

    /// Whether the log has stopped.
    pub(super) fn has_ended(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|(_, news)| news.now().ended)
    }

    /// Waits for the next change of the log; for ever if the log is not open.
    pub(super) async fn news(&self) {
        match &self.log {
            Some((_, news)) => news.next().await,
            None => std::future::pending().await,
        }
    }

    /// Asks the log to flush up to `end`, for which a commit waits, and to notify the
    /// driver. Consensus counts whole writes only, so the flush extends to the end of the
    /// write.
    pub(super) fn want_flushed(&self, end: Lsn) {
        if let Some((_, news)) = &self.log {
            let write = self.unflushed.iter().find(|(_, its)| *its >= end);
            news.want_flushed(write.map_or(end, |(_, its)| *its));
        }
    }
}
