//! Model checks of the B+tree under loom and shuttle, with nodes so small that a few keys
//! split them. A scenario with a matching fault runs twice: the second time the fault is
//! injected, and the checker has to find it.
//!
//! Loom checks a latch, and a reader and a writer of one leaf, where memory orderings
//! matter. Splits, merges and scans have too many steps for it; shuttle tries many
//! schedules of them.

use std::sync::Arc;

use coeval_memory::sync::{Fault, thread};

use super::latch::Latch;
use super::word::Word;
use super::*;
use crate::faults;

/// A latch with two words, which writers change together.
struct Pair {
    latch: Latch,
    words: [Word; 2],
}

impl Pair {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            latch: Latch::new(),
            words: [Word::new(), Word::new()],
        })
    }

    fn increase(&self) -> Result<(), Restart> {
        let version = self.latch.read()?;
        let number = self.words[0].get();
        let held = self.latch.lock(version)?;
        for word in &self.words {
            word.set(number + 1);
        }
        drop(held);
        Ok(())
    }

    fn read(&self) -> Result<(u64, u64), Restart> {
        let version = self.latch.read()?;
        let words = (self.words[0].get(), self.words[1].get());
        self.latch.validate(version)?;
        Ok(words)
    }
}

fn a_pair_is_read_while_it_changes() {
    let pair = Pair::new();
    let writer = {
        let pair = pair.clone();
        thread::spawn(move || pair.increase().expect("no other thread writes"))
    };
    if let Ok((one, other)) = pair.read() {
        assert_eq!(one, other, "halves of two versions");
    }
    writer.join().unwrap();
    assert_eq!(pair.read(), Ok((1, 1)));
}

#[test]
fn what_is_validated_is_of_one_version() {
    Fault::none(a_pair_is_read_while_it_changes);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "halves of two versions")]
fn a_missing_fence_is_found_out() {
    faults::UNFENCED.put_back(a_pair_is_read_while_it_changes);
}

#[test]
fn a_latch_has_one_holder() {
    Fault::none(|| {
        let pair = Pair::new();
        let other = {
            let pair = pair.clone();
            thread::spawn(move || pair.increase().is_ok())
        };
        let one = pair.increase().is_ok();
        let both = u64::from(one) + u64::from(other.join().unwrap());
        assert!(both > 0, "one of them is first");
        assert_eq!(pair.read(), Ok((both, both)));
    });
}

/// A small tree and its domain.
struct World {
    domain: Domain,
    tree: Tree<24>,
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl World {
    fn new(keys: impl IntoIterator<Item = u64>) -> Arc<Self> {
        let domain = Domain::new();
        let tree = Tree::new(&domain);
        let world = Self { domain, tree };
        for number in keys {
            world.insert(number);
        }
        Arc::new(world)
    }

    fn insert(&self, number: u64) {
        let guard = self.domain.pin();
        let inserted = self
            .tree
            .insert_if_absent(&key(number), Rid(number), &guard);
        assert_eq!(inserted, Ok(()));
    }

    fn remove(&self, number: u64) {
        let guard = self.domain.pin();
        assert!(self.tree.remove(&key(number), Rid(number), &guard));
    }

    fn get(&self, number: u64) {
        let found = self.tree.get(&key(number), &self.domain.pin());
        assert_eq!(found, Some(Rid(number)), "a key that is there is not found");
    }
}

/// A reader looks up a key whose slot moves meanwhile.
fn a_slot_moves() {
    let world = World::new([20]);
    let reader = {
        let world = world.clone();
        thread::spawn(move || world.get(20))
    };
    world.insert(10);
    reader.join().unwrap();
}

#[test]
fn a_key_is_found_while_its_slot_moves() {
    Fault::none(a_slot_moves);
}

#[test]
#[should_panic(expected = "a key that is there is not found")]
fn an_unvalidated_look_is_found_out() {
    faults::UNVALIDATED.put_back(a_slot_moves);
}

#[cfg(shuttle)]
mod shuttled {
    use super::*;
    use crate::index::tree::check::check;

    /// Schedules of each kind: each is long, and the bugs they look for are not rare.
    const SCHEDULES: usize = 60;

    impl World {
        /// Checks that every number for which `is_stable` holds is visited once, with its
        /// own RID, in order.
        fn scan(&self, forward: bool, is_stable: impl Fn(u64) -> bool, stable: usize) {
            let guard = self.domain.pin();
            let mut seen: Vec<u64> = Vec::new();
            let visit = |key: &[u8], rid: Rid| {
                let number = u64::from_be_bytes(key.try_into().expect("eight bytes"));
                assert_eq!(number, rid.0, "a key with the RID of another");
                seen.push(number);
                // Gives other threads the chance to run in between.
                thread::yield_now();
                ControlFlow::Continue(())
            };
            let (all, none) = (Bound::Unbounded, ControlFlow::Continue(()));
            let flow = match forward {
                true => self.tree.scan_forward(all, all, &guard, visit),
                false => self.tree.scan_backward(all, all, &guard, visit),
            };
            assert_eq!(flow, none);
            if !forward {
                seen.reverse();
            }
            assert!(seen.is_sorted_by(|one, other| one < other), "{seen:?}");
            seen.retain(|&number| is_stable(number));
            assert_eq!(seen.len(), stable, "a scan misses a key: {seen:?}");
        }

