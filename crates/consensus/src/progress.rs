//! What a leader knows of one follower.
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
//! While a follower is in the stage `Checkpoint`, the caller sends it one. From when that
//! is done until the follower says what it has, a second one would be sent for nothing: the
//! leader waits for that answer, and asks its caller anew only when an election timeout has
//! gone by without it.
//!
//! A new leader assumes that a follower's log ends where its own does, and probes with
//! one message: its mark. A follower whose log does not have what comes before the mark
//! says so with a recovery request, whose answer is where replication goes on. So nobody
//! is walked back entry by entry.
//!
//! Invariants: `matched ≤ next`, unless the follower has asked for less; in flight is
//! exactly what lies between the last answer and `next`, and fits the window, but for
//! one message.

use std::collections::VecDeque;

use coeval_types::Lsn;

use crate::settings::Settings;

/// How entries are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One message, then wait: it is not known what the follower has.
    Probe,
    /// As many as the window takes.
    Replicate,
    /// None: the follower needs a checkpoint.
    Checkpoint,
}

/// Messages under way, and how much they are together.
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

/// An answer to a checkpoint that was sent.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    /// The checkpoint goes at least so far.
    end: Lsn,
    /// It was sent so many ticks ago.
    ticks: u32,
}

/// What a leader knows of a follower.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// Up to here the leader's log is on the follower's disk.
    pub(crate) matched: Lsn,
    /// Where the next message begins.
    pub(crate) next: Lsn,
    /// The commit point it was told last; `None` when it is owed an answer.
    pub(crate) told: Option<Lsn>,
    /// The newest round of heartbeats it has answered.
    pub(crate) round: u64,
    /// Has been heard of since the last look.
    pub(crate) active: bool,
    /// The caller wants nothing sent at the moment.
    pub(crate) held_back: bool,
    /// Entries are being fetched for it, from here on.
    pub(crate) fetching: Option<Lsn>,
    /// A probe is under way.
    probing: bool,
    /// A checkpoint was sent, and what the follower has then is not known yet.
    awaited: Option<Awaited>,
    /// `next` at the time of the last heartbeat, and its round.
    mark_of_round: (u64, Lsn),
    in_flight: InFlight,
}

impl Progress {
    /// A follower of whom nothing is known but where the leader's own log ends.
    pub(crate) fn new(next: Lsn, active: bool) -> Self {
        Self {
            stage: Stage::Probe,
            matched: Lsn(0),
            next,
            told: Some(Lsn(0)),
            round: 0,
            active,
            held_back: false,
            fetching: None,
            probing: false,
            awaited: None,
            mark_of_round: (0, Lsn(0)),
            in_flight: InFlight::default(),
        }
    }

    /// Whether another message of entries may go.
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

    /// Whether a message without entries may go, to tell it what is committed.
    pub(crate) fn may_be_told(&self) -> bool {
        self.stage == Stage::Replicate && !self.held_back && self.fetching.is_none()
    }

    /// A message with these entries goes.
    pub(crate) fn sent(&mut self, end: Lsn, entries: usize, space: u64) {
        if self.stage == Stage::Probe {
            self.probing = true;
        }
        self.next = end;
        self.in_flight.push(end, entries, space);
    }

    /// The follower says what it has on its disk.
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

    /// It is known where the follower's log stops being the leader's: there it goes on.
    pub(crate) fn resume(&mut self, next: Lsn) {
        self.stage = Stage::Replicate;
        self.next = next;
        self.told = None;
        self.probing = false;
        self.awaited = None;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// The follower needs a checkpoint first.
    pub(crate) fn needs_checkpoint(&mut self) {
        self.stage = Stage::Checkpoint;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// A checkpoint that goes at least to `end` was sent, or could not be.
    pub(crate) fn checkpoint_sent(&mut self, end: Lsn) {
        self.probe();
        self.awaited = Some(Awaited { end, ticks: 0 });
    }

    /// Whether the caller is to send a checkpoint: none is under way.
    pub(crate) fn may_have_checkpoint(&self) -> bool {
        self.stage != Stage::Checkpoint && self.awaited.is_none()
    }

    /// A tick of the leader's clock; it waits for so many.
    pub(crate) fn tick(&mut self, patience: u32) {
        if let Some(awaited) = &mut self.awaited {
            awaited.ticks += 1;
            if awaited.ticks >= patience {
                self.awaited = None;
            }
        }
    }

    /// Nothing is known any more of what has arrived.
    pub(crate) fn probe(&mut self) {
        self.stage = Stage::Probe;
        self.probing = false;
        self.fetching = None;
        self.in_flight = InFlight::default();
    }

    /// A heartbeat goes.
    pub(crate) const fn heartbeat(&mut self, round: u64) {
        self.mark_of_round = (round, self.next);
    }

    /// The follower has answered a heartbeat. What was sent before that heartbeat and
    /// has not arrived by now is taken for lost; if it was only late, it is sent twice.
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
