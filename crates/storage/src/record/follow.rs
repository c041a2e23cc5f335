//! Versions of a node that follows: they come from the log, and may be taken back.
//!
//! A follower replays log before it is committed. So it keeps, as a writer does, the
//! version that a new one replaces, until the new one is committed and nobody reads the
//! old one; and when the log is cut, what came from behind the cut is taken out again:
//!
//! ```text
//!                                    primary    secondary    list
//!   committed up to 100              100 "x"    –
//!   replayed 200, 300                300 "z"    200 "y"      100 "x"
//!   the log is cut at 300            200 "y"    –            100 "x"
//!   the log is cut at 200            100 "x"    –
//! ```
//!
//! Differs from replay at a start (`replay.rs`), which has committed log only and nobody
//! beside it: that one writes versions over.
//!
//! # Beside readers
//!
//! Installing is what a writer does, so readers see what they always do. Taking back is
//! not: a version goes from the list to a region, and a reader that has looked at the
//! regions and has not come to the list would find it in neither. So nobody reads the
//! record while [`Record::take_back`] runs; the caller sees to it.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::planted::{Bug, is_planted};
use coeval_types::{Lsn, RowRef, Timestamp};

use super::list::{NODE_BYTES, retire_node};
use super::replay::{ReplayError, Replayed};
use super::write::{Upkeep, retire_value};
use super::{INFINITE, LockWord, MAINTENANCE, Record, Region};
use crate::usage::Usage;
use crate::value::{Value, absent, row_at, size_at, tombstone};

/// What an entry of the log does to a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'log> {
    /// It has this whole row.
    Image(RowRef<'log>),
    /// Cells of the version at `previous` are others.
    Patch {
        previous: Timestamp,
        patch: &'log [u8],
    },
    /// It is deleted.
    Delete,
}

/// After something was taken back nobody knows how many patches the log has behind the
/// last full image: enough for the next write to be one.
const UNKNOWN_PATCHES: u64 = u64::MAX / 2;

impl Record {
    /// Takes the lock, for as long as one entry takes. A record that is dead, or was never
    /// used, is born.
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

    /// Installs what the log says happened at `cts`, unless the record is there already.
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
        // SAFETY: linked, and only the lock's holder, which is us, unlinks.
        let row = unsafe { row_at(value) }.ok_or(malformed)?;
        let mut value = Value::row(row);
        value.patch(patch).map_err(|_| malformed)?;
        Ok(value)
    }

    /// Makes the value private to the lock's holder, and puts the version away that was in
    /// its place. Unlike a writer's it leaves the list alone: what of it has expired goes
    /// when its successor is committed.
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

    /// Takes out every version that came from `from` or behind, the newest first, and
    /// shows their rows. Nobody reads the record meanwhile. Says whether anything is left;
    /// what is not is dead.
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

    /// A record that never had a version is dead from now on, and its RID free. When nobody
    /// else is there.
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

    /// Sees to it that the version before the newest, if there is one, is in this region,
    /// and returns its value: it is about to be the newest.
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
        // It has no newer one any more.
        // SAFETY: linked, and the caller holds the lock.
        usage.old_value_removed(unsafe { size_at(value) });
        Some(value)
    }
}

/// Whether a record whose newest version is `there` has what happened at `cts`. Two commits
/// may have had the same place in the log, one after the other, in different terms.
fn is_at_or_past(there: Timestamp, cts: Timestamp) -> bool {
    if is_planted(Bug::ReusedOffset) {
        return there.lsn() >= cts.lsn();
    }
    there >= cts
}
