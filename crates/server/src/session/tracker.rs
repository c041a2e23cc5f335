//! What a client has asked another node and was not answered yet.
//!
//! A cycle is what is answered with one ReadyForQuery: a Query, or everything up to a
//! Sync. Should the other node be lost, the client gets an error for every cycle it waits
//! for, and what belongs behind it; and the rest of one it has not finished is skipped, as
//! after any error.
//!
//! ```text
//!   passed on      Query   Parse Bind Execute Sync   Parse Bind
//!   answered       ...                                             the node is lost
//!   to the client  error Z   error Z                 error          (until Sync: Z)
//! ```
//!
//! A COPY FROM STDIN makes the other side take no notice of Sync until its data end
//! (PostgreSQL, "COPY Operations").

use std::collections::{BTreeMap, VecDeque};

use coeval_pgwire::backend::hot;
use coeval_pgwire::frame::kind;
use coeval_sql::{Error, SqlState};

use super::effect::Effect;
use super::report;

pub(super) use coeval_pgwire::backend::hot::TransactionStatus as Status;

/// Names that are remembered at most.
const MOST_NAMES: usize = 20_000;

/// Types of messages of a server.
pub(super) mod answer {
    pub(in crate::session) const ERROR: u8 = b'E';
    pub(in crate::session) const READY: u8 = b'Z';
    pub(in crate::session) const COPY_IN: u8 = b'G';
}

/// Something that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Query(Effect),
    Execute(Effect),
    /// Whatever else belongs to an extended query.
    Step,
    Sync,
    /// The data of a COPY have ended.
    CopyEnd,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tracker {
    asked: VecDeque<Asked>,
    /// As the last ReadyForQuery said.
    status: Status,
    /// The client sends the data of a COPY.
    copying: bool,
    /// An error was answered in the first cycle of those.
    told: bool,
    /// The other side is lost, and the client has to send Sync before anything counts.
    skipping: bool,
    /// What statements of these names do.
    statements: BTreeMap<Vec<u8>, Effect>,
    portals: BTreeMap<Vec<u8>, Effect>,
}

/// What becomes of a message of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is passed on.
    Pass,
    /// Nobody needs it.
    Drop,
    /// The client is told that it may go on.
    Ready,
}

impl Tracker {
    /// Of a client with this status, that waits for nothing; or for nothing but its own
    /// Sync.
    pub(super) const fn new(status: Status, skipping: bool) -> Self {
        Self {
            asked: VecDeque::new(),
            status,
            copying: false,
            told: false,
            skipping,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
        }
    }

    pub(super) const fn is_skipping(&self) -> bool {
        self.skipping
    }

    pub(super) const fn in_transaction(&self) -> bool {
        !matches!(self.status, Status::Idle)
    }

    /// The client sends this message. What is to be passed on is taken for passed on.
    pub(super) fn client(&mut self, message: u8, contents: &[u8]) -> Verdict {
        if self.skipping {
            return match message {
                kind::SYNC => {
                    self.skipping = false;
                    Verdict::Ready
                }
                kind::TERMINATE => Verdict::Pass,
                _ => Verdict::Drop,
            };
        }
        match message {
            kind::QUERY => {
                let text = contents.strip_suffix(b"\0").unwrap_or(contents);
                self.asked.push_back(Asked::Query(Effect::of(text)));
            }
            kind::FUNCTION_CALL => self.asked.push_back(Asked::Query(Effect::Change)),
            kind::SYNC if !self.copying => self.asked.push_back(Asked::Sync),
            kind::SYNC => {}
            kind::COPY_DONE | kind::COPY_FAIL => {
                self.copying = false;
                self.asked.push_back(Asked::CopyEnd);
            }
            kind::PARSE => {
                if let Some((name, rest)) = string(contents) {
                    let query = string(rest).map_or(rest, |(query, _)| query);
                    remember(&mut self.statements, name, Effect::of(query));
                }
                self.step();
            }
            kind::BIND => {
                if let Some((portal, rest)) = string(contents)
                    && let Some((statement, _)) = string(rest)
                {
                    let effect = effect(&self.statements, statement);
                    remember(&mut self.portals, portal, effect);
                }
                self.step();
            }
            kind::EXECUTE => {
                let portal = string(contents).map_or(&[][..], |(portal, _)| portal);
                let effect = effect(&self.portals, portal);
                self.asked.push_back(Asked::Execute(effect));
            }
            kind::CLOSE | kind::DESCRIBE => self.step(),
            _ => {}
        }
        Verdict::Pass
    }

    /// One mark stands for any number of them.
    fn step(&mut self) {
        if self.asked.back() != Some(&Asked::Step) {
            self.asked.push_back(Asked::Step);
        }
    }

