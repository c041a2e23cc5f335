//! Checkpoints of a cluster's nodes: installed in place of another node's log, or taken
//! while following.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use coeval_env::JoinError;
use coeval_env::sim::{Loss, Node, World};
use coeval_log::{
    CheckpointOffer, CheckpointReceiver, CheckpointStart, Error, HardState, ReceivedCheckpoint,
    ReplicaLog, SavedRecord,
};
use coeval_types::{Lsn, Rid, RowRef, Term, Timestamp};

use super::frames::{DATABASE, FIRST, Stretch, open};
use super::leading::{commit_all, lead};
use crate::support::{STORAGE, checkpoint, put, row, small};

const DIRECTORY: &str = "/data";
const RECORDS: u64 = 40;
/// Records of a large transaction.
const LARGE: std::ops::Range<u64> = 1000..1012;

/// A checkpoint as the sender sends it.
#[derive(Clone)]
struct Sent {
    offer: CheckpointOffer,
    bytes: Vec<u8>,
    values: BTreeMap<u64, Vec<u8>>,
    /// The log after it, and the values including that log.
    behind: Vec<u8>,
    values_behind: BTreeMap<u64, Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Only small transactions ran before the checkpoint.
    AtRest,
    /// The checkpoint was taken when the first chunks of a large transaction were in the
    /// log, and its commit was not.
    WithinALargeOne,
}

