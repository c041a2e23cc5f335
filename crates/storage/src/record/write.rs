//! Writes to a record: locking, private versions, commit and abort.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Rid, RowLock, RowRef, Timestamp, TransactionId};

use super::list::NODE_BYTES;
use super::{INFINITE, LockWord, MAINTENANCE, Record, TryLock};
use crate::collector::{Collector, Remaining};
use crate::usage::Usage;
use crate::value::{Value, ValuePointer, absent, row_at, size_at, tombstone};

/// State of a record after an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborted {
    /// The record has its previous committed version again.
    Restored,
    /// The record was this transaction's insert, and is dead. The caller must remove its
    /// index entries, then retire its RID.
    Dead,
}

/// Effects of a commit on a record, for memory accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Change of the number of live rows.
    pub(crate) rows: i64,
    /// Size in bytes of the version that the commit has replaced.
    pub(crate) replaced: usize,
}

/// Context of a record for threads that remove versions: its RID, accounting and collector.
pub(crate) struct Upkeep<'a> {
    pub(crate) rid: Rid,
    pub(crate) usage: &'a Usage,
    pub(crate) collector: &'a Collector<'a>,
}

/// Retires an unlinked value, and subtracts its memory.
///
/// # Safety
/// As for [`Guard::retire`]: unlinked, and retired once. Present.
pub(super) unsafe fn retire_value(value: ValuePointer, usage: &Usage, guard: &Guard<'_>) {
    if value == tombstone() {
        return;
    }
    // SAFETY: not freed before the guard is dropped.
    usage.value_removed(unsafe { size_at(value) });
    // SAFETY: passed on to our caller.
    unsafe { guard.retire(value.cast(), Value::free) }
}

impl Record {
    /// Takes the lock if no thread holds it. Waits only while maintenance holds it, which
    /// takes a few instructions on another core.
    pub(crate) fn try_lock(&self, id: TransactionId, mode: RowLock) -> TryLock {
        assert!(id.0 != 0 && id < MAINTENANCE, "{id:?} cannot hold a lock");
        let mut backoff = Backoff::default();
        loop {
            let word = self.word();
            if word.is_dead() {
                return TryLock::Dead;
            }
            match word.holder() {
                None => {
                    let primary = self.region(word.primary());
                    if primary.value.load(Ordering::Relaxed).is_null() {
                        // The record is not yet allocated.
                        return TryLock::Dead;
                    }
                    if self.change_free_word(word, word.held_by(id).in_mode(mode)) {
                        return TryLock::Locked;
                    }
                }
                Some(holder) if holder == id => return TryLock::AlreadyLocked,
                Some(MAINTENANCE) => backoff.wait(),
                Some(holder) => return TryLock::HeldBy(holder),
            }
        }
    }

