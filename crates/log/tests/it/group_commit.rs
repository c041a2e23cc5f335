//! Tests of group commit that waits for transactions about to commit, on threads and a
//! real file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_log::{Log, Settings};
use coeval_types::Rid;

use crate::support::{STORAGE, Table};

/// Commits until `stop` is set, and counts the durable commits.
async fn client(log: Arc<Log>, rid: u64, ends: Arc<AtomicBool>, durable: Arc<AtomicU64>) {
    let mut entries = log.entry_builder();
    while !ends.load(Ordering::Relaxed) {
        log.writer_begins();
        entries.clear();
        entries.delete(STORAGE, Rid(rid));
        // As long as a few statements take.
        coeval_env::yield_now().await;
        let credit = log.prepare(&mut entries).await.expect("room");
        log.writer_ends();
        let copied = log.reserve(credit).commit(&entries);
        let timestamp = copied.timestamp();
        copied.installed();
        log.wait_durable(timestamp).await.expect("durable");
        durable.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waited_for_others_is_durable_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::default;
    let open = |table: Arc<Table>| Log::open(directory.path(), settings(), table);
    let (log, _) = open(Arc::default()).await.expect("a new log");
    let log = Arc::new(log);
    let (ends, durable) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let begin = |rid| {
        let (log, ends, durable) = (log.clone(), ends.clone(), durable.clone());
        coeval_env::spawn("client", client(log, rid, ends, durable))
    };
    let clients: Vec<_> = (1..=64).map(begin).collect();
    // In one window of six groups wait in any case, unless the disk is so slow that no
    // commit is expected within a millisecond. Then this tests groups that do not wait.
    let until = coeval_env::now() + Duration::from_secs(30);
    while log.statistics().waits.count() == 0 && coeval_env::now() < until {
        coeval_env::sleep(Duration::from_millis(10)).await;
    }
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let statistics = log.statistics();
    assert_eq!(statistics.commits, durable.load(Ordering::Relaxed));
    assert_eq!(
        statistics.groups.sum, statistics.commits,
        "each in one group"
    );
    assert_eq!(statistics.writers, 0);
    let log = Arc::into_inner(log).expect("nobody else has it");
    log.close().await.unwrap();
    let table = Arc::<Table>::default();
    open(Arc::clone(&table)).await.expect("what it wrote");
    assert_eq!(table.commits().len() as u64, statistics.commits);
}
