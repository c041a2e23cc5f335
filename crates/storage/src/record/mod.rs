//! The multi-version record: one cache line that holds the two newest versions of a row
//! inline.
//!
//! ```text
//!   0        8              24             40               56          64
//!  +--------+--------------+--------------+----------------+-----------+
//!  | lock   | region A     | region B     | version list   | patches   |
//!  |        | cts │ value  | cts │ value  | oldest │newest | since     |
//!  |        |              |              |                | full image|
//!  +--------+--------------+--------------+---┼────────────+-----------+
//!                                             ▼
//!                                  cts, value ──▶ cts, value ──▶ …     oldest to newest
//! ```
//!
//! The lock word determines which region is *primary*: it holds the newest committed
//! version. The other is *secondary*: it holds the previous version, or is invalid (cts
//! infinite), or holds the private version of the transaction that holds the lock. Older
//! versions are in the list, ordered oldest to newest (O2N). So a reader of the newest
//! version finds it in the record, even while a writer updates it; a reader of the oldest
//! takes one jump (EMS §2.3.1, table 2.1).
//!
//! # Life cycle of a row
//!
//! ```text
//!                           lock      A           B           list
//!   insert by 7, private    (1,A,7)   –           ∞ "x"
//!   7 commits at 10         (0,B,0)   –           10 "x"
//!   update by 8             (1,B,8)   ∞ "y"       10 "x"
//!   8 commits at 20         (0,A,0)   20 "y"      10 "x"
//!   update by 9; 15 reads   (1,A,9)   20 "y"      ∞ "z"       10 "x"
//!   9 aborts                (0,A,0)   20 "y"      ∞ absent    10 "x"
//! ```
//!
//! # The torn read race
//!
//! A reader loads the lock word, then the region that is primary according to it. Between
//! the two, writers may commit and lock the record again, and reuse the region:
//!
//! ```text
//!   reader, snapshot 15           writers                   A          B
//!   lock = (0,A,0)                                          10 "x"     5 "w"
//!                                 commit 20 into B          10 "x"     20 "y"
//!   A.cts = 10 ≤ 15: visible
//!                                 next write: A to the list,
//!                                 A invalid, A = "z"        ∞ "z"      20 "y"
//!   A.value = "z"     ✗ not committed, and not of 10
//! ```
//!
//! So a reader loads the cts again after the value, and restarts when it has changed. That
//! suffices: a region is made invalid before its value changes, and a cts is never reused,
//! so reading the same cts twice means that the value read in between belonged to it.
//! `tests/it/races.rs` injects the fault of omitting the second load, and shows that loom
//! and shuttle find it.
//!
//! A smaller instance of the same race: a commit stores the cts before it flips the primary
//! bit. A reader with a snapshot never sees the difference, because a snapshot that
//! includes the commit was registered after the flip. A reader of the newest version,
//! whatever the snapshot, has to load the bit twice.
//!
//! # Invariants
//!
//! 1. Only the lock's holder writes anything in the record.
//! 2. A region's cts is infinite while its value changes. (Replay is an exception: it has
//!    no readers and changes values in place, see `replay`.)
//! 3. A committed version is always in a region or in the list: it is appended to the list
//!    before its region is made invalid, unless it has expired.
//! 4. Cts in the list increase, and are below the secondary's and the primary's.
//! 5. The secondary's cts is finite only while the primary's is, and is below it.
//! 6. A value or node is retired after it was unlinked, and freed when every guard that
//!    existed then has been dropped.
//! 7. A list node is unlinked under the lock, and never the newest one alone: the list may
//!    be dropped as a whole, when nothing in it is needed. (A reader on the newest node may
//!    then miss a later append; the appended version was in a region when the reader looked
//!    there, and was not the one it wanted.)
//! 8. A record is *dead* when it has neither a version nor a holder. A reader that reaches
//!    its RID through an index looks the key up again.
//!
//! A reader relies on this: every commit at or below its snapshot was installed before it
//! registered the snapshot. So its first load of the lock word is at least as new as that,
//! and later changes do not concern it.
//!
//! Sources: EMS §2.3.1–2.3.6 for everything here, with these corrections: commit flips the
//! primary bit and abort does not; algorithm 2.1 line 10 means *invalid*; algorithm 2.2
//! line 13 advances while the next node's cts is at or below the snapshot, and the first
//! node is checked too.

mod collect;
mod follow;
mod list;
mod lock;
mod read;
mod replay;
mod write;

use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::{RowLock, Timestamp, TransactionId};

use crate::value::{Header, Value, ValuePointer, absent, is_present};
pub(crate) use collect::Collected;
pub(crate) use follow::Change;
use list::VersionList;
pub(crate) use lock::{LockWord, MAINTENANCE, Region};
pub use read::Version;
pub use replay::{ReplayError, Replayed};
pub use write::Aborted;
pub(crate) use write::Upkeep;