    /// Replaces the word of a record that is not held, if it still is `from`.
    pub(super) fn change_free_word(&self, from: LockWord, to: LockWord) -> bool {
        // Acquire: everything the previous holder did happens before the next holder's
        // accesses. Sequentially consistent: the engine looks for sharers of the row next.
        self.lock
            .compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// Sets the mode in which `id` holds the lock.
    pub(crate) fn set_mode(&self, id: TransactionId, mode: RowLock) {
        let word = self.word_held_by(id);
        self.change_word(word, word.in_mode(mode));
    }

    /// Releases a lock under which nothing was written.
    pub(crate) fn unlock(&self, id: TransactionId) {
        assert!(!self.has_private(id), "an abort drops what was written");
        let word = self.word_held_by(id);
        self.change_word(word, word.released());
    }

    /// Allocates a record that is dead, or was never used, to `id`, locked.
    pub(crate) fn be_born(&self, id: TransactionId) {
        assert!(id.0 != 0 && id < MAINTENANCE, "{id:?} cannot hold a lock");
        let word = self.word();
        assert!(word.is_dead() || word.0 == 0, "{word:?} is in use");
        assert!(
            self.change_free_word(word, LockWord(0).held_by(id)),
            "a free record was given away twice"
        );
    }

    /// Makes `value` the private version of `id`, which holds the lock. The first write
    /// moves the secondary version: it is overwritten if invalid or expired, else appended
    /// to the list before its region changes (EMS §2.3.2, step 3). Later writes replace the
    /// transaction's own value.
    pub(crate) fn write(&self, id: TransactionId, value: Value, upkeep: &Upkeep<'_>) {
        let word = self.word_held_by(id);
        let primary = self.region(word.primary());
        let secondary = self.region(word.primary().other());
        let Upkeep {
            rid,
            usage,
            collector,
        } = *upkeep;
        usage.value_added(value.size());
        let Some((cts, old)) = secondary.committed() else {
            let replaced = secondary.private();
            self.store_private(value, word);
            if let Some(replaced) = replaced {
                // SAFETY: just replaced, by the lock's holder.
                unsafe { retire_value(replaced, usage, collector.guard) };
            }
            return;
        };
        let (successor, _) = primary.committed().expect("an older version has a newer");
        if collector.expiry.is_expired(cts, successor) {
            self.store_private(value, word);
            self.discard(rid, old, usage, collector);
        } else {
            #[cfg(any(loom, shuttle))]
            if crate::faults::LATE_APPEND.is_there() {
                self.store_private(value, word);
                self.versions.append(cts, old);
                return;
            }
            self.versions.append(cts, old);
            usage.node_added(NODE_BYTES);
            self.store_private(value, word);
            self.unlink_expired(upkeep, MAX_UNLINKED_BY_A_WRITE);
        }
    }

    /// Makes the secondary region invalid, then stores `value` in it.
    pub(super) fn store_private(&self, value: Value, word: LockWord) {
        let secondary = self.region(word.primary().other());
        // Release, so that a reader that finds the region invalid finds its old version in
        // the list; and before the value, so that a reader that finds the new value finds
        // the region invalid.
        secondary.cts.store(INFINITE, Ordering::Release);
        secondary
            .value
            .store(value.into_pointer(), Ordering::Release);
    }

    /// Notifies the indexes that an old version was removed, and retires its value. The
    /// caller holds the lock and has unlinked the value.
    pub(super) fn discard(
        &self,
        rid: Rid,
        value: ValuePointer,
        usage: &Usage,
        collector: &Collector<'_>,
    ) {
        // SAFETY: present, since it was a version's; alive, since it is retired only below.
        if let Some(row) = unsafe { row_at(value) } {
            collector
                .indexes
                .removed(rid, row, &Remaining::new(self, collector.guard));
        }
        // SAFETY: present, and retired only below.
        usage.old_value_removed(unsafe { size_at(value) });
        // SAFETY: the caller has just unlinked it, under the lock.
        unsafe { retire_value(value, usage, collector.guard) };
    }

    /// A copy of the private value of `id`, which holds the lock: a savepoint keeps it
    /// before the next write.
    pub(crate) fn private_value(&self, id: TransactionId) -> Option<Value> {
        let word = self.word_held_by(id);
        let value = self.region(word.primary().other()).private()?;
        // SAFETY: only the lock's holder retires it.
        Some(match unsafe { row_at(value) } {
            Some(row) => Value::row(row),
            None => Value::tombstone(),
        })
    }

    /// Restores a value from [`Record::private_value`], which undoes the writes since.
    pub(crate) fn restore_private(
        &self,
        id: TransactionId,
        value: Option<Value>,
        usage: &Usage,
        guard: &Guard<'_>,
    ) {
        let word = self.word_held_by(id);
        let secondary = self.region(word.primary().other());
        let replaced = secondary.private();
        match value {
            Some(value) => {
                assert!(replaced.is_some(), "nothing was written since");
                usage.value_added(value.size());
                self.store_private(value, word);
            }
            None if replaced.is_some() => secondary.value.store(absent(), Ordering::Release),
            None => {}
        }
        if let Some(replaced) = replaced {
            // SAFETY: just replaced, by the lock's holder.
            unsafe { retire_value(replaced, usage, guard) };
        }
    }

    /// Whether `id`, which holds the lock, has a private version.
    pub(crate) fn has_private(&self, id: TransactionId) -> bool {
        let word = self.word_held_by(id);
        self.region(word.primary().other()).private().is_some()
    }

    /// Makes the private version of `id` the newest committed one and releases the lock, in
    /// one store (EMS §2.3.4).
    pub(crate) fn commit(&self, id: TransactionId, cts: Timestamp) -> Committed {
        assert!(cts.is_finite(), "a commit has a timestamp");
        let word = self.word_held_by(id);
        let primary = self.region(word.primary()).committed();
        let secondary = self.region(word.primary().other());
        let private = secondary.private().expect("a commit has something to show");
        if let Some((newest, _)) = primary {
            assert!(newest < cts, "commit at {cts} over {newest}");
        }
        let is_row = |value: ValuePointer| value != tombstone();
        let committed = Committed {
            rows: i64::from(is_row(private))
                - i64::from(primary.is_some_and(|(_, value)| is_row(value))),
            // SAFETY: linked, and only the lock's holder, still the caller, unlinks it.
            replaced: primary.map_or(0, |(_, value)| unsafe { size_at(value) }),
        };
        secondary.cts.store(cts.to_bits(), Ordering::Release);
        self.change_word(word, word.flipped());
        committed
    }

    /// Rolls back the writes of `id` and releases the lock. Only the private value has to
    /// be undone: the primary has not moved, and a secondary that was moved to the list
    /// stays there.
    pub(crate) fn abort(&self, id: TransactionId, usage: &Usage, guard: &Guard<'_>) -> Aborted {
        self.restore_private(id, None, usage, guard);
        let word = self.word_held_by(id);
        let primary = self.region(word.primary());
        if primary.value.load(Ordering::Relaxed).is_null() {
            self.die(word);
            Aborted::Dead
        } else {
            self.change_word(word, word.released());
            Aborted::Restored
        }
    }

    /// Marks the record dead. The caller holds the lock, and has unlinked every value but a
    /// tombstone.
    pub(super) fn die(&self, word: LockWord) {
        assert!(self.versions.is_empty());
        for region in &self.regions {
            region.cts.store(INFINITE, Ordering::Release);
            region.value.store(std::ptr::null_mut(), Ordering::Release);
        }
        self.set_patches_since_image(0);
        self.change_word(word, LockWord::DEAD);
    }

    /// Whether any row satisfies `predicate`, among the committed versions and, if
    /// `with_private`, the private one. For the lock's holder.
    pub(crate) fn any_row(
        &self,
        with_private: bool,
        guard: &Guard<'_>,
        predicate: &mut dyn FnMut(RowRef<'_>) -> bool,
    ) -> bool {
        let in_regions = self.regions.iter().filter_map(|region| {
            let committed = region.committed().map(|(_, value)| value);
            committed.or_else(|| region.private().filter(|_| with_private))
        });
        let in_list = self.versions.nodes(guard).map(|node| node.value);
        in_regions.chain(in_list).any(|value| {
            // SAFETY: linked, and only the lock's holder unlinks.
            unsafe { row_at(value) }.is_some_and(&mut *predicate)
        })
    }
}

/// Maximum number of versions that a writer removes when it appends one: enough for the
/// list of a hot row to shrink, few enough to keep the write short.
const MAX_UNLINKED_BY_A_WRITE: usize = 4;