        fn many(&self, numbers: &[u64]) {
            let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
            let guard = self.domain.pin();
            self.tree.get_many(&keys, &guard, |at, rid| {
                assert_eq!(
                    rid,
                    Some(Rid(numbers[at])),
                    "a key that is there is not found"
                );
            });
        }
    }

    /// The leaf of a stable key is split, and so is the root.
    fn a_leaf_is_split() {
        let world = World::new((0..16).map(|number| number * 100));
        let writer = {
            let world = world.clone();
            thread::spawn(move || (1..12).for_each(|number| world.insert(1300 + number)))
        };
        for _ in 0..3 {
            world.get(1400);
            world.get(1500);
        }
        writer.join().unwrap();
        check(&world.tree);
    }

    #[test]
    fn keys_are_found_while_leaves_are_split() {
        Fault::none_in(SCHEDULES, a_leaf_is_split);
    }

    #[test]
    #[should_panic(expected = "a key that is there is not found")]
    fn a_child_that_is_entered_blindly_is_found_out() {
        faults::ENTERED_BLINDLY.put_back(a_leaf_is_split);
    }

    fn scans_meet_splits() {
        let world = World::new((0..12).map(|number| number * 100));
        let scanners = [true, false].map(|forward| {
            let world = world.clone();
            thread::spawn(move || world.scan(forward, |number| number % 100 == 0, 12))
        });
        for number in [601, 602, 603, 604, 605, 606, 607, 608, 1, 2, 3, 4, 5] {
            world.insert(number);
        }
        for scanner in scanners {
            scanner.join().unwrap();
        }
        check(&world.tree);
    }

    #[test]
    fn scans_miss_nothing_while_leaves_are_split() {
        Fault::none_in(SCHEDULES, scans_meet_splits);
    }

    #[test]
    #[should_panic]
    fn scans_that_do_not_validate_are_found_out() {
        faults::UNVALIDATED.put_back(scans_meet_splits);
    }

    /// Leaves and inner nodes are merged, levels removed and memory freed, all under
    /// readers.
    #[test]
    fn readers_miss_nothing_while_nodes_are_merged() {
        Fault::none_in(SCHEDULES, || {
            let world = World::new(0..40);
            let threads = [
                {
                    let world = world.clone();
                    thread::spawn(move || world.scan(true, |number| number % 10 == 5, 4))
                },
                {
                    let world = world.clone();
                    thread::spawn(move || world.scan(false, |number| number % 10 == 5, 4))
                },
                {
                    let world = world.clone();
                    thread::spawn(move || {
                        world.many(&[5, 15, 25, 35]);
                        world.get(15);
                        world.many(&[35, 15]);
                    })
                },
            ];
            for number in (0..40).filter(|number| number % 10 != 5) {
                world.remove(number);
                if number % 8 == 0 {
                    world.domain.collect();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
            let found = check(&world.tree);
            assert!(found.entries.into_values().eq([5, 15, 25, 35]));
            assert!(found.nodes <= 3, "{}", found.nodes);
        });
    }

    /// Two writers split and merge the same nodes.
    #[test]
    fn writers_do_not_lose_what_others_write() {
        Fault::none_in(SCHEDULES, || {
            let world = World::new([50]);
            let writers = [0, 1].map(|writer| {
                let world = world.clone();
                thread::spawn(move || {
                    for number in 0..9 {
                        world.insert(number * 2 + writer);
                    }
                    for number in (0..9).filter(|number| number % 3 != 0) {
                        world.remove(number * 2 + writer);
                    }
                })
            });
            world.scan(true, |number| number == 50, 1);
            for writer in writers {
                writer.join().unwrap();
            }
            let found = check(&world.tree);
            let expected = [0, 1, 6, 7, 12, 13, 50];
            assert!(found.entries.into_values().eq(expected));
        });
    }

    /// Two threads insert the same keys: for each key one of them learns that it exists.
    #[test]
    fn a_key_is_inserted_once_and_removed_once() {
        Fault::none_in(SCHEDULES, || {
            let world = World::new((0..6).map(|number| number * 10));
            let threads = [1u64, 2].map(|rid| {
                let world = world.clone();
                thread::spawn(move || {
                    let mut mine = 0;
                    for number in [21, 22, 23, 24] {
                        let guard = world.domain.pin();
                        let key = key(number);
                        match world.tree.insert_if_absent(&key, Rid(rid), &guard) {
                            Ok(()) => mine += 1,
                            Err(there) => assert_eq!(there, Rid(3 - rid)),
                        }
                    }
                    mine
                })
            });
            let inserted: u64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
            assert_eq!(inserted, 4);
            check(&world.tree);
        });
    }
}
