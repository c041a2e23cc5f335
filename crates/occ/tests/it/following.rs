//! A log that moves from node to node, and the engines that lead on it.

use std::path::Path;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_log::{HardState, Log, Replayer, ReplicaLog};
use coeval_occ::{Engine, FollowedTables};
use coeval_txn::{BeginOptions, Engine as _, Error, Isolation};
use coeval_types::{Lsn, Term, Timestamp};

use crate::support::{
    Row, all, attach, begin, change, commit, delete, insert, load, lock_table, small_settings,
};

const DATABASE: u128 = 7;

/// A follower: its log, tables and replayer.
struct Follower {
    log: ReplicaLog,
    tables: FollowedTables,
    replayer: Replayer,
}

impl Follower {
    async fn open(directory: &Path) -> Self {
        let tables = FollowedTables::new();
        let settings = small_settings().log;
        let opened = ReplicaLog::open(directory, Some(DATABASE), settings, tables.replay());
        let (log, _) = opened.await.unwrap();
        let replayer = log.replayer(tables.replay(), log.hard_state().commit);
        Self {
            log,
            tables,
            replayer,
        }
    }

    /// Receives everything the leader has, all of it committed.
    async fn follow(&mut self, leader: &Engine) {
        let log = leader.log();
        let state = HardState {
            term: log.term(),
            vote: None,
            ..self.log.hard_state()
        };
        self.log.set_hard_state(state).await.unwrap();
        let mut stream = log.stream(self.log.end()).unwrap();
        while let Some(chunk) = stream.read(1000).await.unwrap() {
            self.log.append(chunk.start, &chunk.bytes).await.unwrap();
        }
        self.log.flush().await.unwrap();
        self.replayer.advance(log.committed()).await.unwrap();
    }

    /// Becomes the leader of the next term.
    async fn lead(mut self) -> Engine {
        let state = HardState {
            term: Term(self.log.hard_state().term.0 + 1),
            vote: Some(1),
            ..self.log.hard_state()
        };
        self.log.set_hard_state(state).await.unwrap();
        // The mark commits everything before it.
        self.replayer.advance(self.log.end()).await.unwrap();
        self.replayer.close().await.unwrap();
        let log = self.log.lead(b"members").await.unwrap();
        let engine = Engine::lead(self.tables, log, small_settings()).unwrap();
        attach(&engine);
        engine
    }
}

fn end(log: &Log) -> Lsn {
    log.progress().unwrap().borrow().flushed
}

/// Waits until everything installed is flushed here, and declares it committed.
async fn commit_all(engine: &Engine) {
    let log = engine.log();
    let last = log.installed();
    let mut progress = log.progress().unwrap();
    let reached = progress.wait_for(|progress| progress.flushed > last.lsn());
    reached.await.unwrap();
    log.set_committed(end(log));
}

async fn rows(engine: &Engine) -> Vec<Row> {
    let mut transaction = begin(engine, Isolation::SnapshotIsolation).await;
    all(&mut *transaction)
}

fn is_durable(engine: &Engine, timestamp: Timestamp) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    match engine.poll_durable(timestamp, &mut context) {
        Poll::Ready(Ok(())) => true,
        Poll::Pending => false,
        Poll::Ready(Err(error)) => panic!("{error}"),
    }
}

fn in_a_runtime(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test);
}

