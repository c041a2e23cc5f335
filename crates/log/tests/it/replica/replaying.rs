//! A follower's tables, which the replayer updates as the log grows.

use std::path::Path;
use std::sync::Arc;

use coeval_env::sim::World;
use coeval_log::{Error, HardState, ReplicaLog, Settings};
use coeval_types::{Lsn, Term};

use super::frames::{DATABASE, FIRST, Stretch, open};
use super::leading::{commit_all, copy, lead, put_large};
use crate::support::{Table, put, real, small};

#[test]
fn tables_follow_the_commit_point_whole_commits_at_a_time() {
    for threads in [1, 3] {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let settings = Settings {
            recovery_threads: threads,
            ..small()
        };
        real(async {
            let (log, _) = open(one.path(), small()).await.unwrap();
            let log = lead(log).await;
            commit_all(&log).await;
            let table = Arc::new(Table::default());
            let opened = ReplicaLog::open(
                other.path(),
                Some(DATABASE),
                settings.clone(),
                table.clone(),
            );
            let (mut follower, _) = opened.await.unwrap();
            let mut replayer = follower.replayer(table.clone(), follower.hard_state().commit);
            let term = HardState {
                term: Term(1),
                ..follower.hard_state()
            };
            follower.set_hard_state(term).await.unwrap();
            let mut stream = log.stream(Lsn(FIRST)).unwrap();
            let mut commits = Vec::new();
            for round in 0..60_u64 {
                let at = match round % 10 {
                    3 => put_large(&log, &small(), round..round + 9).await,
                    _ => put(&log, &[(round, &[round as u8; 100]), (0, b"hot")])
                        .await
                        .unwrap(),
                };
                commits.push(at);
                // A chunk may be copied before its commit is committed.
                let committed = commit_all(&log).await;
                copy(&mut stream, &mut follower, 600).await;
                if round % 3 == 0 {
                    let replayed = replayer.advance(committed).await.unwrap();
                    assert_eq!((replayed.end, replayer.position()), (committed, committed));
                    assert_eq!(replayed.commits, round + 1);
                    assert_eq!(replayed.last_commit, at);
                    assert_eq!(table.commits(), commits);
                }
            }
            let committed = commit_all(&log).await;
            replayer.advance(committed).await.unwrap();
            // The same result as a start's replay.
            let state = HardState {
                commit: committed,
                ..follower.hard_state()
            };
            follower.set_hard_state(state).await.unwrap();
            replayer.close().await.unwrap();
            follower.close().await.unwrap();
            let (_, again) = open(other.path(), settings).await.unwrap();
            assert_eq!(again.histories(), table.histories());
        });
    }
}

#[test]
fn a_term_that_begins_within_a_file_that_was_open_is_found() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, table) = open(directory.path(), small()).await.unwrap();
        let mut replayer = log.replayer(table.clone(), Lsn(FIRST));
        for term in 1..6_u32 {
            let state = HardState {
                term: Term(term),
                ..log.hard_state()
            };
            log.set_hard_state(state).await.unwrap();
            let at = log.end();
            let more = Stretch::at(at.0)
                .mark(term, b"")
                .commit(term, term as u8, b"value");
            log.append(at, &more.bytes).await.unwrap();
            log.make_room().await.unwrap();
            let replayed = replayer.advance(log.end()).await.unwrap();
            assert_eq!(replayed.commits, u64::from(term));
        }
        assert_eq!(table.values().len(), 5);
    });
}

#[test]
fn an_entry_that_is_not_taken_ends_it() {
    let world = World::new(1);
    let node = world.node();
    let ended = world.run(node, async {
        let (mut log, table) = open(Path::new("/data"), small()).await.unwrap();
        let state = HardState {
            term: Term(1),
            ..log.hard_state()
        };
        log.set_hard_state(state).await.unwrap();
        let more = Stretch::at(FIRST)
            .mark(1, b"")
            .commit(1, 7, b"value")
            .commit(1, 8, b"value");
        log.append(Lsn(FIRST), &more.bytes).await.unwrap();
        // The table has applied more than the log has.
        let later = coeval_types::Timestamp::new(Term(9), Lsn(FIRST));
        table.note(later, &[(8, b"later")]);
        let mut replayer = log.replayer(table.clone(), Lsn(FIRST));
        let first = replayer.advance(Lsn(more.ends[1])).await.unwrap();
        assert_eq!((first.commits, table.values().len()), (1, 2));
        let refused = replayer.advance(Lsn(more.ends[2])).await.unwrap_err();
        assert!(matches!(refused, Error::Replay { .. }), "{refused}");
    });
    ended.unwrap();
}
