//! Lock waits: waiting for a lock that another transaction holds.
//!
//! A call that needs a lock tries it, and when the lock is taken polls here. The answer
//! is either *try again*, after the transaction entered the queue or was woken, or
//! *pending*. So each poll ends with a failed attempt made after the queue knew that this
//! transaction waits, as [`crate::locks::queues`] requires.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use coeval_txn::{Cause, ConflictLocation, Error, GaveWay};
use coeval_types::{Rid, RowLock, Timestamp, TransactionId};

use super::TransactionContext;
use super::state::{Held, Shares, StorageAt};
use super::waiting::{Entered, Wait, Waiting};
use crate::locks::queues::{LockName, Turn};
use crate::locks::rows::Tried;
use crate::storage::Storage;

impl TransactionContext<'_> {
    /// Waits for `wait`, whose lock was just found taken. When ready, the caller must try
    /// it again.
    pub(super) fn poll_wait(
        &mut self,
        wait: Wait,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let name = wait.name();
        if self
            .state
            .waiting
            .as_ref()
            .is_some_and(|now| now.name != name || now.wait.mode() != wait.mode())
        {
            self.stop_waiting(false);
        }
        let Some(waiting) = &mut self.state.waiting else {
            return Poll::Ready(self.begin_waiting(wait, name, context));
        };
        if !waiting.tried {
            waiting.tried = true;
            let id = self.state.id;
            match self.shared.queues.look_again(&name, id, context.waker()) {
                // The lock was handed over: the next attempt finds that this transaction
                // holds it.
                Turn::Granted | Turn::Try => return Poll::Ready(Ok(())),
            }
        }
        waiting.tried = false;
        if waiting.wait.mode().is_some() {
            self.shared.queues.tried_in_vain(&name, self.state.id);
        }
        if waiting.wait.has_late_holders() {
            self.enter_graph()?;
        }
        let Some(waiting) = &mut self.state.waiting else {
            unreachable!("it goes on waiting")
        };
        let canceled = self
            .state
            .cancel
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Acquire));
        if canceled {
            self.stop_waiting(false);
            return Poll::Ready(Err(Error::Canceled));
        }
        if let Some(timeout) = self.state.lock_timeout {
            let timer = waiting
                .timer
                .get_or_insert_with(|| Box::pin(coeval_env::sleep(timeout)));
            if timer.as_mut().poll(context).is_ready() {
                let place = waiting.wait.place();
                let mut holders = Vec::new();
                let id = self.state.id;
                waiting.wait.holders(id, self.shared, &mut holders);
                self.note_conflict(GaveWay::LockTimeout, &place, holders.first().copied());
                self.stop_waiting(false);
                return Poll::Ready(Err(Error::LockTimeout(place)));
            }
        }
        Poll::Pending
    }

    /// Counts a conflict that this transaction lost to `winner`.
    pub(super) fn note_conflict(
        &self,
        why: GaveWay,
        place: &ConflictLocation,
        winner: Option<TransactionId>,
    ) {
        let winner = winner.map(|winner| self.shared.party(winner));
        let loser = self.shared.party(self.state.id);
        self.shared.conflicts.note(why, place, loser, winner);
    }

    /// As [`TransactionContext::conflict`], with the transaction that committed at this timestamp.
    pub(super) fn conflict_with_commit(
        &self,
        cause: Cause,
        place: ConflictLocation,
        other: Option<TransactionId>,
        committed: Option<Timestamp>,
    ) -> Error {
        let committer = || Some(self.shared.committers.at(committed?)?.transaction);
        let other = other.or_else(committer);
        self.conflict(cause, place, other).with_commit(committed)
    }

    /// Counts a conflict, and returns its error.
    pub(super) fn conflict(
        &self,
        cause: Cause,
        place: ConflictLocation,
        other: Option<TransactionId>,
    ) -> Error {
        self.note_conflict(GaveWay::Conflict(cause), &place, other);
        Error::conflict(cause, place, other)
    }

    fn begin_waiting(
        &mut self,
        wait: Wait,
        name: LockName,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let id = self.state.id;
        let wanted = (id, wait.mode());
        self.shared.queues.enqueue(&name, wanted, context.waker());
        if let Some(observer) = &self.state.observer {
            observer.waits(&wait.place());
        }
        self.state.waiting = Some(Waiting {
            wait,
            name,
            since: coeval_env::now(),
            tried: true,
            timer: None,
        });
        self.enter_graph()
    }

    /// Enters the wait in the wait-for graph. Fails if this transaction is chosen as the
    /// victim of a deadlock that the wait would close.
    fn enter_graph(&mut self) -> Result<(), Error> {
        let (shared, id) = (self.shared, self.state.id);
        let Some(waiting) = &self.state.waiting else {
            return Ok(());
        };
        let entry = Entered {
            wait: waiting.wait.clone(),
            since: waiting.since,
        };
        let circle = match shared.graph.enter(id, entry, shared) {
            Ok(passed) => {
                for entry in passed {
                    shared.queues.released_to_all(&entry.wait.name());
                }
                return Ok(());
            }
            Err(circle) => circle,
        };
        let place = waiting.wait.place();
        self.note_conflict(GaveWay::Deadlock, &place, circle.get(1).copied());
        self.stop_waiting(false);
        shared.counters.deadlock();
        Err(Error::Deadlock { place, circle })
    }

    /// Ends the wait for a lock that this transaction now holds. A wait for another lock
    /// continues: its wake-up may still be needed.
    pub(super) fn acquired(&mut self, is_lock: impl FnOnce(&Wait) -> bool) {
        let waiting = self.state.waiting.as_ref();
        if waiting.is_some_and(|waiting| is_lock(&waiting.wait)) {
            self.stop_waiting(true);
        }
    }

    /// Ends a wait, if there is one. `acquired` says that this transaction took the lock
    /// in an attempt of its own; a lock that was handed over is kept in any case, and
    /// freed when the transaction ends.
    #[inline]
    pub(super) fn stop_waiting(&mut self, acquired: bool) {
        if self.state.waiting.is_some() {
            self.end_wait(acquired);
        }
    }

    #[cold]
    fn end_wait(&mut self, acquired: bool) {
        let Some(waiting) = self.state.waiting.take() else {
            return;
        };
        let id = self.state.id;
        let time = waiting.since.elapsed();
        self.shared.counters.waited(waiting.wait.kind(), time);
        if let Some(observer) = &self.state.observer {
            observer.goes_on();
        }
        let granted = self.shared.queues.leave(&waiting.name, id, acquired);
        self.shared.graph.leave(id);
        match waiting.wait {
            Wait::Row { storage, rid, mode } if granted => {
                let at = self.storage_at(&storage);
                match mode.filter(|mode| mode.is_shared()) {
                    Some(_) => self.state.shares.push(Shares {
                        storage: at,
                        rid,
                        before: None,
                    }),
                    None => self.holds(Held { storage: at, rid }),
                }
            }
            Wait::Key(_, index, key) if granted => self.state.keys.push((index.id, key)),
            Wait::Table { storage, .. } => {
                storage.locks.withdraw(id);
                if !acquired {
                    self.shared.queues.released_to_all(&waiting.name);
                }
            }
            Wait::Row { .. } | Wait::Key(..) => {}
        }
    }

    fn storage_at(&mut self, storage: &Arc<Storage>) -> StorageAt {
        match self
            .state
            .storages
            .iter()
            .position(|known| known.id == storage.id)
        {
            Some(at) => at,
            None => self.state.add_storage(Arc::clone(storage)),
        }
    }

    /// Records a row lock, for a row that is about to be written.
    pub(super) fn holds(&mut self, row: Held) {
        if !std::mem::replace(&mut self.state.announced, true) {
            self.shared.log.writer_begins();
        }
        self.state.held.push(row);
    }

    /// Notifies the log that this transaction is not about to commit any more: its commit
    /// was logged, or abandoned.
    pub(super) fn no_writer(&mut self) {
        if std::mem::take(&mut self.state.announced) {
            self.shared.log.writer_ends();
        }
    }

    /// The waiter that has to lock this row before this transaction, which would wait.
    #[inline]
    pub(super) fn goes_before(
        &self,
        storage: StorageAt,
        rid: Rid,
        mode: RowLock,
    ) -> Option<TransactionId> {
        if !mode.is_shared() && self.state.waiting.is_none() {
            return None;
        }
        self.first_in_queue(storage, rid, mode)
    }

    #[cold]
    fn first_in_queue(&self, storage: StorageAt, rid: Rid, mode: RowLock) -> Option<TransactionId> {
        let (shared, id) = (self.shared, self.state.id);
        let table = &self.state.storages[storage];
        let name = LockName::Row(table.id, rid);
        let first = shared.queues.goes_before(&name, id, mode)?;
        // One that holds the row keeps the others waiting as it is, and would wait for them
        // in a circle.
        let record = table.records.record(rid)?;
        let holds =
            record.holder() == Some(id) || shared.rows.share_of((table.id, rid), id).is_some();
        (!holds).then_some(first)
    }

    /// Tries to lock a row, and records the lock when it was acquired. An answer other than
    /// `HeldBy` ends the wait for it.
    pub(super) fn try_lock(&mut self, storage: StorageAt, rid: Rid, mode: RowLock) -> Tried {
        let (shared, id) = (self.shared, self.state.id);
        let table = &self.state.storages[storage];
        let Some(record) = table.records.record(rid) else {
            self.stop_waiting(false);
            return Tried::Dead;
        };
        let name = (table.id, rid);
        if mode.is_shared() {
            let queue = LockName::Row(table.id, rid);
            let answer = shared.rows.try_lock(name, &record, id, mode);
            if matches!(answer, Tried::Locked | Tried::Strengthened(_)) {
                shared.queues.shared_by(&queue, id);
            }
            return self.share_tried(storage, rid, answer);
        }
        let answer = shared.rows.try_lock(name, &record, id, mode);
        match answer {
            Tried::Locked => {
                self.holds(Held { storage, rid });
                self.row_acquired(storage, rid);
            }
            Tried::Strengthened(_) => {
                self.state.strengthened.push(Held { storage, rid });
                self.row_acquired(storage, rid);
            }
            // The lock may have been handed over; then ending the wait records it.
            Tried::Held => self.row_acquired(storage, rid),
            Tried::Dead => self.stop_waiting(false),
            Tried::HeldBy(_) => {}
            Tried::GaveBack(other) => {
                let queue = LockName::Row(table.id, rid);
                shared.queues.shared_by(&queue, id);
                return Tried::HeldBy(other);
            }
        }
        answer
    }

    #[cold]
    fn share_tried(&mut self, storage: StorageAt, rid: Rid, answer: Tried) -> Tried {
        let before = match answer {
            Tried::Locked => None,
            Tried::Strengthened(mode) => Some(mode),
            Tried::Held => {
                self.row_acquired(storage, rid);
                return answer;
            }
            Tried::Dead => {
                self.stop_waiting(false);
                return answer;
            }
            Tried::HeldBy(_) | Tried::GaveBack(_) => return answer,
        };
        self.state.shares.push(Shares {
            storage,
            rid,
            before,
        });
        self.row_acquired(storage, rid);
        answer
    }

    fn row_acquired(&mut self, storage: StorageAt, rid: Rid) {
        let id = self.state.storages[storage].id;
        self.acquired(
            |wait| matches!(wait, Wait::Row { storage, rid: waited, .. } if storage.id == id && *waited == rid),
        );
    }

    /// Frees the lock that was taken last, on a record that was not written.
    pub(super) fn unlock_last(&mut self, mode: RowLock) {
        if mode.is_shared() {
            return self.free_shares(self.state.shares.len() - 1);
        }
        let held = self.state.held.pop().expect("a lock was just taken");
        self.release_row(held);
        if self.state.held.is_empty() {
            self.no_writer();
        }
    }
}
