//! Tests of soundness and completeness: no judge reports a violation that the store does
//! not commit, and each finds those of the store that has the matching weakness.

use coeval_check::balance::{self, Moved, Script};
use coeval_check::history::History;
use coeval_check::transactions::{Level, judge, story};
use coeval_check::{bank, recency, registers};

use super::store::{Isolation, Load, StoreRun, history, run};

const SEEDS: u64 = 150;

fn histories(isolation: Isolation) -> impl Iterator<Item = (u64, bool, History)> {
    (0..SEEDS).flat_map(move |seed| {
        [true, false].map(|lists| {
            // Short runs identify the transactions involved, long ones make large
            // components.
            let transactions = 8 + (seed as usize % 5) * 12;
            (seed, lists, history(isolation, lists, transactions, seed))
        })
    })
}

/// The store satisfies these levels in every run, and violates the others in some, with
/// lists as with registers.
fn permits_exactly(isolation: Isolation, permitted: &[Level]) {
    let mut caught = [[0; 6]; 2];
    for (seed, lists, history) in histories(isolation) {
        let judgement = judge(&history, &Level::ALL).unwrap();
        for (place, level) in Level::ALL.into_iter().enumerate() {
            let violation = judgement.violations(level).next();
            if let Some(anomaly) = violation {
                assert!(
                    !permitted.contains(&level),
                    "{isolation:?}, {lists}, seed {seed}, {level}: {}",
                    story(&history, anomaly)
                );
                caught[usize::from(lists)][place] += 1;
            }
            let alone = judge(&history, &[level]).unwrap();
            assert_eq!(
                alone.permits(level),
                violation.is_none(),
                "{isolation:?}, {seed}, {level}"
            );
        }
    }
    for (place, level) in Level::ALL.into_iter().enumerate() {
        let caught = caught.map(|by_level| by_level[place]);
        let is_permitted = permitted.contains(&level);
        assert!(
            is_permitted || caught.iter().all(|caught| *caught > 0),
            "{isolation:?}: {level} {caught:?}"
        );
    }
}

#[test]
fn a_serial_store_permits_everything() {
    permits_exactly(Isolation::Serial, &Level::ALL);
}

#[test]
fn stale_reads_are_serializable_and_not_strictly() {
    let permitted = [
        Level::ReadCommitted,
        Level::SnapshotIsolation,
        Level::Serializable,
    ];
    permits_exactly(Isolation::SerialWithStaleReads, &permitted);
}

#[test]
fn fresh_snapshots_permit_strong_snapshot_isolation() {
    let permitted = [
        Level::ReadCommitted,
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
        Level::StrongSnapshotIsolation,
    ];
    permits_exactly(Isolation::StrongSnapshot, &permitted);
}

#[test]
fn snapshots_of_the_session_permit_its_strong_form() {
    let permitted = [
        Level::ReadCommitted,
        Level::SnapshotIsolation,
        Level::StrongSessionSnapshotIsolation,
    ];
    permits_exactly(Isolation::SessionSnapshot, &permitted);
}

#[test]
fn old_snapshots_permit_snapshot_isolation() {
    let permitted = [Level::ReadCommitted, Level::SnapshotIsolation];
    permits_exactly(Isolation::AnySnapshot, &permitted);
}

#[test]
fn statements_that_see_commits_permit_read_committed() {
    permits_exactly(Isolation::ReadCommitted, &[Level::ReadCommitted]);
}

#[test]
fn dirty_reads_permit_nothing() {
    permits_exactly(Isolation::ReadUncommitted, &[]);
}

/// Whether the judges of single objects find no violation in any run; and if they do, how
/// often.
fn single(isolation: Isolation) -> [usize; 3] {
    let mut found = [0; 3];
    for (_, _, history) in histories(isolation) {
        let judged = [
            recency::judge(&history).unwrap().missed.len(),
            recency::sessions::judge(&history).unwrap().went_back.len(),
            usize::from(!registers::judge(&history).unwrap().is_linearizable()),
        ];
        for (found, judged) in found.iter_mut().zip(judged) {
            *found += judged;
        }
    }
    found
}

#[test]
fn judges_of_single_objects_find_what_is_there() {
    for isolation in [
        Isolation::Serial,
        Isolation::StrongSnapshot,
        Isolation::ReadCommitted,
    ] {
        assert_eq!(single(isolation), [0, 0, 0], "{isolation:?}");
    }
    let [missed, back, linear] = single(Isolation::SessionSnapshot);
    assert!(
        missed > 20 && back == 0 && linear > 20,
        "{missed} {back} {linear}"
    );
    let [missed, back, linear] = single(Isolation::AnySnapshot);
    assert!(
        missed > 20 && back > 20 && linear > 20,
        "{missed} {back} {linear}"
    );
}

