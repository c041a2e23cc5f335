//! The entries of an index that is built for rows that are there, put in order.
//!
//! ```text
//!   RIDs    0 …… n/2 │ n/2 …… n       a thread each: keys one behind the other, and
//!              ▼          ▼            where each is; then sorted
//!            part        part
//!               ╲        ╱             merged
//!             a tree from entries in order
//! ```
//!
//! A tree that is filled from entries in order is built from its leaves upwards: no search,
//! no split, and leaves that are nearly full. With keys in an order by chance that saves
//! more than sorting costs; and rows that were inserted in the order of their keys need no
//! sorting. For the time of building, the parts take about as much memory as the index.

use std::ops::Range;

use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{OrderedIndex, Table};
use coeval_types::Rid;

use crate::storage::Index;

/// Fewer records than this are not worth a thread of their own.
const PART_RECORDS: u64 = 1 << 16;

/// A key among those of a part.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    length: usize,
    rid: Rid,
}

/// The entries of some of the rows.
#[derive(Debug, Default)]
struct Part {
    keys: Vec<u8>,
    places: Vec<Place>,
}

impl Part {
    fn push(&mut self, key: &[u8], rid: Rid) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        self.places.push(Place {
            start,
            length: key.len(),
            rid,
        });
    }

    fn key(&self, place: Place) -> &[u8] {
        key_at(&self.keys, place)
    }

    fn sort(&mut self) {
        let keys = &self.keys;
        let ordered = |one: &Place, other: &Place| key_at(keys, *one).cmp(key_at(keys, *other));
        self.places.sort_unstable_by(ordered);
    }
}

fn key_at(keys: &[u8], place: Place) -> &[u8] {
    &keys[place.start..][..place.length]
}

/// A tree of the newest committed version of every row. Up to so many threads share the
/// work if there is much, each a range of RIDs.
pub(crate) fn entries_of(
    index: &Index,
    records: &Table,
    threads: usize,
    domain: &Domain,
) -> OrderedIndex {
    let rids = records.high_water().0;
    let parts = (rids / PART_RECORDS).clamp(1, threads as u64);
    let parts = coeval_env::scatter(parts as usize, |part| {
        let part = part as u64;
        let its = rids * part / parts..rids * (part + 1) / parts;
        let mut part = gathered(index, records, its, &domain.pin());
        part.sort();
        part
    });
    OrderedIndex::from_sorted(domain, merged(&parts))
}

fn gathered(index: &Index, records: &Table, rids: Range<u64>, guard: &Guard<'_>) -> Part {
    let mut part = Part::default();
    let mut entry = Vec::new();
    for rid in rids.map(Rid) {
        let record = records.record(rid);
        let version = record.and_then(|record| record.newest_committed(guard));
        if let Some(row) = version.and_then(|version| version.row()) {
            index.entry(row, rid, &mut entry);
            part.push(&entry, rid);
        }
    }
    part
}

/// The entries of sorted parts in order. Of one key the first: two rows of one primary key
/// are no state that was ever committed, but a file may say anything.
fn merged(parts: &[Part]) -> impl Iterator<Item = (&[u8], Rid)> {
    let mut next = vec![0; parts.len()];
    let mut last: Option<&[u8]> = None;
    std::iter::from_fn(move || {
        loop {
            let heads = parts.iter().zip(&next).enumerate();
            let (from, key, rid) = heads
                .filter_map(|(at, (part, &next))| {
                    let place = *part.places.get(next)?;
                    Some((at, part.key(place), place.rid))
                })
                .min_by_key(|&(_, key, rid)| (key, rid))?;
            next[from] += 1;
            if last.replace(key) != Some(key) {
                return Some((key, rid));
            }
        }
    })
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
                    keys.push(&number.to_be_bytes()[6..], Rid(part * 10_000 + number));
                }
                keys.sort();
                keys
            })
            .collect();
        let entries: Vec<_> = merged(&parts).collect();
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
    fn nothing_comes_of_nothing() {
        assert_eq!(merged(&[]).count(), 0);
        assert_eq!(merged(&[Part::default(), Part::default()]).count(), 0);
    }
}
