//! Replay: installing what the log says happened.
//!
//! Differs from writing in three ways (EMS §2.4): everything goes to region A,
//! there being no readers; the lock is taken for the one operation only; and an
//! entry counts only when its cts is above the region's, so that replaying an
//! entry twice, or one that a checkpoint already holds, changes nothing.
//!
//! An entry is a full image, a patch of cells, or a delete. A patch says to which
//! version it applies. The entries of one RID come in log order from one worker,
//! so that version is there, unless the log is damaged; otherwise newest-wins and
//! patches would contradict each other: a patch skipped because a newer one came
//! first would lose its cells. Tombstones stay until replay has ended, or an older
//! image would bring the row back.

use std::fmt;

use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{Remedy, Rid, Timestamp};

use super::write::retire_value;
use super::{INFINITE, LockWord, MAINTENANCE, Record, Region};
use crate::usage::Usage;
use crate::value::{Value, row_at, tombstone};

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

impl Record {
    /// Takes the lock for maintenance, whatever the record's state.
    fn lock_for_replay(&self) -> LockWord {
        let mut backoff = Backoff::default();
        loop {
            let word = self.word();
            // A dead record comes back to life with its first entry.
            let free = if word.is_dead() { LockWord(0) } else { word };
            if word.is_dead() || word.holder().is_none() {
                let held = free.held_by(MAINTENANCE);
                if self.change_free_word(word, held) {
                    assert!(held.primary() == Region::A, "replay into a record in use");
                    return held;
                }
            } else {
                assert_eq!(word.holder(), Some(MAINTENANCE), "replay among writers");
                backoff.wait();
            }
        }
    }

    fn unlock_after_replay(&self, held: LockWord) {
        let untouched = self
            .region(Region::A)
            .value
            .load(Ordering::Relaxed)
            .is_null();
        self.change_word(
            held,
            if untouched {
                LockWord::DEAD
            } else {
                held.released()
            },
        );
    }

    /// The version that replay has installed so far.
    fn replayed(&self) -> Option<Timestamp> {
        self.region(Region::A).committed().map(|(cts, _)| cts)
    }

    /// Installs a whole row, or a tombstone.
    pub(crate) fn replay_value(
        &self,
        cts: Timestamp,
        value: Value,
        usage: &Usage,
        guard: &Guard<'_>,
    ) -> Replayed {
        let held = self.lock_for_replay();
        let outcome = if self.replayed().is_some_and(|there| there >= cts) {
            Replayed::AlreadyThere
        } else {
            self.install(cts, value, usage, guard);
            self.set_patches_since_image(0);
            Replayed::Applied
        };
        self.unlock_after_replay(held);
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
        guard: &Guard<'_>,
    ) -> Result<Replayed, ReplayError> {
        let held = self.lock_for_replay();
        let outcome = match self.region(Region::A).committed() {
            Some((there, _)) if there >= cts => Ok(Replayed::AlreadyThere),
            Some((there, value)) if there == previous => {
                // SAFETY: linked, and only the lock's holder unlinks.
                let row = unsafe { row_at(value) };
                let mut patched = Vec::new();
                match row.map(|row| row.patched(patch, &mut patched)) {
                    Some(Ok(())) => {
                        let row = coeval_types::RowRef::trusted(&patched);
                        self.install(cts, Value::row(row), usage, guard);
                        self.set_patches_since_image(self.patches_since_image() + 1);
                        Ok(Replayed::Applied)
                    }
                    _ => Err(ReplayError::MalformedPatch { rid, cts }),
                }
            }
            found => Err(ReplayError::MissingVersion {
                rid,
                cts,
                expected: previous,
                found: found.map(|(there, _)| there),
            }),
        };
        self.unlock_after_replay(held);
        outcome
    }

    fn install(&self, cts: Timestamp, value: Value, usage: &Usage, guard: &Guard<'_>) {
        assert!(cts.is_finite(), "a commit has a timestamp");
        let region = self.region(Region::A);
        let old = region.committed();
        usage.value_added(value.size());
        let value = value.into_pointer();
        region.cts.store(INFINITE, Ordering::Release);
        region.value.store(value, Ordering::Release);
        region.cts.store(cts.to_bits(), Ordering::Release);
        if let Some((_, old)) = old {
            // SAFETY: just replaced, under the lock.
            unsafe { retire_value(old, usage, guard) };
        }
    }

    /// After replay: whether the record holds a row. If not, it is dead now, and
    /// its RID is free.
    pub(crate) fn finish_replay(&self) -> bool {
        let held = self.lock_for_replay();
        match self.region(held.primary()).committed() {
            Some((_, value)) if value != tombstone() => {
                self.change_word(held, held.released());
                true
            }
            _ => {
                self.die(held);
                false
            }
        }
    }
}