#[test]
fn nothing_is_told_before_it_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    in_a_runtime(async {
        let engine = Follower::open(directory.path()).await.lead().await;
        let mut early = begin(&engine, Isolation::ReadCommitted).await;
        lock_table(&mut *early).await.unwrap();
        insert(&mut *early, (1, 1)).await.unwrap();
        assert!(
            matches!(commit(&mut *early).await, Err(Error::Stopped(_))),
            "no mark yet"
        );
        commit_all(&engine).await;

        let mut transaction = begin(&engine, Isolation::ReadCommitted).await;
        lock_table(&mut *transaction).await.unwrap();
        insert(&mut *transaction, (1, 10)).await.unwrap();
        let timestamp = commit(&mut *transaction).await.unwrap();
        let mut progress = engine.log().progress().unwrap();
        progress
            .wait_for(|now| now.flushed > timestamp.lsn())
            .await
            .unwrap();
        assert!(!is_durable(&engine, timestamp), "it is on this disk only");
        // A transaction that reads the row is not answered yet, either.
        let mut reader = begin(&engine, Isolation::SnapshotIsolation).await;
        assert_eq!(all(&mut *reader), [(1, 10)]);
        assert!(!is_durable(&engine, reader.newest_seen()));
        engine.log().set_committed(end(engine.log()));
        assert!(is_durable(&engine, timestamp) && is_durable(&engine, reader.newest_seen()));
        // A checkpoint waits until everything it would cover is committed.
        load(&engine, [(2, 20)]).await;
        let mut asked = engine.checkpoint();
        let waited = coeval_env::timeout(Duration::from_millis(100), &mut asked).await;
        assert!(waited.is_err() && engine.log().checkpoint().is_none());
        engine.log().set_committed(end(engine.log()));
        asked.await.unwrap();
        let taken = engine.log().checkpoint().unwrap();
        assert_eq!(taken.start.replay_from(), engine.log().committed());
        assert_eq!(taken.records, 2);
        engine.close().await.unwrap();
    });
}

#[test]
fn who_is_deposed_gives_up_every_checkpoint_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    in_a_runtime(async {
        let engine = Follower::open(directory.path()).await.lead().await;
        commit_all(&engine).await;
        // No other node has it, nor will: a checkpoint of it would wait for ever.
        load(&engine, [(1, 10)]).await;
        let mut waits = engine.checkpoint();
        let waited = coeval_env::timeout(Duration::from_millis(100), &mut waits).await;
        assert!(waited.is_err(), "it covers what is not committed");
        // Requests for the next checkpoint, as the first is under way.
        let next = [engine.checkpoint(), engine.checkpoint()];
        let retired = coeval_env::timeout(Duration::from_secs(20), engine.retire()).await;
        let log = retired.expect("it ends").unwrap();
        for asked in [waits].into_iter().chain(next) {
            assert!(matches!(asked.await, Err(Error::Stopped(_))));
        }
        log.close().await.unwrap();
    });
}

#[test]
fn a_follower_leads_on_and_who_led_follows_without_what_nobody_had() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    in_a_runtime(async {
        let first = Follower::open(one.path()).await.lead().await;
        let mut follower = Follower::open(other.path()).await;
        commit_all(&first).await;
        load(&first, (0..40).map(|key| (key, key))).await;
        commit_all(&first).await;
        follower.follow(&first).await;
        // Patches, deletions and images, in pieces.
        for round in 0..5 {
            let mut transaction = begin(&first, Isolation::ReadCommitted).await;
            lock_table(&mut *transaction).await.unwrap();
            for key in 0..30 {
                change(&mut *transaction, key, |value| value + 100)
                    .await
                    .unwrap();
            }
            assert!(delete(&mut *transaction, 30 + round).await.unwrap());
            commit(&mut *transaction).await.unwrap();
            commit_all(&first).await;
            follower.follow(&first).await;
        }
        let shared = rows(&first).await;
        assert_eq!(shared.len(), 35);

        // The leader's last commit reaches no other node.
        load(&first, [(99, 99)]).await;
        let second = follower.lead().await;
        commit_all(&second).await;
        assert_eq!(rows(&second).await, shared);
        load(&second, [(77, 77)]).await;
        commit_all(&second).await;
        let after = rows(&second).await;

        let mut deposed = first.retire().await.unwrap();
        let refused = coeval_txn::begin(&first, &BeginOptions::default()).await;
        assert!(matches!(refused.map(|_| ()), Err(Error::Stopped(_))));
        let mark = *second.log().marks().last().unwrap();
        let state = HardState {
            term: second.log().term(),
            vote: None,
            ..deposed.hard_state()
        };
        deposed.set_hard_state(state).await.unwrap();
        deposed.truncate(mark.start).await.unwrap();
        deposed.close().await.unwrap();
        drop(first);
        let mut follower = Follower::open(one.path()).await;
        follower.follow(&second).await;
        let third = follower.lead().await;
        commit_all(&third).await;
        assert_eq!(rows(&third).await, after);
        third.close().await.unwrap();
        second.close().await.unwrap();
    });
}
