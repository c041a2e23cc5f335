//! Every validator finds changes in scanned ranges, and counts its work.

/// The validators without names and seeds.
macro_rules! list {
    ($($name:ident: $validator:expr, $first:expr;)*) => {
        &[$($validator),*]
    };
}

use coeval_occ::{AbortCause, Engine, Settings, Statistics, Validations, Validator};
use coeval_txn::{Cause, Direction, Engine as _, Error, Isolation, ScanSource, Transaction};
use coeval_types::IndexKind;

use crate::support::{
    PRIMARY, Row, SECONDARY, attach, begin, change, commit, definition, delete, get, index, insert,
    load, lock_table, move_row, ready, scan, settings,
};

/// Validators that differ from the others in what they refuse, and in their work.
const READ_SET: &str = "lrv";
const WHOLE_RANGES: &str = "mvrcc";

/// The validators that the test program names.
const ALL: &[Validator] = validators_to_test!(list);

/// Keys 0, 2, …, 98 without 50, each with ten times itself as its value.
fn rows() -> impl Iterator<Item = Row> {
    let even = (0..100).step_by(2).filter(|key| *key != 50);
    even.map(|key| (key, 10 * key))
}

fn engine_under(validator: Validator, range_slots: usize) -> Engine {
    let settings = Settings {
        validator,
        range_slots,
        ..settings()
    };
    Engine::ephemeral(settings).expect("sound settings")
}

pub(crate) fn loaded(validator: Validator) -> Engine {
    let engine = engine_under(validator, 1024);
    attach(&engine);
    ready(load(&engine, rows()));
    engine
}

/// A read of a transaction under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Keys from 10 to 20.
    Forward,
    Backward,
    /// Values from 100 to 200.
    Values,
    Table,
    /// Key 15, which is not there.
    Absent,
}

const LOOKS: [Look; 5] = [
    Look::Forward,
    Look::Backward,
    Look::Values,
    Look::Table,
    Look::Absent,
];

fn look(transaction: &mut dyn Transaction, look: Look) {
    let (primary, secondary) = (ScanSource::Index(PRIMARY), ScanSource::Index(SECONDARY));
    let mut between = |source, first, last, direction| {
        scan(transaction, source, first, last, direction, 2).expect("nothing in the way");
    };
    match look {
        Look::Forward => between(primary, 10, 20, Direction::Forward),
        Look::Backward => between(primary, 10, 20, Direction::Backward),
        Look::Values => between(secondary, 100, 200, Direction::Forward),
        Look::Table => between(ScanSource::Table, 0, u64::MAX, Direction::Forward),
        Look::Absent => assert_eq!(get(transaction, 15), Ok(None)),
    }
}

/// A write of another transaction meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Insert(u64, u64),
    Set(u64, u64),
    Delete(u64),
    Move(u64, u64),
    /// Deletes a row, and inserts it again in the next transaction.
    Renew(u64),
}

fn run(engine: &Engine, work: impl AsyncFn(&mut dyn Transaction)) {
    ready(async {
        let mut transaction = begin(engine, Isolation::ReadCommitted).await;
        lock_table(&mut *transaction)
            .await
            .expect("nobody has it alone");
        work(&mut *transaction).await;
        commit(&mut *transaction).await.expect("nothing in the way");
    });
}

pub(crate) fn act(engine: &Engine, deed: Deed) {
    run(engine, async |transaction| match deed {
        Deed::Insert(key, value) => drop(insert(transaction, (key, value)).await),
        Deed::Set(key, value) => drop(change(transaction, key, |_| value).await),
        Deed::Delete(key) | Deed::Renew(key) => drop(delete(transaction, key).await),
        Deed::Move(from, to) => drop(move_row(transaction, from, to).await),
    });
    if let Deed::Renew(key) = deed {
        act(engine, Deed::Insert(key, 10 * key));
    }
}

