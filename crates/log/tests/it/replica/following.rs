//! A follower's log on real files.

use std::path::Path;
use std::sync::Arc;

use coeval_env::fs;
use coeval_log::{Error, HardState, Log, Mark, ReplicaCounters, ReplicaLog, Settings};
use coeval_types::{Lsn, Protocol, Term};

use super::frames::{DATABASE, FIRST, Stretch, content, open};
use crate::support::{Table, put_durably, real, small};

fn hard_state(term: u32) -> HardState {
    HardState {
        term: Term(term),
        ..HardState::default()
    }
}

fn at_term(log: &ReplicaLog, term: u32) -> HardState {
    HardState {
        term: Term(term),
        vote: None,
        ..log.hard_state()
    }
}

async fn names(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory.join("log")).await.unwrap();
    let name = |path: &std::path::PathBuf| path.file_name()?.to_str().map(str::to_owned);
    files.iter().filter_map(name).collect()
}

/// Entries that only the log's user understands are kept as they are, and replayed to no table.
#[test]
fn opaque_entries_come_back_and_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        log.set_hard_state(at_term(&log, 2)).await.unwrap();
        log.append_mark(Term(2), b"abc").await.unwrap();
        let at = log.end();
        log.append_opaque(Term(2), b"anything").await.unwrap();
        log.append_opaque(Term(2), b"").await.unwrap();
        log.flush().await.unwrap();
        let committed = HardState {
            commit: log.end(),
            ..log.hard_state()
        };
        log.set_hard_state(committed).await.unwrap();
        drop(log);
        let (log, table) = open(directory.path(), small()).await.unwrap();
        assert!(table.commits().is_empty());
        let frames = log.read(at, 1 << 20).await.unwrap();
        let frames = frames.each(DATABASE).unwrap();
        let payloads: Vec<&[u8]> = frames.iter().map(|frame| frame.payload).collect();
        assert_eq!(payloads, [&b"anything"[..], b""]);
        assert!(log.checkpoint_source().await.unwrap().is_none());
    });
}

#[test]
fn what_a_leader_sends_comes_back_with_its_marks_and_members() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!((log.end(), log.last_term()), (Lsn(FIRST), Term(0)));
        assert_eq!(
            log.hard_state(),
            HardState {
                commit: Lsn(FIRST),
                ..hard_state(0)
            }
        );
        log.set_hard_state(at_term(&log, 2)).await.unwrap();
        let first = Stretch::at(FIRST).mark(2, b"abc").commit(2, 1, b"one");
        let second = Stretch::at(first.end())
            .commit(2, 2, b"two")
            .members(2, b"abcd")
            .commit(2, 1, &[7; 5000]);
        log.append(Lsn(FIRST), &first.bytes).await.unwrap();
        assert_eq!(log.flushed(), Lsn(FIRST));
        log.append(Lsn(first.end()), &second.bytes).await.unwrap();
        log.make_room().await.unwrap();
        assert_eq!(log.flush().await.unwrap(), Lsn(second.end()));
        let check = async |log: &ReplicaLog| {
            assert_eq!((log.end(), log.last_term()), (Lsn(second.end()), Term(2)));
            let mark = Mark {
                term: Term(2),
                start: Lsn(FIRST),
                end: Lsn(first.ends[0]),
            };
            assert_eq!(log.marks(), [mark]);
            let members: Vec<_> = log
                .memberships()
                .iter()
                .map(|m| (m.end.0, &m.payload[..]))
                .collect();
            assert_eq!(
                members,
                [(first.ends[0], &b"abc"[..]), (second.ends[1], &b"abcd"[..])]
            );
            assert_eq!(
                content(log).await,
                [&first.bytes[..], &second.bytes].concat()
            );
        };
        check(&log).await;
        // A start replays only commits that are known to be committed.
        let commit = Lsn(second.ends[0]);
        log.set_hard_state(HardState {
            commit,
            ..log.hard_state()
        })
        .await
        .unwrap();
        log.close().await.unwrap();
        let (log, table) = open(directory.path(), small()).await.unwrap();
        check(&log).await;
        assert_eq!(
            log.hard_state(),
            HardState {
                commit,
                ..hard_state(2)
            }
        );
        assert_eq!(table.values().into_keys().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(table.values()[&1], b"one");
        assert_eq!(
            names(directory.path()).await[0],
            "00000000000000004096-0000002.log"
        );
    });
}

