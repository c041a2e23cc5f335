//! The wire format: every message as it was, long ones divided, and nothing but what a node sends.

use std::sync::Arc;

use bytes::Bytes;
use coeval_epoch::{
    BackEndStanding, Configuration, CopyChunk, Epoch, EpochKind, EpochTimestamp, Found, Frame,
    FrontEndId, FrontEndPlace, Item, Key, Limits, NodeId, Operation, Part, Piece, Refusal,
    Resolution, Term, Write, wire,
};

use crate::fuzz;

fn at(counter: u16) -> EpochTimestamp {
    EpochTimestamp::new(Epoch(7), counter, FrontEndId(1))
}

fn piece(counter: u16) -> Piece {
    let write = |key: &'static str, operation| Write {
        key: Key::from_static(key.as_bytes()),
        operation,
    };
    Piece {
        at: at(counter),
        size: 3,
        writes: Arc::new(vec![
            write("a", Operation::Value(Bytes::from_static(b"value"))),
            write("b", Operation::Delete),
            write("", Operation::Compute(Bytes::from_static(b"a + 1"))),
        ]),
    }
}

/// Every kind of part, with something in each of its fields.
fn parts() -> Vec<Part> {
    let id = FrontEndId(2);
    let key = Key::from_static(b"a");
    let place = FrontEndPlace {
        node: NodeId(1),
        incarnation: 4,
        first: Epoch(9),
    };
    vec![
        Part::Items(
            id,
            5,
            vec![(6, Item::Put(piece(1))), (7, Item::Abort(at(2)))],
        ),
        Part::Taken(
            id,
            4,
            9,
            vec![
                (7, Refusal::EpochClosed),
                (8, Refusal::TooLong),
                (9, Refusal::NoRoom),
                (10, Refusal::DiskFull),
                (11, Refusal::OutOfMemory),
            ],
        ),
        Part::Get(id, 3, at(4), vec![key.clone(), Key::new()]),
        Part::Got(
            id,
            3,
            vec![
                (key.clone(), Found::Value(Bytes::from_static(b"1"))),
                (Key::new(), Found::Nothing),
                (key, Found::ToCompute(Bytes::new())),
            ],
        ),
        Part::TooOld(id, 3, at(9)),
        Part::Want(Epoch(8), Epoch(6)),
        Part::Switch(Epoch(7), Some((Epoch(8), EpochKind::Unified))),
        Part::Switch(Epoch(7), None),
        Part::Drained(id, Epoch(7), at(0)),
        Part::Collect(Epoch(5), Epoch(7)),
        Part::Collected(Epoch(7), vec![piece(3)]),
        Part::Seal(
            Epoch(7),
            Resolution {
                kept: vec![piece(3)],
                dropped: vec![at(5)],
            },
        ),
        Part::Sealed(Epoch(7)),
        Part::Closed(Epoch(7), Some((Epoch(8), EpochKind::Writes)), at(1)),
        Part::Closed(Epoch(8), Some((Epoch(9), EpochKind::Reads)), at(1)),
        Part::Greet,
        Part::Standing(BackEndStanding {
            sealed: Epoch(8),
            closed: Epoch(7),
        }),
        Part::Join(id),
        Part::Return(Epoch(7)),
        Part::Configuration(Arc::new(Configuration {
            version: 12,
            partitions: vec![vec![NodeId(1), NodeId(2)], vec![NodeId(2)]],
            back_ends: [(NodeId(1), 4), (NodeId(2), 5)].into(),
            front_ends: [(id, place)].into(),
            fenced: [(FrontEndId(3), 2)].into(),
            orphans_through: Epoch(6),
            degree: 2,
            history_epochs: 64,
            copies: 2,
            joining: [((1, NodeId(3)), Epoch(8))].into(),
            enlisted: [(NodeId(3), 7)].into(),
            removed: [(NodeId(4), 2)].into(),
            limits: Limits::default(),
        })),
        Part::Behind,
        Part::Enlist,
        Part::Copy(1, Epoch(8), None),
        Part::Copy(1, Epoch(8), Some(Key::from_static(b"a"))),
        Part::Copied(Box::new(CopyChunk {
            partition: 1,
            through: Epoch(8),
            after: Some(Key::from_static(b"a")),
            versions: vec![
                (Key::from_static(b"b"), at(1), Operation::Delete),
                (
                    Key::from_static(b"b"),
                    at(2),
                    Operation::Value(Bytes::from_static(b"2")),
                ),
            ],
            next: None,
            horizon: at(0),
        })),
        Part::Caught(1, Epoch(8)),
        Part::Lost(vec![1, 2]),
    ]
}

