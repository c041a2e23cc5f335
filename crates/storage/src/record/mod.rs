//! The multi-version record: one cache line with the two newest versions inline.
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
//! The lock word says which region is *primary*: the newest committed version. The
//! other is *secondary*: the version before it, or invalid (cts infinite), or the
//! private version of the transaction that holds the lock. Older versions are in
//! the list, ordered oldest to newest (O2N). So whoever wants the newest version
//! finds it in the record, even while it is being updated; whoever wants the
//! oldest takes one jump (EMS §2.3.1, table 2.1).
//!
//! # A row's life
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
//! # The race of the torn read
//!
//! A reader loads the lock word, then the region that it says is primary. Between
//! the two the record may be committed and locked again, and the region reused:
//!
//! ```text
//!   reader, snapshot 15           writers                   A          B
//!   lock = (0,A,0)                                          10 "x"     5 "w"
//!                                 commit 20 into B          10 "x"     20 "y"
//!   A.cts = 10 ≤ 15: mine
//!                                 next write: A to the list,
//!                                 A invalid, A = "z"        ∞ "z"      20 "y"
//!   A.value = "z"     ✗ not committed, and not of 10
//! ```
//!
//! So a reader reads the cts again after the value, and starts over when it has
//! changed. That suffices: a region is made invalid before its value changes, and
//! a cts is never used twice, so the same cts twice means that the value in
//! between was its own. `tests/it/races.rs` puts the fault back, by leaving the
//! second look out, and shows that loom and shuttle notice.
//!
//! The same race in small: a commit stores the cts before it flips the primary bit.
//! A reader with a snapshot never sees the difference, because a snapshot that
//! includes the commit was registered after the flip. Who asks for the newest
//! version, whatever the snapshot, has to look at the bit twice.
//!
//! # Invariants
//!
//! 1. Only the lock's holder writes anything in the record.
//! 2. A region's cts is infinite while its value changes. (But in replay, which has
//!    no readers and changes values in their place: see `replay`.)
//! 3. A committed version is always in a region or in the list: it is appended to
//!    the list before its region is made invalid, unless it has expired.
//! 4. Cts in the list increase, and are below the secondary's and the primary's.
//! 5. The secondary's cts is finite only while the primary's is, and is below it.
//! 6. A value or node is retired after it was unlinked, and freed when every
//!    guard of that time is gone.
//! 7. A list node is unlinked under the lock, and never the newest one alone:
//!    the list may be dropped whole, when nothing in it is needed. (A reader that
//!    stands on the newest node then may miss an append that follows; what is
//!    appended was in a region when the reader looked there, and was not what it
//!    wanted.)
//! 8. A record is *dead* when it has neither a version nor a holder. Who reaches
//!    its RID through an index looks the key up again.
//!
//! A reader relies on this: whatever committed at or below its snapshot was
//! installed before it registered. So its first load of the lock word is at least
//! as new as that, and what changes later is of no concern to it.
//!
//! Sources: EMS §2.3.1–2.3.6 for everything here, as corrected by the issue's
//! notes: commit flips the primary bit and abort does not; algorithm 2.1 line 10
//! means *invalid*; algorithm 2.2 line 13 advances while the next node's cts is at
//! or below the snapshot, and the first node is looked at too.

mod collect;
mod follow;
mod list;
mod lock;
mod read;
mod replay;
mod write;

use coeval_memory::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use coeval_types::{Timestamp, TransactionId};

use crate::value::{Header, Value, ValuePointer, absent, is_present};
pub(crate) use collect::Collected;
pub(crate) use follow::Change;
use list::VersionList;
pub(crate) use lock::{LockWord, MAINTENANCE, Region};
pub use read::Version;
pub use replay::{ReplayError, Replayed};
pub use write::Aborted;
pub(crate) use write::Upkeep;

/// What became of an attempt to lock a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryLock {
    /// The caller holds it now.
    Locked,
    /// The caller held it before.
    AlreadyLocked,
    /// Another transaction holds it.
    HeldBy(TransactionId),
    /// There is no record here any more: look the key up again.
    Dead,
}

/// A region: a version's timestamp and value. The value is never null once there
/// was one; see [`crate::value`].
#[derive(Debug)]
pub(crate) struct VersionRegion {
    cts: AtomicU64,
    value: AtomicPtr<Header>,
}

const INFINITE: u64 = Timestamp::INFINITE.to_bits();

/// A record. All-zero bytes are a record that has never had a version.
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
    /// A record that has never had a version.
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

    /// Frees every version. The table is being dropped: nobody else is left.
    pub(crate) fn free_versions(&self) {
        for region in &self.regions {
            let value = region.value.swap(absent(), Ordering::Relaxed);
            if is_present(value) {
                // SAFETY: the region owned it, and nobody reads any more.
                drop(unsafe { Value::from_pointer(value) });
            }
        }
        for node in self.versions.unlink_all() {
            // SAFETY: just unlinked, and nobody reads any more.
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

    /// Whether there is no record here any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.word().is_dead()
    }

    /// Who holds the lock, maintenance excepted.
    pub(crate) fn holder(&self) -> Option<TransactionId> {
        self.word().holder().filter(|&id| id != MAINTENANCE)
    }

    /// How many patches the log has for it since the last full image. For the
    /// holder of the lock.
    pub(crate) fn patches_since_image(&self) -> u64 {
        self.patches_since_image.load(Ordering::Relaxed)
    }

    /// Sets [`Record::patches_since_image`]. For the holder of the lock.
    pub(crate) fn set_patches_since_image(&self, patches: u64) {
        self.patches_since_image.store(patches, Ordering::Relaxed);
    }

    /// Replaces the lock word, which is known to be `from`: its holder is the
    /// caller.
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

    /// The lock word, which must say that `id` holds the record.
    fn word_held_by(&self, id: TransactionId) -> LockWord {
        let word = LockWord(self.lock.load(Ordering::Relaxed));
        assert!(word.is_held_by(id), "{id:?} does not hold {word:?}");
        word
    }
}

impl VersionRegion {
    /// For the lock's holder: the version here, if it is a committed one.
    fn committed(&self) -> Option<(Timestamp, ValuePointer)> {
        let (cts, value) = (
            self.cts.load(Ordering::Relaxed),
            self.value.load(Ordering::Relaxed),
        );
        (cts != INFINITE && is_present(value)).then_some((Timestamp::from_bits(cts), value))
    }

    /// For the lock's holder, on the secondary: its private value, if any.
    fn private(&self) -> Option<ValuePointer> {
        let value = self.value.load(Ordering::Relaxed);
        (self.cts.load(Ordering::Relaxed) == INFINITE && is_present(value)).then_some(value)
    }
}
