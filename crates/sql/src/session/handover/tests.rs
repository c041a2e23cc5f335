use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::encoding::records;
use super::*;

fn role() -> impl Strategy<Value = HandoverRole> {
    (any::<u32>(), ".{0,8}").prop_map(|(number, name)| HandoverRole { number, name })
}

fn statement() -> impl Strategy<Value = HandoverStatement> {
    let parts = (
        ".{0,40}",
        any::<bool>(),
        vec(any::<u32>(), 0..4),
        option::of(any::<u64>()),
    );
    parts.prop_map(|(text, within, parameters, columns)| HandoverStatement {
        text,
        within,
        parameters,
        columns,
    })
}

/// A change that a session may hand over between two answers.
#[derive(Clone, Debug)]
enum Told {
    Set(String, String),
    Reset(String),
    ActsAs(ActsAs),
    Statement(String, Option<HandoverStatement>),
    ForgetAll,
    Pinned(Pinned),
    Sequence(u32, i64, bool),
    ForgetSequences,
}

fn told() -> impl Strategy<Value = Told> {
    // Few names, so that they occur repeatedly.
    let name = || "[a-c]{0,1}";
    prop_oneof![
        (name(), ".{0,20}").prop_map(|(name, value)| Told::Set(name, value)),
        name().prop_map(Told::Reset),
        (option::of(role()), option::of(role()))
            .prop_map(|(session, current)| Told::ActsAs(ActsAs { session, current })),
        (name(), option::of(statement()))
            .prop_map(|(name, statement)| Told::Statement(name, statement)),
        Just(Told::ForgetAll),
        (0..Pinned::ALL.len()).prop_map(|place| Told::Pinned(Pinned::ALL[place])),
        (0..3_u32, any::<i64>(), any::<bool>())
            .prop_map(|(sequence, number, last)| Told::Sequence(sequence, number, last)),
        Just(Told::ForgetSequences),
    ]
}

fn written(told: &[Told]) -> Vec<Vec<u8>> {
    let mut writer = Writer::default();
    for told in told {
        match told {
            Told::Set(name, value) => writer.setting(name, value),
            Told::Reset(name) => writer.reset(name),
            Told::ActsAs(acts) => writer.acts_as(acts),
            Told::Statement(name, statement) => writer.statement(name, statement.as_ref()),
            Told::ForgetAll => writer.forget_all(),
            Told::Pinned(pinned) => writer.pinned(*pinned),
            Told::Sequence(sequence, number, is_last) => writer.sequence(Used {
                sequence: *sequence,
                number: *number,
                is_last: *is_last,
            }),
            Told::ForgetSequences => writer.forget_sequences(),
        }
    }
    writer.finish()
}

/// The expected state after these changes, computed naively.
fn handover_after(all: &[Told]) -> SessionHandover {
    let mut handover = SessionHandover::default();
    for told in all {
        match told.clone() {
            Told::Set(name, value) => {
                handover.settings.insert(name, value);
            }
            Told::Reset(name) => {
                handover.settings.remove(&name);
            }
            Told::ActsAs(acts) => handover.acts = acts,
            Told::Statement(name, Some(statement)) => {
                handover.statements.insert(name, statement);
            }
            Told::Statement(name, None) => {
                handover.statements.remove(&name);
            }
            Told::ForgetAll => handover.statements.retain(|name, _| name.is_empty()),
            Told::Pinned(pinned) => handover.pinned = pinned,
            Told::Sequence(sequence, number, is_last) => {
                handover.sequences.insert(sequence, number);
                if is_last {
                    handover.last_sequence = Some(sequence);
                }
            }
            Told::ForgetSequences => {
                handover.sequences.clear();
                handover.last_sequence = None;
            }
        }
    }
    handover
}

proptest! {
    #[test]
    fn what_is_told_bit_by_bit_is_what_is_carried(all in vec(told(), 0..40)) {
        let mut handover = SessionHandover::default();
        for piece in written(&all) {
            handover.apply(&piece).unwrap();
        }
        let bytes = handover.bytes;
        prop_assert_eq!(&handover, &SessionHandover { bytes, ..handover_after(&all) });
        prop_assert_eq!(handover.is_empty(), handover == SessionHandover::default());

        let mut again = SessionHandover::default();
        for piece in handover.pieces() {
            again.apply(&piece).unwrap();
        }
        prop_assert_eq!(again, handover.without_reads());
    }

    #[test]
    fn bytes_from_outside_are_taken_or_refused(
        all in vec(told(), 1..10),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let piece = written(&all).remove(0);
        let mut whole = SessionHandover::default();
        whole.apply(&piece).unwrap();
        // A truncated piece is applied up to the cut, and reported as malformed unless
        // the cut is between two records.
        let mut ends = vec![1];
        for count in 1..=all.len() {
            ends.push(written(&all[..count])[0].len());
        }
        let short = &piece[..cut.index(piece.len())];
        let refused = SessionHandover::default().apply(short).is_err();
        prop_assert_eq!(refused, !ends.contains(&short.len()));

        let mut flipped = piece.clone();
        for (place, bits) in flips {
            let place = place.index(flipped.len());
            flipped[place] ^= bits;
        }
        let mut handover = SessionHandover::default();
        if let Err(malformed) = handover.apply(&flipped) {
            prop_assert!(malformed.to_string().contains("at byte"));
        }
        // The decoded state can be encoded and applied again.
        let mut again = SessionHandover::default();
        for piece in handover.pieces() {
            again.apply(&piece).unwrap();
        }
        prop_assert_eq!(again, handover.without_reads());
    }

    #[test]
    fn any_bytes_at_all_are_taken_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = SessionHandover::default().apply(&bytes);
        let mut versioned = vec![1];
        versioned.extend_from_slice(&bytes);
        let _ = SessionHandover::default().apply(&versioned);
    }
}

