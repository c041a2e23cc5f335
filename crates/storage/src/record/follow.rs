//! Record versions on a follower: it installs them from the log, and may have to roll them
//! back.
//!
//! A follower replays log entries before they are committed. So, as a writer does, it keeps
//! the version that a new one replaces, until the new one is committed and no snapshot
//! reads the old one; and when the follower truncates its log, it removes the versions of
//! the truncated entries again:
//!
//! ```text
//!                                    primary    secondary    list
//!   committed up to 100              100 "x"    –
//!   replayed 200, 300                300 "z"    200 "y"      100 "x"
//!   log truncated at 300             200 "y"    –            100 "x"
//!   log truncated at 200             100 "x"    –
//! ```
//!
//! Replay during recovery (`replay.rs`) differs: it has only committed log and runs alone,
//! so it overwrites versions.
//!
//! # Concurrent readers
//!
//! Installing is what a writer does, so concurrent readers are safe. Rolling back is not:
//! it moves a version from the list to a region, and a reader that has read the regions and
//! has not yet read the list would find it in neither. So no reader may access the record
//! while [`Record::take_back`] runs; the caller guarantees that.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Lsn, RowRef, Timestamp, planted};

use super::list::{NODE_BYTES, retire_node};
use super::replay::{ReplayError, Replayed};
use super::write::{Upkeep, retire_value};
use super::{INFINITE, LockWord, MAINTENANCE, Record, Region};
use crate::usage::Usage;
use crate::value::{Value, absent, row_at, size_at, tombstone};

/// The change that a log entry makes to a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'log> {
    /// The record gets this whole row.
    Image(RowRef<'log>),
    /// The record gets the version at `previous` with some cells changed.
    Patch {
        previous: Timestamp,
        patch: &'log [u8],
    },
    /// The row is deleted.
    Delete,
}

/// Number of patches assumed after a rollback, when the follower no longer knows how many
/// the log has since the last full image: large enough that the next write logs an image.
const UNKNOWN_PATCHES: u64 = u64::MAX / 2;

impl Record {
    /// Takes the lock for the duration of one entry. A record that is dead, or was never
    /// used, comes to life.
    fn lock_to_follow(&self) -> LockWord {
        let mut backoff = Backoff::default();
        loop {
            let word = self.word();
            let held = match word.is_dead() {
                true => LockWord(0).held_by(MAINTENANCE),
                false => word.held_by(MAINTENANCE),
            };
            if word.holder().is_none() && self.change_free_word(word, held) {
                return held;
            }
            backoff.wait();
        }
    }

    /// Installs the change that the log records at `cts`, unless the record already has it.
    pub(crate) fn follow(
        &self,
        cts: Timestamp,
        change: Change<'_>,
        upkeep: &Upkeep<'_>,
    ) -> Result<Replayed, ReplayError> {
        let held = self.lock_to_follow();
        let newest = self.region(held.primary()).committed();
        let there = newest.map(|(there, _)| there);
        let value = if there.is_some_and(|there| is_at_or_past(there, cts)) {
            Ok(None)
        } else {
            self.changed_value(held, cts, change, upkeep).map(Some)
        };
        let guard = upkeep.collector.guard;
        match value {
            Ok(Some(value)) => {
                let patches = match change {
                    Change::Patch { .. } => self.patches_since_image().saturating_add(1),
                    Change::Image(_) | Change::Delete => 0,
                };
                self.put_beside(value, held, upkeep);
                self.set_patches_since_image(patches);
                let committed = self.commit(MAINTENANCE, cts);
                upkeep.usage.rows_changed(committed.rows);
                upkeep.usage.value_replaced(committed.replaced);
                Ok(Replayed::Applied)
            }
            Ok(None) => {
                self.abort(MAINTENANCE, upkeep.usage, guard);
                Ok(Replayed::AlreadyThere)
            }
            Err(error) => {
                self.abort(MAINTENANCE, upkeep.usage, guard);
                Err(error)
            }
        }
    }

    fn changed_value(
        &self,
        held: LockWord,
        cts: Timestamp,
        change: Change<'_>,
        upkeep: &Upkeep<'_>,
    ) -> Result<Value, ReplayError> {
        let (previous, patch) = match change {
            Change::Image(row) => return Ok(Value::row(row)),
            Change::Delete => return Ok(Value::tombstone()),
            Change::Patch { previous, patch } => (previous, patch),
        };
        let rid = upkeep.rid;
        let newest = self.region(held.primary()).committed();
        let Some((_, value)) = newest.filter(|(there, _)| *there == previous) else {
            return Err(ReplayError::MissingVersion {
                rid,
                cts,
                expected: previous,
                found: newest.map(|(there, _)| there),
            });
        };
        let malformed = ReplayError::MalformedPatch { rid, cts };
        // SAFETY: linked, and only the lock's holder, this thread, unlinks.
        let row = unsafe { row_at(value) }.ok_or(malformed)?;
        let mut value = Value::row(row);
        value.patch(patch).map_err(|_| malformed)?;
        Ok(value)
    }

