//! Stress test of the ordered index: threads write, look up and scan one index for minutes,
//! and compare it with a model.
//!
//! ```text
//! cargo run --release -p coeval-storage --example index_stress -- [seconds] [seed]
//! ```
//!
//! Two writers own the keys whose last byte is theirs, and keep a plain map of them; so
//! each of their operations has one right result. They write in bursts at one position, so
//! that leaves fill up, are split, are emptied and merged. Two readers scan in both
//! directions: every key that no writer ever removes must appear, in order, with its RID.
//! At the end the index has exactly the entries of the maps, and everything is removed.
//!
//! The test alternates between nodes of 2 KiB and tiny ones, in which splits and merges are
//! frequent.
#![expect(
    clippy::disallowed_methods,
    reason = "a program for people who change the index"
)]

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use coeval_memory::epoch::Domain;
use coeval_storage::index::tree::{Tree, WORDS};
use coeval_types::Rid;

const STABLE: u64 = 2000;
const ROUND: Duration = Duration::from_secs(5);

/// A pseudorandom sequence that depends on its seed alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The key at a position; keys differ in length, and some are too long for a node.
fn key(place: u64, variant: u64, owner: u8) -> Vec<u8> {
    let mut key = b"shared by all of them ".to_vec();
    key.extend_from_slice(&place.to_be_bytes());
    let more = match variant % 8 {
        0..=3 => 0,
        4 => 1,
        5 => 9,
        6 => 30,
        _ => 200,
    };
    key.extend((0..more).map(|at| (variant >> (at % 8)) as u8));
    key.push(owner);
    key
}

fn stable(number: u64) -> Vec<u8> {
    key(number * 64, 0, 255)
}

/// An index under test.
struct World<const W: usize> {
    domain: Domain,
    tree: Tree<W>,
    stop: AtomicBool,
    writes: AtomicU64,
    scanned: AtomicU64,
}

impl<const W: usize> World<W> {
    fn write(&self, owner: u8, seed: u64) -> BTreeMap<Vec<u8>, u64> {
        let mut random = Random(seed);
        let mut model = BTreeMap::new();
        while !self.stop.load(Ordering::Relaxed) {
            let place = random.below(STABLE * 64);
            let burst = random.below(200);
            let inserts = random.below(2) == 0;
            for at in 0..burst {
                let guard = self.domain.pin();
                // In order, or scattered.
                let place = match burst % 3 {
                    0 => place + at,
                    1 => (place + burst).saturating_sub(at),
                    _ => place + random.below(64),
                };
                let key = key(place, random.below(16), owner);
                if inserts {
                    let rid = random.next() | 1 << 63;
                    let expected = model.get(&key).map_or(Ok(()), |&rid| Err(Rid(rid)));
                    assert_eq!(self.tree.insert_if_absent(&key, Rid(rid), &guard), expected);
                    model.entry(key).or_insert(rid);
                } else {
                    let rid = model.remove(&key);
                    assert_eq!(self.tree.get(&key, &guard), rid.map(Rid));
                    let removed = self.tree.remove(&key, Rid(rid.unwrap_or(0)), &guard);
                    assert_eq!(removed, rid.is_some());
                }
                self.writes.fetch_add(1, Ordering::Relaxed);
            }
            // Or all keys after a position.
            if random.below(50) == 0 {
                let from = key(place, 0, owner);
                let gone = model.split_off(&from);
                for (key, rid) in gone {
                    assert!(self.tree.remove(&key, Rid(rid), &self.domain.pin()));
                }
            }
        }
        model
    }

