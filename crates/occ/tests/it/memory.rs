//! The memory budget: growth ends at it, all other work continues; garbage is collected
//! while old snapshots read; and the oldest of them is ended when it holds too much.

use coeval_log::Settings as LogSettings;
use coeval_occ::{Budget, Engine, MemoryAccounts, Settings};
use coeval_txn::{Engine as _, Error, Isolation, TableLock, Transaction};
use coeval_types::IndexKind;

use crate::support::{
    PRIMARY, SECONDARY, STORAGE, all, begin, change, commit, definition, delete, get, index,
    insert, load, lock_table, settings,
};

/// An engine with this budget and a table without secondary index.
fn engine(budget: Budget) -> Engine {
    let settings = Settings {
        budget,
        log: LogSettings {
            ring_bytes: 1 << 20,
            frame_payload_bytes: 64 << 10,
            ..LogSettings::default()
        },
        ..settings()
    };
    let engine = Engine::ephemeral(settings).expect("sound settings");
    let indexes = vec![index(PRIMARY, IndexKind::Primary, 0)];
    engine
        .attach_storage(definition(indexes))
        .expect("a new engine has no storage");
    engine
}

async fn writer(engine: &Engine) -> Box<dyn Transaction> {
    let mut transaction = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *transaction).await.expect("nobody else");
    transaction
}

/// Inserts rows from `first` on, a hundred in each transaction, until the engine refuses
/// one; returns the first key that is absent.
async fn fill(engine: &Engine, first: u64) -> u64 {
    let mut next = first;
    loop {
        let mut t = writer(engine).await;
        for key in next..next + 100 {
            if let Err(error) = insert(&mut *t, (key, 0)).await {
                assert_eq!(error, Error::OutOfMemory);
                return next;
            }
        }
        commit(&mut *t).await.expect("nobody else");
        next += 100;
        assert!(next < 1_000_000, "there is no end to it");
    }
}

#[tokio::test]
async fn at_the_budget_growth_ends_and_the_rest_goes_on() {
    let limit = 8 << 20;
    let engine = engine(Budget::of(limit, 50));
    let end = fill(&engine, 0).await;
    let full = engine.memory();
    assert!(full.used <= limit, "{full:?}");
    assert!(full.used > limit / 100 * 85, "{full:?}");
    assert!(full.refused > 0);

    // Reads, updates of the same length, deletes.
    let mut t = writer(&engine).await;
    assert_eq!(all(&mut *t).len() as u64, end);
    change(&mut *t, 1, |value| value + 1)
        .await
        .expect("no growth");
    for key in 100..end {
        assert!(delete(&mut *t, key).await.expect("a delete"));
    }
    commit(&mut *t).await.expect("nobody else");
    assert!(engine.memory().used <= limit, "the reserve has sufficed");

    // Deleted rows are garbage now, and their memory is available again. Headers stay,
    // for the next rows.
    engine.sweep();
    engine.sweep();
    let emptied = engine.memory();
    assert_eq!(emptied.records, full.records);
    let beside_headers = |memory: &MemoryAccounts| memory.used - memory.records;
    assert!(
        beside_headers(&emptied) < beside_headers(&full) / 4,
        "{emptied:?}"
    );
    let again = fill(&engine, end).await;
    assert!(again - end > (end - 100) / 2, "{again} after {end}");
    let mut t = writer(&engine).await;
    assert_eq!(
        get(&mut *t, 1).expect("a read").map(|(_, value)| value),
        Some(1)
    );
}

#[tokio::test]
async fn a_new_index_is_growth() {
    let engine = engine(Budget::of(4 << 20, 50));
    fill(&engine, 0).await;
    let mut t = begin(&engine, Isolation::ReadCommitted).await;
    coeval_txn::lock_table(&mut *t, STORAGE, TableLock::AccessExclusive, 1)
        .await
        .expect("nobody else");
    let secondary = index(SECONDARY, IndexKind::Secondary, 1);
    let built = coeval_txn::build_index(&mut *t, STORAGE, &secondary).await;
    assert_eq!(built, Err(Error::OutOfMemory));
}

#[tokio::test]
async fn versions_between_snapshots_go_while_a_long_one_is_read() {
    let engine = engine(Budget::UNLIMITED);
    load(&engine, (0..100).map(|key| (key, 0))).await;
    let mut long = begin(&engine, Isolation::SnapshotIsolation).await;
    let before = all(&mut *long);
    let mut other = None;
    for round in 0..50 {
        for key in 0..100 {
            let mut t = writer(&engine).await;
            change(&mut *t, key, |value| value + 1)
                .await
                .expect("alone");
            commit(&mut *t).await.expect("nobody else");
        }
        if round == 20 {
            other = Some(begin(&engine, Isolation::SnapshotIsolation).await);
        }
    }
    // For each row the version of each snapshot, the newest, and one that the next writer
    // will overwrite.
    let memory = engine.memory();
    let of_one = memory.rows / 100;
    assert!(memory.old_versions <= 3 * 100 * (of_one + 32), "{memory:?}");
    assert_eq!(all(&mut *long), before);
    let mut other = other.expect("begun on the way");
    assert!(all(&mut *other).iter().all(|&(_, value)| value == 21));
    drop((long, other));
    engine.sweep();
    assert_eq!(engine.memory().old_versions, 0);
}

#[tokio::test]
async fn the_oldest_snapshot_gives_way_and_no_other() {
    let engine = engine(Budget {
        old_versions: 32 << 10,
        ..Budget::UNLIMITED
    });
    load(&engine, (0..2000).map(|key| (key, 0))).await;
    let mut oldest = begin(&engine, Isolation::SnapshotIsolation).await;
    assert_eq!(all(&mut *oldest).len(), 2000);
    let mut t = writer(&engine).await;
    for key in 0..2000 {
        change(&mut *t, key, |value| value + 1)
            .await
            .expect("alone");
    }
    commit(&mut *t).await.expect("nobody else");
    let mut younger = begin(&engine, Isolation::SnapshotIsolation).await;
    assert!(engine.memory().old_versions > 32 << 10);
    engine.sweep();
    assert_eq!(engine.memory().ended_snapshots, 1);
    assert_eq!(get(&mut *oldest, 7), Err(Error::SnapshotTooOld));
    assert_eq!(
        get(&mut *younger, 7)
            .expect("a read")
            .map(|(_, value)| value),
        Some(1)
    );
    engine.sweep();
    assert_eq!(engine.memory().old_versions, 0);
    assert_eq!(
        engine.memory().ended_snapshots,
        1,
        "there was no need of another"
    );
    // Nothing else is lost: earlier writes of the ended transaction can still be undone.
    oldest.abort();
    assert_eq!(all(&mut *younger).len(), 2000);
}

#[tokio::test]
async fn a_statement_snapshot_that_was_ended_begins_anew_with_the_next() {
    let engine = engine(Budget {
        old_versions: 0,
        ..Budget::UNLIMITED
    });
    load(&engine, (0..10).map(|key| (key, 0))).await;
    let mut reader = begin(&engine, Isolation::ReadCommitted).await;
    let mut t = writer(&engine).await;
    change(&mut *t, 7, |value| value + 1).await.expect("alone");
    commit(&mut *t).await.expect("nobody else");
    engine.sweep();
    assert_eq!(get(&mut *reader, 7), Err(Error::SnapshotTooOld));
    reader.begin_statement().expect("it goes on");
    assert_eq!(
        get(&mut *reader, 7)
            .expect("a read")
            .map(|(_, value)| value),
        Some(1)
    );
}