/// A transaction that misses an acknowledged commit is in a cycle with real time.
#[test]
fn recency_agrees_with_the_graph() {
    for (seed, lists, history) in histories(Isolation::AnySnapshot) {
        let missed = recency::judge(&history).unwrap().missed;
        let judgement = judge(&history, &[Level::StrongSnapshotIsolation]).unwrap();
        if !missed.is_empty() {
            assert!(
                !judgement.permits(Level::StrongSnapshotIsolation),
                "seed {seed}, {lists}: {missed:?}"
            );
        }
    }
}

/// Whether a run of transfers shows a wrong total.
fn bank_objects(run: &StoreRun) -> bool {
    !bank::judge(&run.history, Some(0)).wrong.is_empty()
}

/// Whether the sums after a run of TPC-B disagree.
fn balance_objects(run: &StoreRun) -> bool {
    let [accounts, tellers, branches] = run.balances[..] else {
        panic!("three of them: {:?}", run.balances);
    };
    let moved = Moved {
        accounts,
        tellers,
        branches,
        history: run.added,
    };
    balance::judge(moved, Script::TpcB).is_err()
}

#[test]
fn judges_of_money_object_only_where_it_is_not_kept() {
    for isolation in [
        Isolation::Serial,
        Isolation::StrongSnapshot,
        Isolation::SessionSnapshot,
        Isolation::AnySnapshot,
    ] {
        for seed in 0..SEEDS {
            let transfers = run(isolation, Load::Bank, 40, seed);
            assert!(!bank_objects(&transfers), "{isolation:?}, {seed}");
            let additions = run(isolation, Load::TpcB, 40, seed);
            assert!(!balance_objects(&additions), "{isolation:?}, {seed}");
        }
    }
}

/// Number of seeds, with histories of 20 transactions, until the judge reports a violation.
fn seeds_until(isolation: Isolation, lists: bool, objects: impl Fn(&History) -> bool) -> u64 {
    let caught = (0..200).find(|seed| objects(&history(isolation, lists, 20, *seed)));
    1 + caught.unwrap_or_else(|| panic!("{isolation:?} was never caught"))
}

/// Each weakness is soon found by each judge that should find it.
#[test]
fn every_weakness_is_caught_within_few_seeds() {
    for lists in [true, false] {
        for (isolation, level) in [
            (Isolation::ReadUncommitted, Level::ReadCommitted),
            (Isolation::ReadCommitted, Level::SnapshotIsolation),
            (
                Isolation::AnySnapshot,
                Level::StrongSessionSnapshotIsolation,
            ),
            (Isolation::SessionSnapshot, Level::StrongSnapshotIsolation),
            (Isolation::StrongSnapshot, Level::Serializable),
            (Isolation::SerialWithStaleReads, Level::StrictSerializable),
        ] {
            let objects = |history: &History| !judge(history, &[level]).unwrap().permits(level);
            let seeds = seeds_until(isolation, lists, objects);
            println!("{isolation:?}, lists {lists}: {level} objects after {seeds} seeds");
            assert!(seeds <= 20, "{isolation:?}, {lists}: {seeds}");
        }
        let stale = |history: &History| !recency::judge(history).unwrap().missed.is_empty();
        let back = |history: &History| {
            let report = recency::sessions::judge(history).unwrap();
            !report.went_back.is_empty()
        };
        let stale = seeds_until(Isolation::SessionSnapshot, lists, stale);
        let back = seeds_until(Isolation::AnySnapshot, lists, back);
        println!("lists {lists}: recency objects after {stale} seeds, sessions after {back}");
        assert!(stale <= 20 && back <= 20, "{lists}: {stale}, {back}");
    }
    let until = |load, objects: fn(&StoreRun) -> bool| {
        let mut seeds = 0..200;
        let caught = seeds.find(|seed| objects(&run(Isolation::ReadCommitted, load, 20, *seed)));
        1 + caught.unwrap_or_else(|| panic!("{load:?} was never caught"))
    };
    let seeds = (
        until(Load::Bank, bank_objects),
        until(Load::TpcB, balance_objects),
    );
    println!("bank and balance object after {seeds:?} seeds");
    assert!(seeds.0 <= 20 && seeds.1 <= 20, "{seeds:?}");
    let off = |history: &History| !registers::judge(history).unwrap().is_linearizable();
    let seeds = seeds_until(Isolation::SessionSnapshot, false, off);
    println!("linearizable objects after {seeds} seeds");
    assert!(seeds <= 20, "{seeds}");
}
