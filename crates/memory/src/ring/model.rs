//! Model checks of the append ring under loom: every interleaving of a few writers and the
//! reader.

use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use super::*;

const REGION: u64 = AppendRing::MIN_REGION;

fn append(space: Space<'_>, value: u8) {
    let mut region = space.reserve();
    region.write(0, &[value; REGION as usize]);
    region.complete();
}

fn append_when_there_is_room(ring: &AppendRing, value: u8) {
    loop {
        if let Some(space) = ring.try_acquire(REGION) {
            return append(space, value);
        }
        thread::yield_now();
    }
}

/// The value of one region, whose bytes are all equal.
fn value(words: &[u64]) -> u8 {
    assert!(words.iter().all(|word| word == &words[0]), "{words:?}");
    let bytes = words[0].to_ne_bytes();
    assert_eq!(bytes, [bytes[0]; 8]);
    bytes[0]
}

fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Invariant 4: in whatever order the writers finish, the prefix reaches the end.
#[test]
fn the_prefix_never_stops_before_a_marked_region() {
    check(3, || {
        let ring = Arc::new(AppendRing::new(4 * REGION, 0));
        let reader = ring.reader().unwrap();
        let writers: Vec<_> = (1..=3_u8)
            .map(|value| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || append(ring.try_acquire(REGION).unwrap(), value))
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(ring.completed(), 3 * REGION);
        let words = reader.words(0..3 * REGION);
        let mut values: Vec<u8> = words.chunks(REGION as usize / 8).map(value).collect();
        values.sort();
        assert_eq!(values, [1, 2, 3]);
    });
}

/// Invariants 1 and 2: in a window of two regions, bytes are overwritten only after they
/// were read. Loom reports any access that is not ordered after the previous one.
#[test]
fn a_place_is_used_again_only_after_it_was_released() {
    check(3, || {
        let ring = Arc::new(AppendRing::new(2 * REGION, 0));
        let mut reader = ring.reader().unwrap();
        append(ring.try_acquire(REGION).unwrap(), 1);
        let writers: Vec<_> = (2..=3_u8)
            .map(|value| {
                let ring = Arc::clone(&ring);
                // Gives up when the ring has no room at the moment.
                thread::spawn(move || {
                    let space = ring.try_acquire(REGION);
                    space.map(|space| append(space, value)).is_some()
                })
            })
            .collect();
        let mut values = Vec::new();
        let mut read = || {
            let (start, end) = (reader.released(), ring.completed());
            let words = reader.words(start..end);
            values.extend(words.chunks(REGION as usize / 8).map(value));
            reader.release(end);
        };
        read();
        read();
        let written = writers
            .into_iter()
            .map(|writer| usize::from(writer.join().unwrap()))
            .sum::<usize>();
        read();
        assert!((1..=2).contains(&written));
        assert_eq!(values.len(), 1 + written);
        assert_eq!(values[0], 1);
        assert!(ring.is_quiet());
    });
}

/// Writers take credits in one order, and regions in the other.
#[test]
fn a_credit_taken_early_may_get_a_place_that_was_released_late() {
    check(3, || {
        let ring = Arc::new(AppendRing::new(2 * REGION, 0));
        let mut reader = ring.reader().unwrap();
        append(ring.try_acquire(REGION).unwrap(), 1);
        // Held by a thread that has not seen the coming release …
        let early = {
            let ring = Arc::clone(&ring);
            let space = ring.try_acquire(REGION).unwrap().into_owned(&ring);
            thread::spawn(move || {
                let space = space.into_space(&ring);
                append(space, 2);
            })
        };
        // … while another writer reserves either first, the second region of the window, or
        // second, the one that is released here.
        let late = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || append_when_there_is_room(&ring, 3))
        };
        assert_eq!(value(&reader.words(0..REGION)), 1);
        reader.release(REGION);
        early.join().unwrap();
        late.join().unwrap();
        let words = reader.words(REGION..3 * REGION);
        let mut values: Vec<u8> = words.chunks(REGION as usize / 8).map(value).collect();
        values.sort();
        assert_eq!(values, [2, 3]);
    });
}