#[test]
fn the_worked_example_and_marks_that_were_never_committed() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        log.set_hard_state(at_term(&log, 2)).await.unwrap();
        let kept = Stretch::at(FIRST)
            .mark(2, b"")
            .commit(2, 1, b"a")
            .commit(2, 2, b"b");
        let lost = Stretch::at(kept.end())
            .commit(2, 3, b"c")
            .commit(2, 4, &[9; 6000]);
        log.append(Lsn(FIRST), &kept.bytes).await.unwrap();
        log.append(Lsn(kept.end()), &lost.bytes).await.unwrap();
        log.flush().await.unwrap();
        let before = content(&log).await;

        // The node has not seen the term yet.
        let tail = Stretch::at(kept.end())
            .mark(3, b"")
            .commit(3, 5, b"e")
            .commit(3, 6, b"f");
        let refused = log.replace(Lsn(kept.end()), &tail.bytes).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert_eq!(content(&log).await, before);
        log.set_hard_state(at_term(&log, 3)).await.unwrap();
        // An offset where no frame starts; a tail that does not continue there.
        for at in [kept.end() + 8, lost.end() + 8] {
            let refused = log.replace(Lsn(at), &tail.bytes).await.unwrap_err();
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        }
        assert_eq!(content(&log).await, before);

        log.replace(Lsn(kept.end()), &tail.bytes).await.unwrap();
        assert_eq!(content(&log).await, [&kept.bytes[..], &tail.bytes].concat());
        assert_eq!(log.last_term(), Term(3));
        assert_eq!(
            names(directory.path()).await,
            [
                "00000000000000004096-0000002.log".to_owned(),
                format!("{:020}-0000003.log", kept.end()),
            ]
        );
        log.close().await.unwrap();

        // S₃ is where, in another leader's log, an entry of term 2 would be.
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!(log.marks().len(), 2);
        log.set_hard_state(at_term(&log, 4)).await.unwrap();
        let others = Stretch::at(kept.end())
            .commit(2, 7, b"x")
            .mark(4, b"")
            .commit(4, 8, b"y");
        log.replace(Lsn(kept.end()), &others.bytes).await.unwrap();
        let expected = [&kept.bytes[..], &others.bytes].concat();
        assert_eq!(content(&log).await, expected);
        let terms: Vec<_> = log.marks().iter().map(|mark| mark.term.0).collect();
        assert_eq!(terms, [2, 4]);
        drop(log);
        let (log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!(content(&log).await, expected);
        assert_eq!(log.marks().len(), 2);
        assert_eq!(names(directory.path()).await.len(), 2);
    });
}

#[test]
fn what_is_committed_is_never_cut_and_votes_are_never_changed() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        let vote = HardState {
            vote: Some(7),
            ..at_term(&log, 2)
        };
        log.set_hard_state(vote).await.unwrap();
        let bytes = Stretch::at(FIRST)
            .mark(2, b"")
            .commit(2, 1, b"a")
            .commit(2, 2, b"b");
        log.append(Lsn(FIRST), &bytes.bytes).await.unwrap();
        // Only the durable part of the commit index is recorded.
        let commit = Lsn(bytes.ends[1]);
        log.set_hard_state(HardState { commit, ..vote })
            .await
            .unwrap();
        assert_eq!(log.hard_state().commit, Lsn(FIRST));
        log.flush().await.unwrap();
        log.set_hard_state(HardState { commit, ..vote })
            .await
            .unwrap();
        for bad in [
            HardState {
                vote: Some(8),
                commit,
                ..vote
            },
            HardState {
                vote: None,
                commit,
                ..vote
            },
            HardState {
                term: Term(1),
                commit,
                ..vote
            },
            HardState {
                commit: Lsn(FIRST),
                ..vote
            },
            HardState {
                commit: Lsn(bytes.end() + 8),
                ..vote
            },
        ] {
            let refused = log.set_hard_state(bad).await.unwrap_err();
            assert!(matches!(refused, Error::Setting(_)), "{refused}");
        }
        let refused = log.truncate(Lsn(bytes.ends[0])).await.unwrap_err();
        assert!(refused.to_string().contains("is committed"), "{refused}");
        log.truncate(commit).await.unwrap();
        assert_eq!((log.end(), log.flushed()), (commit, commit));
        drop(log);
        let (log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!(log.hard_state(), HardState { commit, ..vote });
        assert_eq!(log.end(), commit);
    });
}

#[test]
fn a_log_is_cut_down_to_nothing_and_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        log.set_hard_state(at_term(&log, 1)).await.unwrap();
        let first = Stretch::at(FIRST).mark(1, b"").commit(1, 1, b"a");
        log.append(Lsn(FIRST), &first.bytes).await.unwrap();
        log.truncate(Lsn(FIRST)).await.unwrap();
        assert_eq!((log.end(), log.last_term()), (Lsn(FIRST), Term(0)));
        drop(log);
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!((log.end(), log.marks()), (Lsn(FIRST), &[][..]));
        log.set_hard_state(at_term(&log, 2)).await.unwrap();
        let second = Stretch::at(FIRST).mark(2, b"").commit(2, 1, b"b");
        log.append(Lsn(FIRST), &second.bytes).await.unwrap();
        log.close().await.unwrap();
        let (log, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!(content(&log).await, second.bytes);
    });
}

