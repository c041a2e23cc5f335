//! Tests of the log on real files.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coeval_env::fs;
use coeval_log::{Error, Log, RecoverySummary, Settings, SpaceWait};
use coeval_types::{Remedy, Rid, RowRef, Term, Timestamp};

use crate::support::{STORAGE, Table, open, put, put_durably, real, row, small};

#[test]
fn what_was_committed_comes_back_in_order() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, summary, _) = open(directory.path(), small()).await.unwrap();
        assert_eq!((summary.commits, log.term()), (0, Term(1)));
        let before = log.installed();
        let first = put(&log, &[(1, b"one"), (2, b"two")]).await.unwrap();
        assert!(first > before);
        assert!(log.installed() >= first);
        let second = {
            let mut entries = log.entry_builder();
            let (old, new) = (row(b"one"), row(b"uno"));
            let mut patch = Vec::new();
            RowRef::trusted(&old).diff(RowRef::trusted(&new), &mut patch);
            entries.patch(STORAGE, Rid(1), first, &patch);
            entries.delete(STORAGE, Rid(2));
            let credit = log.prepare(&mut entries).await.unwrap();
            let reservation = log.reserve(credit);
            let timestamp = reservation.timestamp();
            reservation.commit(&entries).installed();
            timestamp
        };
        log.wait_durable(second).await.unwrap();
        assert!(log.durable() >= second && log.durable() <= log.installed());
        log.close().await.unwrap();
        log.close().await.unwrap();
        assert!(matches!(
            put(&log, &[(1, b"")]).await,
            Err(Error::Stopped(_))
        ));

        let (log, summary, table) = open(directory.path(), small()).await.unwrap();
        assert!(summary.clean);
        assert_eq!((summary.commits, summary.entries), (2, 4));
        assert_eq!(summary.last_commit, second);
        assert_eq!(summary.cut_bytes, 0);
        assert_eq!(log.term(), Term(2));
        assert_eq!(
            table.histories()[&(STORAGE, Rid(1))],
            [
                (first, Some(b"one".to_vec())),
                (second, Some(b"uno".to_vec()))
            ]
        );
        assert_eq!(
            table.histories()[&(STORAGE, Rid(2))],
            [(first, Some(b"two".to_vec())), (second, None)]
        );
        log.wait_durable(second).await.unwrap();
        assert!(put_durably(&log, 1, b"more").await.unwrap() > second);
        log.close().await.unwrap();
    });
}

#[test]
fn segments_follow_on_each_other_and_threads_replay_each_record_in_order() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        let log = Arc::new(log);
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let log = log.clone();
                coeval_env::spawn("writer", async move {
                    for number in 0..200_u64 {
                        let value = number.to_le_bytes();
                        put(&log, &[(writer, &value), (4 + number, &[7; 100])])
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        log.close().await.unwrap();
        let settings = Settings {
            recovery_threads: 3,
            ..small()
        };
        let (log, summary, table) = open(directory.path(), settings).await.unwrap();
        assert_eq!((summary.commits, summary.entries), (800, 1600));
        assert!(summary.bytes > 10 * 8192, "many segments");
        for writer in 0..4 {
            let numbers: Vec<_> = table.histories()[&(STORAGE, Rid(writer))]
                .iter()
                .map(|(_, value)| u64::from_le_bytes(value.as_deref().unwrap().try_into().unwrap()))
                .collect();
            assert!(numbers.into_iter().eq(0..200));
        }
        log.close().await.unwrap();
    });
}

#[test]
fn a_large_transaction_goes_in_chunks_and_comes_back_whole() {
    let directory = tempfile::tempdir().unwrap();
    for threads in [1, 3] {
        let settings = Settings {
            recovery_threads: threads,
            ..small()
        };
        real(async {
            let (log, _, table) = open(directory.path(), settings.clone()).await.unwrap();
            let before = table.values().len();
            let values: Vec<(u64, Vec<u8>)> = (0..300)
                .map(|rid| (rid + before as u64, vec![rid as u8; 60]))
                .collect();
            let borrowed: Vec<_> = values
                .iter()
                .map(|(rid, value)| (*rid, &value[..]))
                .collect();
            let timestamp = put(&log, &borrowed).await.unwrap();
            assert!(
                log.is_ephemeral() || timestamp.lsn().0 > 4 * 4096,
                "larger than the ring"
            );
            put(&log, &[(0, b"later")]).await.unwrap();
            log.close().await.unwrap();
            let (log, summary, table) = open(directory.path(), settings).await.unwrap();
            assert_eq!(table.values().len(), before + 300);
            assert_eq!(table.values()[&0], b"later");
            assert_eq!(summary.commits as usize, table.commits().len());
            log.close().await.unwrap();
        });
    }
}

#[test]
fn too_large_entries_are_refused_and_skipped_places_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        let error = put(&log, &[(1, &[0; 600])]).await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 512, .. }));
        assert_eq!(error.remedy(), Remedy::Fix);

        let mut entries = log.entry_builder();
        entries.delete(STORAGE, Rid(1));
        let credit = log.prepare(&mut entries).await.unwrap();
        log.reserve(credit).skip();
        drop(log.prepare(&mut entries).await.unwrap());
        put(&log, &[(2, b"two")]).await.unwrap();
        log.close().await.unwrap();
        let (log, summary, table) = open(directory.path(), small()).await.unwrap();
        assert_eq!(summary.commits, 1);
        assert_eq!(table.values().len(), 1);
        log.close().await.unwrap();
    });
}

