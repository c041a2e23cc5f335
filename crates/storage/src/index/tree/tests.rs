use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_memory::heap::size_class;
use proptest::prelude::*;

use super::check::check;
use super::*;

type Entries = Vec<(Vec<u8>, u64)>;

fn collect<const W: usize>(
    tree: &Tree<W>,
    domain: &Domain,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    forward: bool,
) -> Entries {
    let guard = domain.pin();
    let mut entries = Vec::new();
    let visit = |key: &[u8], rid: Rid| {
        entries.push((key.to_vec(), rid.0));
        ControlFlow::Continue(())
    };
    let flow = match forward {
        true => tree.scan_forward(lower, upper, &guard, visit),
        false => tree.scan_backward(lower, upper, &guard, visit),
    };
    assert!(flow.is_continue());
    entries
}

#[derive(Clone, Debug)]
enum TreeStep {
    Insert(Vec<u8>, u64),
    InsertRun(Vec<u8>, u16),
    Remove(Vec<u8>, u64),
    Replace(Vec<u8>, u64),
    RemoveRange(Vec<u8>, usize),
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>),
    GetMany(Vec<Vec<u8>>),
}

/// Similar keys of many kinds: short and long, with trailing zeros, with long common
/// prefixes, too long for a node.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0u8..3, 1 => any::<u8>()];
    prop_oneof![
        4 => prop::collection::vec(byte.clone(), 0..5),
        2 => (0u8..3, 0usize..30, prop::collection::vec(byte.clone(), 0..4)).prop_map(
            |(common, length, rest)| [vec![common; length], rest].concat()
        ),
        2 => (0u64..300).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => (0u64..300).prop_map(|number| {
            [b"sixteen bytes in".as_slice(), &number.to_be_bytes()].concat()
        }),
        1 => (0u8..2, 0u8..100, 100usize..400).prop_map(|(common, last, length)| {
            [vec![common; length], vec![last]].concat()
        }),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn step() -> impl Strategy<Value = TreeStep> {
    prop_oneof![
        12 => (key(), 0u64..2).prop_map(|(key, rid)| TreeStep::Insert(key, rid)),
        1 => (key(), 1u16..40).prop_map(|(key, count)| TreeStep::InsertRun(key, count)),
        6 => (key(), 0u64..2).prop_map(|(key, rid)| TreeStep::Remove(key, rid)),
        4 => (key(), 0u64..2).prop_map(|(key, rid)| TreeStep::Replace(key, rid)),
        1 => (key(), 1usize..60).prop_map(|(key, count)| TreeStep::RemoveRange(key, count)),
        2 => (bound(), bound()).prop_map(|(lower, upper)| TreeStep::Scan(lower, upper)),
        1 => prop::collection::vec(key(), 1..40).prop_map(TreeStep::GetMany),
    ]
}

fn is_between(key: &[u8], lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    (match lower {
        Bound::Included(lower) => lower <= key,
        Bound::Excluded(lower) => lower < key,
        Bound::Unbounded => true,
    }) && (match upper {
        Bound::Included(upper) => key <= upper,
        Bound::Excluded(upper) => key < upper,
        Bound::Unbounded => true,
    })
}

fn behaves_like_a_map<const W: usize>(steps: &[TreeStep]) {
    let domain = Domain::new();
    let tree = Tree::<W>::new(&domain);
    let mut model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for step in steps {
        let guard = domain.pin();
        match step {
            TreeStep::Insert(key, rid) => {
                let expected = model.get(key).map_or(Ok(()), |&rid| Err(Rid(rid)));
                assert_eq!(tree.insert_if_absent(key, Rid(*rid), &guard), expected);
                model.entry(key.clone()).or_insert(*rid);
            }
            TreeStep::InsertRun(key, count) => {
                for at in 0..*count {
                    let key = [&key[..], &at.to_be_bytes()].concat();
                    let inserted = tree.insert_if_absent(&key, Rid(0), &guard);
                    assert_eq!(inserted.is_ok(), !model.contains_key(&key));
                    model.entry(key).or_insert(0);
                }
            }
            TreeStep::Remove(key, rid) => {
                let there = model.get(key) == Some(rid);
                assert_eq!(tree.remove(key, Rid(*rid), &guard), there);
                if there {
                    model.remove(key);
                }
            }
            TreeStep::Replace(key, rid) => {
                let there = model.get(key) == Some(rid);
                assert_eq!(tree.replace(key, Rid(*rid), Rid(1 - rid), &guard), there);
                if there {
                    model.insert(key.clone(), 1 - rid);
                }
            }
            TreeStep::RemoveRange(key, count) => {
                let range = model.range(key.clone()..).take(*count);
                let gone: Entries = range.map(|(key, &rid)| (key.clone(), rid)).collect();
                for (key, rid) in gone {
                    assert!(!tree.remove(&key, Rid(rid + 1), &guard));
                    assert!(tree.remove(&key, Rid(rid), &guard));
                    model.remove(&key);
                }
            }
            TreeStep::Scan(lower, upper) => {
                let (lower, upper) = (
                    lower.as_ref().map(|key| &key[..]),
                    upper.as_ref().map(|key| &key[..]),
                );
                let mut expected: Entries = model
                    .iter()
                    .filter(|(key, _)| is_between(key, lower, upper))
                    .map(|(key, &rid)| (key.clone(), rid))
                    .collect();
                assert_eq!(collect(&tree, &domain, lower, upper, true), expected);
                expected.reverse();
                assert_eq!(collect(&tree, &domain, lower, upper, false), expected);
            }
            TreeStep::GetMany(keys) => {
                let mut found = vec![None; keys.len()];
                tree.get_many(keys, &guard, |at, rid| {
                    assert_eq!(found[at].replace(rid), None, "told once");
                });
                for (key, found) in keys.iter().zip(found) {
                    let expected = model.get(key).map(|&rid| Rid(rid));
                    assert_eq!(found, Some(expected));
                    assert_eq!(tree.get(key, &guard), expected);
                }
            }
        }
    }
    let found = check(&tree);
    assert_eq!(found.entries, model);
    assert_counted(&tree, found.nodes);
    // Bulk loading makes a tree with the same entries.
    let loaded = Tree::<W>::from_sorted(&domain, model.iter().map(|(key, &rid)| (key, Rid(rid))));
    let in_order = check(&loaded);
    assert_eq!(in_order.entries, model);
    assert_counted(&loaded, in_order.nodes);
    // Removing every entry empties both trees.
    for tree in [tree, loaded] {
        let guard = domain.pin();
        for (key, rid) in &model {
            assert!(tree.remove(key, Rid(*rid), &guard));
        }
        assert!(check(&tree).entries.is_empty());
    }
}

/// Checks the accounting: without long keys, a tree counts its nodes only.
fn assert_counted<const W: usize>(tree: &Tree<W>, nodes: usize) {
    let bytes = (nodes * size_class(size_of::<Node<W>>())) as u64;
    assert!(tree.memory() >= bytes);
    if check(tree).spilled == 0 {
        assert_eq!(tree.memory(), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn tiny_nodes_behave_like_a_map(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 500 })
    ) {
        behaves_like_a_map::<24>(&steps);
    }

    #[test]
    fn small_nodes_behave_like_a_map(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 500 })
    ) {
        behaves_like_a_map::<56>(&steps);
    }

    #[test]
    fn nodes_behave_like_a_map(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 60 } else { 800 })
    ) {
        behaves_like_a_map::<WORDS>(&steps);
    }
}

