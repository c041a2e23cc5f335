//! The table of advisory locks: holders and queues of each, in one mutex, because these
//! locks are taken by the thousand at most.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::{AdvisoryKey, AdvisoryMode, ShownLock, Span};
use crate::error::{Error, Result, SqlState};

/// Entries that one session may have.
const MOST_OF_SESSION: usize = 10_000;
/// Entries that all sessions may have.
const MOST: usize = 200_000;

/// All advisory locks of a server.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    locks: BTreeMap<AdvisoryKey, Lock>,
    sessions: BTreeMap<u64, Member>,
    last_session: u64,
    entries: usize,
}

/// A session that may take locks.
#[derive(Debug)]
struct Member {
    process_id: i32,
    entries: usize,
}

#[derive(Debug, Default)]
struct Lock {
    held: Vec<Held>,
    /// Requests in order of arrival.
    queue: Vec<Request>,
}

/// A lock that a session holds in one mode.
#[derive(Clone, Copy, Debug)]
struct Held {
    session: u64,
    mode: AdvisoryMode,
    /// How often the session has taken it and not given it back.
    times: u32,
    /// Whether its transaction holds it, too.
    of_transaction: bool,
}

#[derive(Debug)]
struct Request {
    session: u64,
    mode: AdvisoryMode,
    span: Span,
    since: i64,
    waker: Waker,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The session holds the lock.
    Granted,
    /// Others hold it.
    Busy,
}

impl AdvisoryLocks {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions for which those with this process id wait, by process id.
    pub(crate) fn blocking(&self, process_id: i32) -> Vec<i32> {
        let table = self.table();
        let mut blockers = Vec::new();
        for session in table.with_process_id(process_id) {
            table.blockers(session, &mut blockers);
        }
        blockers
            .into_iter()
            .map(|session| table.process_id(session))
            .collect()
    }

    /// All locks that are held or waited for.
    pub(crate) fn shown(&self) -> Vec<ShownLock> {
        let table = self.table();
        let mut shown = Vec::new();
        for (&key, lock) in &table.locks {
            let held = lock
                .held
                .iter()
                .map(|held| (held.session, held.mode, true, None));
            let waits = lock
                .queue
                .iter()
                .map(|request| (request.session, request.mode, false, Some(request.since)));
            for (session, mode, granted, waits_since) in held.chain(waits) {
                shown.push(ShownLock {
                    key,
                    process_id: table.process_id(session),
                    mode,
                    granted,
                    waits_since,
                });
            }
        }
        shown
    }
}

impl Table {
    /// A new session's number.
    pub(super) fn enter(&mut self, process_id: i32) -> u64 {
        self.last_session += 1;
        let entries = 0;
        self.sessions.insert(
            self.last_session,
            Member {
                process_id,
                entries,
            },
        );
        self.last_session
    }

