//! Model tests with random schedules of writers and validators of one ring.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test -p coeval-occ --lib shuttled`.

use std::sync::Arc;

use coeval_memory::sync::Mutex;
use shuttle::thread;

use super::*;

struct World {
    ring: Ring,
    clock: AtomicU64,
    /// Timestamps of writers, and of validators that passed.
    written: Mutex<Vec<u64>>,
    cleared: Mutex<Vec<u64>>,
}

/// Two writers and two validators with the initial snapshot. No validator that passed may
/// have a writer before it. `late` assigns the timestamp before registering, which is the
/// bug that the order of a commit avoids.
fn race(late: bool) {
    let world = Arc::new(World {
        ring: Ring::new(4, Account::default()),
        clock: AtomicU64::new(2),
        written: Mutex::new(Vec::new()),
        cleared: Mutex::new(Vec::new()),
    });
    let snapshot = Timestamp::from_bits(1);
    let draw = |world: &World| world.clock.fetch_add(1, Ordering::SeqCst);
    let mut threads = Vec::new();
    for writer in 1..3 {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            for _ in 0..3 {
                let early = late.then(|| draw(&world));
                let footprint = Footprint::of_key(b"k");
                let position = world.ring.register(TransactionId(writer), &footprint);
                fence(Ordering::SeqCst);
                let assigned = early.unwrap_or_else(|| draw(&world));
                world
                    .ring
                    .assigned(position, Timestamp::from_bits(assigned));
                world.written.lock().expect("no panic").push(assigned);
            }
        }));
    }
    for validator in 3..5 {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            let start = world.ring.first_unsettled(snapshot);
            let own = draw(&world);
            fence(Ordering::SeqCst);
            let committer = Committer {
                id: TransactionId(validator),
                snapshot,
                own: Timestamp::from_bits(own),
            };
            let valid = world.ring.validate(start, committer, |_, _| true);
            if valid.is_ok() {
                world.cleared.lock().expect("no panic").push(own);
            }
        }));
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
    let written = world.written.lock().expect("no panic");
    for cleared in world.cleared.lock().expect("no panic").iter() {
        assert!(
            written.iter().all(|written| written > cleared),
            "cleared at {cleared} with writers at {written:?}"
        );
    }
}

#[test]
fn no_earlier_writer_is_missed() {
    shuttle::check_random(|| race(false), 3000);
}

#[test]
#[should_panic(expected = "cleared at")]
fn a_writer_that_draws_before_it_registers_is() {
    shuttle::check_random(|| race(true), 3000);
}
