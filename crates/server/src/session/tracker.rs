//! Tracker of a relayed client's unanswered requests: it decides which error each of them
//! gets if the leader is lost.
//!
//! A cycle is a sequence of messages that is answered with one ReadyForQuery: a Query, or
//! everything up to a Sync. If the leader is lost, the client gets an error and a
//! ReadyForQuery for every cycle it waits for; the tracker skips the rest of an
//! unfinished cycle, as after any error.
//!
//! ```text
//!   passed on      Query   Parse Bind Execute Sync   Parse Bind
//!   answered       ...                                             the node is lost
//!   to the client  error Z   error Z                 error          (until Sync: Z)
//! ```
//!
//! While a COPY FROM STDIN runs, the server ignores Sync until the data end (PostgreSQL,
//! "COPY Operations").
//!
//! A client may pipeline cycles, so one that changes data without committing is in doubt
//! as well, if a later one may have committed. The effect of a prepared statement is
//! taken from the session's handover state at the last ReadyForQuery, and from the Parse
//! messages since then.
//!
//! Invariants:
//! - The client is never told that a transaction was rolled back if it may have been
//!   committed.
//! - No cycle has an unknown outcome whose statements only read, unless it is part of a
//!   transaction that has one.

use std::collections::{BTreeMap, VecDeque};

use coeval_pgwire::backend::hot;
use coeval_pgwire::frame::kind;
use coeval_sql::{Error, SqlState};

use super::effect::{self, Effect};
use super::owed::{Owed, Treatment};
use super::report;

pub(super) use coeval_pgwire::backend::hot::TransactionStatus as Status;

/// Maximum number of remembered names, of statements and of portals each.
const MAX_NAMES: usize = 10_000;
/// Maximum length of a remembered name, in bytes.
const LONGEST_NAME: usize = 256;

/// Types of a server's messages that the tracker reads.
pub(super) mod answer {
    pub(in crate::session) const ERROR: u8 = b'E';
    pub(in crate::session) const READY: u8 = b'Z';
    pub(in crate::session) const COPY_IN: u8 = b'G';
    /// What the steps of the extended query protocol get, one each: ParseComplete,
    /// BindComplete, CloseComplete, RowDescription or NoData, and CommandComplete,
    /// PortalSuspended or EmptyQueryResponse.
    pub(in crate::session) const OF_STEPS: &[u8] = b"123TnCsI";
}

/// An unanswered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Query(Effect),
    Execute(Effect),
    /// This number of other messages of the extended query protocol.
    Steps(u64),
    Sync,
    /// The end of the data of a COPY.
    CopyEnd,
}

impl Asked {
    /// Whether the server answers it with ReadyForQuery.
    const fn is_end(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Sync)
    }
}

/// The state of a relayed client's requests; see the module's documentation.
#[derive(Debug)]
pub(super) struct Tracker {
    asked: VecDeque<Asked>,
    /// The transaction status in the last ReadyForQuery.
    status: Status,
    /// Whether the client is sending the data of a COPY.
    copying: bool,
    /// Whether the first unanswered cycle has got an error already.
    told: bool,
    /// Number of answers to steps since the last ReadyForQuery.
    steps_answered: u64,
    /// Whether the leader skips messages until the client sends Sync.
    leader_skips: bool,
    /// What the client is owed for a cycle that was lost with its leader: nothing, or
    /// ReadyForQuery once it sends Sync.
    owed: Owed,
    /// Effects of the statements in unanswered Parse messages.
    parsed: Names,
    portals: Names,
}

/// The known effects of statements or portals, by name.
#[derive(Debug)]
struct Names {
    effects: BTreeMap<Vec<u8>, Effect>,
    /// Whether a name is missing, or its effect may be wrong.
    doubtful: bool,
}

impl Names {
    const NONE: Self = Self {
        effects: BTreeMap::new(),
        doubtful: false,
    };

    fn remember(&mut self, name: &[u8], effect: Effect) {
        if let Some(known) = self.effects.get_mut(name) {
            *known = effect;
        } else if self.effects.len() < MAX_NAMES && name.len() <= LONGEST_NAME {
            self.effects.insert(name.to_vec(), effect);
        } else {
            self.doubtful = true;
        }
    }

    /// The effect of this name; `None` where no message has set it.
    fn effect(&self, name: &[u8]) -> Option<Effect> {
        let doubt = self.doubtful.then_some(Effect::UNKNOWN);
        doubt.or_else(|| self.effects.get(name).copied())
    }

    /// Marks all as doubtful: after an error the server may have skipped any of them.
    fn doubt(&mut self) {
        self.doubtful |= !self.effects.is_empty();
    }

