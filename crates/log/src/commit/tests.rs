//! Tests: a log's frames are the same, whether rows are copied into the builder or
//! deferred.

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use coeval_memory::ring::AppendRing;
use coeval_types::{Rid, RowBuilder, RowRef, StorageId, Term};
use proptest::prelude::*;

use super::*;
use crate::frame::Seed;
use crate::log::FIRST_LSN;
use crate::retention::Retention;
use crate::space::SpaceWait;
use crate::{Log, Settings};

const SEED: u128 = 11;

/// Large enough that the test need not release anything.
const RING_BYTES: u64 = 1 << 20;

/// A log that stays in memory.
fn log(frame_payload_bytes: usize) -> Log {
    let settings = Settings {
        ring_bytes: RING_BYTES,
        frame_payload_bytes,
        ..Settings::default()
    };
    let ring = AppendRing::new(RING_BYTES, FIRST_LSN.0);
    Log {
        shared: Shared::new(ring, Term(1), Seed::of_database(SEED), false),
        settings,
        files: None,
        retention: Retention::new(None),
        term_start: FIRST_LSN,
        flusher: Mutex::new(None),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Image(Vec<u8>),
    Patch(Vec<u8>),
    Delete,
}

fn change() -> impl Strategy<Value = Change> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        bytes().prop_map(|bytes| {
            let (mut builder, mut row) = (RowBuilder::new(), Vec::new());
            builder.push(Some(&bytes));
            builder.finish(&mut row);
            Change::Image(row)
        }),
        bytes().prop_map(Change::Patch),
        Just(Change::Delete),
    ]
}

/// Whole frames of the log, without the fields that depend on when they were made: the
/// time and the durable offset. The test verifies their checksums here.
fn frames(log: &Log, reader: &coeval_memory::ring::Reader) -> Vec<(u64, Kind, u32, Vec<u8>)> {
    let end = log.shared.ring.completed();
    let (first, second) = reader.bytes(FIRST_LSN.0..end);
    let bytes = [first, second].concat();
    let (mut at, mut frames) = (0, Vec::new());
    while at < bytes.len() {
        let lsn = Lsn(FIRST_LSN.0 + at as u64);
        let frame = Header::parse(&bytes[at..], lsn, Seed::of_database(SEED));
        let (header, _) = frame.expect("a frame");
        let next = at + header.frame_bytes() as usize;
        // The padding included.
        let payload = bytes[at + HEADER_BYTES..next].to_vec();
        frames.push((lsn.0, header.kind, header.length, payload));
        at = next;
    }
    frames
}

/// Commits the transactions, with rows copied into the builder or deferred.
fn committed(
    transactions: &[Vec<(Change, bool)>],
    limit: usize,
    to_come: bool,
) -> Vec<(u64, Kind, u32, Vec<u8>)> {
    let log = log(limit);
    let reader = log.shared.ring.reader().expect("the first");
    let mut entries = log.entry_builder();
    let mut context = Context::from_waker(Waker::noop());
    for transaction in transactions {
        entries.clear();
        for (number, (change, later)) in transaction.iter().enumerate() {
            let (storage, rid) = (StorageId(3), Rid(number as u64 * 50));
            match change {
                Change::Image(row) if *later && to_come => {
                    entries.image_to_come(storage, rid, number, row.len());
                }
                Change::Image(row) => entries.image(storage, rid, RowRef::trusted(row)),
                Change::Patch(patch) => entries.patch(storage, rid, Timestamp::ZERO, patch),
                Change::Delete => entries.delete(storage, rid),
            }
        }
        let row = |number: usize| match &transaction[number].0 {
            Change::Image(row) => &row[..],
            other => panic!("{other:?} is no row to come"),
        };
        let mut wait = SpaceWait::new();
        let credit = log.poll_prepare_with(&mut entries, row, &mut wait, &mut context);
        let Poll::Ready(Ok(credit)) = credit else {
            panic!("there is room: {credit:?}");
        };
        log.reserve(credit).commit_with(&entries, row).installed();
    }
    frames(&log, &reader)
}

proptest! {
    #[test]
    fn frames_are_the_same_whether_rows_are_copied_or_to_come(
        transactions in prop::collection::vec(
            prop::collection::vec((change(), any::<bool>()), 0..20),
            1..5,
        ),
        limit in 250..2000_usize,
    ) {
        let copied = committed(&transactions, limit, false);
        prop_assert!(copied.len() >= transactions.len());
        prop_assert_eq!(committed(&transactions, limit, true), copied);
    }
}
