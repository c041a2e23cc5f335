//! A leader's log, and the followers it is sent to.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_env::fs;
use coeval_log::{
    Error, FrameKind, Frames, HardState, Log, LogProgress, LogStream, ReplicaLog, RestoreOptions,
    RestoreTarget, Settings, Unpacker,
};
use coeval_types::{Lsn, Remedy, Rid, RowRef, Term, Timestamp};
use tokio::sync::mpsc;

use super::frames::{DATABASE, FIRST, open};
use crate::support::{STORAGE, Table, checkpoint, put, real, row, small};

/// Begins to lead in the next term.
pub async fn lead(mut log: ReplicaLog) -> Log {
    let state = HardState {
        term: Term(log.hard_state().term.0 + 1),
        vote: Some(1),
        ..log.hard_state()
    };
    log.set_hard_state(state).await.unwrap();
    log.lead(b"members").await.unwrap()
}

/// Commits everything that is reserved, as if other nodes had it.
pub async fn commit_all(log: &Log) -> Lsn {
    let mut progress = log.progress().unwrap();
    let installed = Lsn(log.installed().lsn().0 + 8);
    let flushed = |progress: &LogProgress| progress.flushed >= installed;
    progress.wait_for(flushed).await.unwrap();
    log.set_committed(installed);
    installed
}

pub async fn leader(directory: &Path) -> Log {
    let (log, _) = open(directory, small()).await.unwrap();
    let log = lead(log).await;
    commit_all(&log).await;
    log
}

/// Copies a stream up to its present end.
pub async fn copy(stream: &mut LogStream, to: &mut ReplicaLog, most: usize) {
    while let Some(Frames { start, bytes }) = stream.read(most).await.unwrap() {
        to.append(start, &bytes).await.unwrap();
    }
    to.flush().await.unwrap();
}

#[test]
fn nothing_is_taken_before_the_mark_is_committed_nor_acknowledged_before_a_commit_is() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, _) = open(directory.path(), small()).await.unwrap();
        let log = lead(log).await;
        let refused = put(&log, &[(1, b"early")]).await.unwrap_err();
        assert!(matches!(refused, Error::MarkPending), "{refused}");
        assert_eq!(refused.remedy(), Remedy::Retry);
        assert_eq!(log.durable(), Timestamp::ZERO);
        let mark = log.marks()[0];
        assert_eq!((mark.term, mark.start), (Term(1), Lsn(FIRST)));
        let mut progress = log.progress().unwrap();
        progress
            .wait_for(|now| now.flushed == mark.end)
            .await
            .unwrap();
        assert!(
            put(&log, &[(1, b"early")]).await.is_err(),
            "it is only flushed"
        );
        // The earlier commit index does not include the mark.
        log.set_committed(Lsn(FIRST));
        assert!(put(&log, &[(1, b"early")]).await.is_err());
        log.set_committed(mark.end);
        let first = put(&log, &[(1, b"one")]).await.unwrap();
        assert_eq!((first.term(), first.lsn()), (Term(1), mark.end));
        let second = put(&log, &[(2, b"two")]).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        progress
            .wait_for(|now| now.flushed > second.lsn())
            .await
            .unwrap();
        assert!(log.poll_durable(first, &mut context).is_pending());
        assert!(log.installed() > second);
        // Only waiters whose timestamp was reached are woken.
        {
            let mut waiting = pin!(log.wait_durable(first));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            log.set_committed(second.lsn());
            assert!(matches!(
                waiting.as_mut().poll(&mut context),
                Poll::Ready(Ok(()))
            ));
        }
        assert!(log.poll_durable(second, &mut context).is_pending());
        log.set_committed(mark.end);
        assert_eq!(log.committed(), second.lsn(), "it never goes back");
        log.set_committed(Lsn(log.installed().lsn().0 + 8));
        log.wait_durable(second).await.unwrap();
        log.close().await.unwrap();
        drop(log);
        let (log, table) = open(directory.path(), small()).await.unwrap();
        assert_eq!(table.values().len(), 2, "what was committed is known to be");
        assert_eq!(log.hard_state().vote, Some(1));
    });
}

