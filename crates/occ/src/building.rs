//! Bulk building of an index: sorts the entries of existing rows and builds the B+tree
//! from its leaves upwards.
//!
//! ```text
//!   RIDs    0 …… n/2 │ n/2 …… n       one thread each appends keys to a buffer, notes
//!              ▼          ▼            where each key starts, and sorts
//!            part        part
//!               ╲        ╱             merged
//!             a tree from entries in order
//! ```
//!
//! A tree built from sorted entries needs no search and no split, and its leaves are
//! nearly full. For keys in random order that saves more than sorting costs; rows that
//! were inserted in key order need no sorting. While the index is built, the parts take
//! about as much memory as the index.
//!
//! Two callers build in this way, and no row changes under either: startup, before any
//! session exists ([`entries_of`]), with all the threads it may use; and `CREATE INDEX`,
//! which holds the table's exclusive lock while other transactions write other tables and
//! read this one, with its own thread alone (`transaction/schema.rs`).

use std::ops::Range;

use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{OrderedIndex, Table};
use coeval_types::Rid;

use crate::storage::Index;

/// Fewest records for which a part gets a thread of its own.
const PART_RECORDS: u64 = 1 << 16;

/// One entry of a part: its key's position in the buffer, and its RID.
#[derive(Clone, Copy, Debug)]
struct KeyPosition {
    /// In a sorted part, the first bytes after the prefix common to all keys: most
    /// comparisons are decided by it, without reading the keys.
    head: u64,
    start: usize,
    rid: Rid,
    length: u32,
    /// Whether another row with this key would violate the uniqueness of the index.
    comparable: bool,
}

/// The entries of one range of RIDs.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Estimated number of entries.
    expected: usize,
    keys: Vec<u8>,
    places: Vec<KeyPosition>,
}

impl Part {
    /// An empty part for about `expected` entries. The first entry allocates room for
    /// `expected` entries of that entry's length.
    pub(crate) fn of(expected: usize) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Adds an entry, as [`Index::entry`] encoded it.
    pub(crate) fn push(&mut self, key: &[u8], comparable: bool, rid: Rid) {
        if self.places.is_empty() {
            self.keys.reserve_exact(self.expected * key.len());
            self.places.reserve_exact(self.expected);
        }
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.places.push(KeyPosition {
            head: 0,
            start,
            rid,
            length: u32::try_from(key.len()).expect("a key is shorter than a row"),
            comparable,
        });
    }

    /// Bytes that adding an entry of `key` bytes allocates: mostly zero, and now and then
    /// twice the current capacity.
    pub(crate) fn growth(&self, key: usize) -> usize {
        let (keys, places) = (&self.keys, &self.places);
        if places.is_empty() {
            return self.expected.max(1) * (key + size_of::<KeyPosition>());
        }
        let mut bytes = 0;
        if keys.capacity() - keys.len() < key {
            bytes += (keys.capacity() * 2).max(keys.len() + key);
        }
        if places.len() == places.capacity() {
            bytes += places.capacity() * 2 * size_of::<KeyPosition>();
        }
        bytes
    }

