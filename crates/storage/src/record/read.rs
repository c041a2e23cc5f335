//! Reads of a record: a reader never blocks, takes no lock, writes nothing, allocates
//! nothing.

use coeval_memory::epoch::Guard;
use coeval_memory::sync::atomic::Ordering;
use coeval_types::{RowRef, Timestamp, TransactionId};

use super::{INFINITE, Record, VersionRegion};
use crate::value::{ValuePointer, is_present, row_at};

/// One version of a row, readable while the guard lives under which it was found.
#[derive(Clone, Copy, Debug)]
pub struct Version<'guard> {
    cts: Timestamp,
    row: Option<RowRef<'guard>>,
    jumps: u32,
}

impl<'guard> Version<'guard> {
    /// # Safety
    /// `value` is present, and was reached under a guard that lives for `'guard`,
    /// or is kept from being retired for as long.
    pub(crate) unsafe fn new(cts: Timestamp, value: ValuePointer, jumps: u32) -> Self {
        Self {
            cts,
            // SAFETY: passed on to our caller.
            row: unsafe { row_at(value) },
            jumps,
        }
    }

    /// The commit timestamp; infinite for the reader's own private version.
    #[must_use]
    pub fn cts(&self) -> Timestamp {
        self.cts
    }

    /// The row, or `None` when this version is a tombstone.
    #[must_use]
    pub fn row(&self) -> Option<RowRef<'guard>> {
        self.row
    }

    /// Whether this version is a tombstone.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.row.is_none()
    }

    /// Whether this is the reader's own, uncommitted version.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.cts.is_finite()
    }

    /// Number of list nodes visited to find the version: 0 for one in a region.
    #[must_use]
    pub fn jumps(&self) -> u32 {
        self.jumps
    }
}

/// Result of reading one region.
enum Look {
    /// The region holds a committed version that the snapshot includes.
    Visible(Timestamp, ValuePointer),
    /// The region holds none that the snapshot includes: its version is newer, private, or
    /// absent.
    NotVisible,
    /// The region changed during the read: the reader must restart.
    Torn,
}

impl VersionRegion {
    #[inline]
    fn look(&self, snapshot: Timestamp) -> Look {
        // Acquire on both loads keeps the three in order: if the value was stored after the
        // region was made invalid, the second load of the cts sees at least that.
        let cts = self.cts.load(Ordering::Acquire);
        if cts > snapshot.to_bits() {
            return Look::NotVisible;
        }
        let value = self.value.load(Ordering::Acquire);
        if !torn_reads_allowed() && self.cts.load(Ordering::Relaxed) != cts {
            return Look::Torn;
        }
        if is_present(value) {
            Look::Visible(Timestamp::from_bits(cts), value)
        } else {
            Look::NotVisible
        }
    }
}

/// Whether the second load of the cts is omitted: a fault that tests inject to show that
/// they find it.
#[inline]
fn torn_reads_allowed() -> bool {
    #[cfg(any(loom, shuttle))]
    {
        crate::faults::TORN_READS.is_there()
    }
    #[cfg(not(any(loom, shuttle)))]
    false
}

impl Record {
    /// The version that `reader` sees at `snapshot`: its own private one, else the newest
    /// one committed at or before the snapshot, which the caller has registered. EMS
    /// §2.3.3, algorithm 2.2.
    #[inline]
    pub(crate) fn read<'guard>(
        &self,
        snapshot: Timestamp,
        reader: TransactionId,
        guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        debug_assert!(snapshot.is_finite());
        'again: loop {
            let word = self.word();
            let primary = word.primary();
            if word.is_held_by(reader)
                && let Some(value) = self.region(primary.other()).private()
            {
                // SAFETY: only the caller retires its own private value, under a guard;
                // this guard protects it.
                return Some(unsafe { Version::new(Timestamp::INFINITE, value, 0) });
            }
            for region in [primary, primary.other()] {
                match self.region(region).look(snapshot) {
                    Look::Visible(cts, value) => {
                        // SAFETY: reached under the guard, and committed.
                        return Some(unsafe { Version::new(cts, value, 0) });
                    }
                    Look::NotVisible => {}
                    Look::Torn => continue 'again,
                }
            }
            return self.versions.find(snapshot, guard);
        }
    }

    /// The version directly before the newest committed one, if it is still in the record.
    /// For the lock's holder, before it writes.
    pub(crate) fn version_before<'guard>(
        &self,
        _guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        // No other thread writes here (invariant 1), so the region does not change.
        let region = self.region(self.word().primary().other());
        let cts = region.cts.load(Ordering::Acquire);
        let value = region.value.load(Ordering::Acquire);
        if cts == INFINITE || !is_present(value) {
            return None;
        }
        // SAFETY: reached under the guard, and committed.
        Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) })
    }

    /// The newest committed version, whatever the snapshot. Never blocks.
    pub(crate) fn newest_committed<'guard>(
        &self,
        _guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        loop {
            let primary = self.word().primary();
            let region = self.region(primary);
            let cts = region.cts.load(Ordering::Acquire);
            let value = region.value.load(Ordering::Acquire);
            if region.cts.load(Ordering::Relaxed) != cts {
                continue;
            }
            // If the primary region has never had a value, the record has no committed
            // version. If it is invalid otherwise, it was primary when the word was read,
            // and no longer is.
            if value.is_null() {
                return None;
            }
            // A commit stores its cts before it flips the primary bit. Without loading the
            // bit again, a reader with an old word could return such a version, and the one
            // before it the next time.
            if cts != INFINITE && is_present(value) && self.word().primary() == primary {
                // SAFETY: reached under the guard, and committed.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
    }
}
