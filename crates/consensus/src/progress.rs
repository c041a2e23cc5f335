//! Progress tracking: a leader's knowledge of one follower's log, and flow control towards
//! it.
//!
//! ```text
//!             appended, or recover
//!   Probe ───────────────────────▶ Replicate ──┐ many messages under way,
//!     │  ▲         lost                 │      │ as many as the window takes
//!     │  └───────────────────────────── │ ◀────┘
//!     │ the log it needs is gone        │
//!     └────────────▶ Checkpoint ◀───────┘
//! ```
//!
//! While a follower is in the stage `Checkpoint`, the caller sends it one. After that,
//! until the follower acknowledges it, sending a second one would be useless: the leader
//! waits for that answer, and asks its caller again only after an election timeout without
//! it.
//!
//! A new leader assumes that a follower's log ends where its own does, and probes with one
//! message: its mark. A follower whose log lacks the prefix before the mark replies with a
//! recovery request, whose answer is where replication continues. So the leader never walks
//! a follower back entry by entry.
//!
//! Invariants: `matched ≤ next`, unless the follower has asked for less; in flight is
//! exactly the log between the last answer and `next`, and it fits the window, except for
//! one message.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::settings::Settings;

/// How a leader sends entries to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The leader sends one message and waits: it does not know the follower's log yet.
    Probe,
    /// The leader pipelines as many messages as the window allows.
    Replicate,
    /// The leader sends no entries, because the follower needs a checkpoint.
    Checkpoint,
}

/// Messages in flight, with their total size.
#[derive(Clone, Debug, Default)]
struct InFlight {
    messages: VecDeque<(Lsn, usize, u64)>,
    entries: usize,
    space: u64,
}

impl InFlight {
    fn push(&mut self, end: Lsn, entries: usize, space: u64) {
        self.messages.push_back((end, entries, space));
        self.entries += entries;
        self.space += space;
    }

    fn answered(&mut self, matched: Lsn) {
        while let Some(&(end, entries, space)) = self.messages.front()
            && end <= matched
        {
            self.messages.pop_front();
            self.entries -= entries;
            self.space -= space;
        }
    }
}

/// A checkpoint that was sent and not yet acknowledged.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// The checkpoint's end, or a lower bound of it.
    end: Lsn,
    /// Ticks since it was sent.
    ticks: u32,
}

/// A leader's knowledge of one follower.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// Match index: end of the leader's log that is on the follower's disk.
    pub(crate) matched: Lsn,
    /// Log offset at which the next message begins.
    pub(crate) next: Lsn,
    /// The commit index it was sent last; `None` when an answer is owed to it.
    pub(crate) told: Option<Lsn>,
    /// The newest round of heartbeats that it has answered.
    pub(crate) round: u64,
    /// Whether the follower has sent a message since the last quorum check.
    pub(crate) active: bool,
    /// End of the log that its readers wait for.
    pub(crate) wanted: Lsn,
    /// Whether the caller has suspended sending.
    pub(crate) held_back: bool,
    /// Log offset from which entries are being fetched for it.
    pub(crate) fetching: Option<Lsn>,
    /// Whether a probe is in flight.
    probing: bool,
    /// The checkpoint that was sent, and is not acknowledged yet.
    awaited: Option<Awaited>,
    /// The newest round of heartbeats, and `next` when it was sent.
    mark_of_round: (u64, Lsn),
    in_flight: InFlight,
}

impl Progress {
    /// Progress of a follower whose log is assumed to end at the leader's end.
    pub(crate) fn new(next: Lsn, active: bool) -> Self {
        Self {
            stage: Stage::Probe,
            matched: Lsn(0),
            next,
            told: Some(Lsn(0)),
            round: 0,
            active,
            wanted: Lsn(0),
            held_back: false,
            fetching: None,
            probing: false,
            awaited: None,
            mark_of_round: (0, Lsn(0)),
            in_flight: InFlight::default(),
        }
    }

