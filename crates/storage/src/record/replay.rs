//! Replay of log entries into a record during recovery.
//!
//! Differs from writing in four ways (EMS §2.4, except the last):
//!
//! - everything is stored in region A, since there are no readers;
//! - the lock is held for one operation only;
//! - an entry is applied only if its cts is above the region's, so that replaying an entry
//!   twice, or one that a checkpoint already includes, changes nothing;
//! - the existing value is overwritten, rather than replaced by a new one.
//!
//! An entry is a full image, a patch of cells, or a delete. A patch names the version to
//! which it applies. One worker replays the entries of a RID in log order, so that version
//! is there, unless the log is damaged. In another order, newest-wins and patches would
//! contradict each other: a patch that is skipped because a newer one came first would lose
//! its cells. Tombstones stay until replay has ended, or an older image would resurrect the
//! row.
//!
//! # A run of patches
//!
//! ```text
//!   the log                        region A            the value
//!   image  (k, 10) at 100          100                 allocated: k 10
//!   patch  of 100: 11 at 200       200                 k 11     overwritten
//!   patch  of 200: 12 at 300       300                 k 12     overwritten
//!   patch  of 200: 12 at 300       300                 k 12     already there
//!   patch  of 300: 1000 at 400     400                 allocated: k 1000
//! ```
//!
//! Most patches change a counter, in a cell that keeps its length. Replay then only finds
//! the record and copies a few bytes: it allocates nothing, and keeps no old value for
//! readers, since there are none.
//!
//! # Why a value may be overwritten
//!
//! 1. A record in replay is reached through a [`RecoveringTable`] only, which hands out
//!    neither rows nor [`RecordRef`]s. It owns its table; the table comes out of it by
//!    value, when no borrow of it is left.
//! 2. Between [`Record::lock_for_replay`] and [`Record::unlock_after_replay`] one thread
//!    uses the record: it changed the word from *not held* to *maintenance*, and all other
//!    threads wait for *not held*. The lock acquires what the previous unlock released, so
//!    each thread finds the bytes as the previous holder left them.
//! 3. So the holder's reference to the value is the only one, and before any thread can
//!    read, the table has been handed over, after the last unlock.
//!
//! One worker per record is needed for the order of its entries; mutual exclusion within a
//! record does not depend on it.
//!
//! [`RecoveringTable`]: crate::RecoveringTable
//! [`RecordRef`]: crate::RecordRef

use std::fmt;
use std::mem::ManuallyDrop;

use coeval_memory::prefetch::prefetch;
use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{MalformedRow, Remedy, Rid, RowRef, Timestamp};

use super::{LockWord, MAINTENANCE, Record, Region};
use crate::usage::Usage;
use crate::value::{Value, is_present, tombstone};

/// Result of replaying one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The entry was installed.
    Applied,
    /// The record already includes this entry.
    AlreadyThere,
}

/// Error: a log entry does not fit its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// The entry patches a version that the record does not have.
    MissingVersion {
        /// The record that the entry changes.
        rid: Rid,
        /// The commit timestamp of the patch.
        cts: Timestamp,
        /// The version that the patch applies to.
        expected: Timestamp,
        /// The newest version of the record, if any.
        found: Option<Timestamp>,
    },
    /// The entry patches a deleted row, or does not fit the row's cells.
    MalformedPatch {
        /// The record that the entry changes.
        rid: Rid,
        /// The commit timestamp of the patch.
        cts: Timestamp,
    },
}

