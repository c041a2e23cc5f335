use super::*;

const ME: TransactionId = TransactionId(1);
const OTHER: TransactionId = TransactionId(2);

const fn at(bits: u64) -> Timestamp {
    Timestamp::from_bits(bits)
}

fn commit(ring: &Ring, key: &[u8], timestamp: u64) -> u64 {
    let position = ring.register(OTHER, &Footprint::of_key(key));
    ring.assigned(position, at(timestamp));
    position
}

fn validate(ring: &Ring, start: u64, snapshot: u64, own: u64) -> Result<(), Failure> {
    let committer = Committer {
        id: ME,
        snapshot: at(snapshot),
        own: at(own),
    };
    let checked = ring.validate(start, committer, |_, footprint| {
        footprint.may_meet(b"c", Some(b"f"))
    });
    checked.map(drop)
}

#[test]
fn a_write_between_snapshot_and_commit_is_a_conflict() {
    let ring = Ring::new(16, Account::default());
    commit(&ring, b"d", 10);
    let start = ring.first_unsettled(at(10));
    assert_eq!(start, 1, "what the snapshot includes is settled");
    assert_eq!(validate(&ring, start, 10, 30), Ok(()));
    commit(&ring, b"a", 20);
    assert_eq!(validate(&ring, start, 10, 30), Ok(()), "elsewhere");
    commit(&ring, b"d", 40);
    assert_eq!(validate(&ring, start, 10, 30), Ok(()), "later than me");
    commit(&ring, b"d", 25);
    assert_eq!(
        validate(&ring, start, 10, 30),
        Err(Failure::Conflict(OTHER))
    );
}

#[test]
fn a_writer_that_registered_before_the_scan_is_met() {
    let ring = Ring::new(16, Account::default());
    let position = ring.register(OTHER, &Footprint::of_key(b"d"));
    let start = ring.first_unsettled(at(10));
    assert_eq!(start, position, "it may still draw a number after 10");
    ring.assigned(position, at(20));
    assert_eq!(
        validate(&ring, start, 10, 30),
        Err(Failure::Conflict(OTHER))
    );
    ring.aborted(position, at(20));
    assert_eq!(validate(&ring, start, 10, 30), Ok(()), "it hurts nobody");
}

#[test]
fn an_older_snapshot_starts_further_back() {
    let ring = Ring::new(16, Account::default());
    commit(&ring, b"d", 10);
    commit(&ring, b"d", 20);
    assert_eq!(ring.first_unsettled(at(20)), 2);
    assert_eq!(ring.first_unsettled(at(10)), 1, "20 is not within 10");
    assert_eq!(validate(&ring, 0, 10, 30), Err(Failure::Conflict(OTHER)));
    assert_eq!(validate(&ring, 0, 20, 30), Ok(()));
}

#[test]
fn a_ring_that_went_round_cannot_clear_an_old_predicate() {
    let ring = Ring::new(8, Account::default());
    let start = ring.first_unsettled(at(1));
    for timestamp in 2..30 {
        commit(&ring, b"x", timestamp);
    }
    assert_eq!(validate(&ring, start, 1, 40), Err(Failure::Overflow));
    assert_eq!(validate(&ring, start, 29, 40), Ok(()), "all within 29");
    let late = ring.first_unsettled(at(1));
    assert_eq!(validate(&ring, late, 1, 40), Err(Failure::Overflow));
    let start = ring.first_unsettled(at(29));
    assert_eq!(start, 28);
}

#[test]
fn readers_with_other_snapshots_find_marks_behind_them() {
    let ring = Ring::new(4096, Account::default());
    for timestamp in 1..=1000 {
        commit(&ring, b"x", timestamp);
        if timestamp % 10 == 0 {
            ring.first_unsettled(at(timestamp));
        }
    }
    assert_eq!(ring.first_unsettled(at(1000)), 1000);
    for snapshot in [990, 950, 900, 850] {
        let start = ring.first_unsettled(at(snapshot));
        assert!(
            start <= snapshot && start + 100 >= snapshot,
            "{snapshot}: {start}"
        );
    }
    assert_eq!(ring.first_unsettled(at(5)), 0, "older than all marks");
}
