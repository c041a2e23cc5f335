//! Apply progress: a follower reports to its leader how far it has received, flushed, replayed
//! and committed its log, and how far it shows it to readers.
//!
//! ```text
//!   sent ─▶ received ─┬▶ on disk ───┐
//!                     ├▶ replayed ──┼▶ visible
//!                     └▶ committed ─┘
//! ```
//!
//! The leader knows from acknowledgements what a follower has on its disk. Nothing depends
//! on the rest: the report is for administrators, who see the lag of each member (`lag`). So a
//! follower sends it a few times a second if it has changed, and on every new connection,
//! since the last report may have been lost with the previous connection. Below cluster
//! version 3 the report has two numbers: what is committed and what is visible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use coeval_consensus::NodeId as Member;
use coeval_env::Instant;
use coeval_peers::{Frame, Loss, NodeId};
use coeval_types::Lsn;

use super::driver::Driver;
use super::frames;
use super::lag::{CommitTimes, Lag};
use super::{NodeStatus, Role};

/// Ticks between two checks of a follower whether its progress has changed.
const TICKS: u32 = 4;

/// The replay thread's progress, which it publishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed(Arc<(AtomicU64, AtomicU64)>);

impl Replayed {
    /// Everything before `replayed` is in the tables, and everything before `visible` is shown.
    pub(super) fn set(&self, replayed: Lsn, visible: Lsn) {
        self.0.0.store(replayed.0, Ordering::Relaxed);
        self.0.1.store(visible.0, Ordering::Relaxed);
    }

    fn get(&self) -> (Lsn, Lsn) {
        let read = |number: &AtomicU64| Lsn(number.load(Ordering::Relaxed));
        (read(&self.0.0), read(&self.0.1))
    }
}

/// A node's apply progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyProgress {
    /// Log offset before which the node has received everything of its leader's log.
    pub received: Lsn,
    /// Log offset before which everything is on the node's disk.
    pub flushed: Lsn,
    /// Log offset before which everything is committed, as far as the node knows.
    pub committed: Lsn,
    /// Log offset before which everything is in the node's tables, some of it perhaps not
    /// committed.
    pub replayed: Lsn,
    /// Log offset before which everything is shown to the node's readers.
    pub visible: Lsn,
}

/// A follower's report, and what its leader made of it when it came.
#[derive(Clone, Copy, Debug)]
struct Report {
    progress: ApplyProgress,
    lag: Lag,
}

impl ApplyProgress {
    /// The report of cluster version 3 if `is_whole`, of the first one otherwise.
    fn encode(self, is_whole: bool) -> Bytes {
        let rest = [self.received, self.flushed, self.replayed];
        let first = [self.committed, self.visible].into_iter();
        let all = first.chain(rest.into_iter().filter(|_| is_whole));
        all.flat_map(|lsn| lsn.0.to_le_bytes()).collect()
    }

    /// A report. One of the first cluster version leaves out what is received and flushed.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks();
        let lsn = |index: usize| {
            numbers
                .get(index)
                .map(|bytes| Lsn(u64::from_le_bytes(*bytes)))
        };
        let (committed, visible) = (lsn(0)?, lsn(1)?);
        match (numbers.len(), rest) {
            (2, []) => Some(Self {
                committed,
                replayed: visible,
                visible,
                ..Self::default()
            }),
            (5, []) => Some(Self {
                received: lsn(2)?,
                flushed: lsn(3)?,
                committed,
                replayed: lsn(4)?,
                visible,
            }),
            _ => None,
        }
    }
}

/// The progress that this node has reported, and the reports it has received.
#[derive(Debug)]
pub(super) struct ApplyProgressTable {
    replayed: Replayed,
    /// Ticks since progress was last checked.
    ticks: u32,
    /// The last report, and the leader it was sent to.
    told: Option<(NodeId, ApplyProgress)>,
    /// The followers' reports, while this node leads.
    heard: BTreeMap<NodeId, Report>,
    /// When this node learned of which commit index.
    times: CommitTimes,
    /// When this node last knew a leader.
    led: Instant,
    /// Time in which a report of a follower that has news has come.
    patience: Duration,
}

impl ApplyProgressTable {
    pub(super) fn new(replayed: Replayed, tick: Duration) -> Self {
        Self {
            replayed,
            times: CommitTimes::default(),
            led: coeval_env::now(),
            patience: tick * (2 * TICKS),
            ticks: 0,
            told: None,
            heard: BTreeMap::new(),
        }
    }

    /// Clears the followers' reports, when a term of this node begins or ends.
    pub(super) fn forget(&mut self) {
        self.heard.clear();
    }

