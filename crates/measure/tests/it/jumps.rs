//! Tests of table 2.1 of EMS: how many versions a reader traverses in records with `m`
//! versions.

use coeval_measure::comparators::{Ems, HyperStyle, PureN2o, PureO2n, VersionStorage};
use coeval_measure::{row_of, tag_of};
use coeval_memory::epoch::Domain;
use coeval_types::{Timestamp, TransactionId};

/// The number for the newest version, for the newest during an update, for the oldest,
/// and for the oldest during an update.
fn jumps<S: VersionStorage>(versions: u16) -> [u32; 4] {
    let storage = S::filled(1, &|record| row_of(record, 1, 10));
    let domain = Domain::new();
    let guard = domain.pin();
    let update = |version: u16| {
        let writer = TransactionId(u64::from(version));
        assert!(storage.update(0, writer, row_of(0, version, 10), &guard));
        writer
    };
    for version in 2..=versions {
        let writer = update(version);
        storage.commit(0, writer, Timestamp::from_bits(u64::from(version)));
    }
    let look = |version: u16| {
        let snapshot = Timestamp::from_bits(u64::from(version));
        let found = storage.read(0, snapshot, &guard).unwrap();
        assert_eq!(tag_of(found.row().unwrap()), (0, version), "{}", S::NAME);
        found.jumps()
    };
    let (newest, oldest) = (look(versions), look(1));
    update(versions + 1);
    [newest, look(versions), oldest, look(1)]
}

#[test]
fn are_as_the_table_says() {
    for versions in 3..=12 {
        let m = u32::from(versions);
        assert_eq!(jumps::<PureN2o>(versions), [1, 2, m, m + 1]);
        assert_eq!(jumps::<PureO2n>(versions), [m, m, 1, 1]);
        assert_eq!(jumps::<HyperStyle>(versions), [0, 1, m - 1, m]);
        assert_eq!(jumps::<Ems>(versions), [0, 0, 1, 1]);
    }
    // The header of EMS has two versions; a third one needs the list.
    assert_eq!(jumps::<Ems>(1), [0, 0, 0, 0]);
    assert_eq!(jumps::<Ems>(2), [0, 0, 0, 1]);
}