#[test]
fn a_follower_gets_the_same_log_from_memory_and_from_files() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    real(async {
        let log = leader(one.path()).await;
        let (mut follower, _) = open(other.path(), small()).await.unwrap();
        let term = HardState {
            term: Term(1),
            ..follower.hard_state()
        };
        follower.set_hard_state(term).await.unwrap();
        let mut live = log.stream(Lsn(FIRST)).unwrap();
        for round in 0..200_u64 {
            put(&log, &[(round % 50, &[round as u8; 90])])
                .await
                .unwrap();
            if round == 100 {
                commit_all(&log).await;
                let start = log.put_membership(b"more of them").await.unwrap();
                assert!(start.0 > FIRST);
            }
            let most = [1, 100, 1000, 1 << 20][round as usize % 4];
            let chunk = live.next(most).await.unwrap().unwrap();
            assert!(chunk.bytes.len() <= most.max(200), "{most}");
            follower.append(chunk.start, &chunk.bytes).await.unwrap();
        }
        let end = commit_all(&log).await;
        copy(&mut live, &mut follower, 500).await;
        assert_eq!((follower.end(), live.position()), (end, end));
        // A late reader finds the frames in the files, and then in memory.
        let late = tempfile::tempdir().unwrap();
        let (mut laggard, _) = open(late.path(), small()).await.unwrap();
        laggard.set_hard_state(term).await.unwrap();
        copy(&mut log.stream(Lsn(FIRST)).unwrap(), &mut laggard, 3000).await;
        for copy in [&follower, &laggard] {
            assert_eq!(copy.marks(), log.marks());
            assert_eq!(copy.memberships().len(), 2);
            assert_eq!(
                super::frames::content(copy).await,
                super::frames::content(&follower).await
            );
        }
        // A waiting reader is woken by the next commit, and by the end.
        let waits = coeval_env::spawn("stream", async move {
            let chunk = live.next(1 << 20).await.unwrap();
            (chunk, live.next(1 << 20).await.unwrap())
        });
        coeval_env::sleep(Duration::from_millis(5)).await;
        let last = put(&log, &[(1, b"last")]).await.unwrap();
        coeval_env::sleep(Duration::from_millis(20)).await;
        log.close().await.unwrap();
        let (chunk, ended) = waits.await.unwrap();
        assert_eq!(chunk.unwrap().start, last.lsn());
        assert_eq!(ended, None);
    });
}

#[test]
fn a_place_within_a_frame_is_no_damage_and_damage_is_none_of_whoever_asks() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let log = leader(directory.path()).await;
        let mut starts = vec![log.marks()[0].start];
        for round in 0..150_u64 {
            let length = (round % 7 * 20) as usize;
            let value = vec![round as u8; length];
            let put = put(&log, &[(round % 50, &value)]).await.unwrap();
            starts.push(put.lsn());
        }
        let end = commit_all(&log).await;
        // All of it but the last 4096 bytes is in files only.
        let mut stream = log.stream(Lsn(FIRST)).unwrap();
        for at in FIRST..end.0 {
            let chunk = stream.read_around(Lsn(at), 1).await.unwrap().unwrap();
            let holds = starts.partition_point(|start| start.0 <= at);
            assert_eq!(chunk.start, starts[holds - 1], "{at}");
            assert!(chunk.end() > Lsn(at));
        }
        assert_eq!(stream.read_around(end, 1).await.unwrap(), None);
        // A bit of the tenth frame, in the first file.
        let damaged = starts[10];
        let files = fs::read_dir(&directory.path().join("log")).await.unwrap();
        let file = fs::open(&files[0], fs::OpenOptions::WRITE).await.unwrap();
        let offset = 4096 + (damaged.0 - FIRST) + 36;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).await.unwrap();
        file.write_at(&[byte[0] ^ 1], offset).await.unwrap();
        for at in [damaged.0, damaged.0 + 8, starts[12].0 + 8] {
            let mut stream = log.stream(Lsn(at)).unwrap();
            let error = stream.read_around(Lsn(at), 1).await.unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{at}: {error}");
        }
        let sound = stream.read_around(starts[12], 1).await.unwrap().unwrap();
        assert_eq!(sound.start, starts[12]);
        log.close().await.unwrap();
    });
}