    fn clear(&mut self) {
        self.effects.clear();
        self.doubtful = false;
    }
}

/// Whether a transaction block may be open, and whether no block may be open.
#[derive(Clone, Copy, Debug)]
struct Block {
    open: bool,
    none: bool,
}

/// A cycle whose answer is lost.
#[derive(Debug)]
struct Cycle {
    /// Whether this or a later cycle may have committed its changes.
    unknown: bool,
    /// Whether a transaction may be open at the end of the cycle.
    open: bool,
    /// Whether an open transaction block has ended in the cycle.
    ends: bool,
    /// Whether the client has sent the cycle to its end.
    whole: bool,
    /// Whether the cycle is a Sync alone, which asks for nothing that could fail.
    is_sync: bool,
}

/// What the relay does with a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The relay forwards it to the leader.
    Pass,
    /// The relay drops it: it has no effect any more.
    Drop,
    /// The client gets ReadyForQuery.
    Ready,
}

impl Tracker {
    /// A tracker of a client with this status and without unanswered requests; `owed`
    /// says whether the client still has to send Sync.
    pub(super) const fn new(status: Status, owed: Owed) -> Self {
        Self {
            asked: VecDeque::new(),
            status,
            copying: false,
            told: false,
            steps_answered: 0,
            leader_skips: false,
            owed,
            parsed: Names::NONE,
            portals: Names::NONE,
        }
    }

    pub(super) const fn is_skipping(&self) -> bool {
        self.owed.is_skipping()
    }

    /// Whether the client waits for nothing and owes nothing: the leader has handled all of
    /// its messages.
    fn is_answered(&self) -> bool {
        self.asked.is_empty() && self.owed.is_nothing() && !self.copying && !self.leader_skips
    }

