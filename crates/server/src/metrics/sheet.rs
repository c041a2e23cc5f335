//! The counters of one worker.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_memory::counters::{Counter, Distribution, Durations};
use coeval_sql::SqlState;
use coeval_sql::route::Reason;
use coeval_sql::statement::StatementKind;

/// Number of statement kinds.
pub(crate) const KINDS: usize = StatementKind::ALL.len();

/// One worker's counters. Only the worker's thread writes them.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    statements: [Statements; KINDS],
    answers: Durations,
    durability_waits: Durations,
    confirmation_waits: Durations,
    held_reads: Durations,
    received_bytes: Counter,
    sent_bytes: Counter,
    sessions: Counter,
    refusals: Counter,
    reads_here: [Counter; Stamp::ALL.len()],
    reads_at_leader: [Counter; AtLeader::ALL.len()],
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

/// How a cycle that this node executed for its client got its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The leader was asked for the newest commit, for this cycle first.
    Asked,
    /// The leader was asked, for an earlier cycle as well.
    Shared,
    /// The leader has reported a later commit in its answer to another message.
    Spared,
    /// The snapshot includes the session's own commits.
    Session,
    /// The snapshot is what this node had.
    None,
    /// The leader was asked, and this node waited for its replay: of a comparator that tells
    /// them apart.
    Waited,
}

impl Stamp {
    pub(crate) const ALL: [Self; 6] = [
        Self::Asked,
        Self::Shared,
        Self::Spared,
        Self::Session,
        Self::None,
        Self::Waited,
    ];

    /// Whether the snapshot includes everything that was acknowledged before the cycle came.
    pub(crate) const fn is_fresh(self) -> bool {
        match self {
            Self::Asked | Self::Shared | Self::Spared | Self::Waited => true,
            Self::Session | Self::None => false,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Shared => "shared",
            Self::Spared => "spared",
            Self::Session => "session",
            Self::None => "none",
            Self::Waited => "waited",
        }
    }
}

/// Why a cycle that may have been a read went to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtLeader {
    /// A statement runs there only.
    Statement(Reason),
    /// The client asked for answers before the end of the cycle.
    Flush,
    /// The cycle, or its answers, are too long to be held back.
    Large,
    /// No leader answered, or this node no longer has the tables.
    Lost,
    /// A statement failed here, and the leader has the last word.
    Error,
    /// This node does not know the session's state.
    State,
    /// This node had not flushed the log that the answer asks for: of a comparator.
    LacksLog,
    /// This node did not know that log to be committed: of a comparator.
    Uncommitted,
}

impl AtLeader {
    pub(crate) const ALL: [Self; 14] = [
        Self::Statement(Reason::Writes),
        Self::Statement(Reason::LocksRows),
        Self::Statement(Reason::Function),
        Self::Statement(Reason::Interrupts),
        Self::Statement(Reason::Setting),
        Self::Statement(Reason::SystemTable),
        Self::Statement(Reason::Command),
        Self::Flush,
        Self::Large,
        Self::Lost,
        Self::Error,
        Self::State,
        Self::LacksLog,
        Self::Uncommitted,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Statement(reason) => reason.name(),
            Self::Flush => "flush",
            Self::Large => "large",
            Self::Lost => "lost",
            Self::Error => "error",
            Self::State => "state",
            Self::LacksLog => "lacks_log",
            Self::Uncommitted => "uncommitted",
        }
    }
}

#[derive(Debug, Default)]
struct Statements {
    durations: Durations,
    failures: Counter,
    rows: Counter,
}

impl Sheet {
    /// Counts a successful statement: its duration, and the rows that it returned or
    /// changed.
    #[inline]
    pub(crate) fn statement(&self, kind: StatementKind, time: Duration, rows: u64) {
        let statements = &self.statements[kind as usize];
        statements.durations.record_time_alone(time);
        statements.rows.add_alone(rows);
    }

    /// Counts a failed statement and its duration.
    pub(crate) fn statement_failed(&self, kind: StatementKind, time: Duration) {
        let statements = &self.statements[kind as usize];
        statements.durations.record_time_alone(time);
        statements.failures.add_alone(1);
    }