#[test]
fn the_leader_changes_and_each_leaves_what_nobody_had() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    real(async {
        let first = leader(one.path()).await;
        let (mut follower, _) = open(other.path(), small()).await.unwrap();
        let term = HardState {
            term: Term(1),
            ..follower.hard_state()
        };
        follower.set_hard_state(term).await.unwrap();
        put(&first, &[(1, b"kept")]).await.unwrap();
        let shared = commit_all(&first).await;
        copy(&mut first.stream(Lsn(FIRST)).unwrap(), &mut follower, 1000).await;
        // Its last commits never reach the other node.
        for rid in 2..60 {
            put(&first, &[(rid, &[3; 100])]).await.unwrap();
        }
        let mut deposed = first.retire().await.unwrap();
        assert!(matches!(first.retire().await, Err(Error::Stopped(_))));
        assert!(deposed.end() > shared && deposed.hard_state().commit == shared);
        assert_eq!(deposed.marks().len(), 1);

        let second = lead(follower).await;
        commit_all(&second).await;
        put(&second, &[(2, b"other")]).await.unwrap();
        let end = commit_all(&second).await;
        let state = HardState {
            term: second.term(),
            vote: None,
            commit: shared,
        };
        deposed.set_hard_state(state).await.unwrap();
        // The new leader's mark is the first frame that the other node does not have.
        let mark = second.marks()[1];
        assert_eq!(mark.start, shared);
        let mut stream = second.stream(mark.start).unwrap();
        let answer = stream.read(1 << 20).await.unwrap().unwrap();
        deposed.replace(mark.start, &answer.bytes).await.unwrap();
        copy(&mut stream, &mut deposed, 1000).await;
        assert_eq!((deposed.end(), deposed.marks()), (end, &second.marks()[..]));
        deposed
            .set_hard_state(HardState {
                commit: end,
                ..state
            })
            .await
            .unwrap();
        deposed.close().await.unwrap();
        let (log, table) = open(one.path(), small()).await.unwrap();
        assert_eq!(table.values()[&2], b"other");
        assert_eq!(table.values().len(), 2);
        // The node may lead again.
        let third = lead(log).await;
        assert_eq!(third.marks().len(), 3);
        commit_all(&third).await;
        put(&third, &[(3, b"again")]).await.unwrap();
        commit_all(&third).await;
        third.close().await.unwrap();
    });
}

#[test]
fn marks_outlive_the_log_and_what_is_gone_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let table = Arc::new(Table::default());
        let (mut log, _) =
            ReplicaLog::open(directory.path(), Some(DATABASE), small(), table.clone())
                .await
                .unwrap();
        let mut ends = Vec::new();
        for round in 0..4_u64 {
            let leading = lead(log).await;
            commit_all(&leading).await;
            for rid in 0..100 {
                let value = [round as u8; 100];
                let at = put(&leading, &[(rid, &value)]).await.unwrap();
                table.note(at, &[(rid, &value)]);
            }
            ends.push(commit_all(&leading).await);
            if round == 2 {
                // No reader needs the log before it.
                leading.keep_for_followers(Lsn(u64::MAX));
                checkpoint(&leading, &table).await.unwrap();
                let mut gone = leading.stream(Lsn(FIRST)).unwrap();
                let error = gone.read(1000).await.unwrap_err();
                assert!(
                    matches!(
                        error,
                        Error::NotRetained {
                            from: Lsn(FIRST),
                            ..
                        }
                    ),
                    "{error}"
                );
                gone.seek(leading.marks()[2].start);
                // Whether that log still exists depends on where segments end.
                let _ = gone.read(1000).await;
                gone.seek(ends[2]);
                assert!(gone.read(1000).await.unwrap().is_none());
            }
            log = leading.retire().await.unwrap();
            assert_eq!(log.marks().len() as u64, round + 1);
        }
        log.close().await.unwrap();
        let (log, table) = open(directory.path(), small()).await.unwrap();
        let terms: Vec<_> = log.marks().iter().map(|mark| mark.term.0).collect();
        assert_eq!(terms, [1, 2, 3, 4]);
        assert_eq!(log.begin(), ends[2]);
        assert_eq!(log.checkpoint().unwrap().start.snapshot.term(), Term(3));
        assert_eq!(table.values().len(), 100);
        assert!(table.values().values().all(|value| value[..] == [3; 100]));
    });
}

