//! The advisory locks of one session: what it takes, what ends with its transaction, and
//! its wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_txn::Engine;

use super::table::Taken;
use super::{AdvisoryKey, AdvisoryLocks, AdvisoryMode, Span, deadlock};
use crate::error::{Error, Result, SqlState};
use crate::instance::activity::Activity;
use crate::value::calendar;

/// Time between two searches for a deadlock, as PostgreSQL's `deadlock_timeout`.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A session's share of the advisory locks. All of it ends with this value.
#[derive(Debug)]
pub(crate) struct SessionLocks {
    locks: Arc<AdvisoryLocks>,
    number: u64,
    page: Arc<Activity>,
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Own {
    /// Locks of the transaction, in the order in which it took them.
    of_transaction: Vec<(AdvisoryKey, AdvisoryMode)>,
    /// Locks that the session holds beyond its transaction: how often it has taken some and
    /// not given it back.
    of_session: u64,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Locking {
    /// The session has the lock.
    Granted,
    /// Others have it, and the call does not wait.
    Busy,
    /// The session waits for it.
    Waits(AdvisoryWait),
}

impl SessionLocks {
    pub(crate) fn new(locks: &Arc<AdvisoryLocks>, process_id: i32, page: &Arc<Activity>) -> Self {
        Self {
            number: locks.table().enter(process_id),
            locks: Arc::clone(locks),
            page: Arc::clone(page),
            own: Mutex::default(),
        }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's activity page.
    pub(crate) fn page(&self) -> &Arc<Activity> {
        &self.page
    }

    /// Takes a lock. If it is not free and `waits`, waits for it, at most for the time
    /// limit.
    pub(crate) fn lock(
        self: &Arc<Self>,
        (key, mode, span): (AdvisoryKey, AdvisoryMode, Span),
        waits: Option<Option<Duration>>,
        task: &Context<'_>,
    ) -> Result<Locking> {
        let mut table = self.locks.table();
        if table.take(self.number, key, mode, span)? == Taken::Granted {
            drop(table);
            self.has_taken(key, mode, span);
            return Ok(Locking::Granted);
        }
        let Some(limit) = waits else {
            return Ok(Locking::Busy);
        };
        table.queue((self.number, now()), key, mode, span, task.waker())?;
        drop(table);
        self.page.waits_for_advisory(true);
        let began = coeval_env::now();
        Ok(Locking::Waits(AdvisoryWait {
            session: Arc::clone(self),
            key,
            mode,
            span,
            ended: false,
            limit: limit.map(|limit| Timer::until(began + limit)),
            look: None,
            suspects: false,
        }))
    }

    fn has_taken(&self, key: AdvisoryKey, mode: AdvisoryMode, span: Span) {
        let mut own = self.own();
        match span {
            Span::Session => own.of_session += 1,
            // A transaction keeps a lock from where it took it first.
            Span::Transaction if own.of_transaction.contains(&(key, mode)) => {}
            Span::Transaction => own.of_transaction.push((key, mode)),
        }
    }

    /// Gives back a lock of the session. Returns false if it holds none like that.
    pub(crate) fn unlock(&self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        let mut table = self.locks.table();
        let held = table.release(self.number, key, mode, Span::Session);
        drop(table);
        let mut own = self.own();
        own.of_session -= u64::from(held);
        held
    }

    /// Gives back all locks of the session, but not those of its transaction.
    pub(crate) fn unlock_all(&self) {
        if std::mem::take(&mut self.own().of_session) > 0 {
            self.locks.table().release_all(self.number);
        }
    }

    /// Number of locks of the session that would outlive its transaction.
    pub(crate) fn held_beyond_transaction(&self) -> u64 {
        self.own().of_session
    }

    /// Number of locks that the transaction has taken, to [go back to](Self::roll_back_to).
    pub(crate) fn mark(&self) -> usize {
        self.own().of_transaction.len()
    }

    /// Gives back what the transaction has taken since the mark.
    pub(crate) fn roll_back_to(&self, mark: usize) {
        let mut own = self.own();
        if own.of_transaction.len() <= mark {
            return;
        }
        let taken = own.of_transaction.split_off(mark);
        drop(own);
        let mut table = self.locks.table();
        for (key, mode) in taken {
            table.release(self.number, key, mode, Span::Transaction);
        }
    }

    /// Gives back what the transaction has taken, at its end.
    #[cfg(test)]
    pub(crate) fn end_transaction(&self) {
        self.roll_back_to(0);
    }
}

impl Drop for SessionLocks {
    fn drop(&mut self) {
        self.roll_back_to(0);
        self.unlock_all();
        self.locks.table().leave(self.number);
    }
}

/// The time of day, in microseconds since 2000 UTC.
fn now() -> i64 {
    let unix = coeval_env::wall_clock().as_micros();
    i64::try_from(unix).unwrap_or(i64::MAX) - calendar::UNIX_EPOCH
}

/// A timer that can be kept in a value that several threads may see.
pub(crate) struct Timer(Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl std::fmt::Debug for Timer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Timer")
    }
}

impl Timer {
    pub(crate) fn until(moment: coeval_env::Instant) -> Self {
        Self(Mutex::new(Box::pin(coeval_env::sleep_until(moment))))
    }

    /// Whether the moment has come; otherwise the task is woken then.
    pub(crate) fn is_over(&mut self, task: &mut Context<'_>) -> bool {
        let timer = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        timer.as_mut().poll(task).is_ready()
    }
}

/// A session's wait for an advisory lock. Dropping it gives the request up.
#[derive(Debug)]
pub(crate) struct AdvisoryWait {
    session: Arc<SessionLocks>,
    key: AdvisoryKey,
    mode: AdvisoryMode,
    span: Span,
    ended: bool,
    /// The end of `lock_timeout`.
    limit: Option<Timer>,
    /// When to search for a deadlock again.
    look: Option<Timer>,
    /// Whether the last search found a cycle.
    suspects: bool,
}

impl AdvisoryWait {
    /// Ready when the session has the lock; errors 40P01 and 55P03.
    pub(crate) fn poll(
        &mut self,
        engine: Option<&dyn Engine>,
        task: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let session = Arc::clone(&self.session);
        let number = session.number;
        let waits = session
            .locks
            .table()
            .still_waits(number, self.key, task.waker());
        if !waits {
            self.end();
            session.has_taken(self.key, self.mode, self.span);
            return Poll::Ready(Ok(()));
        }
        if let Some(limit) = &mut self.limit
            && limit.is_over(task)
        {
            return Poll::Ready(Err(Error::new(
                SqlState::LOCK_NOT_AVAILABLE,
                "canceling statement due to lock timeout",
            )));
        }
        loop {
            if let Some(look) = &mut self.look
                && !look.is_over(task)
            {
                return Poll::Pending;
            }
            let first = self.look.is_none();
            self.look = Some(Timer::until(coeval_env::now() + LOOK_AGAIN));
            // Waits for advisory locks alone are one consistent list.
            if let Some(cycle) = deadlock::cycle(&session.locks, None, number) {
                return Poll::Ready(Err(self.deadlock(&cycle)));
            }
            if first {
                continue;
            }
            match deadlock::cycle(&session.locks, engine, number) {
                Some(cycle) if std::mem::replace(&mut self.suspects, true) => {
                    return Poll::Ready(Err(self.deadlock(&cycle)));
                }
                Some(_) => {}
                None => self.suspects = false,
            }
        }
    }

    fn deadlock(&self, cycle: &[i32]) -> Error {
        let (class, object, part) = self.key.numbers();
        let mine = cycle.first().copied().unwrap_or_default();
        let others: Vec<String> = cycle.iter().skip(1).map(i32::to_string).collect();
        Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").with_detail(format!(
            "Process {mine} waits for {} on advisory lock [{class},{object},{part}]; blocked by \
             process {}.",
            self.mode.name(),
            others.join(", which waits for process "),
        ))
    }

    fn end(&mut self) {
        self.ended = true;
        self.session.page.waits_for_advisory(false);
    }
}

impl Drop for AdvisoryWait {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.end();
        let mut table = self.session.locks.table();
        if !table.withdraw(self.session.number, self.key) {
            // It was granted, and the session has not looked.
            table.release(self.session.number, self.key, self.mode, self.span);
        }
    }
}