#[test]
#[should_panic(expected = "the guard is of another domain")]
fn a_guard_of_another_domain_is_refused() {
    let (domain, other) = (Domain::new(), Domain::new());
    let tree = Tree::<WORDS>::new(&domain);
    let _ = tree.get(b"key", &other.pin());
}

#[test]
fn a_node_takes_two_kilobytes() {
    assert_eq!(size_of::<Node<WORDS>>(), 2048);
}

/// Scatters a number over all 64 bits by a multiplication.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

const MANY: u64 = if cfg!(miri) { 300 } else { 20_000 };

#[test]
fn keys_in_order_leave_full_leaves() {
    let domain = Domain::new();
    let tree = Tree::<WORDS>::new(&domain);
    let guard = domain.pin();
    for number in 0..MANY {
        let inserted = tree.insert_if_absent(&number.to_be_bytes(), Rid(number), &guard);
        assert_eq!(inserted, Ok(()));
    }
    // Seventeen and a half bytes per key, if leaves are full.
    assert!(tree.memory() <= MANY * 20 + 3 * 2048, "{}", tree.memory());
    // Ten positions at which keys arrive in order.
    let tree = Tree::<WORDS>::new(&domain);
    for number in 0..MANY {
        let key = (number % 10) << 32 | number;
        let inserted = tree.insert_if_absent(&key.to_be_bytes(), Rid(number), &guard);
        assert_eq!(inserted, Ok(()));
    }
    check(&tree);
}

#[test]
fn a_tree_that_is_emptied_is_one_leaf() {
    let domain = Domain::new();
    let tree = Tree::<24>::new(&domain);
    let guard = domain.pin();
    for number in 0..MANY {
        let key = scattered(number).to_be_bytes();
        assert_eq!(tree.insert_if_absent(&key, Rid(number), &guard), Ok(()));
    }
    let full = check(&tree);
    let levels = if cfg!(miri) { 3 } else { 4 };
    assert!(full.levels >= levels, "{}", full.levels);
    for number in 0..MANY {
        assert!(tree.remove(&scattered(number).to_be_bytes(), Rid(number), &guard));
    }
    let empty = check(&tree);
    assert_eq!((empty.nodes, empty.levels), (1, 1));
}