    /// Bytes of the entries, which is about the size of a tree of them as well.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.len() + self.places.len() * size_of::<KeyPosition>()
    }

    fn key(&self, place: KeyPosition) -> &[u8] {
        key_at(&self.keys, place)
    }

    /// Length in bytes of the prefix common to all keys.
    fn common_prefix(&self) -> usize {
        let Some(&first) = self.places.first() else {
            return 0;
        };
        let first = self.key(first);
        let mut prefix = first.len();
        for &place in &self.places {
            let pairs = first[..prefix].iter().zip(self.key(place));
            prefix = pairs.take_while(|(one, other)| one == other).count();
            if prefix == 0 {
                break;
            }
        }
        prefix
    }

    pub(crate) fn sort(&mut self) {
        let prefix = self.common_prefix();
        let keys = &self.keys;
        for place in &mut self.places {
            place.head = head(&key_at(keys, *place)[prefix..]);
        }
        let ordered = |one: &KeyPosition, other: &KeyPosition| {
            let by_head = one.head.cmp(&other.head);
            by_head
                .then_with(|| key_at(keys, *one).cmp(key_at(keys, *other)))
                .then(one.rid.cmp(&other.rid))
        };
        self.places.sort_unstable_by(ordered);
    }

    /// The entries of a sorted part, in order.
    fn entries(&self) -> impl Iterator<Item = (&[u8], Rid)> {
        self.places
            .iter()
            .map(|&place| (self.key(place), place.rid))
    }

    /// Two rows of a sorted part that violate the uniqueness of the index. Of all
    /// duplicates, the pair whose second row has the smallest RID.
    pub(crate) fn duplicate(&self, index: &Index) -> Option<(Rid, Rid)> {
        if !index.promises_uniqueness() {
            return None;
        }
        let key = |place: &KeyPosition| index.split(self.key(*place), place.rid).0;
        self.places
            .array_windows()
            .filter(|[one, other]| one.comparable && other.comparable && key(one) == key(other))
            .map(|[one, other]| (one.rid, other.rid))
            .min_by_key(|&(_, second)| second)
    }

    /// Builds a tree from a sorted part.
    pub(crate) fn tree(&self, domain: &Domain) -> OrderedIndex {
        OrderedIndex::from_sorted(domain, self.entries())
    }
}

/// The first eight bytes of a key as a number, which compares as the keys do, except that
/// keys with equal first bytes compare equal.
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(bytes.len());
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

fn key_at(keys: &[u8], place: KeyPosition) -> &[u8] {
    &keys[place.start..][..place.length as usize]
}

/// Builds a tree of the newest committed version of every row. Up to `threads` threads
/// share the work if there are many rows, each thread a range of RIDs.
pub(crate) fn entries_of(
    index: &Index,
    records: &Table,
    threads: usize,
    domain: &Domain,
) -> OrderedIndex {
    let rids = records.high_water().0;
    let parts = (rids / PART_RECORDS).clamp(1, threads as u64);
    let expected = (records.estimated_rows() / parts) as usize;
    let parts = coeval_env::scatter(parts as usize, |part| {
        let its = rids * part as u64 / parts..rids * (part as u64 + 1) / parts;
        let mut part = Part::of(expected);
        gather(index, records, its, &mut part, &domain.pin());
        part.sort();
        part
    });
    if follow_each_other(&parts) {
        return OrderedIndex::from_sorted(domain, distinct(parts.iter().flat_map(Part::entries)));
    }
    OrderedIndex::from_sorted(domain, distinct(merged(&parts)))
}

/// Adds the entries of the rows in `rids` to `part`.
fn gather(index: &Index, records: &Table, rids: Range<u64>, part: &mut Part, guard: &Guard<'_>) {
    let mut entry = Vec::new();
    for rid in rids.map(Rid) {
        let record = records.record(rid);
        let version = record.and_then(|record| record.newest_committed(guard));
        if let Some(row) = version.and_then(|version| version.row()) {
            let comparable = index.entry(row, rid, &mut entry);
            part.push(&entry, comparable, rid);
        }
    }
}

/// Whether the keys of each sorted part are above those of the parts before it, as when
/// rows were inserted in key order.
fn follow_each_other(parts: &[Part]) -> bool {
    let ends = |part: &Part| {
        let (first, last) = (part.places.first()?, part.places.last()?);
        Some((part.key(*first).to_vec(), part.key(*last).to_vec()))
    };
    let ends: Vec<_> = parts.iter().filter_map(ends).collect();
    ends.array_windows()
        .all(|[(_, last), (first, _)]| last < first)
}

/// Merges sorted parts into one ordered stream of entries.
fn merged(parts: &[Part]) -> impl Iterator<Item = (&[u8], Rid)> {
    let mut next = vec![0; parts.len()];
    std::iter::from_fn(move || {
        let heads = parts.iter().zip(&next).enumerate();
        let (from, key, rid) = heads
            .filter_map(|(at, (part, &next))| {
                let place = *part.places.get(next)?;
                Some((at, part.key(place), place.rid))
            })
            .min_by_key(|&(_, key, rid)| (key, rid))?;
        next[from] += 1;
        Some((key, rid))
    })
}

