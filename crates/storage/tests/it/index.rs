//! Tests of the ordered index against a plain map, alone and under concurrent writers.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_memory::epoch::Domain;
use coeval_storage::OrderedIndex;
use coeval_storage::index::{append_rid, split_rid};
use coeval_types::Rid;
use proptest::prelude::*;

type Entries = Vec<(Vec<u8>, Rid)>;

fn collect(
    index: &OrderedIndex,
    domain: &Domain,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    forward: bool,
) -> Entries {
    let guard = domain.pin();
    let mut entries = Vec::new();
    let visit = |key: &[u8], rid| {
        entries.push((key.to_vec(), rid));
        ControlFlow::Continue(())
    };
    let flow = if forward {
        index.scan_forward(lower, upper, &guard, visit)
    } else {
        index.scan_backward(lower, upper, &guard, visit)
    };
    assert!(flow.is_continue());
    entries
}

#[derive(Clone, Debug)]
enum IndexStep {
    Insert(Vec<u8>, u64),
    Remove(Vec<u8>, u64),
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        // Few distinct keys, so that removals hit; short and long ones mixed.
        4 => (0u8..100).prop_map(|byte| vec![byte]),
        1 => (0u8..100, 20usize..26).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = IndexStep> {
    prop_oneof![
        6 => (key(), 0u64..2).prop_map(|(key, rid)| IndexStep::Insert(key, rid)),
        6 => (key(), 0u64..2).prop_map(|(key, rid)| IndexStep::Remove(key, rid)),
        1 => (bound(), bound()).prop_map(|(lower, upper)| IndexStep::Scan(lower, upper)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 600 })) {
        let domain = Domain::new();
        let index = OrderedIndex::new(&domain);
        let mut model = BTreeMap::new();
        for step in &steps {
            let guard = domain.pin();
            match step {
                IndexStep::Insert(key, rid) => {
                    let expected = model.get(key).copied().map_or(Ok(()), Err);
                    prop_assert_eq!(index.insert_if_absent(key, Rid(*rid), &guard), expected);
                    model.entry(key.clone()).or_insert(Rid(*rid));
                }
                IndexStep::Remove(key, rid) => {
                    let there = model.get(key) == Some(&Rid(*rid));
                    prop_assert_eq!(index.remove(key, Rid(*rid), &guard), there);
                    if there {
                        model.remove(key);
                    }
                }
                IndexStep::Scan(lower, upper) => {
                    let (lower, upper) = (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
                    let mut expected: Entries = model
                        .iter()
                        .filter(|(key, _)| {
                            let key = &key[..];
                            (match lower {
                                Bound::Included(lower) => lower <= key,
                                Bound::Excluded(lower) => lower < key,
                                Bound::Unbounded => true,
                            }) && (match upper {
                                Bound::Included(upper) => key <= upper,
                                Bound::Excluded(upper) => key < upper,
                                Bound::Unbounded => true,
                            })
                        })
                        .map(|(key, rid)| (key.clone(), *rid))
                        .collect();
                    prop_assert_eq!(&collect(&index, &domain, lower, upper, true), &expected);
                    expected.reverse();
                    prop_assert_eq!(&collect(&index, &domain, lower, upper, false), &expected);
                }
            }
        }
        for (key, rid) in &model {
            prop_assert_eq!(index.get(key, &domain.pin()), Some(*rid));
        }
    }
}

#[test]
fn entries_with_rids_come_apart() {
    let mut entry = b"key".to_vec();
    append_rid(&mut entry, Rid(258));
    assert_eq!(split_rid(&entry), (&b"key"[..], Rid(258)));
}

#[test]
fn a_visitor_can_stop_and_write() {
    let domain = Domain::new();
    let index = OrderedIndex::new(&domain);
    let guard = domain.pin();
    for number in 0..100u64 {
        index
            .insert_if_absent(&number.to_be_bytes(), Rid(number), &guard)
            .unwrap();
    }
    let mut seen = Vec::new();
    let flow = index.scan_backward(Bound::Unbounded, Bound::Unbounded, &guard, |key, rid| {
        assert!(index.remove(key, rid, &guard));
        seen.push(rid.0);
        if seen.len() == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(flow.is_break());
    assert_eq!(seen, [99, 98, 97]);
    let left = collect(&index, &domain, Bound::Unbounded, Bound::Unbounded, true);
    assert!(left.into_iter().map(|(_, rid)| rid.0).eq(0..97));
}

/// Keys that exist throughout are in every scan, whatever concurrent writers do around
/// them; and no scan is out of order.
#[test]
fn scans_under_writers_miss_nothing() {
    const STABLE: u64 = if cfg!(miri) { 20 } else { 400 };
    let domain = Domain::new();
    let index = OrderedIndex::new(&domain);
    // Stable keys are 1000 apart, in clusters with gaps, so that writers fill and
    // empty whole leaves between them, and at both ends.
    let stable = |number: u64| (1_000_000 + number * 1000).to_be_bytes();
    for number in 0..STABLE {
        index
            .insert_if_absent(&stable(number), Rid(number), &domain.pin())
            .unwrap();
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for writer in 0..2u64 {
            let (index, domain, stop) = (&index, &domain, &stop);
            scope.spawn(move || {
                let mut state = 0x9E37_79B9 + writer;
                while !stop.load(Ordering::Relaxed) {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let base = (state >> 33) % (STABLE + 40) * 1000 + 980_000;
                    let keys = (1..40).map(|at| (base + at * 2 + writer + 1).to_be_bytes());
                    for key in keys.clone() {
                        if u64::from_be_bytes(key) % 1000 != 0 {
                            let _ = index.insert_if_absent(&key, Rid(u64::MAX), &domain.pin());
                        }
                    }
                    for key in keys {
                        index.remove(&key, Rid(u64::MAX), &domain.pin());
                    }
                }
            });
        }
        let mut state = 7u64;
        let scans = if cfg!(miri) { 2 } else { 2000 };
        for round in 0..scans {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let from = (state >> 33) % STABLE;
            let to = from + (state >> 10) % (STABLE - from);
            let forward = round % 2 == 0;
            // A bound is a stable key, or next to one, where writers insert and remove
            // keys.
            let (lower, upper) = match round % 3 {
                0 => (stable(from), stable(to)),
                _ => (
                    (1_000_000 + from * 1000 - (state >> 20 & 63)).to_be_bytes(),
                    (1_000_000 + to * 1000 + (state >> 14 & 63)).to_be_bytes(),
                ),
            };
            let (lower, upper): (Bound<&[u8]>, Bound<&[u8]>) = match round % 7 {
                0 | 1 => (Bound::Unbounded, Bound::Unbounded),
                2 => (Bound::Unbounded, Bound::Included(&upper)),
                3 => (Bound::Included(&lower), Bound::Unbounded),
                _ => (Bound::Included(&lower), Bound::Included(&upper)),
            };
            let from = if lower == Bound::Unbounded { 0 } else { from };
            let to = if upper == Bound::Unbounded {
                STABLE - 1
            } else {
                to
            };
            let mut entries = collect(&index, &domain, lower, upper, forward);
            if !forward {
                entries.reverse();
            }
            assert!(
                entries.is_sorted_by(|one, other| one.0 < other.0),
                "round {round}"
            );
            let seen: Vec<u64> = entries
                .iter()
                .filter(|(_, rid)| rid.0 != u64::MAX)
                .map(|(_, rid)| rid.0)
                .collect();
            let missed: Vec<_> = (from..=to).filter(|at| !seen.contains(at)).collect();
            assert!(
                missed.is_empty(),
                "round {round} forward {forward} missed {missed:?} of {from}..={to}"
            );
        }
    });
}

/// Stops the writers however the scans end, even by a panic.
struct StopOnDrop<'flag>(&'flag AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