#[test]
fn a_visitor_can_write_where_it_is() {
    let domain = Domain::new();
    let tree = Tree::<24>::new(&domain);
    let guard = domain.pin();
    for number in 0..100u64 {
        let inserted = tree.insert_if_absent(&number.to_be_bytes(), Rid(number), &guard);
        assert_eq!(inserted, Ok(()));
    }
    for forward in [true, false] {
        let mut seen = Vec::new();
        let visit = |key: &[u8], rid: Rid| {
            // The leaf changes under the scan, and splits and merges.
            assert!(tree.remove(key, rid, &guard));
            let behind = [key, b"behind"].concat();
            assert_eq!(tree.insert_if_absent(&behind, Rid(1000), &guard), Ok(()));
            assert!(tree.remove(&behind, Rid(1000), &guard));
            assert_eq!(tree.insert_if_absent(key, rid, &guard), Ok(()));
            seen.push(rid.0);
            ControlFlow::Continue(())
        };
        let (all, none) = (Bound::Unbounded, ControlFlow::Continue(()));
        let flow = match forward {
            true => tree.scan_forward(all, all, &guard, visit),
            false => tree.scan_backward(all, all, &guard, visit),
        };
        assert_eq!(flow, none);
        if !forward {
            seen.reverse();
        }
        assert!(seen.into_iter().eq(0..100));
    }
    check(&tree);
}

/// Threads insert, remove, look up and scan at once. Stable keys are always found, whatever
/// the writers do around them; and at the end exactly the expected entries remain.
#[test]
fn stable_keys_are_always_there() {
    const STABLE: u64 = if cfg!(miri) { 10 } else { 300 };
    const ROUNDS: u64 = if cfg!(miri) { 6 } else { 600 };
    /// Some keys are long, so that their memory is freed while readers access it.
    fn volatile(base: u64, at: u64, writer: u64) -> Vec<u8> {
        let mut key = (base * 1000 + at * 2 + writer + 1).to_be_bytes().to_vec();
        if at.is_multiple_of(5) {
            key.resize(60, 7);
        }
        key
    }
    let domain = Domain::new();
    let tree = Tree::<24>::new(&domain);
    let stable = |number: u64| (number * 1000).to_be_bytes();
    for number in 0..STABLE {
        let inserted = tree.insert_if_absent(&stable(number), Rid(number), &domain.pin());
        assert_eq!(inserted, Ok(()));
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for forward in [true, false] {
            let (tree, domain, stop) = (&tree, &domain, &stop);
            scope.spawn(move || {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let from = scattered(round) % STABLE;
                    let key = stable(from);
                    let mut all = match forward {
                        true => {
                            collect(tree, domain, Bound::Included(&key), Bound::Unbounded, true)
                        }
                        false => {
                            collect(tree, domain, Bound::Unbounded, Bound::Included(&key), false)
                        }
                    };
                    if !forward {
                        all.reverse();
                    }
                    assert!(all.is_sorted_by(|one, other| one.0 < other.0));
                    let seen = all.iter().map(|entry| entry.1).filter(|&rid| rid < STABLE);
                    let expected = if forward { from..STABLE } else { 0..from + 1 };
                    assert!(seen.eq(expected));
                    let keys: Vec<_> = (0..STABLE).map(stable).collect();
                    let guard = domain.pin();
                    tree.get_many(&keys, &guard, |at, rid| {
                        assert_eq!(rid, Some(Rid(at as u64)))
                    });
                    assert_eq!(tree.get(&key, &guard), Some(Rid(from)));
                }
            });
        }
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (tree, domain) = (&tree, &domain);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let base = scattered(round * 2 + writer) % STABLE;
                        for at in 1..30 {
                            let key = volatile(base, at, writer);
                            let guard = domain.pin();
                            assert_eq!(tree.insert_if_absent(&key, Rid(1 << 40), &guard), Ok(()));
                        }
                        for at in (1..30).rev() {
                            let key = volatile(base, at, writer);
                            assert!(tree.remove(&key, Rid(1 << 40), &domain.pin()));
                        }
                    }
                })
            })
            .collect();
        let ends = writers.into_iter().map(|writer| writer.join());
        let ends: Vec<_> = ends.collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok));
    });
    let found = check(&tree);
    assert!(found.entries.into_values().eq(0..STABLE));
    assert_eq!(found.spilled, 0);
    assert_counted(&tree, found.nodes);
}