#[test]
fn pieces_have_an_end_and_so_have_records() {
    let large = |bytes: usize| HandoverStatement {
        text: "x".repeat(bytes),
        within: false,
        parameters: Vec::new(),
        columns: None,
    };
    let mut writer = Writer::default();
    for number in 0..8 {
        let name = format!("s{number}");
        writer.statement(&name, Some(&large(MAX_RECORD - 100)));
    }
    writer.statement("s0", Some(&large(MAX_RECORD)));
    writer.setting("a.b", &"x".repeat(MAX_RECORD));
    writer.setting(&"x".repeat(MAX_RECORD), "");
    let pieces = writer.finish();
    assert_eq!(pieces.len(), 4);
    let mut handover = SessionHandover::default();
    for piece in &pieces {
        assert!(piece.len() <= MAX_PIECE);
        handover.apply(piece).unwrap();
    }
    // The statement that became too large is gone, not left in its old form.
    let names: Vec<&String> = handover.statements.keys().collect();
    assert_eq!(names, ["s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
    assert_eq!(handover.settings.len(), 0);

    // No encoder writes a record that exceeds the maximum.
    let mut piece = vec![1, 2];
    piece.extend_from_slice(&(MAX_RECORD as u32).to_le_bytes());
    piece.resize(piece.len() + MAX_RECORD, b'x');
    assert!(records(&piece).unwrap().next().unwrap().is_err());
}

#[test]
fn what_is_too_much_is_not_carried() {
    let mut handover = SessionHandover::default();
    let value = "x".repeat(MAX_RECORD / 2);
    let most = MAX_BYTES / value.len();
    for number in 0..most + 10 {
        let mut writer = Writer::default();
        writer.setting(&format!("a.n{number:04}"), &value);
        for piece in writer.finish() {
            handover.apply(&piece).unwrap();
        }
        assert!(handover.bytes <= MAX_BYTES);
    }
    assert_eq!(handover.settings.len(), most - 1);
    let mut writer = Writer::default();
    writer.reset("a.n0000");
    writer.setting("a.last", "1");
    for piece in writer.finish() {
        handover.apply(&piece).unwrap();
    }
    assert_eq!(handover.settings["a.last"], "1");
}

#[test]
fn a_block_comes_back_and_a_part_of_one_is_refused() {
    use coeval_txn::Isolation;
    let levels = [
        None,
        Some(Isolation::ReadCommitted),
        Some(Isolation::SnapshotIsolation),
        Some(Isolation::Serializable),
    ];
    let switches = [None, Some(false), Some(true)];
    for isolation in levels {
        for read_only in switches {
            for deferrable in switches {
                let block = CarriedBlock {
                    began: -7_000_000_001,
                    ran: 3,
                    modes: Modes {
                        isolation,
                        uncommitted: false,
                        read_only,
                        deferrable,
                    },
                    has_read: read_only.is_some(),
                };
                let piece = carried_block(block);
                let mut found = records(&piece).unwrap();
                assert_eq!(found.next(), Some(Ok(Record::Block(block))));
                assert_eq!(found.next(), None);
                for end in 2..piece.len() {
                    let mut found = records(&piece[..end]).unwrap();
                    assert!(found.next().unwrap().is_err(), "cut at {end}");
                }
                let mut handover = SessionHandover::default();
                handover.apply(&piece).unwrap();
                assert!(handover.is_empty());
            }
        }
    }
    let mut wrong = carried_block(CarriedBlock {
        began: 0,
        ran: 0,
        modes: Modes::default(),
        has_read: false,
    });
    *wrong.last_mut().unwrap() = 3;
    assert!(records(&wrong).unwrap().next().unwrap().is_err());
}

#[test]
fn marks_come_back_and_are_no_state() {
    use coeval_types::{Lsn, Term};
    let commit = Timestamp::new(Term(3), Lsn(80));
    let mut writer = Writer::default();
    writer.setting("a.b", "1");
    writer.marked(7, commit);
    writer.reset("a.b");
    let told = writer.finish().concat();
    let asked = mark(7);
    assert_eq!((mark_of(&asked), marked_commit(&asked)), (Some(7), None));
    assert_eq!(
        (mark_of(&told), marked_commit(&told)),
        (None, Some((7, commit)))
    );
    for piece in [&asked, &told] {
        let mut handover = SessionHandover::default();
        handover.apply(piece).unwrap();
        assert_eq!(handover, SessionHandover::default());
    }
    for end in 0..asked.len() {
        assert_eq!(mark_of(&asked[..end]), None, "cut at {end}");
    }
    for end in 0..told.len() {
        let found = marked_commit(&told[..end]);
        assert!(
            found.is_none() || found == Some((7, commit)),
            "cut at {end}"
        );
    }
}
