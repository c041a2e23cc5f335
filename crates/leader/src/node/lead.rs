//! What a driver knows while its node leads.

use std::collections::VecDeque;
use std::sync::Arc;

use coeval_consensus::{Content, Entry, Write};
use coeval_log::{LogNews, LogStream};
use coeval_occ::Engine;
use coeval_types::Lsn;

/// A term that this node leads.
#[derive(Debug)]
pub(super) struct Lead {
    /// Where its mark stands, and ends.
    pub(super) mark: (Lsn, Lsn),
    /// Up to here consensus has been told of the log.
    pub(super) end: Lsn,
    /// Writes of consensus, each with where the log must be flushed to for it to be done.
    unflushed: VecDeque<(u64, Lsn)>,
    /// The log, once it is open.
    pub(super) log: Option<(LogStream, LogNews)>,
    /// Whether the engine has been asked for.
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

    /// Consensus wants this on the disk, where the log's own thread brings it.
    pub(super) fn wants(&mut self, write: &Write) {
        if let Some(last) = write.entries.last() {
            self.end = last.end;
        }
        self.unflushed.push_back((write.number, self.end));
    }

    /// The last of the writes that are done.
    pub(super) fn flushed(&mut self) -> Option<u64> {
        let (_, news) = self.log.as_ref()?;
        let flushed = news.now().flushed;
        let mut last = None;
        while let Some((number, _)) = self.unflushed.pop_front_if(|(_, end)| *end <= flushed) {
            last = Some(number);
        }
        last
    }

    /// All that are not reported yet: the log has retired, and has flushed everything.
    pub(super) fn last_write(&self) -> Option<u64> {
        self.unflushed.back().map(|(number, _)| *number)
    }

    /// Whether the log has stopped.
    pub(super) fn has_ended(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|(_, news)| news.now().ended)
    }

    /// Waits for news of the log. For ever, if it is not open.
    pub(super) async fn news(&self) {
        match &self.log {
            Some((_, news)) => news.next().await,
            None => std::future::pending().await,
        }
    }

    /// A commit waits until everything before `end` is flushed here, which is news then.
    /// Consensus hears of whole writes only.
    pub(super) fn want_flushed(&self, end: Lsn) {
        if let Some((_, news)) = &self.log {
            let write = self.unflushed.iter().find(|(_, its)| *its >= end);
            news.want_flushed(write.map_or(end, |(_, its)| *its));
        }
    }
}
