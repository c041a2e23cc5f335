use bytes::Bytes;

use super::*;
use crate::entry::{Content, Mark};
use crate::position::NodeId;
use crate::shape::entry_cache::Limit;

fn shape() -> Shape {
    let restored = Restored::empty(Membership::new([NodeId(1)], []));
    let settings = Settings {
        recovery: Recovery::Checking,
        ..Settings::default()
    };
    Shape::new(&restored, &settings)
}

/// Appends one entry for each given term; the first of a term is its mark.
fn append(shape: &mut Shape, terms: &[u32]) {
    for &term in terms {
        let content = if shape.last().term == Term(term) {
            Content::Payload(Bytes::new())
        } else {
            Content::Mark(shape.membership().clone())
        };
        shape.append(Entry {
            start: shape.end(),
            end: Lsn(shape.end().0 + 8),
            term: Term(term),
            content,
        });
    }
}

#[test]
fn marks_tell_the_term_of_every_place() {
    let mut shape = shape();
    append(&mut shape, &[1, 1, 1, 3, 4, 4]);
    let terms: Vec<Option<Term>> = [0, 8, 24, 32, 40, 48, 56]
        .map(|end| shape.term_before(Lsn(end)))
        .to_vec();
    assert_eq!(
        terms,
        [Some(0), Some(1), Some(1), Some(3), Some(4), Some(4), None].map(|term| term.map(Term))
    );
    assert!(shape.has(Position::new(3, 32)));
    assert!(!shape.has(Position::new(3, 40)));
    shape.truncate(Lsn(32));
    assert_eq!(shape.last(), Position::new(3, 32));
    shape.truncate(Lsn(24));
    assert_eq!(shape.last(), Position::new(1, 24));
}

#[test]
fn trailing_marks_are_those_nothing_follows() {
    let mut shape = shape();
    append(&mut shape, &[1, 1, 2, 3]);
    assert_eq!(shape.end_without_trailing_marks(), Lsn(16));
    shape.committed(Lsn(24));
    assert_eq!(shape.end_without_trailing_marks(), Lsn(24));
    append(&mut shape, &[3]);
    assert_eq!(shape.end_without_trailing_marks(), Lsn(40));
    assert_eq!(shape.mark_end_before(Lsn(40)), Some(Lsn(32)));
    assert_eq!(shape.first_mark_in(Lsn(8), Lsn(40)), Some(Lsn(16)));
    assert_eq!(shape.first_mark_in(Lsn(17), Lsn(24)), None);
}

#[test]
fn memberships_roll_back_with_the_log() {
    let mut shape = shape();
    append(&mut shape, &[1]);
    let two = Membership::new([NodeId(1), NodeId(2)], []);
    shape.append(Entry {
        start: Lsn(8),
        end: Lsn(16),
        term: Term(1),
        content: Content::Membership(two.clone()),
    });
    append(&mut shape, &[2]);
    assert_eq!(shape.membership(), &two);
    assert!(shape.membership_is_open());
    shape.truncate(Lsn(8));
    assert_eq!(shape.membership().to_string(), "1");
    assert!(!shape.membership_is_open());
}

#[test]
fn entries_are_walked_back_one_by_one() {
    let mut shape = shape();
    append(&mut shape, &[1, 1, 1, 1]);
    shape.committed(Lsn(8));
    assert_eq!(shape.end_before(Lsn(32)), Lsn(24));
    assert_eq!(shape.end_before(Lsn(16)), Lsn(8));
    assert_eq!(shape.end_before(Lsn(8)), Lsn(8));
}

#[test]
fn only_durable_entries_are_let_go() {
    let mut shape = shape();
    shape.entry_cache = EntryCache::new(Lsn(0), 16);
    append(&mut shape, &[1, 1, 1, 1]);
    let limit = Limit {
        space: 100,
        entries: 2,
    };
    assert_eq!(
        shape
            .entry_cache
            .from(Lsn(0), limit)
            .map(|taken| taken.len()),
        Some(2)
    );
    shape.entry_cache.durable(Lsn(8));
    assert!(shape.entry_cache.from(Lsn(0), limit).is_none());
    assert_eq!(
        shape.entry_cache.from(Lsn(12), limit).expect("still kept")[0].start,
        Lsn(8),
        "the entry that holds the place asked for"
    );
    assert_eq!(shape.entry_cache.from(Lsn(32), limit), Some(Vec::new()));
}

#[test]
fn a_checkpoint_takes_the_place_of_the_log() {
    let mut shape = shape();
    append(&mut shape, &[1, 1, 2]);
    let members = shape.membership().clone();
    let position = Position::new(2, 16);
    shape.install(&Checkpoint::new(position, members.clone()));
    assert_eq!(shape.last(), position);
    assert_eq!(shape.term_before(Lsn(8)), None);
    append(&mut shape, &[2, 3]);
    assert_eq!(shape.term_before(Lsn(24)), Some(Term(2)));
    // Its marks give the terms of removed log.
    let mark = |term, start, end| Mark {
        term: Term(term),
        start: Lsn(start),
        end: Lsn(end),
    };
    let checkpoint = Checkpoint {
        position: Position::new(5, 64),
        membership: members,
        base: Position::new(0, 0),
        marks: vec![mark(4, 0, 8), mark(5, 32, 40)],
    };
    assert!(checkpoint.is_sound());
    shape.install(&checkpoint);
    assert_eq!(shape.last(), checkpoint.position);
    assert_eq!(shape.term_before(Lsn(32)), Some(Term(4)));
    assert_eq!(shape.retained(), Lsn(64));
    for lie in [
        Checkpoint {
            position: Position::new(4, 64),
            ..checkpoint.clone()
        },
        Checkpoint {
            position: Position::new(5, 39),
            ..checkpoint.clone()
        },
        Checkpoint {
            base: Position::new(0, 8),
            ..checkpoint.clone()
        },
    ] {
        assert!(!lie.is_sound(), "{lie:?}");
    }
}