    /// Records that a question of the follower is answered with this commit index.
    pub(crate) fn answered_question(&mut self, commit: Lsn) {
        self.wanted = self.wanted.max(commit);
        // Of log that it has not acknowledged, it may not have verified all that it needs to
        // learn of the commit.
        if self.matched >= commit {
            self.told = self.told.map(|told| told.max(commit));
        }
    }

    /// Whether another message with entries may be sent.
    pub(crate) fn may_send(&self, settings: &Settings) -> bool {
        if self.held_back || self.fetching.is_some() {
            return false;
        }
        match self.stage {
            Stage::Probe => !self.probing,
            Stage::Checkpoint => false,
            Stage::Replicate => {
                self.in_flight.entries < settings.window_entries
                    && self.in_flight.space < settings.window_space
            }
        }
    }

    /// Whether a message without entries may be sent, to carry the commit index.
    pub(crate) fn may_be_told(&self) -> bool {
        self.stage == Stage::Replicate && !self.held_back && self.fetching.is_none()
    }

    /// Records that a message with these entries was sent.
    pub(crate) fn sent(&mut self, end: Lsn, entries: usize, space: u64) {
        if self.stage == Stage::Probe {
            self.probing = true;
        }
        self.next = end;
        self.in_flight.push(end, entries, space);
    }

    /// Handles the follower's acknowledgement of durable log.
    pub(crate) fn appended(&mut self, matched: Lsn) {
        let is_all_known = self.in_flight.messages.is_empty();
        self.matched = self.matched.max(matched);
        self.awaited = self.awaited.filter(|awaited| matched < awaited.end);
        self.in_flight.answered(matched);
        if self.stage == Stage::Probe {
            self.stage = Stage::Replicate;
            self.probing = false;
            if is_all_known {
                self.next = matched;
            }
        }
        self.next = self.next.max(matched);
    }

    /// Resumes replication at `next`, where the follower's log is known to diverge from the
    /// leader's or to end.
    pub(crate) fn resume(&mut self, next: Lsn) {
        self.stage = Stage::Replicate;
        self.next = next;
        self.told = None;
        self.probing = false;
        self.awaited = None;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// Records that the follower needs a checkpoint first.
    pub(crate) fn needs_checkpoint(&mut self) {
        self.stage = Stage::Checkpoint;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// Records that a checkpoint that ends at `end` or later was sent, or could not be.
    pub(crate) fn checkpoint_sent(&mut self, end: Lsn) {
        self.probe();
        self.awaited = Some(Awaited { end, ticks: 0 });
    }

    /// Whether the caller may be asked to send a checkpoint: none is under way.
    pub(crate) fn may_have_checkpoint(&self) -> bool {
        self.stage != Stage::Checkpoint && self.awaited.is_none()
    }

    /// Advances the clock: after `patience` ticks an unacknowledged checkpoint counts as
    /// lost.
    pub(crate) fn tick(&mut self, patience: u32) {
        if let Some(awaited) = &mut self.awaited {
            awaited.ticks += 1;
            if awaited.ticks >= patience {
                self.awaited = None;
            }
        }
    }

    /// Returns to probing: it is unknown which messages have arrived.
    pub(crate) fn probe(&mut self) {
        self.stage = Stage::Probe;
        self.probing = false;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// Records that a heartbeat was sent.
    pub(crate) const fn heartbeat(&mut self, round: u64) {
        self.mark_of_round = (round, self.next);
    }

    /// Handles the follower's answer to a heartbeat. Entries that were sent before that
    /// heartbeat and have not arrived count as lost; if they were only late, they are sent
    /// twice.
    pub(crate) fn answered(&mut self, round: u64, verified: Option<Lsn>) {
        self.active = true;
        self.round = self.round.max(round);
        let Some(verified) = verified else {
            return;
        };
        let lost = self.mark_of_round.0 == round && verified < self.mark_of_round.1;
        match self.stage {
            Stage::Probe if lost => {
                self.probe();
                self.next = verified;
            }
            Stage::Probe => self.probing = false,
            Stage::Replicate if lost => self.resume(verified),
            Stage::Replicate | Stage::Checkpoint => {}
        }
    }
}