    /// Whether besides that the client is in no transaction block: its next message begins a
    /// cycle that depends on none before.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_answered() && !self.in_transaction()
    }

    /// Whether a message that is forwarded begins a cycle that may commit. A Sync alone does
    /// not: it is a whole cycle.
    pub(super) fn begins_cycle(&self, message: u8) -> bool {
        let is_between = self.asked.back().is_none_or(Asked::is_end);
        is_between
            && !(self.is_skipping() || self.leader_skips || self.copying)
            && matches!(
                message,
                kind::QUERY
                    | kind::FUNCTION_CALL
                    | kind::PARSE
                    | kind::BIND
                    | kind::DESCRIBE
                    | kind::EXECUTE
                    | kind::CLOSE
            )
    }

    /// What the client is owed by the node where its session runs next.
    pub(super) const fn owed(&self) -> Owed {
        self.owed
    }

    /// Records that the client is in a transaction block, which has begun elsewhere.
    pub(super) const fn enter_block(&mut self) {
        self.status = Status::Transaction;
    }

    pub(super) const fn in_transaction(&self) -> bool {
        !matches!(self.status, Status::Idle)
    }

    /// Tracks a message of the client. A message that this function passes counts as
    /// forwarded. `prepared` returns the effect of the statement of a name at the last
    /// ReadyForQuery, if it is known.
    pub(super) fn client(
        &mut self,
        message: u8,
        contents: &[u8],
        prepared: impl FnOnce(&[u8]) -> Option<Effect>,
    ) -> Verdict {
        if self.is_skipping() {
            return match self.owed.take(message) {
                Treatment::Handle if message == kind::SYNC => {
                    self.owed.ready();
                    Verdict::Ready
                }
                Treatment::Handle => Verdict::Pass,
                Treatment::Skip | Treatment::CopyData => Verdict::Drop,
            };
        }
        match message {
            // It is not answered.
            kind::QUERY | kind::FUNCTION_CALL if self.leader_skips => {}
            kind::QUERY => {
                let text = contents.strip_suffix(b"\0").unwrap_or(contents);
                let mut effect = Effect::of(text);
                // What the client has asked before may prepare another one of that name.
                if effect == Effect::Change
                    && self.asked.is_empty()
                    && let Some(name) = effect::executed(text)
                {
                    effect = prepared(name.as_bytes()).unwrap_or(effect);
                }
                self.asked.push_back(Asked::Query(effect));
            }
            kind::FUNCTION_CALL => self.asked.push_back(Asked::Query(Effect::Change)),
            kind::SYNC if !self.copying => {
                self.leader_skips = false;
                self.asked.push_back(Asked::Sync);
            }
            kind::SYNC => {}
            kind::COPY_DONE | kind::COPY_FAIL => {
                self.copying = false;
                // Without a request that may be a COPY, it ends one that has failed.
                if !self.asked.is_empty() {
                    self.asked.push_back(Asked::CopyEnd);
                }
            }
            kind::PARSE => {
                if let Some((name, rest)) = string(contents) {
                    let query = string(rest).map_or(rest, |(query, _)| query);
                    self.parsed.remember(name, Effect::of_one(query));
                }
                self.step();
            }
            kind::BIND => {
                if let Some((portal, rest)) = string(contents)
                    && let Some((statement, _)) = string(rest)
                {
                    let parsed = self.parsed.effect(statement);
                    let effect = parsed.or_else(|| prepared(statement));
                    let effect = effect.unwrap_or(Effect::UNKNOWN);
                    self.portals.remember(portal, effect);
                }
                self.step();
            }
            kind::EXECUTE => {
                let portal = string(contents).map_or(&[][..], |(portal, _)| portal);
                let effect = self.portals.effect(portal).unwrap_or(Effect::UNKNOWN);
                self.asked.push_back(Asked::Execute(effect));
            }
            kind::CLOSE | kind::DESCRIBE => self.step(),
            _ => {}
        }
        Verdict::Pass
    }

    /// Records a step; one mark represents any number of consecutive steps.
    fn step(&mut self) {
        match self.asked.back_mut() {
            Some(Asked::Steps(number)) => *number += 1,
            _ => self.asked.push_back(Asked::Steps(1)),
        }
    }

    /// Tracks a message of the leader.
    pub(super) fn answered(&mut self, message: u8, contents: &[u8]) {
        match message {
            answer::READY => {
                self.status = match contents.first() {
                    Some(b'T') => Status::Transaction,
                    Some(b'E') => Status::Failed,
                    _ => Status::Idle,
                };
                self.told = false;
                self.copying = false;
                (self.steps_answered, self.leader_skips) = (0, false);
                if self.status == Status::Idle {
                    self.portals.clear();
                }
                while let Some(asked) = self.asked.pop_front() {
                    if asked.is_end() {
                        break;
                    }
                }
                // They end a COPY of the cycle that is answered.
                while self.asked.front() == Some(&Asked::CopyEnd) {
                    self.asked.pop_front();
                }
                if self.asked.is_empty() {
                    self.parsed.clear();
                }
            }
            answer::ERROR => {
                self.told = true;
                self.copying = false;
                self.skip_to_sync();
                self.in_doubt();
            }
            answer::COPY_IN => {
                let end = self.asked.iter().position(|asked| *asked == Asked::CopyEnd);
                self.copying = end.is_none();
                let mut at = 0;
                self.asked.retain(|asked| {
                    let ignored = *asked == Asked::Sync && end.is_none_or(|end| at < end);
                    at += 1;
                    !ignored
                });
            }
            _ if answer::OF_STEPS.contains(&message) => self.steps_answered += 1,
            _ => {}
        }
    }

    /// After the error of a step the leader skips all messages until Sync: a Query among
    /// them gets no answer. The error of a Query is not one of a step before it, which has
    /// been answered then.
    fn skip_to_sync(&mut self) {
        let mut steps = 0;
        for asked in &self.asked {
            match asked {
                Asked::Steps(number) => steps += number,
                Asked::Execute(_) => steps += 1,
                Asked::CopyEnd => {}
                Asked::Query(_) | Asked::Sync => break,
            }
        }
        if self.steps_answered >= steps {
            return;
        }
        let sync = self.asked.iter().position(|asked| *asked == Asked::Sync);
        self.leader_skips = sync.is_none();
        let mut at = 0;
        self.asked.retain(|asked| {
            let is_skipped = matches!(asked, Asked::Query(_)) && sync.is_none_or(|sync| at < sync);
            at += 1;
            !is_skipped
        });
    }

    /// After an error the server skips the rest of the cycle, Parse and Bind included, so
    /// the effects of later cycles that use their names are unknown.
    fn in_doubt(&mut self) {
        self.parsed.doubt();
        self.portals.doubt();
        let end = self.asked.iter().position(Asked::is_end);
        for asked in self
            .asked
            .iter_mut()
            .skip(end.map_or(usize::MAX, |end| end + 1))
        {
            if let Asked::Execute(effect) = asked {
                *effect = Effect::UNKNOWN;
            }
        }
    }

    /// The leader is lost: writes the errors of all unanswered cycles. Returns whether
    /// the client waited for any.
    pub(super) fn lost(&mut self, out: &mut Vec<u8>) -> bool {
        let mut open = self.status != Status::Idle;
        let mut block = Block { open, none: !open };
        let mut cycles = Vec::new();
        while self.has_asked() {
            cycles.push(self.next_cycle(&mut block));
        }
        let mut behind = false;
        for cycle in cycles.iter_mut().rev() {
            cycle.unknown |= cycle.open && behind;
            behind = cycle.unknown;
        }
        for cycle in &cycles {
            // A transaction that was begun in a lost cycle does not exist any more.
            open = open && !cycle.ends;
            self.status = if open { Status::Failed } else { Status::Idle };
            let told = std::mem::take(&mut self.told);
            if !told && !cycle.is_sync {
                report::error(out, &leader_changed(cycle.unknown));
            }
            if cycle.whole {
                hot::ready_for_query(out, self.status);
            } else {
                self.owed = Owed::SYNC;
            }
        }
        self.asked.clear();
        self.copying = false;
        (self.steps_answered, self.leader_skips) = (0, false);
        self.parsed.clear();
        self.portals.clear();
        !cycles.is_empty()
    }

    /// Removes the oldest cycle. `block` is the possible state of the transaction block
    /// at its beginning, and on return at its end: the server may have stopped before any
    /// of the requests, so a state that was possible stays possible.
    fn next_cycle(&mut self, block: &mut Block) -> Cycle {
        // While the client sends its data, a COPY and the statements before it in its
        // transaction are not committed.
        let copying = std::mem::take(&mut self.copying);
        let mut cycle = Cycle {
            unknown: false,
            open: false,
            ends: false,
            whole: false,
            is_sync: self.asked.front() == Some(&Asked::Sync),
        };
        while let Some(asked) = self.asked.pop_front() {
            if let Asked::Query(effect) | Asked::Execute(effect) = asked {
                match effect {
                    Effect::Begin => block.open = true,
                    Effect::Commit => {
                        cycle.unknown |= block.open;
                        block.none = true;
                        cycle.ends = true;
                    }
                    Effect::Rollback => {
                        block.none = true;
                        cycle.ends = true;
                    }
                    Effect::Nothing => {}
                    Effect::Change => cycle.unknown |= block.none && !copying,
                    Effect::Several(all) => {
                        let changes = all.changes && (block.none || all.ends);
                        cycle.unknown |= changes || block.open && all.commits;
                        block.open |= all.begins;
                        block.none |= all.ends;
                        cycle.ends |= all.ends;
                    }
                }
            }
            if asked.is_end() {
                cycle.whole = true;
                break;
            }
        }
        cycle.open = block.open;
        cycle
    }

    fn has_asked(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|asked| *asked != Asked::CopyEnd)
    }

    /// Whether the client waits for a ReadyForQuery.
    pub(super) fn waits(&self) -> bool {
        self.asked.iter().any(Asked::is_end)
    }

    /// Whether the client is sending the data of a COPY.
    pub(super) const fn is_copying(&self) -> bool {
        self.copying
    }

    /// Handles a message of a client that has to send Sync first.
    pub(super) fn skip(&mut self, message: u8, out: &mut Vec<u8>) {
        self.owed.take(message);
        if message == kind::SYNC {
            self.owed.ready();
            self.ready(out);
        }
    }

    /// Answers a client's message with an error, because the cluster has no leader.
    pub(super) fn refuse(&mut self, message: u8, error: &Error, out: &mut Vec<u8>) {
        match message {
            kind::SYNC => self.skip(message, out),
            _ if self.is_skipping() => {}
            kind::QUERY | kind::FUNCTION_CALL => {
                report::error(out, error);
                self.fail();
                self.ready(out);
            }
            kind::PARSE | kind::BIND | kind::EXECUTE | kind::DESCRIBE | kind::CLOSE => {
                report::error(out, error);
                self.fail();
                self.owed = Owed::SYNC;
            }
            _ => {}
        }
    }

    fn fail(&mut self) {
        if self.in_transaction() {
            self.status = Status::Failed;
        }
    }

    /// Writes ReadyForQuery.
    pub(super) fn ready(&self, out: &mut Vec<u8>) {
        hot::ready_for_query(out, self.status);
    }
}

/// SQLSTATE 40001, `serialization_failure`, where nothing was committed; 40003,
/// `statement_completion_unknown`, where that is not known.
pub(super) fn leader_changed(unknown: bool) -> Error {
    if unknown {
        let message = "the leader of the cluster has changed while a commit was under way";
        return Error::new(SqlState("40003"), message)
            .with_detail("Whether the transaction was committed is not known.")
            .with_hint(
                "Look whether it was before you run it again; txid_status() tells it of a \
                 transaction that has asked for its number.",
            );
    }
    let message = "the transaction was rolled back because the leader of the cluster has changed";
    Error::new(SqlState::SERIALIZATION_FAILURE, message)
        .with_hint("Run the transaction again; the new leader takes over the session.")
}

/// A string that ends with a zero byte, and the bytes after it.
pub(super) fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests;