#[test]
fn a_second_opener_is_refused_until_the_first_has_gone() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        let error = open(directory.path(), small()).await.unwrap_err();
        assert!(matches!(&error, Error::InUse { lock } if lock.ends_with("LOCK")));
        assert_eq!(error.remedy(), Remedy::Fix);
        assert!(error.to_string().contains("another process"), "{error}");
        log.close().await.unwrap();
        open(directory.path(), small())
            .await
            .unwrap()
            .0
            .close()
            .await
            .unwrap();
    });
}

#[test]
fn a_log_without_files_orders_and_acknowledges_at_once() {
    real(async {
        let log = Log::ephemeral(small()).unwrap();
        assert!(log.is_ephemeral());
        let mut last = log.installed();
        for _ in 0..1000 {
            let timestamp = put(&log, &[(1, &[1; 300])]).await.unwrap();
            assert!(timestamp > last);
            assert!(log.durable() >= timestamp);
            log.wait_durable(timestamp).await.unwrap();
            last = timestamp;
        }
        log.close().await.unwrap();
    });
}

/// Opens a log whose files a dropped runtime may still hold for a moment.
async fn open_when_free(directory: &Path) -> Result<(Log, RecoverySummary, Arc<Table>), Error> {
    loop {
        match open(directory, small()).await {
            Err(Error::InUse { .. }) => coeval_env::yield_now().await,
            opened => return opened,
        }
    }
}

#[test]
fn a_crash_raises_the_term_and_loses_nothing_durable() {
    let directory = tempfile::tempdir().unwrap();
    let mut last = Timestamp::ZERO;
    for round in 0..5_u64 {
        // Dropping the runtime together with the log is the closest to a crash within one
        // process.
        real(async {
            let (log, summary, table) = open_when_free(directory.path()).await.unwrap();
            assert_eq!(log.term(), Term(round as u32 + 1));
            assert_eq!(table.values().len() as u64, round);
            assert_eq!(summary.last_commit, last);
            assert!(!summary.clean);
            last = put_durably(&log, round, b"value").await.unwrap();
        });
    }
}

#[test]
fn a_missing_segment_or_control_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        for rid in 0..200 {
            put(&log, &[(rid, &[1; 100])]).await.unwrap();
        }
        log.close().await.unwrap();
        let segments = coeval_env::fs::read_dir(directory.path().join("log"))
            .await
            .unwrap();
        assert!(segments.len() > 5);
        let control = directory.path().join("CONTROL");
        for missing in [&segments[0], &segments[2], &control] {
            let hidden = missing.with_extension("hidden");
            coeval_env::fs::rename(missing, &hidden).await.unwrap();
            let error = open(directory.path(), small()).await.unwrap_err();
            assert!(
                matches!(&error, Error::Damaged { file, .. } if file == missing),
                "{error}"
            );
            assert_eq!(error.remedy(), Remedy::Fix);
            coeval_env::fs::rename(&hidden, missing).await.unwrap();
        }
        let table = Arc::new(Table::default());
        let (log, _) = Log::open(directory.path(), small(), table.clone())
            .await
            .unwrap();
        assert_eq!(table.values().len(), 200);
        log.close().await.unwrap();
    });
}

/// After a crash an older CONTROL would make recovery lose commits silently.
#[test]
fn a_control_file_older_than_the_log_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let control = directory.path().join("CONTROL");
    let put_back = async |bytes: &[u8]| {
        let file = fs::open(&control, fs::OpenOptions::WRITE).await.unwrap();
        file.write_at(bytes, 0).await.unwrap();
    };
    let mut older = Vec::new();
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        put_durably(&log, 1, b"old").await.unwrap();
        log.close().await.unwrap();
        older = fs::read(&control).await.unwrap();
    });
    // The log is dropped without a close, as in a crash.
    real(async {
        let (log, ..) = open(directory.path(), small()).await.unwrap();
        put_durably(&log, 2, b"new").await.unwrap();
    });
    real(async {
        let newer = fs::read(&control).await.unwrap();
        put_back(&older).await;
        let error = open_when_free(directory.path()).await.unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::Damaged { .. }), "{said}");
        assert!(said.contains("CONTROL") && said.contains("older"), "{said}");
        put_back(&newer).await;
        let (log, _, table) = open(directory.path(), small()).await.unwrap();
        assert_eq!(table.values().len(), 2);
        log.close().await.unwrap();
    });
}

#[test]
fn a_credit_that_nobody_took_does_not_hold_up_the_close() {
    let directory = tempfile::tempdir().unwrap();
    real(async {
        let (log, _, _) = open(directory.path(), small()).await.unwrap();
        let log = Arc::new(log);
        let mut context = Context::from_waker(Waker::noop());
        let mut nothing = log.entry_builder();
        let mut held = Vec::new();
        let mut wait = SpaceWait::new();
        while let Poll::Ready(credit) = log.poll_prepare(&mut nothing, &mut wait, &mut context) {
            held.push(credit.unwrap());
        }
        // Its credit has been granted, and it has not been polled since.
        drop(held.pop());
        let closing = coeval_env::spawn("close", {
            let log = Arc::clone(&log);
            async move { log.close().await }
        });
        coeval_env::sleep(Duration::from_millis(20)).await;
        drop(held);
        coeval_env::sleep(Duration::from_millis(20)).await;
        drop(wait);
        let closed = coeval_env::timeout(Duration::from_secs(30), closing).await;
        closed.expect("it waits for nobody").unwrap().unwrap();
    });
}