impl ReplayError {
    /// The caller's remedy: either error means a damaged or incomplete log.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        Remedy::Fix
    }
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingVersion {
                rid,
                cts,
                expected,
                found,
            } => {
                write!(
                    formatter,
                    "the log entry {cts} patches version {expected} of record {rid}, "
                )?;
                match found {
                    Some(found) => write!(formatter, "but the newest version is {found}"),
                    None => formatter.write_str("but the record has no version"),
                }
            }
            Self::MalformedPatch { rid, cts } => write!(
                formatter,
                "the patch in log entry {cts} does not fit record {rid}"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The lock word of a record that no replay operation is using.
const FREE: LockWord = LockWord(0);
const HELD: LockWord = FREE.held_by(MAINTENANCE);

/// Bytes that one prefetch loads.
const CACHE_LINE: usize = 64;

impl Record {
    /// Prefetches the record.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
    }

    /// Prefetches the newest row. Useful once the record itself is in the cache.
    #[inline]
    pub(crate) fn prefetch_row(&self) {
        let value = self
            .region(self.word().primary())
            .value
            .load(Ordering::Relaxed);
        prefetch(value);
        // The cells of a row follow a few words of header: two lines hold most rows.
        prefetch(value.cast::<u8>().wrapping_add(CACHE_LINE));
    }

    /// Prefetches the version that the lock holder's write will move to the list: it has
    /// left the caches, and the write needs its length and its keys.
    #[inline]
    pub(crate) fn prefetch_replaced(&self) {
        let secondary = self.region(self.word().primary().other());
        let value = secondary.value.load(Ordering::Relaxed);
        prefetch(value);
        prefetch(value.cast::<u8>().wrapping_add(CACHE_LINE));
    }

    /// Takes the lock for one entry. Waits while another thread holds it, for the duration
    /// of one entry.
    #[inline]
    fn lock_for_replay(&self) {
        let mut backoff = Backoff::default();
        while !self.change_free_word(FREE, HELD) {
            let word = self.word();
            assert!(word == FREE || word == HELD, "replay into {word:?}, in use");
            backoff.wait();
        }
    }

    /// Releases the lock. Only the holder writes the word until then, so a plain store
    /// suffices.
    #[inline]
    fn unlock_after_replay(&self) {
        debug_assert!(self.word() == HELD);
        self.lock.store(FREE.0, Ordering::Release);
    }

    /// Installs a full row.
    pub(crate) fn replay_row(&self, cts: Timestamp, row: RowRef<'_>, usage: &Usage) -> Replayed {
        self.replay_whole(cts, usage, |value| match value {
            Some(value) => value.set_row(row),
            None => *value = Some(Value::row(row)),
        })
    }

    /// Installs a tombstone.
    pub(crate) fn replay_tombstone(&self, cts: Timestamp, usage: &Usage) -> Replayed {
        self.replay_whole(cts, usage, |value| *value = Some(Value::tombstone()))
    }

    /// Replaces the record's version by the value that `set` makes, if it is older than
    /// `cts`.
    #[inline]
    fn replay_whole(
        &self,
        cts: Timestamp,
        usage: &Usage,
        set: impl FnOnce(&mut Option<Value>),
    ) -> Replayed {
        self.lock_for_replay();
        let outcome = if self.replayed().is_some_and(|there| there >= cts) {
            Replayed::AlreadyThere
        } else {
            self.change_value(usage, set);
            self.set_replayed(cts);
            self.set_patches_since_image(0);
            Replayed::Applied
        };
        self.unlock_after_replay();
        outcome
    }

    /// Applies a patch to the version at `previous`.
    pub(crate) fn replay_patch(
        &self,
        rid: Rid,
        cts: Timestamp,
        previous: Timestamp,
        patch: &[u8],
        usage: &Usage,
    ) -> Result<Replayed, ReplayError> {
        self.lock_for_replay();
        let outcome = match self.replayed() {
            Some(there) if there >= cts => Ok(Replayed::AlreadyThere),
            Some(there) if there == previous => {
                let patched = self.change_value(usage, |value| match value {
                    Some(value) => value.patch(patch),
                    None => Err(MalformedRow),
                });
                match patched {
                    Ok(()) => {
                        self.set_replayed(cts);
                        self.set_patches_since_image(self.patches_since_image() + 1);
                        Ok(Replayed::Applied)
                    }
                    Err(MalformedRow) => Err(ReplayError::MalformedPatch { rid, cts }),
                }
            }
            found => Err(ReplayError::MissingVersion {
                rid,
                cts,
                expected: previous,
                found,
            }),
        };
        self.unlock_after_replay();
        outcome
    }

    /// The timestamp of the version that replay has installed so far.
    #[inline]
    fn replayed(&self) -> Option<Timestamp> {
        self.region(Region::A).committed().map(|(cts, _)| cts)
    }

    /// Sets the timestamp. Relaxed, like every access between lock and unlock.
    #[inline]
    fn set_replayed(&self, cts: Timestamp) {
        assert!(cts.is_finite(), "a commit has a timestamp");
        self.region(Region::A)
            .cts
            .store(cts.to_bits(), Ordering::Relaxed);
    }

    /// Gives `change` exclusive access to the value. For the lock's holder.
    #[inline]
    fn change_value<R>(&self, usage: &Usage, change: impl FnOnce(&mut Option<Value>) -> R) -> R {
        let place = &self.region(Region::A).value;
        let before = place.load(Ordering::Relaxed);
        let value = if is_present(before) {
            // SAFETY: the record owns it, and no other thread uses the record: see the
            // essay. The record owns it again below; after a panic in between it still
            // does, for the value is not dropped here.
            Some(unsafe { Value::from_pointer(before) })
        } else {
            None
        };
        let mut value = ManuallyDrop::new(value);
        let bytes_before = value.as_ref().map_or(0, Value::size);
        let result = change(&mut value);
        let bytes = value.as_ref().map_or(0, Value::size);
        if bytes > bytes_before {
            usage.value_added(bytes - bytes_before);
        } else if bytes < bytes_before {
            usage.value_removed(bytes_before - bytes);
        }
        if let Some(value) = ManuallyDrop::into_inner(value) {
            place.store(value.into_pointer(), Ordering::Relaxed);
        }
        result
    }

    /// Ends replay of the record. Returns whether it holds a row; if not, it is now dead,
    /// and its RID is free.
    pub(crate) fn finish_replay(&self) -> bool {
        let value = self.region(Region::A).value.load(Ordering::Relaxed);
        let lives = is_present(value) && value != tombstone();
        if !lives {
            self.die(FREE);
        }
        lives
    }
}