    /// Ends a session, which has no entries left.
    pub(super) fn leave(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    pub(super) fn process_id(&self, session: u64) -> i32 {
        self.sessions
            .get(&session)
            .map_or(0, |member| member.process_id)
    }

    /// Counts one more entry of a session.
    fn count(&mut self, session: u64) -> Result<()> {
        let member = self
            .sessions
            .get_mut(&session)
            .ok_or_else(|| Error::internal("a session that has ended"))?;
        if member.entries >= MOST_OF_SESSION || self.entries >= MOST {
            return Err(too_many());
        }
        member.entries += 1;
        self.entries += 1;
        Ok(())
    }

    fn discount(&mut self, session: u64) {
        if let Some(member) = self.sessions.get_mut(&session) {
            member.entries -= 1;
            self.entries -= 1;
        }
    }

    /// Takes a lock, if no other session holds it in a mode that excludes this one or
    /// waits for such a mode already.
    pub(super) fn take(
        &mut self,
        session: u64,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        span: Span,
    ) -> Result<Taken> {
        let (mut has_mode, mut has_any, mut busy) = (false, false, false);
        if let Some(lock) = self.locks.get(&key) {
            for held in &lock.held {
                if held.session == session {
                    has_any = true;
                    has_mode |= held.mode == mode;
                } else {
                    busy |= held.mode.excludes(mode);
                }
            }
            // A holder does not queue behind those that may wait for it.
            if !has_any {
                busy |= lock.queue.iter().any(|each| each.mode.excludes(mode));
            }
        }
        if has_mode {
            self.hold(session, key, mode, span)?;
            return Ok(Taken::Granted);
        }
        if busy {
            return Ok(Taken::Busy);
        }
        self.count(session)?;
        self.hold(session, key, mode, span)?;
        Ok(Taken::Granted)
    }

    /// Enters a lock that is granted among those held. Its entry has been counted.
    fn hold(
        &mut self,
        session: u64,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        span: Span,
    ) -> Result<()> {
        let lock = self.locks.entry(key).or_default();
        let known = |held: &&mut Held| held.session == session && held.mode == mode;
        let held = match lock.held.iter_mut().find(known) {
            Some(held) => held,
            None => {
                lock.held.push(Held {
                    session,
                    mode,
                    times: 0,
                    of_transaction: false,
                });
                lock.held.last_mut().expect("it was pushed")
            }
        };
        match span {
            Span::Session => held.times = held.times.checked_add(1).ok_or_else(too_many)?,
            Span::Transaction => held.of_transaction = true,
        }
        Ok(())
    }

    /// Queues a request for a lock that is not free.
    pub(super) fn queue(
        &mut self,
        (session, since): (u64, i64),
        key: AdvisoryKey,
        mode: AdvisoryMode,
        span: Span,
        waker: &Waker,
    ) -> Result<()> {
        self.count(session)?;
        let queue = &mut self.locks.entry(key).or_default().queue;
        queue.push(Request {
            session,
            mode,
            span,
            since,
            waker: waker.clone(),
        });
        Ok(())
    }

    /// Whether the session's request still waits; notes whom to wake.
    pub(super) fn still_waits(&mut self, session: u64, key: AdvisoryKey, waker: &Waker) -> bool {
        let Some(lock) = self.locks.get_mut(&key) else {
            return false;
        };
        let mut queue = lock.queue.iter_mut();
        match queue.find(|request| request.session == session) {
            Some(request) => {
                request.waker.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Withdraws a request. Returns false if it has been granted.
    pub(super) fn withdraw(&mut self, session: u64, key: AdvisoryKey) -> bool {
        let Some(lock) = self.locks.get_mut(&key) else {
            return false;
        };
        let mut queue = lock.queue.iter();
        let Some(at) = queue.position(|request| request.session == session) else {
            return false;
        };
        lock.queue.remove(at);
        self.discount(session);
        self.grant(key);
        true
    }

    /// Gives a lock back once. Returns false if the session does not hold it that way.
    pub(super) fn release(
        &mut self,
        session: u64,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        span: Span,
    ) -> bool {
        let Some(lock) = self.locks.get_mut(&key) else {
            return false;
        };
        let mut held = lock.held.iter();
        let Some(at) = held.position(|held| held.session == session && held.mode == mode) else {
            return false;
        };
        let held = &mut lock.held[at];
        match span {
            Span::Session if held.times == 0 => return false,
            Span::Session => held.times -= 1,
            Span::Transaction if !held.of_transaction => return false,
            Span::Transaction => held.of_transaction = false,
        }
        if held.times == 0 && !held.of_transaction {
            lock.held.swap_remove(at);
            self.discount(session);
            self.grant(key);
        }
        true
    }

    /// Gives all locks back that the session holds, not its transaction. Returns the locks
    /// that neither holds any more.
    pub(super) fn release_all(&mut self, session: u64) {
        let mine = |held: &Held| held.session == session && held.times > 0;
        let locks = self.locks.iter();
        let keys: Vec<AdvisoryKey> = locks
            .filter(|(_, lock)| lock.held.iter().any(mine))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let Some(lock) = self.locks.get_mut(&key) else {
                continue;
            };
            let before = lock.held.len();
            lock.held.retain_mut(|held| {
                if held.session == session {
                    held.times = 0;
                }
                held.session != session || held.of_transaction
            });
            for _ in lock.held.len()..before {
                self.discount(session);
            }
            self.grant(key);
        }
    }

    /// Grants the lock to the requests that no holder and no earlier request excludes, and
    /// forgets a lock that no session holds or waits for.
    fn grant(&mut self, key: AdvisoryKey) {
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        let mut at = 0;
        while at < lock.queue.len() {
            let request = &lock.queue[at];
            let excludes = |session: u64, mode: AdvisoryMode| {
                session != request.session && mode.excludes(request.mode)
            };
            let holds = lock.held.iter().any(|held| held.session == request.session);
            let waits = lock
                .held
                .iter()
                .any(|held| excludes(held.session, held.mode))
                || !holds
                    && lock.queue[..at]
                        .iter()
                        .any(|earlier| excludes(earlier.session, earlier.mode));
            if waits {
                at += 1;
                continue;
            }
            let request = lock.queue.remove(at);
            lock.held.push(Held {
                session: request.session,
                mode: request.mode,
                times: u32::from(request.span == Span::Session),
                of_transaction: request.span == Span::Transaction,
            });
            request.waker.wake();
        }
        if lock.held.is_empty() && lock.queue.is_empty() {
            self.locks.remove(&key);
        }
    }

    /// The lock for which a session waits, and in which mode.
    pub(super) fn awaited(&self, session: u64) -> Option<(AdvisoryKey, AdvisoryMode)> {
        self.locks.iter().find_map(|(key, lock)| {
            let mut queue = lock.queue.iter();
            let request = queue.find(|request| request.session == session)?;
            Some((*key, request.mode))
        })
    }

    /// Appends the sessions for which a session's request waits.
    pub(super) fn blockers(&self, session: u64, blockers: &mut Vec<u64>) {
        let Some((key, mode)) = self.awaited(session) else {
            return;
        };
        let Some(lock) = self.locks.get(&key) else {
            return;
        };
        let holds = lock.held.iter().any(|held| held.session == session);
        let held = lock.held.iter().map(|held| (held.session, held.mode));
        let earlier = lock
            .queue
            .iter()
            .take_while(|request| request.session != session)
            .filter(|_| !holds)
            .map(|request| (request.session, request.mode));
        let excluding = held
            .chain(earlier)
            .filter(|(other, theirs)| *other != session && theirs.excludes(mode));
        blockers.extend(excluding.map(|(other, _)| other));
    }

    /// The sessions with this process id.
    pub(super) fn with_process_id(&self, process_id: i32) -> impl Iterator<Item = u64> {
        self.sessions
            .iter()
            .filter(move |(_, member)| member.process_id == process_id)
            .map(|(session, _)| *session)
    }

    /// Number of entries, for tests.
    #[cfg(test)]
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.entries, self.locks.len())
    }
}

/// SQLSTATE 53200: PostgreSQL's table of locks is full in the same way.
fn too_many() -> Error {
    Error::new(SqlState::OUT_OF_MEMORY, "out of shared memory").with_hint(format!(
        "A session may hold {MOST_OF_SESSION} advisory locks, all sessions {MOST}."
    ))
}
