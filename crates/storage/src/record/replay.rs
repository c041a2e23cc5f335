//! Replay: installing what the log says happened.
//!
//! Differs from writing in four ways (EMS §2.4, but for the last):
//!
//! - everything goes to region A, there being no readers;
//! - the lock is taken for the one operation only;
//! - an entry counts only when its cts is above the region's, so that replaying an
//!   entry twice, or one that a checkpoint already holds, changes nothing;
//! - the value that is there is written over, rather than replaced by a new one.
//!
//! An entry is a full image, a patch of cells, or a delete. A patch says to which
//! version it applies. The entries of one RID come in log order from one worker,
//! so that version is there, unless the log is damaged; otherwise newest-wins and
//! patches would contradict each other: a patch skipped because a newer one came
//! first would lose its cells. Tombstones stay until replay has ended, or an older
//! image would bring the row back.
//!
//! # A run of patches
//!
//! ```text
//!   the log                        region A            the value
//!   image  (k, 10) at 100          100                 allocated: k 10
//!   patch  of 100: 11 at 200       200                 k 11     written over
//!   patch  of 200: 12 at 300       300                 k 12     written over
//!   patch  of 200: 12 at 300       300                 k 12     already there
//!   patch  of 300: 1000 at 400     400                 allocated: k 1000
//! ```
//!
//! Most patches change a counter, and a cell that keeps its length. What they cost
//! is then finding the record and copying a few bytes: nothing is allocated, and
//! nothing has to be kept until readers have gone, because there are none.
//!
//! # Why a value may be written over
//!
//! 1. A record in replay is reached through a [`RecoveringTable`] only, which hands
//!    out neither rows nor [`RecordRef`]s. It owns its table; the table comes out of
//!    it by value, when no borrow of it is left.
//! 2. Between [`Record::lock_for_replay`] and [`Record::unlock_after_replay`] one
//!    thread is in the record: it took the word from *nobody's* to *maintenance*,
//!    and everybody else waits for *nobody's*. Taking acquires what giving back
//!    released, so each finds the bytes as the one before it left them.
//! 3. So the holder's reference to the value is the only one, and by the time that
//!    anybody can read, the table has been handed over, after the last unlock.
//!
//! That entries of one record come from one worker is for their order; that no two
//! threads are in one record at once does not depend on it.
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

/// What became of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Installed.
    Applied,
    /// The record is already at or past this entry.
    AlreadyThere,
}

/// A log entry that does not fit the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// A patch of a version that the record does not have.
    MissingVersion {
        /// Which record.
        rid: Rid,
        /// The patch's own timestamp.
        cts: Timestamp,
        /// The version that the patch applies to.
        expected: Timestamp,
        /// The version that is there, if any.
        found: Option<Timestamp>,
    },
    /// A patch of a deleted row, or one that does not fit the row's cells.
    MalformedPatch {
        /// Which record.
        rid: Rid,
        /// The patch's own timestamp.
        cts: Timestamp,
    },
}

impl ReplayError {
    /// Both mean a damaged or incomplete log.
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

/// A record that replay has not begun with, or is between two entries of.
const FREE: LockWord = LockWord(0);
const HELD: LockWord = FREE.held_by(MAINTENANCE);

/// Bytes that come together when memory is asked for.
const CACHE_LINE: usize = 64;

impl Record {
    /// Asks for the record's memory.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self);
    }

    /// Asks for the memory of the newest row. Worth it when the record itself has come.
    #[inline]
    pub(crate) fn prefetch_row(&self) {
        let value = self
            .region(self.word().primary())
            .value
            .load(Ordering::Relaxed);
        prefetch(value);
        // A row has its cells behind a few words about them: two lines hold most.
        prefetch(value.cast::<u8>().wrapping_add(CACHE_LINE));
    }

    /// Asks for the version that a write by the lock's holder will put away: nobody has
    /// looked at it for a while, and its length and its keys are needed then.
    #[inline]
    pub(crate) fn prefetch_replaced(&self) {
        let secondary = self.region(self.word().primary().other());
        let value = secondary.value.load(Ordering::Relaxed);
        prefetch(value);
        prefetch(value.cast::<u8>().wrapping_add(CACHE_LINE));
    }

    /// Takes the lock for one entry. Waits while another thread has it, for as long
    /// as one entry takes.
    #[inline]
    fn lock_for_replay(&self) {
        let mut backoff = Backoff::default();
        while !self.change_free_word(FREE, HELD) {
            let word = self.word();
            assert!(word == FREE || word == HELD, "replay into {word:?}, in use");
            backoff.wait();
        }
    }

    /// Gives the lock back. The word is the holder's until then, so that a plain
    /// store does.
    #[inline]
    fn unlock_after_replay(&self) {
        debug_assert!(self.word() == HELD);
        self.lock.store(FREE.0, Ordering::Release);
    }

    /// Installs a whole row.
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

    /// Lets `set` make the value, if it is older than `cts`.
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

    /// Applies a patch of the version at `previous`.
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

    /// The version that replay has installed so far.
    #[inline]
    fn replayed(&self) -> Option<Timestamp> {
        self.region(Region::A).committed().map(|(cts, _)| cts)
    }

    /// Relaxed, as everything between taking the lock and giving it back.
    #[inline]
    fn set_replayed(&self, cts: Timestamp) {
        assert!(cts.is_finite(), "a commit has a timestamp");
        self.region(Region::A)
            .cts
            .store(cts.to_bits(), Ordering::Relaxed);
    }

    /// Lets `change` have the value to itself. For the lock's holder.
    #[inline]
    fn change_value<R>(&self, usage: &Usage, change: impl FnOnce(&mut Option<Value>) -> R) -> R {
        let place = &self.region(Region::A).value;
        let before = place.load(Ordering::Relaxed);
        let value = if is_present(before) {
            // SAFETY: the record owns it, and nobody else is in the record: see the
            // module. The record owns it again below; a panic in between leaves it
            // to the record, for it is not dropped here.
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

    /// After replay: whether the record holds a row. If not, it is dead now, and
    /// its RID is free.
    pub(crate) fn finish_replay(&self) -> bool {
        let value = self.region(Region::A).value.load(Ordering::Relaxed);
        let lives = is_present(value) && value != tombstone();
        if !lives {
            self.die(FREE);
        }
        lives
    }
}
