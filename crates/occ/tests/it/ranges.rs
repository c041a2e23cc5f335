//! Logical ranges adapt to scans and keys, and the validation of scans becomes cheaper.

use coeval_occ::{Engine, Settings};
use coeval_txn::{Direction, Isolation, ScanSource};

use crate::support::{
    PRIMARY, attach, begin, change, commit, delete, insert, load, ready, scan, settings,
};

const ROWS: u64 = 2000;

fn loaded() -> Engine {
    let settings = Settings {
        records_per_range: 100,
        ..settings()
    };
    let engine = Engine::ephemeral(settings).expect("sound settings");
    attach(&engine);
    ready(load(&engine, (0..ROWS).map(|key| (key, key))));
    engine
}

/// A transaction scans some keys and writes one, while another writes far from them.
fn scan_beside_a_writer(engine: &Engine) {
    let mut scanner = ready(begin(engine, Isolation::Serializable));
    let source = ScanSource::Index(PRIMARY);
    let rows = scan(&mut *scanner, source, 10, 20, Direction::Forward, 4);
    assert_eq!(rows.expect("nothing in the way").len(), 11);
    write(engine, 1500);
    let changed = ready(change(&mut *scanner, 900, |value| value + 1));
    assert!(changed.expect("nobody else").is_some());
    ready(commit(&mut *scanner)).expect("nobody wrote there");
}

fn write(engine: &Engine, key: u64) {
    let mut writer = ready(begin(engine, Isolation::SnapshotIsolation));
    let changed = ready(change(&mut *writer, key, |value| value + 1));
    assert!(changed.expect("nobody else").is_some());
    ready(commit(&mut *writer)).expect("nobody else");
}

/// Number of transactions that the validation of a scan checks while another writes.
fn looked_at(engine: &Engine) -> u64 {
    let looked_at = || engine.statistics().validation.transactions;
    let before = looked_at();
    scan_beside_a_writer(engine);
    looked_at() - before
}

#[test]
fn an_index_is_cut_once_scans_meet_writers_elsewhere() {
    let engine = loaded();
    for _ in 0..40 {
        write(&engine, 1500);
        engine.sweep();
    }
    assert_eq!(engine.statistics().ranges, 2, "one for each index");
    let memory = engine.memory().indexes;
    assert_eq!(looked_at(&engine), 1);
    for _ in 0..64 {
        scan_beside_a_writer(&engine);
    }
    engine.sweep();
    let statistics = engine.statistics();
    assert_eq!(statistics.ranges, 21, "of the primary index");
    assert_eq!((statistics.range_splits, statistics.range_merges), (19, 0));
    assert!(engine.memory().indexes > memory, "ranges are counted");
    assert_eq!(looked_at(&engine), 0);

    // Most rows are deleted, and with them most ranges.
    let mut transaction = ready(begin(&engine, Isolation::ReadCommitted));
    for key in 100..ROWS {
        assert!(ready(delete(&mut *transaction, key)).expect("nobody else"));
    }
    ready(commit(&mut *transaction)).expect("nobody else");
    for _ in 0..40 {
        engine.sweep();
    }
    let statistics = engine.statistics();
    assert!(statistics.ranges <= 4);
    assert_eq!(
        2 + statistics.range_splits - statistics.range_merges,
        statistics.ranges
    );
}

#[test]
fn a_scan_that_began_before_ranges_were_cut_meets_who_wrote_since() {
    for between in [false, true] {
        let engine = loaded();
        for _ in 0..70 {
            scan_beside_a_writer(&engine);
        }
        let mut scanner = ready(begin(&engine, Isolation::Serializable));
        let source = ScanSource::Index(PRIMARY);
        let mut rows = |first, last| {
            let rows = scan(&mut *scanner, source, first, last, Direction::Forward, 100);
            rows.expect("nothing in the way").len()
        };
        assert_eq!(rows(10, 500), 491);
        if between {
            write(&engine, 333);
        }
        engine.sweep();
        assert!(engine.statistics().ranges > 10);
        if !between {
            write(&engine, 333);
        }
        assert_eq!(rows(1000, 1100), 101);
        let inserted = ready(insert(&mut *scanner, (5000, 0)));
        assert!(inserted.is_ok());
        assert!(ready(commit(&mut *scanner)).is_err(), "{between}");
        scan_beside_a_writer(&engine);
    }
}