/// The checkpoint that a leader sends in its second term.
fn sent(world: &World, taken: Taken) -> Sent {
    let node = world.node();
    let sent = world.run(node, async move {
        let (log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
        let log = lead(log).await;
        commit_all(&log).await;
        let log = log.retire().await.unwrap();
        let log = lead(log).await;
        commit_all(&log).await;
        log.keep_for_followers(Lsn(u64::MAX));
        let work = async |numbers: std::ops::Range<u64>| {
            for number in numbers {
                let (rid, value) = (number % RECORDS, [number as u8; 120]);
                let timestamp = put(&log, &[(rid, &value)]).await.unwrap();
                table.note(timestamp, &[(rid, &value)]);
                commit_all(&log).await;
            }
        };
        work(0..200).await;
        let mut entries = log.entry_builder();
        if taken == Taken::WithinALargeOne {
            for rid in LARGE {
                let row = row(&[rid as u8; 400]);
                entries.image(STORAGE, Rid(rid), RowRef::trusted(&row));
            }
        }
        let credit = log.prepare(&mut entries).await.unwrap();
        work(200..300).await;
        assert!(log.checkpoint_source().await.unwrap().is_none());
        checkpoint(&log, &table).await.unwrap();
        assert!(log.retained() > Lsn(FIRST), "the log before is gone");
        let source = log.checkpoint_source().await.unwrap().unwrap();
        let values = table.values();
        let reservation = log.reserve(credit);
        if taken == Taken::WithinALargeOne {
            for rid in LARGE {
                table.note(reservation.timestamp(), &[(rid, &[rid as u8; 400])]);
            }
        }
        reservation.commit(&entries).installed();
        work(300..303).await;
        // After this later checkpoint only the source's hold retains the earlier one.
        checkpoint(&log, &table).await.unwrap();
        let offer = source.offer();
        let is_large = taken == Taken::WithinALargeOne;
        assert_eq!(offer.log_bytes() > 2 * small().segment_bytes, is_large);
        let mut stream = log.stream(offer.end()).unwrap();
        let mut behind = Vec::new();
        while let Some(frames) = stream.read(1 << 20).await.unwrap() {
            behind.extend_from_slice(&frames.bytes);
        }
        let mut bytes = Vec::new();
        loop {
            let piece = source.read(bytes.len() as u64, 777).await.unwrap();
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(&piece);
        }
        assert_eq!(bytes.len() as u64, offer.bytes());
        Sent {
            offer,
            bytes,
            values,
            behind,
            values_behind: table.values(),
        }
    });
    sent.unwrap()
}

/// Receives the pieces of the sent checkpoint.
async fn receive(sent: &Sent) -> Result<ReceivedCheckpoint, Error> {
    let directory = Path::new(DIRECTORY);
    let mut receiver = CheckpointReceiver::create(directory, DATABASE, sent.offer).await?;
    for piece in sent.bytes.chunks(1000) {
        receiver.write(receiver.received(), piece).await?;
    }
    receiver.finish().await
}

/// A log of an old term that has uncommitted frames.
async fn old_log() -> ReplicaLog {
    let (mut log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
    if log.end() > Lsn(FIRST) {
        return log;
    }
    let term = HardState {
        term: Term(2),
        vote: Some(3),
        ..log.hard_state()
    };
    log.set_hard_state(term).await.unwrap();
    let mut all = Stretch::at(FIRST).mark(1, b"members");
    for rid in 0..100 {
        all = all.commit(1, rid, &[rid; 800]);
    }
    log.append(Lsn(FIRST), &all.bytes).await.unwrap();
    log.flush().await.unwrap();
    let commit = HardState {
        commit: Lsn(all.ends[4]),
        ..log.hard_state()
    };
    log.set_hard_state(commit).await.unwrap();
    log
}

async fn is_installed(sent: &Sent) -> bool {
    let (mut log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
    let state = log.hard_state();
    assert_eq!(
        (state.term, state.vote),
        (Term(2), Some(3)),
        "vote and term stay"
    );
    let end = sent.offer.end();
    if log.begin() != end {
        assert_eq!(log.begin(), Lsn(FIRST));
        assert!(
            log.end() > end && log.last_term() == Term(1),
            "all of the old log"
        );
        assert_eq!(table.values().len(), 4);
        return false;
    }
    assert_eq!((log.end(), state.commit), (end, end));
    assert_eq!(log.last_term(), Term(2));
    let terms: Vec<_> = log.marks().iter().map(|mark| mark.term.0).collect();
    assert_eq!(terms, [1, 2]);
    assert_eq!(log.memberships().len(), 2);
    assert!(table.values() == sent.values);
    // A commit there may reference chunks from before the end.
    let mut replayer = log.replayer(table.clone(), end);
    log.append(end, &sent.behind).await.unwrap();
    replayer.advance(log.end()).await.unwrap();
    replayer.close().await.unwrap();
    assert!(table.values() == sent.values_behind);
    log.truncate(end).await.unwrap();
    let more = Stretch::at(end.0).commit(2, 7, b"more");
    log.append(end, &more.bytes).await.unwrap();
    log.flush().await.unwrap();
    log.truncate(end).await.unwrap();
    assert!(
        log.truncate(Lsn(end.0 - 8)).await.is_err(),
        "it is committed"
    );
    log.close().await.unwrap();
    true
}

#[test]
fn a_checkpoint_takes_the_place_of_the_log_and_what_votes_compare_stays() {
    for taken in [Taken::AtRest, Taken::WithinALargeOne] {
        let world = World::new(1);
        let sent = sent(&world, taken);
        let node = world.node();
        let of_node = sent.clone();
        let installed = world.run(node, async move {
            let log = old_log().await;
            let received = receive(&of_node).await.unwrap();
            assert_eq!((received.term(), received.base()), (Term(2), Lsn(FIRST)));
            log.install(&received).await.unwrap();
            is_installed(&of_node).await && is_installed(&of_node).await
        });
        assert!(installed.unwrap());
        let left = world.files(node).into_iter().map(|(path, _)| path);
        let left: Vec<_> = left
            .filter(|path| path.to_str().unwrap().contains(".new"))
            .collect();
        assert_eq!(left, [] as [std::path::PathBuf; 0], "leftovers");
    }
}

/// A node that has installed a checkpoint starts with the commits after it, takes a
/// checkpoint of its own, and can send what it was sent.
#[test]
fn what_was_sent_with_a_checkpoint_serves_as_ones_own() {
    let world = World::new(1);
    let sent = sent(&world, Taken::WithinALargeOne);
    let node = world.node();
    let end = sent.offer.end();
    let installed = world.run(node, async move {
        let log = old_log().await;
        let received = receive(&sent).await.unwrap();
        log.install(&received).await.unwrap();
        let (mut log, _) = open(Path::new(DIRECTORY), small()).await.unwrap();
        log.append(end, &sent.behind).await.unwrap();
        log.flush().await.unwrap();
        let all = HardState {
            commit: log.end(),
            ..log.hard_state()
        };
        log.set_hard_state(all).await.unwrap();
        log.close().await.unwrap();

        let (log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
        assert!(table.values() == sent.values_behind);
        let log = lead(log).await;
        let source = log.checkpoint_source().await.unwrap().unwrap();
        assert_eq!(source.offer(), sent.offer);
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < sent.offer.bytes() {
            let piece = source.read(bytes.len() as u64, 4000).await.unwrap();
            bytes.extend_from_slice(&piece);
        }
        assert!(bytes == sent.bytes);
        commit_all(&log).await;
        log.keep_for_followers(Lsn(u64::MAX));
        drop(source);
        let own = checkpoint(&log, &table).await.unwrap();
        assert!(own.start.log_start > end, "its log is needed no more");
        assert!(log.retained() > sent.offer.start.log_start);
        log.close().await.unwrap();
    });
    installed.unwrap();
}

#[test]
fn what_goes_no_further_is_refused_and_so_is_a_term_that_nobody_noted() {
    let world = World::new(1);
    let sent = sent(&world, Taken::AtRest);
    let node = world.node();
    world
        .run(node, async move {
            let mut log = old_log().await;
            let received = receive(&sent).await.unwrap();
            let all = HardState {
                commit: log.end(),
                ..log.hard_state()
            };
            log.set_hard_state(all).await.unwrap();
            let refused = log.install(&received).await.unwrap_err();
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        })
        .unwrap();
}

#[test]
fn whatever_write_the_power_fails_at_it_is_the_one_log_or_the_other() {
    for taken in [Taken::AtRest, Taken::WithinALargeOne] {
        the_one_or_the_other(&sent(&World::new(1), taken));
    }
}

fn the_one_or_the_other(sent: &Sent) {
    for (first, loss) in [Loss::Random, Loss::Everything, Loss::Nothing]
        .into_iter()
        .enumerate()
    {
        let (mut old, mut new) = (0, 0);
        for crash_at in (first as u64..).step_by(2) {
            let world = World::new(crash_at);
            let node = world.node();
            world.set_loss(node, loss);
            let begun = world.run(node, async { old_log().await.close().await });
            begun.unwrap().unwrap();
            world.crash_at(node, Some(world.disk_changes(node) + crash_at));
            let of_node = sent.clone();
            let first = world.run(node, async move {
                let log = old_log().await;
                let received = receive(&of_node).await.unwrap();
                log.install(&received).await.unwrap();
            });
            if first.is_ok() {
                break;
            }
            assert_eq!(first, Err(JoinError::Cancelled));
            // Crashes also within the start that continues the installation.
            world.crash_at(node, Some(world.disk_changes(node) + crash_at % 5));
            let of_node = sent.clone();
            let _ = world.run(node, async move { is_installed(&of_node).await });
            world.crash_at(node, None);
            world.crash(node);
            let of_node = sent.clone();
            let installed = world.run(node, async move { is_installed(&of_node).await });
            match installed.unwrap() {
                true => new += 1,
                false => old += 1,
            }
        }
        assert!(old > 5 && new > 1, "{loss:?}: {old} old, {new} new");
    }
}

#[test]
fn no_changed_byte_is_installed() {
    for taken in [Taken::AtRest, Taken::WithinALargeOne] {
        none_of_its_bytes_may_change(taken);
    }
}

fn none_of_its_bytes_may_change(taken: Taken) {
    let world = World::new(1);
    let sent = sent(&world, taken);
    let node = world.node();
    let length = sent.bytes.len();
    world
        .run(node, async { old_log().await.close().await })
        .unwrap()
        .unwrap();
    for at in (0..length)
        .step_by(251)
        .chain((length - 130..length).step_by(5))
    {
        let mut bad = sent.clone();
        bad.bytes[at] ^= 1;
        let received = world.run(node, async move { receive(&bad).await.map(|_| ()) });
        assert!(received.unwrap().is_err(), "byte {at}");
    }
    let left = world.files(node).into_iter().map(|(path, _)| path);
    assert!(
        !left
            .into_iter()
            .any(|path| path.to_str().unwrap().contains("received"))
    );
}

#[test]
fn pieces_out_of_order_too_many_or_too_few_are_refused() {
    let world = World::new(1);
    let sent = sent(&world, Taken::WithinALargeOne);
    let node = world.node();
    world
        .run(node, async move {
            old_log().await.close().await.unwrap();
            let directory = Path::new(DIRECTORY);
            let begin = || CheckpointReceiver::create(directory, DATABASE, sent.offer);
            let mut receiver = begin().await.unwrap();
            receiver.write(0, &sent.bytes[..100]).await.unwrap();
            assert!(receiver.write(50, &sent.bytes[50..90]).await.is_err());
            assert!(receiver.write(101, &sent.bytes[101..110]).await.is_err());
            assert!(
                receiver
                    .write(100, &vec![0; sent.bytes.len()])
                    .await
                    .is_err()
            );
            assert!(receiver.finish().await.is_err(), "it is not whole");
            let whole = receive(&sent).await.unwrap();
            let start = sent.offer.start;
            for other in [
                CheckpointStart {
                    snapshot: Timestamp::new(Term(2), Lsn(start.snapshot.lsn().0 - 8)),
                    ..start
                },
                CheckpointStart {
                    log_start: Lsn(start.log_start.0 + 8),
                    ..start
                },
                CheckpointStart {
                    log_start: start.replay_from(),
                    ..start
                },
            ] {
                let offer = CheckpointOffer {
                    start: other,
                    file_bytes: sent.bytes.len() as u64,
                    ..sent.offer
                };
                let file_bytes = sent.bytes.len() as u64 - (offer.bytes() - offer.file_bytes);
                let wrong = receive(&Sent {
                    offer: CheckpointOffer {
                        file_bytes,
                        ..offer
                    },
                    ..sent.clone()
                })
                .await;
                assert!(wrong.is_err(), "it is not what was offered");
            }
            let _ = whole;
        })
        .unwrap();
}

/// A log whose nodes take checkpoints at these offsets.
async fn follow(known: Arc<Mutex<Lsn>>) {
    let (mut log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
    assert!(log.begin() >= *known.lock().unwrap() || log.begin() == Lsn(FIRST));
    let state = HardState {
        term: Term(1),
        ..log.hard_state()
    };
    log.set_hard_state(state).await.unwrap();
    let mut replayer = log.replayer(table.clone(), log.hard_state().commit.max(log.begin()));
    for round in 0..8_u8 {
        let mut more = Stretch::at(log.end().0);
        if log.last_term() == Term(0) {
            more = more.mark(1, b"members");
        }
        for rid in 0..10 {
            more = more.commit(1, rid, &[round; 700]);
        }
        log.append(log.end(), &more.bytes).await.unwrap();
        let end = log.end();
        replayer.advance(end).await.unwrap();
        let start = CheckpointStart {
            snapshot: log.snapshot_before(end),
            log_start: end,
        };
        let place = log.checkpoint_place();
        let mut writer = place.write(start, 0).await.unwrap();
        for (rid, value) in table.values() {
            if writer.is_full(STORAGE) {
                writer.write().await.unwrap();
            }
            let bytes = row(&value);
            let saved = SavedRecord {
                rid: Rid(rid),
                timestamp: start.snapshot,
                row: RowRef::trusted(&bytes),
            };
            writer.add(STORAGE, &saved);
        }
        let sealed = writer.seal().await.unwrap();
        log.finish_checkpoint(sealed, 4096).await.unwrap();
        assert_eq!(log.begin(), end);
        *known.lock().unwrap() = end;
        let kept = end.0 - log.retained().0;
        assert!(
            kept <= 4096 + 2 * small().segment_bytes,
            "{kept} bytes are kept"
        );
        assert_eq!(log.marks().len(), 1, "marks outlive their log");
    }
    replayer.close().await.unwrap();
    std::mem::forget(log);
}

#[test]
fn a_followers_checkpoint_stands_for_its_log_whatever_write_the_power_fails_at() {
    for seed in 0..3 {
        let mut crash_at = seed;
        loop {
            let world = World::new(seed);
            let node: Node = world.node();
            world.set_loss(
                node,
                [Loss::Random, Loss::Everything, Loss::Nothing][seed as usize],
            );
            world.crash_at(node, Some(crash_at));
            let known = Arc::default();
            let first = world.run(node, follow(Arc::clone(&known)));
            let done = first.is_ok();
            world.crash_at(node, None);
            world.crash(node);
            let of_node = Arc::clone(&known);
            let found = world.run(node, async move {
                let (log, table) = open(Path::new(DIRECTORY), small()).await.unwrap();
                let least = *of_node.lock().unwrap();
                assert!(log.begin() >= least, "{} of {least}", log.begin());
                if log.begin() > Lsn(FIRST) {
                    assert_eq!(log.marks().len(), 1);
                    assert_eq!(log.last_term(), Term(1));
                    assert_eq!(table.values().len(), 10);
                }
                log.close().await.unwrap();
            });
            found.unwrap();
            if done {
                assert!(crash_at > 50);
                break;
            }
            crash_at += 9;
        }
    }
}