#[test]
fn a_leaders_backup_is_a_database_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let (backup, restored) = (
        directory.path().join("backup"),
        directory.path().join("new"),
    );
    real(async {
        let (log, _) = open(&directory.path().join("data"), small()).await.unwrap();
        let mut log = log;
        for round in 0..3_u64 {
            let leading = lead(log).await;
            commit_all(&leading).await;
            for rid in 0..40 {
                put(&leading, &[(rid, &[round as u8; 200])]).await.unwrap();
            }
            commit_all(&leading).await;
            // It is not committed, so the backup does not have it.
            put(&leading, &[(99, b"uncommitted")]).await.unwrap();
            if round == 2 {
                let source = leading.backup().unwrap();
                let (sink, mut pieces) = mpsc::channel(4);
                let sends = coeval_env::spawn("send", source.send(sink));
                let mut unpacker = Unpacker::new(&backup).await.unwrap();
                while let Some(piece) = pieces.recv().await {
                    unpacker.feed(&piece.unwrap()).await.unwrap();
                }
                sends.await.unwrap();
                unpacker.finish().await.unwrap();
            }
            log = leading.retire().await.unwrap();
            let state = log.hard_state();
            if round < 2 {
                log.truncate(state.commit).await.unwrap();
            }
        }
        let second = Timestamp::new(log.marks()[1].term, log.marks()[1].start);
        log.close().await.unwrap();
        let data = Some(directory.path().join("data"));
        for (number, (target, log_from)) in [
            (RestoreTarget::End, None),
            (RestoreTarget::Timestamp(second), None),
            // Commits that the node does not know to be committed are not taken.
            (RestoreTarget::End, data),
        ]
        .into_iter()
        .enumerate()
        {
            let to = restored.with_extension(number.to_string());
            let options = RestoreOptions {
                from: backup.clone(),
                log_from,
                to: to.clone(),
                target,
            };
            coeval_log::restore(&options).await.unwrap();
            for _ in 0..2 {
                let (log, _, table) = crate::support::open(&to, small()).await.unwrap();
                let of_last = if target == RestoreTarget::End { 2 } else { 0 };
                let values = table.values();
                let rows = values.iter().filter(|(rid, _)| **rid < 40);
                assert!(rows.clone().all(|(_, value)| value[..] == [of_last; 200]));
                assert_eq!(rows.count(), 40);
                assert!(!values.contains_key(&99));
                // Reading continues across segments with which terms begin.
                for rid in 100..160 {
                    put(&log, &[(rid, &[1; 200])]).await.unwrap();
                }
                log.close().await.unwrap();
            }
        }
    });
}

/// A transaction of several frames.
pub async fn put_large(log: &Log, settings: &Settings, rids: std::ops::Range<u64>) -> Timestamp {
    let mut entries = log.entry_builder();
    let value = row(&vec![5; settings.frame_payload_bytes / 3]);
    for rid in rids {
        entries.image(STORAGE, Rid(rid), RowRef::trusted(&value));
    }
    let credit = log.prepare(&mut entries).await.unwrap();
    let reservation = log.reserve(credit);
    let timestamp = reservation.timestamp();
    reservation.commit(&entries).installed();
    timestamp
}

#[test]
fn marks_and_members_are_made_by_each_node_and_come_out_the_same() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    real(async {
        let first = leader(one.path()).await;
        put(&first, &[(1, b"one")]).await.unwrap();
        first.put_membership(b"others").await.unwrap();
        put(&first, &[(2, b"two")]).await.unwrap();
        commit_all(&first).await;
        let (mut follower, _) = open(other.path(), small()).await.unwrap();
        let state = HardState {
            term: first.term(),
            ..follower.hard_state()
        };
        follower.set_hard_state(state).await.unwrap();
        let mut stream = first.stream(Lsn(FIRST)).unwrap();
        let (mut kinds, mut sent) = (Vec::new(), Vec::new());
        while let Some(frames) = stream.read(1000).await.unwrap() {
            sent.extend_from_slice(&frames.bytes);
            for frame in frames.each(DATABASE).unwrap() {
                assert_eq!((frame.start, frame.term), (follower.end(), first.term()));
                kinds.push(frame.kind);
                match frame.kind {
                    FrameKind::Mark => follower.append_mark(frame.term, frame.payload).await,
                    FrameKind::Membership => {
                        follower.append_membership(frame.term, frame.payload).await
                    }
                    FrameKind::Other => follower.append(frame.start, frame.bytes).await,
                }
                .unwrap();
            }
            assert!(frames.each(DATABASE + 1).is_err());
        }
        use FrameKind::{Mark, Membership, Other};
        assert_eq!(kinds, [Mark, Other, Membership, Other]);
        follower.flush().await.unwrap();
        assert_eq!(follower.marks(), first.marks());
        let copied = follower.read(Lsn(FIRST), 1 << 20).await.unwrap();
        assert_eq!(copied.bytes, sent);
    });
}
