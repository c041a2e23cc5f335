//! Tests of random histories on every version storage: reads agree with a plain list of
//! versions, and the memory use with the inserted values.

use coeval_measure::comparators::{Ems, HyperStyle, PureN2o, PureO2n, VersionStorage};
use coeval_measure::{row_of, tag_of};
use coeval_memory::epoch::Domain;
use coeval_types::{Timestamp, TransactionId};
use proptest::prelude::*;

const RECORDS: usize = 3;

/// One step: an update of a record, which commits at once or later.
#[derive(Clone, Copy, Debug)]
struct ModelStep {
    record: usize,
    stays_open: bool,
}

fn play<S: VersionStorage>(steps: &[ModelStep]) {
    let storage = S::filled(RECORDS, &|record| row_of(record, 1, 10));
    let domain = Domain::new();
    let guard = domain.pin();
    // The timestamps of each record's versions, which equal their numbers.
    let mut model = vec![vec![1_u16]; RECORDS];
    let mut open: Vec<Option<(TransactionId, u16)>> = vec![None; RECORDS];
    let mut last = 1;
    for step in steps {
        last += 1;
        let writer = TransactionId(u64::from(last));
        let value = row_of(step.record, last, 10);
        if let Some((holder, version)) = open[step.record].take() {
            assert!(!storage.update(step.record, writer, value, &guard));
            // A later commit has a later timestamp, whatever the row says.
            storage.commit(step.record, holder, Timestamp::from_bits(u64::from(last)));
            model[step.record].push(last);
            check(&storage, &model, last, &[(step.record, last, version)]);
            return;
        }
        assert!(storage.update(step.record, writer, value, &guard));
        if step.stays_open {
            open[step.record] = Some((writer, last));
        } else {
            storage.commit(step.record, writer, Timestamp::from_bits(u64::from(last)));
            model[step.record].push(last);
        }
        check(&storage, &model, last, &[]);
    }
    let bytes: usize = model.iter().map(Vec::len).sum::<usize>() * 16;
    assert!(storage.bytes() > bytes, "{}", S::NAME);
}

/// Checks every snapshot of every record. `renamed` are versions whose rows have another
/// number.
fn check<S: VersionStorage>(
    storage: &S,
    model: &[Vec<u16>],
    last: u16,
    renamed: &[(usize, u16, u16)],
) {
    let domain = Domain::new();
    let guard = domain.pin();
    for (record, versions) in model.iter().enumerate() {
        for snapshot in 1..=last {
            let expected = versions.iter().rev().find(|&&version| version <= snapshot);
            let expected = expected.copied().unwrap();
            let tag = renamed
                .iter()
                .find(|&&(of, version, _)| (of, version) == (record, expected))
                .map_or(expected, |&(_, _, tag)| tag);
            let at = Timestamp::from_bits(u64::from(snapshot));
            let found = storage.read(record, at, &guard).unwrap();
            assert_eq!(found.cts(), Timestamp::from_bits(u64::from(expected)));
            assert_eq!(tag_of(found.row().unwrap()), (record, tag), "{}", S::NAME);
        }
    }
}

proptest! {
    #[test]
    fn all_show_the_same(
        steps in proptest::collection::vec(
            (0..RECORDS, any::<bool>())
                .prop_map(|(record, stays_open)| ModelStep { record, stays_open }),
            1..20,
        )
    ) {
        play::<PureN2o>(&steps);
        play::<PureO2n>(&steps);
        play::<HyperStyle>(&steps);
        play::<Ems>(&steps);
    }
}