/// Reads, lets other transactions write, writes elsewhere, and commits.
pub(crate) fn attempt(engine: &Engine, looks: &[Look], deeds: &[Deed]) -> Result<(), Error> {
    ready(async {
        let mut transaction = begin(engine, Isolation::Serializable).await;
        lock_table(&mut *transaction).await?;
        looks.iter().for_each(|one| look(&mut *transaction, *one));
        deeds.iter().for_each(|deed| act(engine, *deed));
        insert(&mut *transaction, (1001, 1001)).await?;
        commit(&mut *transaction).await.map(drop)
    })
}

fn is_refused(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::Conflict(conflict))
        if matches!(conflict.cause, Cause::RangeChanged | Cause::ReadChanged))
}

#[test]
fn what_changes_in_a_scan_refuses_it() {
    let ranged = [Look::Forward, Look::Backward];
    let values = [Look::Values];
    let cases: &[(Deed, &[&[Look]])] = &[
        (Deed::Set(12, 120), &[&ranged, &values, &[Look::Table]]),
        (Deed::Set(12, 7), &[&ranged, &values, &[Look::Table]]),
        (Deed::Set(70, 150), &[&values, &[Look::Table]]),
        (
            Deed::Insert(15, 7),
            &[&ranged, &[Look::Table, Look::Absent]],
        ),
        (Deed::Insert(51, 150), &[&values, &[Look::Table]]),
        (Deed::Delete(20), &[&ranged, &values, &[Look::Table]]),
        (Deed::Move(70, 15), &[&ranged, &[Look::Table, Look::Absent]]),
        (Deed::Move(10, 71), &[&ranged, &values, &[Look::Table]]),
        (Deed::Renew(14), &[&ranged, &values, &[Look::Table]]),
    ];
    for validator in ALL {
        for (deed, groups) in cases {
            for one in groups.iter().copied().flatten() {
                let engine = loaded(*validator);
                let result = attempt(&engine, &[*one], &[*deed]);
                let case = format!("{validator:?}, {one:?}, {deed:?}");
                assert!(is_refused(&result), "{case}: {result:?}");
            }
        }
    }
}

/// Without a primary index, rows are in the order of their RIDs.
#[test]
fn a_table_without_a_primary_index_is_protected_too() {
    let deeds = [
        Deed::Set(12, 7),
        Deed::Insert(51, 7),
        Deed::Delete(2),
        Deed::Move(10, 71),
        Deed::Renew(14),
    ];
    for validator in ALL {
        for deed in deeds {
            let engine = engine_under(*validator, 64);
            let by_key = index(PRIMARY, IndexKind::Unique, 0);
            let attached = engine.attach_storage(definition(vec![by_key]));
            attached.expect("a new engine has no storage");
            ready(load(&engine, rows()));
            let result = attempt(&engine, &[Look::Table], &[deed]);
            assert!(is_refused(&result), "{validator:?} {deed:?}: {result:?}");
            assert_eq!(attempt(&engine, &[Look::Table], &[]), Ok(()));
        }
    }
}

#[test]
fn what_is_elsewhere_or_before_does_not() {
    let elsewhere = [
        Deed::Set(70, 7),
        Deed::Insert(51, 7),
        Deed::Delete(80),
        Deed::Move(90, 91),
        Deed::Renew(60),
    ];
    for validator in ALL {
        for one in LOOKS.into_iter().filter(|one| *one != Look::Table) {
            let engine = loaded(*validator);
            elsewhere.iter().for_each(|deed| act(&engine, *deed));
            assert_eq!(attempt(&engine, &[one], &[]), Ok(()), "{validator:?}");

            let engine = loaded(*validator);
            let result = attempt(&engine, &[one], &elsewhere);
            let counts = engine.statistics().validation;
            let refusals = (counts.certain, counts.granular);
            if validator.name() == WHOLE_RANGES {
                assert!(is_refused(&result), "{one:?}: {result:?}");
                assert_eq!(refusals, (0, 1), "{one:?}");
            } else {
                assert_eq!(result, Ok(()), "{validator:?}, {one:?}");
                assert_eq!(refusals, (0, 0), "{validator:?}, {one:?}");
            }
        }
    }
}