    /// The other side sends this message.
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
                if self.status == Status::Idle {
                    self.portals.clear();
                }
                while let Some(asked) = self.asked.pop_front() {
                    if matches!(asked, Asked::Query(_) | Asked::Sync) {
                        break;
                    }
                }
            }
            answer::ERROR => {
                self.told = true;
                self.copying = false;
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
            _ => {}
        }
    }

    /// The other side is lost: writes what the client is told. Returns whether it waited
    /// for anything.
    pub(super) fn lost(&mut self, out: &mut Vec<u8>) -> bool {
        let mut open = self.status != Status::Idle;
        let mut waited = false;
        while self.has_asked() {
            waited = true;
            let mut unknown = false;
            let mut within = open;
            let mut ended = false;
            let mut last = None;
            while let Some(asked) = self.asked.pop_front() {
                last = Some(asked);
                if let Asked::Query(effect) | Asked::Execute(effect) = asked {
                    match effect {
                        Effect::Begin => within = true,
                        Effect::Commit => {
                            unknown |= within;
                            (within, ended) = (false, true);
                        }
                        Effect::Rollback => (within, ended) = (false, true),
                        Effect::Nothing => {}
                        Effect::Change => unknown |= !within,
                        Effect::Several { may_end } => {
                            unknown |= !within || may_end;
                            within &= !may_end;
                            ended |= may_end;
                        }
                    }
                }
                if matches!(asked, Asked::Query(_) | Asked::Sync) {
                    break;
                }
            }
            // A transaction that was begun in a cycle without an answer is none.
            open = open && !ended;
            self.status = if open { Status::Failed } else { Status::Idle };
            if !std::mem::take(&mut self.told) {
                report::error(out, &leader_changed(unknown));
            }
            if matches!(last, Some(Asked::Query(_) | Asked::Sync)) {
                hot::ready_for_query(out, self.status);
            } else {
                self.skipping = true;
            }
        }
        self.asked.clear();
        self.copying = false;
        self.portals.clear();
        waited
    }

    fn has_asked(&self) -> bool {
        let mut asked = self.asked.iter();
        asked.any(|asked| *asked != Asked::CopyEnd)
    }

    /// Nobody can be asked what the client sends: writes what it is told instead.
    pub(super) fn refuse(&mut self, message: u8, error: &Error, out: &mut Vec<u8>) {
        match message {
            kind::SYNC => {
                self.skipping = false;
                self.ready(out);
            }
            _ if self.skipping => {}
            kind::QUERY | kind::FUNCTION_CALL => {
                report::error(out, error);
                self.fail();
                self.ready(out);
            }
            kind::PARSE | kind::BIND | kind::EXECUTE | kind::DESCRIBE | kind::CLOSE => {
                report::error(out, error);
                self.fail();
                self.skipping = true;
            }
            _ => {}
        }
    }

    fn fail(&mut self) {
        if self.in_transaction() {
            self.status = Status::Failed;
        }
    }

    /// The client may go on.
    pub(super) fn ready(&self, out: &mut Vec<u8>) {
        hot::ready_for_query(out, self.status);
    }
}

/// 40001 where nothing was committed, 40003 where nobody knows.
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

fn remember(names: &mut BTreeMap<Vec<u8>, Effect>, name: &[u8], effect: Effect) {
    if let Some(known) = names.get_mut(name) {
        *known = effect;
    } else if names.len() < MOST_NAMES {
        names.insert(name.to_vec(), effect);
    }
}

fn effect(names: &BTreeMap<Vec<u8>, Effect>, name: &[u8]) -> Effect {
    // What is not known of a statement may be that it commits.
    let unknown = Effect::Several { may_end: true };
    names.get(name).copied().unwrap_or(unknown)
}

