//! The range map: an ordered key space, divided into logical ranges.
//!
//! The map is immutable, and replaced as a whole. A writer or scan that looks a range up
//! loads the map without a lock and without writing shared memory; the links of retired
//! ranges lead commits that still use an older map to the current ranges
//! ([`super::range`]).
//!
//! ```text
//!   heads     0        "gab"     "nut"        the first eight bytes of each lower bound
//!   ranges    [ – g )  [ g – n ) [ n – )      compared whole only where heads are equal
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use coeval_memory::padded::CachePadded;
use coeval_memory::sync::Mutex;
use coeval_types::{IndexId, StorageId, Timestamp, TransactionId};

use super::account::Account;
use super::balancer::RangeBalancer;
use super::predicate::{Predicate, continue_one};
use super::range::Range;
use super::ring::Ring;

/// Identifies an ordered key space: an index, or a table in RID order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The table.
    pub storage: StorageId,
    /// The index, or `None` for the rows in RID order.
    pub index: Option<IndexId>,
}

/// Limits on the size and number of ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Slots of the largest ring.
    pub(crate) slots: usize,
    /// Registrations checked in vain after which the space is divided.
    pub(crate) in_vain: u64,
    /// Target number of keys in a range, once the space is divided.
    pub(crate) records: u64,
    /// Largest number of ranges.
    pub(crate) ranges: usize,
}

/// An immutable map: all ranges in order, without gaps.
#[derive(Debug)]
pub(super) struct Map {
    heads: Box<[u64]>,
    ranges: Box<[Arc<Range>]>,
}

fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(first)
        }
    }
}

impl Map {
    pub(super) fn new(ranges: Box<[Arc<Range>]>) -> Self {
        let heads = ranges.iter().map(|range| head_of(&range.lower)).collect();
        Self { heads, ranges }
    }

    pub(super) fn ranges(&self) -> &[Arc<Range>] {
        &self.ranges
    }

    /// The position of the range with this key.
    #[inline]
    pub(super) fn position(&self, key: &[u8]) -> usize {
        let head = head_of(key);
        let below = self.heads.partition_point(|other| *other < head);
        let equal = self.heads[below..].partition_point(|other| *other == head);
        let at_most =
            self.ranges[below..below + equal].partition_point(|range| *range.lower <= *key);
        below + at_most - 1
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.ranges)
    }
}

/// Feedback from validators to the range balancer.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Whether any predicate was validated since the last [`Self::take`].
    used: AtomicBool,
    /// Registrations checked in vain: their keys are in the predicate's range and not in
    /// the predicate. A predicate that failed or was undecided counts as one.
    in_vain: AtomicU64,
}

impl Demand {
    /// Notes that a predicate was validated, with `in_vain` registrations checked in
    /// vain.
    pub(super) fn note(&self, in_vain: u64) {
        // Reading first keeps the cache line shared.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if in_vain > 0 {
            self.in_vain.fetch_add(in_vain, Ordering::Relaxed);
        }
    }

    /// Returns and resets both values: whether any predicate was validated, and the
    /// number of registrations checked in vain.
    pub(super) fn take(&self) -> (bool, u64) {
        if !self.used.load(Ordering::Relaxed) {
            return (false, 0);
        }
        self.used.store(false, Ordering::Relaxed);
        (true, self.in_vain.swap(0, Ordering::Relaxed))
    }
}

/// The logical ranges of one key space.
#[derive(Debug)]
pub struct RangeMap {
    pub(super) space: Space,
    pub(super) limits: Limits,
    current: ArcSwap<Map>,
    pub(super) account: Account,
    pub(super) next_id: AtomicU64,
    pub(super) demand: CachePadded<Demand>,
    /// Held by the thread that changes the map.
    pub(super) balancer: Mutex<RangeBalancer>,
}

/// A transaction's registration in a range, before or after its timestamp is assigned.
#[derive(Debug)]
pub(crate) struct Registration {
    range: Arc<Range>,
    position: u64,
}

impl Registration {
    pub(super) fn new(range: Arc<Range>, position: u64) -> Self {
        Self { range, position }
    }

    pub(crate) fn assigned(&self, timestamp: Timestamp) {
        self.range.ring.assigned(self.position, timestamp);
    }

    /// Withdraws the registration of a transaction that failed. Copies of it in other
    /// rings remain: they only affect transactions with older snapshots.
    pub(crate) fn aborted(&self, timestamp: Timestamp) {
        self.range.ring.aborted(self.position, timestamp);
    }
}

impl RangeMap {
    /// A space with one range for all keys.
    pub(crate) fn new(space: Space, limits: Limits) -> Self {
        let account = Account::default();
        let first = Range::first(0, limits.slots, &account);
        let map = Map::new([first].into());
        account.add(map.bytes());
        Self {
            space,
            limits,
            current: ArcSwap::from_pointee(map),
            account,
            next_id: AtomicU64::new(1),
            demand: CachePadded::default(),
            balancer: Mutex::default(),
        }
    }

    /// The key space of this map.
    #[cfg(feature = "comparators")]
    #[must_use]
    pub fn space(&self) -> Space {
        self.space
    }

    /// The current map.
    pub(super) fn map(&self) -> arc_swap::Guard<Arc<Map>> {
        self.current.load()
    }

    /// Replaces the map: later lookups find these ranges.
    pub(super) fn publish(&self, map: Map) {
        self.account.add(map.bytes());
        let before = self.current.swap(Arc::new(map));
        self.account.subtract(before.bytes());
    }

    /// Memory that the map and its ranges take, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.account.bytes() as u64
    }

    /// The current number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.map().ranges.len()
    }

    /// Registers that `owner` writes these keys, which increase. The owner must then be
    /// assigned its timestamp without waiting for any other transaction.
    pub(crate) fn register(
        &self,
        owner: TransactionId,
        keys: &[&[u8]],
        registrations: &mut Vec<Registration>,
    ) {
        let map = self.map();
        let mut rest = keys;
        while let Some(first) = rest.first() {
            let range = &map.ranges[map.position(first)];
            let registered = range.register(owner, rest, registrations);
            rest = &rest[registered..];
        }
    }

    /// Notes predicates for the keys at or above `lower` and below `upper`, one for each
    /// range touched; a scan that continues an earlier predicate extends it. `start`
    /// returns the first position to check in a range's ring: [`Ring::first_unsettled`].
    pub(crate) fn predicates(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        predicates: &mut Vec<Predicate>,
        mut start: impl FnMut(&Ring) -> u64,
    ) {
        // A scan of a table in another order reports the whole space again with every
        // chunk.
        let whole = lower.is_empty() && upper.is_none();
        if whole && predicates.iter().any(|other| other.is_of_whole(self.space)) {
            return;
        }
        let map = self.map();
        let first = map.position(lower);
        for (at, range) in map.ranges.iter().enumerate().skip(first) {
            if upper.is_some_and(|upper| *range.lower >= *upper) {
                break;
            }
            let lower = lower.max(&range.lower);
            let upper = match (upper, range.upper.as_deref()) {
                (Some(upper), Some(end)) => Some(upper.min(end)),
                (upper, end) => upper.or(end),
            };
            if upper.is_some_and(|upper| lower >= upper) {
                continue;
            }
            if !continue_one(predicates, self.space, range, lower, upper) {
                let start = start(&range.ring);
                let place = (self.space, at, whole);
                predicates.push(Predicate::new(place, range, start, lower, upper));
            }
        }
    }
}