/// Keeps the first entry of each key. No committed state has two rows with one primary
/// key, but a damaged file may.
fn distinct<'part>(
    entries: impl Iterator<Item = (&'part [u8], Rid)>,
) -> impl Iterator<Item = (&'part [u8], Rid)> {
    let mut last: Option<&[u8]> = None;
    entries.filter(move |&(key, _)| last.replace(key) != Some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_together_in_order() {
        let numbers = |part: u64| (0..500u64).map(move |at| (at * 7919 + part * 13) % 1009);
        let parts: Vec<Part> = (0..3)
            .map(|part| {
                let mut keys = Part::default();
                for number in numbers(part) {
                    keys.push(
                        &number.to_be_bytes()[6..],
                        true,
                        Rid(part * 10_000 + number),
                    );
                }
                keys.sort();
                keys
            })
            .collect();
        let entries: Vec<_> = distinct(merged(&parts)).collect();
        let mut expected: Vec<u64> = (0..3).flat_map(numbers).collect();
        expected.sort_unstable();
        expected.dedup();
        assert!(
            entries.iter().map(|(key, _)| *key).eq(expected
                .iter()
                .map(|number| number.to_be_bytes())
                .collect::<Vec<_>>()
                .iter()
                .map(|key| &key[6..]))
        );
        for (key, rid) in entries {
            let number = u64::from(u16::from_be_bytes(key.try_into().expect("two bytes")));
            let first = (0..3).find(|&part| numbers(part).any(|its| its == number));
            assert_eq!(rid, Rid(first.expect("from some part") * 10_000 + number));
        }
    }

    #[test]
    fn heads_decide_as_whole_keys_do() {
        // Keys of different lengths, with prefixes of each other, zeros, and differences
        // after the first eight bytes; with a common prefix and without.
        for prefix in [&b""[..], b"common prefix "] {
            let mut part = Part::of(100);
            let mut expected = Vec::new();
            for number in 0..2_000_u64 {
                let tail = (number * 7919 % 977).to_le_bytes();
                let mut key = prefix.to_vec();
                key.extend(tail.iter().cycle().take((number % 19) as usize));
                part.push(&key, true, Rid(number));
                expected.push((key, Rid(number)));
            }
            part.sort();
            expected.sort_unstable();
            assert!(
                part.entries()
                    .eq(expected.iter().map(|(key, rid)| (&key[..], *rid)))
            );
        }
    }

    #[test]
    fn parts_that_follow_each_other_are_told_from_those_that_do_not() {
        let part = |numbers: Range<u8>| {
            let mut part = Part::default();
            numbers.for_each(|number| part.push(&[number], true, Rid(u64::from(number))));
            part.sort();
            part
        };
        assert!(follow_each_other(&[]));
        assert!(follow_each_other(&[part(0..3), part(0..0), part(3..9)]));
        assert!(!follow_each_other(&[part(0..4), part(3..9)]));
        assert!(!follow_each_other(&[part(5..9), part(0..5)]));
    }

    #[test]
    fn a_part_says_before_what_it_allocates() {
        let mut part = Part::of(1_000);
        for number in 0..10_000_u64 {
            let key = vec![7; 20 + (number % 50) as usize];
            let of = |part: &Part| (part.keys.capacity(), part.places.capacity());
            let (before, said) = (of(&part), part.growth(key.len()));
            part.push(&key, true, Rid(number));
            let (mut allocated, after) = (0, of(&part));
            if after.0 != before.0 {
                allocated += after.0;
            }
            if after.1 != before.1 {
                allocated += after.1 * size_of::<KeyPosition>();
            }
            // The first allocations are rounded up to a few entries.
            assert!(
                allocated <= said || part.places.len() < 10,
                "entry {number}"
            );
            assert!((said == 0) <= (allocated == 0), "entry {number}");
        }
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(merged(&[]).count(), 0);
        assert_eq!(merged(&[Part::default(), Part::default()]).count(), 0);
    }
}
