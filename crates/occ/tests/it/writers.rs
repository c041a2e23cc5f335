//! The number of transactions about to commit that the log is notified of: group commit
//! waits for them, so a transaction that has ended, in whatever way, must not stay
//! counted.

use coeval_occ::Engine;
use coeval_txn::{Isolation, LockedRow};

use crate::support::{
    STORAGE, begin, change, commit, delete, engine, get, insert, load, locked, ready,
};

fn writers(engine: &Engine) -> u64 {
    engine.log().statistics().writers
}

#[test]
fn whoever_writes_is_about_to_commit_until_it_ends() {
    ready(async {
        let engine = engine();
        load(&engine, [(1, 10), (2, 20)]).await;
        assert_eq!(writers(&engine), 0, "committed");
        for isolation in [
            Isolation::ReadCommitted,
            Isolation::SnapshotIsolation,
            Isolation::Serializable,
        ] {
            let mut reader = begin(&engine, isolation).await;
            get(&mut *reader, 1).unwrap();
            assert_eq!(writers(&engine), 0, "it has only read");
            let mut one = begin(&engine, isolation).await;
            change(&mut *one, 1, |value| value + 1).await.unwrap();
            change(&mut *one, 2, |value| value + 1).await.unwrap();
            let mut other = begin(&engine, isolation).await;
            insert(&mut *other, (3, 30)).await.unwrap();
            assert_eq!(writers(&engine), 2, "each once, whatever it writes");
            commit(&mut *one).await.unwrap();
            assert_eq!(writers(&engine), 1);
            other.abort();
            assert_eq!(writers(&engine), 0);

            let mut dropped = begin(&engine, isolation).await;
            delete(&mut *dropped, 1).await.unwrap();
            assert_eq!(writers(&engine), 1);
            drop(dropped);
            assert_eq!(writers(&engine), 0);

            let mut locks = begin(&engine, isolation).await;
            locked(&mut *locks, 2).await.unwrap();
            assert_eq!(writers(&engine), 1, "it may write");
            commit(&mut *locks).await.unwrap();
            assert_eq!(writers(&engine), 0, "and has not");
            drop(reader);
        }
    });
}

#[test]
fn whoever_fails_its_validation_is_about_to_commit_no_more() {
    ready(async {
        let engine = engine();
        load(&engine, [(1, 10), (2, 20)]).await;
        let mut one = begin(&engine, Isolation::Serializable).await;
        let mut other = begin(&engine, Isolation::Serializable).await;
        get(&mut *one, 2).unwrap();
        get(&mut *other, 1).unwrap();
        change(&mut *one, 1, |value| value + 1).await.unwrap();
        change(&mut *other, 2, |value| value + 1).await.unwrap();
        assert_eq!(writers(&engine), 2);
        commit(&mut *one).await.unwrap();
        commit(&mut *other).await.unwrap_err();
        assert_eq!(writers(&engine), 0);
    });
}

#[test]
fn whoever_finds_its_only_row_gone_is_about_to_commit_nothing() {
    ready(async {
        let engine = engine();
        load(&engine, [(1, 10), (2, 20)]).await;
        // As long as the snapshot may read the row, its record stays.
        let mut old = begin(&engine, Isolation::SnapshotIsolation).await;
        let (gone, _) = get(&mut *old, 1).unwrap().unwrap();
        let mut deletes = begin(&engine, Isolation::ReadCommitted).await;
        delete(&mut *deletes, 1).await.unwrap();
        commit(&mut *deletes).await.unwrap();

        let mut one = begin(&engine, Isolation::ReadCommitted).await;
        for has_written in [false, true] {
            if has_written {
                change(&mut *one, 2, |value| value + 1).await.unwrap();
            }
            let row = coeval_txn::lock_row(
                &mut *one,
                STORAGE,
                gone,
                coeval_txn::LockWait::NoWait,
                &mut |_, _| {},
            )
            .await;
            assert!(matches!(row, Ok(LockedRow::Gone)), "{row:?}");
            assert_eq!(writers(&engine), u64::from(has_written));
        }
        drop(old);
    });
}