    /// Makes the value the lock holder's private version, and moves the version in its
    /// region to the list. Unlike a writer's, this does not collect the list: a version
    /// that has expired is removed when its successor is committed.
    fn put_beside(&self, value: Value, held: LockWord, upkeep: &Upkeep<'_>) {
        let Upkeep {
            rid,
            usage,
            collector,
        } = *upkeep;
        usage.value_added(value.size());
        let Some((cts, old)) = self.region(held.primary().other()).committed() else {
            self.store_private(value, held);
            return;
        };
        let primary = self.region(held.primary()).committed();
        let (successor, _) = primary.expect("an older version has a newer");
        if collector.expiry.is_expired(cts, successor) {
            self.store_private(value, held);
            self.discard(rid, old, usage, collector);
        } else {
            self.versions.append(cts, old);
            usage.node_added(NODE_BYTES);
            self.store_private(value, held);
        }
    }

    /// Removes every version with a log offset of `from` or later, the newest first, and
    /// passes their rows to `taken`. No reader may access the record meanwhile. Returns
    /// whether any version is left; if not, the record is dead.
    pub(crate) fn take_back(
        &self,
        from: Lsn,
        usage: &Usage,
        guard: &Guard<'_>,
        taken: &mut dyn FnMut(RowRef<'_>),
    ) -> bool {
        let mut held = self.lock_to_follow();
        let mut any = false;
        loop {
            let Some((cts, value)) = self.region(held.primary()).committed() else {
                self.die(held);
                return false;
            };
            if cts.lsn() < from {
                break;
            }
            any = true;
            // SAFETY: linked; retired below.
            if let Some(row) = unsafe { row_at(value) } {
                taken(row);
            }
            let before = self.bring_forth(held.primary().other(), usage, guard);
            let region = self.region(held.primary());
            region.cts.store(INFINITE, Ordering::Release);
            region.value.store(absent(), Ordering::Release);
            let is_row = |value| i64::from(value != tombstone());
            usage.rows_changed(before.map_or(0, is_row) - is_row(value));
            // SAFETY: just unlinked, by the lock's holder.
            unsafe { retire_value(value, usage, guard) };
            let flipped = held.flipped().held_by(MAINTENANCE);
            self.change_word(held, flipped);
            held = flipped;
        }
        if any {
            self.set_patches_since_image(UNKNOWN_PATCHES);
        }
        self.change_word(held, held.released());
        true
    }

    /// Marks a record that never had a version as dead, and its RID free. No other thread
    /// may access the record.
    pub(crate) fn die_if_unused(&self) {
        let word = self.word();
        if word == LockWord(0)
            && self
                .region(Region::A)
                .value
                .load(Ordering::Relaxed)
                .is_null()
            && self
                .region(Region::B)
                .value
                .load(Ordering::Relaxed)
                .is_null()
        {
            self.die(word);
        }
    }

    /// Moves the version before the newest into this region, if it is in the list, and
    /// returns its value: it is about to become the newest.
    fn bring_forth(
        &self,
        region: Region,
        usage: &Usage,
        guard: &Guard<'_>,
    ) -> Option<crate::value::ValuePointer> {
        let region = self.region(region);
        if region.committed().is_none() {
            let node = self.versions.unlink_newest()?;
            // SAFETY: just unlinked, and not retired before the end of this block.
            let (cts, value) = unsafe { ((*node).cts, (*node).value) };
            // SAFETY: a node's value is present, and retired with the node.
            let copy = match unsafe { row_at(value) } {
                Some(row) => Value::row(row),
                None => Value::tombstone(),
            };
            usage.value_added(copy.size());
            region.value.store(copy.into_pointer(), Ordering::Release);
            region.cts.store(cts.to_bits(), Ordering::Release);
            // SAFETY: as above.
            usage.value_removed(unsafe { size_at(value) });
            usage.node_removed(NODE_BYTES);
            // SAFETY: unlinked above, once.
            unsafe { retire_node(node, guard) };
        }
        let (_, value) = region.committed()?;
        // It no longer has a newer version.
        // SAFETY: linked, and the caller holds the lock.
        usage.old_value_removed(unsafe { size_at(value) });
        Some(value)
    }
}

/// Whether a record whose newest version is `there` already includes the change at `cts`.
/// Two commits may have had the same log offset, one after the other, in different terms.
fn is_at_or_past(there: Timestamp, cts: Timestamp) -> bool {
    if planted!(ReusedOffset) {
        return there.lsn() >= cts.lsn();
    }
    there >= cts
}