#[test]
fn what_is_written_and_synced_is_counted_over_all_logs_of_a_node() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let counters = Arc::new(ReplicaCounters::default());
        let ends = || {
            let read = counters.read();
            (read.installed.0, read.durable.0)
        };
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        log.count_in(Arc::clone(&counters));
        assert_eq!(ends(), (FIRST, FIRST));
        log.set_hard_state(at_term(&log, 1)).await.unwrap();
        let first = Stretch::at(FIRST).mark(1, b"").commit(1, 1, b"a");
        log.append(Lsn(FIRST), &first.bytes).await.unwrap();
        assert_eq!(ends(), (first.end(), FIRST));
        assert_eq!(counters.read().written_bytes, 0);
        for _ in 0..2 {
            // There is nothing more to sync the second time.
            log.flush().await.unwrap();
            let read = counters.read();
            assert_eq!(read.written_bytes, first.bytes.len() as u64);
            assert_eq!(read.syncs.count(), 1);
        }
        assert_eq!(ends(), (first.end(), first.end()));
        let cut = first.ends[0];
        log.truncate(Lsn(cut)).await.unwrap();
        assert_eq!(ends(), (cut, cut));
        assert_eq!(counters.bytes_to_replay(), cut - FIRST);
        assert_eq!(counters.bytes_kept(), cut - FIRST);
        log.close().await.unwrap();
        let (mut log, _) = open(directory.path(), small()).await.unwrap();
        log.count_in(Arc::clone(&counters));
        let second = Stretch::at(cut).commit(1, 1, b"b");
        log.append(Lsn(cut), &second.bytes).await.unwrap();
        log.flush().await.unwrap();
        let read = counters.read();
        let written = first.bytes.len() + second.bytes.len();
        assert_eq!(
            (read.written_bytes, read.syncs.count()),
            (written as u64, 2)
        );
        assert_eq!((read.commits, read.groups.count()), (0, 0));
    });
}

#[test]
fn a_directory_keeps_the_protocol_of_its_cluster() {
    let epochs = Settings {
        protocol: Protocol::Epoch,
        ..small()
    };
    for (founded, other) in [(epochs.clone(), small()), (small(), epochs)] {
        let directory = tempfile::tempdir().unwrap();
        real(async {
            let (mut log, _) = open(directory.path(), founded.clone()).await.unwrap();
            log.set_hard_state(at_term(&log, 2)).await.unwrap();
            drop(log);
            let refused = open(directory.path(), other.clone()).await.unwrap_err();
            let words = format!(
                "of a cluster of the protocol {}, and this node is started for one of the \
                 protocol {}",
                founded.protocol, other.protocol
            );
            assert!(refused.to_string().contains(&words), "{refused}");
            let (log, _) = open(directory.path(), founded.clone()).await.unwrap();
            assert_eq!(log.hard_state().term, Term(2));
            drop(log);
            // Programs from before there were protocols refuse what they would misread, by its
            // format version; and read what is theirs.
            let control = fs::read(&directory.path().join("CONTROL")).await.unwrap();
            let is_newer = control[8..12] == 5_u32.to_le_bytes();
            assert_eq!(is_newer, founded.protocol == Protocol::Epoch);
        });
    }
}

#[test]
fn a_database_that_was_alone_becomes_one_of_a_cluster_and_not_back() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, ..) = crate::support::open(directory.path(), small())
            .await
            .unwrap();
        for rid in 0..100 {
            put_durably(&log, rid, &[1; 100]).await.unwrap();
        }
        log.close().await.unwrap();
        let refused = open(directory.path(), small()).await.unwrap_err();
        assert!(
            refused.to_string().contains("the cluster's is"),
            "{refused}"
        );
        let join = async || {
            let table = Arc::new(Table::default());
            let opened = ReplicaLog::open(directory.path(), None, small(), table.clone()).await;
            (opened.unwrap().0, table)
        };
        let (log, table) = join().await;
        assert_eq!(table.values().len(), 100);
        assert_ne!(log.database(), DATABASE);
        assert_eq!(
            (log.base(), log.hard_state().commit),
            (log.end(), log.end())
        );
        assert_eq!((log.last_term(), log.hard_state().term), (Term(1), Term(1)));
        drop(log);
        let refused = crate::support::open(directory.path(), small())
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("a node of a cluster"),
            "{refused}"
        );
        let (mut log, table) = join().await;
        assert_eq!(table.values().len(), 100);
        assert_eq!(log.last_term(), Term(1));
        log.set_hard_state(at_term(&log, 2)).await.unwrap();
        let lead = log.lead(b"me").await.unwrap();
        lead.close().await.unwrap();
        drop(lead);
        // The log can still be inspected, and the inspection changes nothing.
        let looked = Arc::new(Table::default());
        let (_, summary) = Log::inspect(directory.path(), small(), looked.clone())
            .await
            .unwrap();
        assert_eq!((summary.commits, looked.values().len()), (100, 100));
        let (log, _) = join().await;
        assert_eq!((log.last_term(), log.marks().len()), (Term(2), 1));
    });
}
