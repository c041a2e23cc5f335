use std::sync::Arc;

use super::*;

fn append(ring: &AppendRing, bytes: &[u8]) -> u64 {
    let mut region = ring
        .try_acquire(bytes.len() as u64)
        .expect("room")
        .reserve();
    region.write(0, bytes);
    let start = region.start();
    region.complete();
    start
}

#[test]
fn what_is_complete_without_a_gap_is_read() {
    let ring = Arc::new(AppendRing::new(256, 4096));
    let mut reader = ring.reader().unwrap();
    assert!(ring.reader().is_none(), "one reader");

    let mut first = ring.try_acquire(40).unwrap().reserve();
    let mut second = ring.try_acquire(32).unwrap().reserve();
    assert_eq!((first.start(), second.start()), (4096, 4136));
    second.write(0, &[2; 32]);
    assert!(!second.complete(), "the first is still being written");
    assert_eq!(ring.completed(), 4096);
    first.write(0, &[1; 8]);
    first.write(8, &[3; 31]);
    assert!(first.complete());
    assert_eq!(ring.completed(), 4168);

    let (bytes, rest) = reader.bytes(4096..4168);
    assert_eq!(bytes[..8], [1; 8]);
    assert_eq!(bytes[8..39], [3; 31]);
    assert_eq!(bytes[39], 0, "padding");
    assert_eq!(bytes[40..], [2; 32]);
    assert!(rest.is_empty());
    reader.release(4168);
    assert!(ring.is_quiet());
}

#[test]
fn credits_bound_what_can_be_reserved() {
    let ring = Arc::new(AppendRing::new(64, 0));
    let mut reader = ring.reader().unwrap();
    let held = ring.try_acquire(32).unwrap();
    append(&ring, &[7; 32]);
    assert!(ring.try_acquire(32).is_none());
    drop(held);
    let owned = ring.try_acquire(32).unwrap().into_owned(&ring);
    assert!(ring.try_acquire(32).is_none());
    let region = owned.into_space(&ring).reserve();
    assert_eq!(region.start(), 32);
    region.complete();
    assert!(ring.try_acquire(32).is_none());
    reader.release(32);
    assert!(ring.try_acquire(32).is_some());
    drop(ring.try_acquire(32).unwrap().into_owned(&ring));
    assert!(ring.try_acquire(32).is_some());
}

#[test]
fn bytes_wrap_around() {
    let ring = Arc::new(AppendRing::new(64, 48));
    let mut reader = ring.reader().unwrap();
    let bytes: Vec<u8> = (0..40).collect();
    for round in 0..100 {
        let start = append(&ring, &bytes);
        assert_eq!(start, 48 + round * 40);
        let (first, second) = reader.bytes(start..start + 40);
        assert_eq!([first, second].concat(), bytes);
        reader.release(start + 40);
    }
}

#[test]
fn pieces_of_all_lengths_lie_one_behind_the_other() {
    let ring = Arc::new(AppendRing::new(128, 0));
    let mut reader = ring.reader().unwrap();
    // The lengths reach every offset within a word, and the wrap-around at the ring's end.
    for seed in 0..200_usize {
        let mut region = ring.try_acquire(88).unwrap().reserve();
        let start = region.start();
        region.write(0, &[0xEE; 88]);
        let mut expected = vec![0xEE; 8];
        let mut pieces = region.pieces(8);
        for piece in 0.. {
            let length = (seed * 7 + piece * (seed % 11 + 1)) % 27;
            if expected.len() + length > 84 {
                break;
            }
            let bytes: Vec<u8> = (0..length).map(|at| (seed + piece + at) as u8).collect();
            pieces.put(&bytes);
            expected.extend(bytes);
            if piece == 40 {
                break;
            }
        }
        pieces.finish();
        region.complete();
        expected.resize(expected.len().next_multiple_of(8), 0);
        expected.resize(88, 0xEE);
        let (first, second) = reader.bytes(start..start + 88);
        assert_eq!([first, second].concat(), expected, "{seed}");
        reader.release(start + 88);
    }
}

#[test]
#[should_panic(expected = "outside the region")]
fn pieces_keep_to_their_region() {
    let ring = AppendRing::new(128, 0);
    let mut region = ring.try_acquire(40).unwrap().reserve();
    let mut pieces = region.pieces(32);
    pieces.put(&[1; 5]);
    pieces.put(&[2; 4]);
}

#[test]
fn a_ring_nobody_reads_releases_by_itself() {
    let ring = Arc::new(AppendRing::unread(64, 0));
    assert!(ring.reader().is_none());
    for round in 0..10 {
        assert_eq!(append(&ring, &[0; 64]), round * 64);
    }
    assert!(ring.is_quiet());
}

#[test]
#[should_panic(expected = "not there to be read")]
fn nothing_incomplete_is_read() {
    let ring = Arc::new(AppendRing::new(64, 0));
    let reader = ring.reader().unwrap();
    let _region = ring.try_acquire(32).unwrap().reserve();
    let _ = reader.bytes(0..32);
}

#[test]
#[should_panic(expected = "outside the region")]
fn nothing_outside_a_region_is_written() {
    let ring = AppendRing::new(64, 0);
    ring.try_acquire(32).unwrap().reserve().write(8, &[0; 25]);
}

/// Four writers against one reader in a ring that is far too small: every region arrives
/// whole, in the order of the stream.
#[test]
fn many_writers_one_reader() {
    const EACH: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let ring = Arc::new(AppendRing::new(1024, 0));
    let mut reader = ring.reader().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let ring = &ring;
            scope.spawn(move || {
                for number in 0..EACH {
                    let words = 4 + (number * 7 + writer) % 9;
                    let space = loop {
                        match ring.try_acquire(words * 8) {
                            Some(space) => break space,
                            None => std::thread::yield_now(),
                        }
                    };
                    let mut region = space.reserve();
                    let mut bytes = Vec::new();
                    bytes.extend_from_slice(&words.to_le_bytes());
                    bytes.extend_from_slice(&region.start().to_le_bytes());
                    bytes.extend_from_slice(&writer.to_le_bytes());
                    for _ in 3..words {
                        bytes.extend_from_slice(&number.to_le_bytes());
                    }
                    region.write(0, &bytes);
                    region.complete();
                }
            });
        }
        let mut next = [0; 4];
        while next != [EACH; 4] {
            let (start, end) = (reader.released(), ring.completed());
            let (first, second) = reader.bytes(start..end);
            let bytes = [first, second].concat();
            let words: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                .collect();
            let mut at = 0;
            while at < words.len() {
                let [length, position, writer] = words[at..at + 3] else {
                    unreachable!()
                };
                assert_eq!(position, start + at as u64 * 8);
                let number = next[writer as usize];
                assert!(
                    words[at + 3..at + length as usize]
                        .iter()
                        .all(|&word| word == number)
                );
                next[writer as usize] += 1;
                at += length as usize;
            }
            assert_eq!(at, words.len(), "the prefix ends with a region");
            reader.release(end);
        }
    });
    assert!(ring.is_quiet());
}