    fn read(&self, forward: bool, seed: u64) {
        let mut random = Random(seed);
        while !self.stop.load(Ordering::Relaxed) {
            let first = random.below(STABLE);
            let last = first + random.below((STABLE - first).min(100));
            let (lower, upper) = (stable(first), stable(last));
            let (lower, upper) = (Bound::Included(&lower[..]), Bound::Included(&upper[..]));
            let mut previous: Option<Vec<u8>> = None;
            let mut expected: Vec<u64> = (first..=last).collect();
            if forward {
                expected.reverse();
            }
            let mut seen = 0;
            let visit = |key: &[u8], rid: Rid| {
                let in_order = previous.as_deref().is_none_or(|previous| match forward {
                    true => previous < key,
                    false => previous > key,
                });
                assert!(in_order, "{previous:?} before {key:?}");
                previous = Some(key.to_vec());
                seen += 1;
                if key.last() == Some(&255) {
                    assert_eq!(expected.pop(), Some(rid.0), "the next stable key");
                } else {
                    assert!(rid.0 >= 1 << 63, "a RID of a writer");
                }
                ControlFlow::Continue(())
            };
            let guard = self.domain.pin();
            let flow = match forward {
                true => self.tree.scan_forward(lower, upper, &guard, visit),
                false => self.tree.scan_backward(lower, upper, &guard, visit),
            };
            assert!(flow.is_continue() && expected.is_empty(), "{expected:?}");
            self.scanned.fetch_add(seen, Ordering::Relaxed);
            let keys: Vec<_> = (first..=last).map(stable).collect();
            self.tree.get_many(&keys, &guard, |at, rid| {
                assert_eq!(rid, Some(Rid(first + at as u64)));
            });
        }
    }
}

fn round<const W: usize>(seed: u64) {
    let domain = Domain::new();
    let tree = Tree::<W>::from_sorted(&domain, (0..STABLE).map(|at| (stable(at), Rid(at))));
    let world = World {
        domain,
        tree,
        stop: AtomicBool::new(false),
        writes: AtomicU64::new(0),
        scanned: AtomicU64::new(0),
    };
    let mut model = BTreeMap::from_iter((0..STABLE).map(|at| (stable(at), at)));
    std::thread::scope(|scope| {
        let world = &world;
        let writers: Vec<_> = (0..2u8)
            .map(|owner| scope.spawn(move || world.write(owner, seed ^ u64::from(owner))))
            .collect();
        for forward in [true, false] {
            scope.spawn(move || world.read(forward, seed ^ 77));
        }
        let started = Instant::now();
        while started.elapsed() < ROUND && writers.iter().all(|writer| !writer.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
        }
        world.stop.store(true, Ordering::Relaxed);
        for writer in writers {
            model.extend(writer.join().expect("a writer was right"));
        }
    });
    let mut found = Vec::new();
    let guard = world.domain.pin();
    let all = Bound::Unbounded;
    let _ = world.tree.scan_forward(all, all, &guard, |key, rid| {
        found.push((key.to_vec(), rid.0));
        ControlFlow::Continue(())
    });
    assert!(
        found.iter().map(|(key, rid)| (key, rid)).eq(&model),
        "what the maps have"
    );
    let full = world.tree.memory();
    for (key, rid) in &model {
        assert!(world.tree.remove(key, Rid(*rid), &guard));
    }
    let nothing = world
        .tree
        .scan_backward(all, all, &guard, |_, _| ControlFlow::Break(()));
    assert!(nothing.is_continue(), "nothing is left");
    println!(
        "nodes of {W:>3} words, seed {seed}: {} writes, {} entries scanned, {} entries at the end, \
         {full} bytes, then {}",
        world.writes.load(Ordering::Relaxed),
        world.scanned.load(Ordering::Relaxed),
        model.len(),
        world.tree.memory(),
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| match arguments.next() {
        None => default,
        Some(text) => text.parse().unwrap_or_else(|_| {
            eprintln!("{text}: not a number; see the head of {}", file!());
            std::process::exit(2);
        }),
    };
    let (seconds, mut seed) = (number(120), number(1));
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(seconds) {
        round::<WORDS>(seed);
        round::<24>(seed + 1);
        round::<56>(seed + 2);
        seed += 3;
    }
}
