//! One ordered space of keys, cut into ranges.

use std::sync::{Arc, RwLock};

use coeval_types::{IndexId, StorageId, Timestamp, TransactionId};

use super::footprint::Footprint;
use super::ring::{Failure, Ring};

/// Most slots that one transaction takes in one range's ring. What it writes
/// beyond that is registered as so many intervals.
const SLOTS_PER_TRANSACTION: usize = 8;

/// How many slots one transaction may take in a ring of `slots`. Slots that have
/// not drawn cannot be overwritten, so those of all threads that commit at once
/// must fit the ring with room to spare, or they would wait for each other.
fn slots_per_transaction(slots: usize) -> usize {
    (slots / 64).clamp(1, SLOTS_PER_TRANSACTION)
}

/// Which keys a map is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) storage: StorageId,
    /// `None` for the rows in the order of their RIDs.
    pub(crate) index: Option<IndexId>,
}

/// A logical range: the keys at or above `lower` and below `upper`.
#[derive(Debug)]
pub(crate) struct Range {
    space: Space,
    lower: Box<[u8]>,
    upper: Option<Box<[u8]>>,
    ring: Ring,
}

/// The ranges of one space, in order, without gaps.
#[derive(Debug)]
pub(crate) struct RangeMap {
    slots_per_transaction: usize,
    ranges: RwLock<Arc<[Arc<Range>]>>,
}

/// A registration made for a transaction that has not drawn yet, or has.
#[derive(Debug)]
pub(crate) struct Registration {
    range: Arc<Range>,
    position: u64,
}

impl Registration {
    pub(crate) fn drawn(&self, timestamp: Timestamp) {
        self.range.ring.drawn(self.position, timestamp);
    }

    pub(crate) fn aborted(&self, timestamp: Timestamp) {
        self.range.ring.aborted(self.position, timestamp);
    }
}

/// That nothing changes between two keys of a range, as seen from a snapshot.
#[derive(Debug)]
pub(crate) struct Predicate {
    range: Arc<Range>,
    start: u64,
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
}

impl Predicate {
    /// Which keys it is about.
    pub(crate) fn space(&self) -> Space {
        self.range.space
    }

    fn covers_range(&self) -> bool {
        let whole_above = match (&self.upper, &self.range.upper) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(upper), Some(end)) => **upper >= **end,
        };
        *self.lower <= *self.range.lower && whole_above
    }

    /// Checks it against everybody who has drawn a timestamp after `snapshot` and
    /// before `own`. A predicate that covers its range looks at no key.
    pub(crate) fn validate(
        &self,
        snapshot: Timestamp,
        me: TransactionId,
        own: Timestamp,
    ) -> Result<(), Failure> {
        let ring = &self.range.ring;
        if self.covers_range() {
            return ring.validate(self.start, snapshot, me, own, |_| true);
        }
        ring.validate(self.start, snapshot, me, own, |footprint| {
            footprint.may_meet(&self.lower, self.upper.as_deref())
        })
    }

    /// Takes in what it covers already, or what lies right beside it, if that is in
    /// the same range.
    fn extend(&mut self, range: &Arc<Range>, lower: &[u8], upper: Option<&[u8]>) -> bool {
        if !Arc::ptr_eq(&self.range, range) {
            return false;
        }
        let covers_upper = match (&self.upper, upper) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(upper)) => **end >= *upper,
        };
        if *self.lower <= *lower && covers_upper {
            return true;
        }
        if self.upper.as_deref() == Some(lower) {
            self.upper = upper.map(<[u8]>::to_vec);
            true
        } else if upper.is_some() && Some(&*self.lower) == upper {
            self.lower.clear();
            self.lower.extend_from_slice(lower);
            true
        } else {
            false
        }
    }
}

impl RangeMap {
    /// One range for all keys.
    pub(crate) fn new(space: Space, slots: usize) -> Self {
        Self::with_boundaries(space, slots, &[])
    }

    /// Ranges between the given keys, which increase.
    pub(crate) fn with_boundaries(space: Space, slots: usize, boundaries: &[&[u8]]) -> Self {
        let lowers = std::iter::once(&b""[..]).chain(boundaries.iter().copied());
        let uppers = boundaries.iter().copied().map(Some).chain([None]);
        let ranges = lowers
            .zip(uppers)
            .map(|(lower, upper)| {
                assert!(upper.is_none_or(|upper| lower < upper));
                Arc::new(Range {
                    space,
                    lower: lower.into(),
                    upper: upper.map(Into::into),
                    ring: Ring::new(slots),
                })
            })
            .collect();
        Self {
            slots_per_transaction: slots_per_transaction(slots),
            ranges: RwLock::new(ranges),
        }
    }

    fn ranges(&self) -> Arc<[Arc<Range>]> {
        Arc::clone(&self.ranges.read().expect("no panic while it was held"))
    }