    /// Reports again on a new connection: the last report may have been lost with the old
    /// one.
    pub(super) fn connected(&mut self, node: NodeId) {
        self.told.take_if(|(to, _)| *to == node);
    }
}

impl Driver {
    /// Remembers the commit index, and whether there is a leader. Called after every step.
    pub(super) fn note_commit(&mut self) {
        let (commit, now) = (self.consensus.commit(), coeval_env::now());
        self.apply_progress.times.note(commit, now);
        if self.consensus.role().leader.is_some() {
            self.apply_progress.led = now;
        }
    }

    /// On a tick, a follower reports its progress to its leader.
    pub(super) fn report_apply_progress(&mut self) {
        self.apply_progress.ticks += 1;
        if self.apply_progress.ticks < TICKS {
            return;
        }
        self.apply_progress.ticks = 0;
        let node_status = NodeStatus::of(&self.consensus);
        let Some(leader) = node_status
            .leader
            .filter(|_| node_status.role == Role::Follower)
        else {
            self.apply_progress.told = None;
            return;
        };
        let told = (leader, self.own_apply_progress());
        if self.apply_progress.told == Some(told) {
            return;
        }
        let report = told.1.encode(self.follower_reads.may_ask());
        let sent = (self.peers).send(leader, frames::REACHED, report, Loss::Kept);
        self.apply_progress.told = sent.is_ok().then_some(told);
    }

    /// Records a follower's report.
    pub(super) fn reached(&mut self, frame: &Frame) {
        let Some(reached) = ApplyProgress::decode(&frame.payload) else {
            tracing::error!(from = %frame.from, "how far a node has come makes no sense");
            return;
        };
        if self.lead.is_some() {
            let now = coeval_env::now();
            let lag = self.apply_progress.times.lag(reached.visible, now);
            let report = Report {
                progress: reached,
                lag,
            };
            self.apply_progress.heard.insert(frame.from, report);
        }
    }

    /// This node's own progress.
    fn own_apply_progress(&self) -> ApplyProgress {
        let status = self.consensus.status();
        let committed = status.commit;
        let serves = self.lead.as_ref().is_some_and(|lead| lead.engine.is_some());
        let (replayed, visible) = match serves {
            // A serving engine applies its commits to the tables before they are committed.
            true => (status.last.end, committed),
            false => self.apply_progress.replayed.get(),
        };
        ApplyProgress {
            received: status.verified,
            flushed: status.durable,
            committed,
            replayed,
            visible,
        }
    }

    /// A node's progress, if this node knows it, with its lag.
    pub(super) fn apply_progress_of(
        &self,
        node: NodeId,
        matched: Option<Lsn>,
    ) -> Option<(ApplyProgress, Lag)> {
        let table = &self.apply_progress;
        let now = coeval_env::now();
        if Member(node.0) == self.consensus.id() {
            let progress = self.own_apply_progress();
            let mut lag = table.times.lag(progress.visible, now);
            if self.consensus.role().leader.is_none() {
                lag.time = lag.time.max(now.duration_since(table.led));
            }
            return Some((progress, lag));
        }
        let mut report = *table.heard.get(&node)?;
        let flushed = matched.unwrap_or_default();
        report.progress.received = report.progress.received.max(flushed);
        report.progress.flushed = report.progress.flushed.max(flushed);
        // A follower reports its news within a time. Until that is over, what it does not show
        // may only not have been reported.
        let lag = table.times.lag(report.progress.visible, now);
        let time = match lag.time < table.patience {
            true => lag.time.min(report.lag.time),
            false => lag.time,
        };
        Some((report.progress, Lag { time, ..lag }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_follower_says_is_what_its_leader_hears() {
        let whole = ApplyProgress {
            received: Lsn(9900),
            flushed: Lsn(9500),
            committed: Lsn(9000),
            replayed: Lsn(9800),
            visible: Lsn(8000),
        };
        let said = whole.encode(true);
        assert_eq!(ApplyProgress::decode(&said), Some(whole));
        let first = ApplyProgress {
            committed: Lsn(9000),
            replayed: Lsn(8000),
            visible: Lsn(8000),
            ..ApplyProgress::default()
        };
        let old = whole.encode(false);
        assert_eq!(old[..], [9000_u64, 8000].map(u64::to_le_bytes).concat());
        assert_eq!(ApplyProgress::decode(&old), Some(first));
        for length in (0..said.len()).filter(|length| *length != old.len()) {
            assert_eq!(ApplyProgress::decode(&said[..length]), None);
        }
        assert_eq!(ApplyProgress::decode(&[&said[..], &[0]].concat()), None);
    }
}