    /// Counts an error that the server sent to a client.
    pub(crate) fn error(&self, state: SqlState) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(state.0).or_default() += 1;
    }

    /// Records the time from a client's request to its complete answer.
    #[inline]
    pub(crate) fn answered(&self, time: Duration) {
        self.answers.record_time_alone(time);
    }

    /// Records how long an answer waited for the transactions that it depends on to be
    /// durable.
    pub(crate) fn waited_for_durability(&self, time: Duration) {
        self.durability_waits.record_time_alone(time);
    }

    /// Records how long an answer waited for the confirmation that this node leads.
    pub(crate) fn waited_for_confirmation(&self, time: Duration) {
        self.confirmation_waits.record_time_alone(time);
    }

    /// Records how long a read of this node's state was held because the node was away.
    pub(crate) fn was_held(&self, time: Duration) {
        self.held_reads.record_time_alone(time);
    }

    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.add_alone(bytes as u64);
    }

    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent_bytes.add_alone(bytes as u64);
    }

    /// Counts a cycle that this node has executed for its client.
    pub(crate) fn read_here(&self, stamp: Stamp) {
        self.reads_here[stamp as usize].add_alone(1);
    }

    /// Counts a cycle that may have been a read and goes to the leader.
    pub(crate) fn read_at_leader(&self, why: AtLeader) {
        let all = AtLeader::ALL.iter().zip(&self.reads_at_leader);
        for (_, counter) in all.filter(|(each, _)| **each == why) {
            counter.add_alone(1);
        }
    }

    /// Counts a client that was let in.
    pub(crate) fn session(&self) {
        self.sessions.add_alone(1);
    }

    /// Counts a client that was refused.
    pub(crate) fn refused(&self) {
        self.refusals.add_alone(1);
    }
}

/// The sum of several workers' counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// Statement counters, indexed by kind as in [`StatementKind::ALL`].
    pub(crate) statements: [Statement; KINDS],
    pub(crate) answers: Distribution,
    pub(crate) durability_waits: Distribution,
    pub(crate) confirmation_waits: Distribution,
    pub(crate) held_reads: Distribution,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sessions: u64,
    pub(crate) refusals: u64,
    /// Cycles executed for this node's clients, as in [`Stamp::ALL`].
    pub(crate) reads_here: [u64; Stamp::ALL.len()],
    /// Cycles that went to the leader, as in [`AtLeader::ALL`].
    pub(crate) reads_at_leader: [u64; AtLeader::ALL.len()],
    /// Number of errors by SQLSTATE.
    pub(crate) errors: BTreeMap<&'static str, u64>,
}

/// The counters of one kind of statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statement {
    pub(crate) durations: Distribution,
    pub(crate) failures: u64,
    pub(crate) rows: u64,
}

impl Sum {
    /// Adds one more worker's counters.
    pub(crate) fn add(&mut self, sheet: &Sheet) {
        for (sum, statements) in self.statements.iter_mut().zip(&sheet.statements) {
            sum.durations.merge(&statements.durations.read());
            sum.failures += statements.failures.get();
            sum.rows += statements.rows.get();
        }
        self.answers.merge(&sheet.answers.read());
        self.durability_waits.merge(&sheet.durability_waits.read());
        self.confirmation_waits
            .merge(&sheet.confirmation_waits.read());
        self.held_reads.merge(&sheet.held_reads.read());
        self.received_bytes += sheet.received_bytes.get();
        self.sent_bytes += sheet.sent_bytes.get();
        self.sessions += sheet.sessions.get();
        self.refusals += sheet.refusals.get();
        for (sum, counter) in self.reads_here.iter_mut().zip(&sheet.reads_here) {
            *sum += counter.get();
        }
        for (sum, counter) in self.reads_at_leader.iter_mut().zip(&sheet.reads_at_leader) {
            *sum += counter.get();
        }
        let errors = sheet.errors.lock().unwrap_or_else(PoisonError::into_inner);
        for (state, count) in &*errors {
            *self.errors.entry(state).or_default() += count;
        }
    }

    /// The counters of one kind of statement.
    pub(crate) fn of(&self, kind: StatementKind) -> &Statement {
        &self.statements[kind as usize]
    }
}