/// With few slots, the values before and after an update are registered as the interval
/// between them.
#[test]
fn keys_registered_together_are_told_from_keys_that_were_written() {
    for (set_to, certain) in [(7, false), (150, true)] {
        let engine = engine_under(Validator::Ranges, 64);
        attach(&engine);
        ready(load(&engine, rows()));
        let result = attempt(&engine, &[Look::Values], &[Deed::Set(70, set_to)]);
        assert!(is_refused(&result), "{result:?}");
        let counts = engine.statistics().validation;
        let expected = (u64::from(certain), u64::from(!certain));
        assert_eq!((counts.certain, counts.granular), expected);
    }
}

/// The loser is refused after it has registered, for a read from before the scanner
/// began.
#[test]
fn who_commits_in_vain_hurts_nobody() {
    for validator in ALL {
        let engine = loaded(*validator);
        let begun = || {
            let mut transaction = ready(begin(&engine, Isolation::Serializable));
            ready(lock_table(&mut *transaction)).expect("nobody has it alone");
            transaction
        };
        let mut loser = begun();
        assert!(get(&mut *loser, 40).is_ok_and(|found| found.is_some()));
        act(&engine, Deed::Set(40, 7));
        let mut scanner = begun();
        look(&mut *scanner, Look::Forward);
        ready(change(&mut *loser, 12, |_| 7)).expect("free");
        let lost = ready(commit(&mut *loser)).map(drop);
        assert!(is_refused(&lost), "{validator:?}: {lost:?}");
        ready(insert(&mut *scanner, (1001, 1001))).expect("free");
        let result = ready(commit(&mut *scanner)).map(drop);
        assert_eq!(result, Ok(()), "{validator:?}");
    }
}

fn counted(validator: Validator, looks: &[Look], deeds: &[Deed]) -> (Validations, Statistics) {
    let engine = loaded(validator);
    let before = engine.statistics().validation;
    let _ = attempt(&engine, looks, deeds);
    let statistics = engine.statistics();
    (statistics.validation - before, statistics)
}

#[test]
fn what_it_costs_is_counted() {
    let looks = [Look::Forward];
    let deeds = [Deed::Set(70, 700), Deed::Set(80, 800)];
    for validator in ALL {
        let (counts, statistics) = counted(*validator, &looks, &deeds);
        // Two updates that change no key, and an insertion in two indexes.
        let registrations = match validator.name() {
            READ_SET => 2,
            _ => 4,
        };
        assert_eq!(counts.registrations, registrations, "{validator:?}");
        assert_eq!(counts.scans, 1, "{validator:?}");
        let (transactions, records) = match validator.name() {
            READ_SET => (0, 6),
            // The first of the two writers causes the refusal.
            WHOLE_RANGES => (1, 0),
            _ => (2, 0),
        };
        assert_eq!(
            (counts.transactions, counts.records),
            (transactions, records),
            "{validator:?}"
        );
        let (certain, _) = counted(*validator, &looks, &[Deed::Set(12, 7)]);
        let in_range = u64::from(validator.name() != READ_SET);
        assert_eq!(
            (certain.certain, certain.granular),
            (in_range, 0),
            "{validator:?}"
        );
        let aborted = |cause: AbortCause| statistics.aborted[cause as usize];
        let whole = u64::from(validator.name() == WHOLE_RANGES);
        assert_eq!(aborted(AbortCause::RangeChanged), whole, "{validator:?}");
    }
}

#[test]
fn rings_that_go_round_are_told_from_conflicts() {
    for validator in ALL {
        let engine = engine_under(*validator, 4);
        attach(&engine);
        ready(load(&engine, rows()));
        let deeds: Vec<Deed> = (0..100).map(|value| Deed::Set(70, value)).collect();
        let result = attempt(&engine, &[Look::Forward], &deeds);
        let overflows = engine.statistics().aborted[AbortCause::RingOverflow as usize];
        if validator.name() == READ_SET {
            // Updates need no ring.
            assert_eq!((result, overflows), (Ok(()), 0));
        } else {
            let cause = match &result {
                Err(Error::Conflict(conflict)) => Some(conflict.cause),
                _ => None,
            };
            assert_eq!(cause, Some(Cause::RingOverflow), "{validator:?}");
            assert_eq!(overflows, 1, "{validator:?}");
        }
    }
}
