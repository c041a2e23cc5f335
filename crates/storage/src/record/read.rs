//! Reading: never blocks, takes no lock, writes nothing, allocates nothing.

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

    /// When it was committed; infinite for the reader's own private version.
    #[must_use]
    pub fn cts(&self) -> Timestamp {
        self.cts
    }

    /// The row, or `None` when this version says that it is deleted.
    #[must_use]
    pub fn row(&self) -> Option<RowRef<'guard>> {
        self.row
    }

    /// Whether it says that the row is deleted.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        self.row.is_none()
    }

    /// Whether it is the reader's own, uncommitted.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.cts.is_finite()
    }

    /// How many list nodes were visited to find it: 0 for a region.
    #[must_use]
    pub fn jumps(&self) -> u32 {
        self.jumps
    }
}

/// What a look at one region found.
enum Look {
    /// A committed version the snapshot includes.
    Visible(Timestamp, ValuePointer),
    /// None that it includes: newer, private, or none at all.
    NotVisible,
    /// The region changed during the look: start over.
    Torn,
}

impl VersionRegion {
    #[inline]
    fn look(&self, snapshot: Timestamp) -> Look {
        // Acquire on both loads keeps the three in order: a value that was stored
        // after the region was made invalid shows the second look at least that.
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

/// Whether the second look at the cts is left out: a fault that tests put back, to
/// show that they would find it.
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
    /// The version that `reader` sees at `snapshot`: its own private one, else the
    /// newest committed at or before the snapshot, which the caller has registered.
    /// EMS §2.3.3, algorithm 2.2.
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
                // SAFETY: the private value of the caller is retired, if at all, by
                // the caller under a guard; this one keeps it.
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

    /// The version right before the newest committed one, if it is still in the
    /// record. For the lock's holder, before it writes.
    pub(crate) fn version_before<'guard>(
        &self,
        _guard: &'guard Guard<'_>,
    ) -> Option<Version<'guard>> {
        // Nobody else writes here (invariant 1), so the region stays as it is.
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
            // A primary that has never had a value is that of a record without a
            // committed version. One that is invalid otherwise was primary when the
            // word was read, and is not any more.
            if value.is_null() {
                return None;
            }
            // A commit stores its cts before it flips the primary bit. Without a
            // second look at the bit a reader with an old word could be shown such a
            // version, and the one before it the next time.
            if cts != INFINITE && is_present(value) && self.word().primary() == primary {
                // SAFETY: reached under the guard, and committed.
                return Some(unsafe { Version::new(Timestamp::from_bits(cts), value, 0) });
            }
        }
    }
}