fn frame(parts: Vec<Part>) -> Frame {
    Frame {
        from: NodeId(2),
        incarnation: 6,
        to: NodeId(1),
        version: 11,
        term: Term(3),
        parts,
    }
}

fn decode(payload: Bytes) -> Frame {
    wire::decode(NodeId(2), NodeId(1), payload).unwrap()
}

#[test]
fn every_message_comes_back_and_a_cut_one_is_refused() {
    let whole = frame(parts());
    let payloads = wire::encode(&whole);
    assert_eq!(payloads.len(), 1);
    assert_eq!(decode(payloads[0].clone()), whole);
    for length in 0..payloads[0].len() {
        let cut = payloads[0].slice(..length);
        wire::decode(NodeId(2), NodeId(1), cut).unwrap_err();
    }
    let longer = Bytes::from([&payloads[0][..], b"!"].concat());
    wire::decode(NodeId(2), NodeId(1), longer).unwrap_err();
    let mut newer = payloads[0].to_vec();
    newer[0] = wire::VERSION + 1;
    wire::decode(NodeId(2), NodeId(1), newer.into()).unwrap_err();
}

#[test]
fn an_epoch_that_cannot_be_is_refused() {
    for part in [
        Part::Sealed(Epoch(Epoch::LIMIT)),
        Part::Want(Epoch(u64::MAX), Epoch(1)),
        Part::Switch(Epoch(1), Some((Epoch(Epoch::LIMIT), EpochKind::Unified))),
    ] {
        let payload = wire::encode(&frame(vec![part])).remove(0);
        wire::decode(NodeId(2), NodeId(1), payload).unwrap_err();
    }
}

#[test]
fn a_long_frame_is_divided_between_elements() {
    let value = Bytes::from(vec![7; 300 << 10]);
    let put = |number: u64| {
        let write = Write {
            key: Key::from(number.to_le_bytes().to_vec()),
            operation: Operation::Value(value.clone()),
        };
        let piece = Piece {
            at: at(number as u16),
            size: 1,
            writes: Arc::new(vec![write]),
        };
        (number, Item::Put(piece))
    };
    let found = |number: u64| {
        let key = Key::from(number.to_le_bytes().to_vec());
        (key, Found::Value(value.clone()))
    };
    let items: Vec<(u64, Item)> = (0..10).map(put).collect();
    let values: Vec<(Key, Found)> = (0..10).map(found).collect();
    let long = frame(vec![
        Part::Items(FrontEndId(2), 5, items.clone()),
        Part::Got(FrontEndId(2), 3, values.clone()),
        Part::Behind,
    ]);
    let payloads = wire::encode(&long);
    assert!(payloads.iter().all(|payload| payload.len() < 2 << 20));
    let (mut taken, mut got, mut last) = (Vec::new(), Vec::new(), 0);
    assert!(payloads.len() > 4);
    for payload in payloads {
        let frame = decode(payload);
        assert_eq!((frame.incarnation, frame.version), (6, 11));
        for part in frame.parts {
            match part {
                Part::Items(FrontEndId(2), 5, items) => taken.extend(items),
                Part::Got(FrontEndId(2), 3, values) => got.extend(values),
                Part::Behind => last += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((taken, got, last), (items, values, 1));
}

/// Every message with each byte changed: what a fuzzer does first.
#[test]
fn no_changed_message_makes_a_node_panic() {
    for part in parts() {
        let payload = wire::encode(&frame(vec![part])).remove(0);
        for index in 0..payload.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut input = vec![0];
                input.extend_from_slice(&payload);
                input[1 + index] = value;
                fuzz::run(&input);
            }
        }
    }
}

/// A node of an earlier build is told of refusals that it knows.
#[test]
fn a_node_that_reads_the_first_version_is_told_in_its_words() {
    let refused = |refusals: &[(u64, Refusal)]| Frame {
        from: NodeId(1),
        incarnation: 4,
        to: NodeId(2),
        version: 9,
        term: Term(3),
        parts: vec![Part::Taken(FrontEndId(2), 4, 9, refusals.to_vec())],
    };
    let said = refused(&[(7, Refusal::DiskFull), (8, Refusal::OutOfMemory)]);
    for (reads, heard) in [
        (1, refused(&[(7, Refusal::NoRoom), (8, Refusal::NoRoom)])),
        (2, said.clone()),
        (9, said.clone()),
    ] {
        let payloads = wire::encode_for(&said, reads);
        assert_eq!(payloads[0][0], reads.min(wire::VERSION));
        let read = wire::decode(NodeId(1), NodeId(2), payloads[0].clone());
        assert_eq!(read, Ok(heard), "reads {reads}");
    }
}