/// Result of an attempt to lock a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The caller now holds the lock.
    Locked,
    /// The caller already held the lock.
    AlreadyLocked,
    /// Another transaction holds the lock.
    HeldBy(TransactionId),
    /// The record is dead: the caller must look the key up again.
    Dead,
}

/// A version region: a version's timestamp and value. The value is never null once the
/// region has had one; see [`crate::value`].
#[derive(Debug)]
pub(crate) struct VersionRegion {
    cts: AtomicU64,
    value: AtomicPtr<Header>,
}

const INFINITE: u64 = Timestamp::INFINITE.to_bits();

/// A multi-version record. All-zero bytes are a record that has never had a version.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Record {
    lock: AtomicU64,
    regions: [VersionRegion; 2],
    versions: VersionList,
    patches_since_image: AtomicU64,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Record>() == 64, "a record is one cache line");

impl Record {
    /// Creates a record that has never had a version.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn new() -> Self {
        let region = || VersionRegion {
            cts: AtomicU64::new(0),
            value: AtomicPtr::new(std::ptr::null_mut()),
        };
        Self {
            lock: AtomicU64::new(0),
            regions: [region(), region()],
            versions: VersionList::new(),
            patches_since_image: AtomicU64::new(0),
        }
    }

    /// Frees every version. Called when the table is dropped and no other thread uses it.
    pub(crate) fn free_versions(&self) {
        for region in &self.regions {
            let value = region.value.swap(absent(), Ordering::Relaxed);
            if is_present(value) {
                // SAFETY: the region owned it, and no thread reads any more.
                drop(unsafe { Value::from_pointer(value) });
            }
        }
        for node in self.versions.unlink_all() {
            // SAFETY: just unlinked, and no thread reads any more.
            unsafe { list::free_node(node.cast()) };
        }
    }

    fn word(&self) -> LockWord {
        // Acquire: pairs with the release of a commit, so that the regions are at
        // least as new as the word.
        LockWord(self.lock.load(Ordering::Acquire))
    }

    fn region(&self, region: Region) -> &VersionRegion {
        &self.regions[region as usize]
    }

    /// Whether the record is dead.
    pub(crate) fn is_dead(&self) -> bool {
        self.word().is_dead()
    }

    /// The transaction that holds the lock; `None` if maintenance does.
    pub(crate) fn holder(&self) -> Option<TransactionId> {
        self.word().holder().filter(|&id| id != MAINTENANCE)
    }

    /// The transaction that holds the lock, and its mode; `None` if maintenance does.
    pub(crate) fn held(&self) -> Option<(TransactionId, RowLock)> {
        let word = self.word();
        let holder = word.holder().filter(|&id| id != MAINTENANCE)?;
        Some((holder, word.mode()))
    }

    /// Whether the record has a private version, of whatever transaction. For others than the
    /// holder this is true of some moment during the call.
    pub(crate) fn is_written(&self) -> bool {
        let word = self.word();
        word.holder().is_some() && self.region(word.primary().other()).private().is_some()
    }

    /// Number of patches that the log has for the record since the last full image. For the
    /// lock's holder.
    pub(crate) fn patches_since_image(&self) -> u64 {
        self.patches_since_image.load(Ordering::Relaxed)
    }

    /// Sets [`Record::patches_since_image`]. For the lock's holder.
    pub(crate) fn set_patches_since_image(&self, patches: u64) {
        self.patches_since_image.store(patches, Ordering::Relaxed);
    }

    /// Replaces the lock word `from`. The caller holds the lock, so the word cannot differ.
    fn change_word(&self, from: LockWord, to: LockWord) {
        let changed =
            self.lock
                .compare_exchange(from.0, to.0, Ordering::Release, Ordering::Relaxed);
        assert!(
            changed.is_ok(),
            "lock word changed under its holder: {:?} is {:?}",
            from,
            LockWord(changed.unwrap_err())
        );
    }

    /// The lock word; panics unless `id` holds the lock.
    fn word_held_by(&self, id: TransactionId) -> LockWord {
        let word = LockWord(self.lock.load(Ordering::Relaxed));
        assert!(word.is_held_by(id), "{id:?} does not hold {word:?}");
        word
    }
}

impl VersionRegion {
    /// The version in this region, if it is a committed one. For the lock's holder.
    fn committed(&self) -> Option<(Timestamp, ValuePointer)> {
        let (cts, value) = (
            self.cts.load(Ordering::Relaxed),
            self.value.load(Ordering::Relaxed),
        );
        (cts != INFINITE && is_present(value)).then_some((Timestamp::from_bits(cts), value))
    }

    /// The private value in the secondary region, if any. For the lock's holder.
    fn private(&self) -> Option<ValuePointer> {
        let value = self.value.load(Ordering::Relaxed);
        (self.cts.load(Ordering::Relaxed) == INFINITE && is_present(value)).then_some(value)
    }
}
