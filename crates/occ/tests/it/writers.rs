//! Who is about to commit, as the log is told: groups wait for them, so nobody may stay
//! counted who has ended, in whatever way.

use coeval_occ::Engine;
use coeval_txn::Isolation;

use crate::support::{begin, change, commit, delete, engine, get, insert, load, locked, ready};

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