    /// Registers that `owner` writes these keys, which increase. The owner must
    /// then draw, waiting for nobody.
    pub(crate) fn register(
        &self,
        owner: TransactionId,
        keys: &[&[u8]],
        registrations: &mut Vec<Registration>,
    ) {
        let ranges = self.ranges();
        let mut rest = keys;
        while let Some(first) = rest.first() {
            let at = ranges.partition_point(|range| *range.lower <= **first) - 1;
            let range = &ranges[at];
            let inside = match &range.upper {
                None => rest.len(),
                Some(upper) => rest.partition_point(|key| **key < **upper),
            };
            let (keys, behind) = rest.split_at(inside);
            rest = behind;
            for part in keys.chunks(keys.len().div_ceil(self.slots_per_transaction)) {
                let footprint = match part {
                    [key] => Footprint::of_key(key),
                    [first, .., last] => Footprint::of_interval(first, last),
                    [] => unreachable!("chunks are not empty"),
                };
                registrations.push(Registration {
                    range: Arc::clone(range),
                    position: range.ring.register(owner, &footprint),
                });
            }
        }
    }

    /// Leaves predicates for the keys at or above `lower` and below `upper`, one
    /// for each range touched; what continues the last predicate extends it.
    pub(crate) fn predicates(
        &self,
        snapshot: Timestamp,
        lower: &[u8],
        upper: Option<&[u8]>,
        predicates: &mut Vec<Predicate>,
    ) {
        let ranges = self.ranges();
        let first = ranges.partition_point(|range| *range.lower <= *lower) - 1;
        for range in &ranges[first..] {
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
            if let Some(last) = predicates.last_mut()
                && last.extend(range, lower, upper)
            {
                continue;
            }
            predicates.push(Predicate {
                start: range.ring.first_unsettled(snapshot),
                range: Arc::clone(range),
                lower: lower.to_vec(),
                upper: upper.map(<[u8]>::to_vec),
            });
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const ME: TransactionId = TransactionId(1);
    const OTHER: TransactionId = TransactionId(2);
    const SPACE: Space = Space {
        storage: StorageId(1),
        index: Some(IndexId(1)),
    };

    const fn at(bits: u64) -> Timestamp {
        Timestamp::from_bits(bits)
    }

    fn write(map: &RangeMap, keys: &[&str], timestamp: u64) -> usize {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let mut registrations = Vec::new();
        map.register(OTHER, &keys, &mut registrations);
        for registration in &registrations {
            registration.drawn(at(timestamp));
        }
        registrations.len()
    }

    fn scan(map: &RangeMap, lower: &str, upper: &str) -> Vec<Predicate> {
        let mut predicates = Vec::new();
        map.predicates(
            at(10),
            lower.as_bytes(),
            Some(upper.as_bytes()),
            &mut predicates,
        );
        predicates
    }

    fn passes(predicates: &[Predicate]) -> bool {
        predicates
            .iter()
            .all(|predicate| predicate.validate(at(10), ME, at(100)).is_ok())
    }

    #[test]
    fn a_scan_leaves_one_predicate_for_each_range() {
        let map = RangeMap::with_boundaries(SPACE, 16, &[b"g", b"n"]);
        let predicates = scan(&map, "d", "p");
        assert_eq!(predicates.len(), 3);
        assert!(!predicates[0].covers_range());
        assert!(predicates[1].covers_range());
        assert_eq!(predicates[1].lower, b"g");
        assert!(!predicates[2].covers_range());
        assert_eq!(scan(&map, "g", "n").len(), 1);
        assert!(scan(&map, "n", "g").is_empty());
    }

    #[test]
    fn only_writes_between_the_bounds_meet_it() {
        let map = RangeMap::with_boundaries(SPACE, 16, &[b"g", b"n"]);
        let predicates = scan(&map, "d", "p");
        write(&map, &["a", "c", "p", "z"], 20);
        assert!(passes(&predicates));
        write(&map, &["a", "k"], 30);
        assert!(!passes(&predicates));
    }

    #[test]
    fn chunks_of_a_scan_become_one_predicate() {
        let map = RangeMap::new(SPACE, 16);
        let mut predicates = scan(&map, "a", "c");
        map.predicates(at(10), b"c", Some(b"e"), &mut predicates);
        map.predicates(at(10), b"e", None, &mut predicates);
        assert_eq!(predicates.len(), 1);
        assert_eq!(predicates[0].lower, b"a");
        assert_eq!(predicates[0].upper, None);
        let mut backward = scan(&map, "e", "g");
        map.predicates(at(10), b"c", Some(b"e"), &mut backward);
        assert_eq!(backward.len(), 1);
        assert_eq!(backward[0].lower, b"c");
    }

    #[test]
    fn a_large_write_takes_few_slots() {
        let map = RangeMap::new(SPACE, 1024);
        let keys: Vec<String> = (0..1000).map(|number| format!("k{number:04}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let predicates = scan(&map, "k0500", "k0501");
        assert_eq!(write(&map, &keys, 20), SLOTS_PER_TRANSACTION);
        assert!(!passes(&predicates));
        assert!(passes(&scan(&map, "l", "m")));
    }
}