/// A string that ends with a zero, and what follows it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker() -> Tracker {
        Tracker::new(Status::Idle, false)
    }

    fn query(tracker: &mut Tracker, text: &str) {
        let contents = [text.as_bytes(), b"\0"].concat();
        assert_eq!(tracker.client(kind::QUERY, &contents), Verdict::Pass);
    }

    /// What the client is told: types of messages, with the SQLSTATE of errors and the
    /// status of ReadyForQuery.
    fn lost(tracker: &mut Tracker) -> String {
        let mut out = Vec::new();
        tracker.lost(&mut out);
        told(&out)
    }

    fn told(mut out: &[u8]) -> String {
        let mut words = Vec::new();
        while let Some((&message, rest)) = out.split_first() {
            let length = i32::from_be_bytes(*rest.first_chunk().unwrap()) as usize;
            let contents = &rest[4..length];
            words.push(match message {
                answer::READY => format!("Z{}", char::from(contents[0])),
                answer::ERROR => {
                    let mut fields = contents.split(|&byte| byte == 0);
                    let state = fields.find_map(|field| field.strip_prefix(b"C"));
                    String::from_utf8(state.unwrap().to_vec()).unwrap()
                }
                other => char::from(other).to_string(),
            });
            out = &rest[length..];
        }
        words.join(" ")
    }

    #[test]
    fn who_waits_for_nothing_is_told_nothing() {
        let mut tracker = tracker();
        query(&mut tracker, "insert into t values (1)");
        tracker.answered(b'C', b"INSERT 0 1\0");
        tracker.answered(answer::READY, b"I");
        assert_eq!(lost(&mut tracker), "");
        assert!(!tracker.in_transaction());
    }

    #[test]
    fn a_commit_may_have_happened_and_the_rest_has_not() {
        for (status, text, expected) in [
            ("I", "select 1", "40001 ZI"),
            ("I", "begin", "40001 ZI"),
            ("I", "insert into t values (1)", "40003 ZI"),
            ("T", "insert into t values (1)", "40001 ZE"),
            ("T", "commit", "40003 ZI"),
            ("T", "rollback", "40001 ZI"),
            ("T", "select 1; commit", "40003 ZI"),
            ("T", "select 1; select 2", "40001 ZE"),
            ("E", "select 1", "40001 ZE"),
        ] {
            let mut tracker = tracker();
            tracker.answered(answer::READY, status.as_bytes());
            query(&mut tracker, text);
            assert_eq!(lost(&mut tracker), expected, "{status} {text}");
        }
    }

    #[test]
    fn every_cycle_is_answered_and_an_open_one_waits_for_sync() {
        let mut tracker = tracker();
        let steps: [(u8, &[u8]); 9] = [
            (kind::PARSE, b"s\0insert into t values (1)\0\0\0"),
            (kind::BIND, b"\0s\0"),
            (kind::EXECUTE, b"\0\0\0\0\0"),
            (kind::SYNC, b""),
            (kind::PARSE, b"\0select 1\0\0\0"),
            (kind::BIND, b"\0\0"),
            (kind::EXECUTE, b"\0\0\0\0\0"),
            (kind::SYNC, b""),
            (kind::PARSE, b"\0select 2\0\0\0"),
        ];
        for (message, contents) in steps {
            assert_eq!(tracker.client(message, contents), Verdict::Pass);
        }
        assert_eq!(lost(&mut tracker), "40003 ZI 40001 ZI 40001");
        assert_eq!(tracker.client(kind::BIND, b"\0\0"), Verdict::Drop);
        assert_eq!(tracker.client(kind::SYNC, b""), Verdict::Ready);
        assert_eq!(tracker.client(kind::BIND, b"\0s\0"), Verdict::Pass);
    }

    #[test]
    fn an_error_is_told_once() {
        let mut tracker = tracker();
        query(&mut tracker, "insert into t values (1)");
        tracker.answered(answer::ERROR, b"");
        assert_eq!(lost(&mut tracker), "ZI");
        tracker.client(kind::PARSE, b"\0select 1\0\0\0");
        tracker.answered(answer::ERROR, b"");
        assert_eq!(lost(&mut tracker), "");
        assert!(tracker.is_skipping());
    }

    #[test]
    fn a_copy_swallows_sync_until_its_data_end() {
        let mut tracker = tracker();
        tracker.client(kind::PARSE, b"\0copy t from stdin\0\0\0");
        tracker.client(kind::BIND, b"\0\0");
        tracker.client(kind::EXECUTE, b"\0\0\0\0\0");
        tracker.client(kind::SYNC, b"");
        tracker.answered(answer::COPY_IN, b"");
        tracker.client(kind::COPY_DATA, b"1\n");
        tracker.client(kind::SYNC, b"");
        tracker.client(kind::COPY_DONE, b"");
        tracker.client(kind::SYNC, b"");
        assert_eq!(lost(&mut tracker), "40003 ZI");
        query(&mut tracker, "copy t from stdin");
        tracker.answered(answer::COPY_IN, b"");
        tracker.client(kind::COPY_DATA, b"1\n");
        assert_eq!(lost(&mut tracker), "40003 ZI");
        assert!(!tracker.is_skipping());
    }

    #[test]
    fn without_a_leader_each_cycle_is_refused() {
        let mut tracker = tracker();
        let error = Error::new(SqlState("57P03"), "nobody");
        let mut out = Vec::new();
        for message in [kind::QUERY, kind::PARSE, kind::BIND, kind::SYNC, kind::SYNC] {
            tracker.refuse(message, &error, &mut out);
        }
        assert_eq!(told(&out), "57P03 ZI 57P03 ZI ZI");
    }
}
