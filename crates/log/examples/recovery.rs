//! A benchmark of recovery: how fast a log is replayed into a target that does next to
//! nothing.
//!
//! ```text
//! cargo run --profile dist -p coeval-log --example recovery -- [MiB of log] [threads]
//! ```
//!
//! It writes a log like pgbench's into a temporary directory: transactions of three
//! patches of a 100-byte row and one insert. Then it opens the log, and checks that every
//! entry was replayed, by count and by a sum over all entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coeval_log::{Block, Entry, Log, Replay, ReplayError, Settings};
use coeval_types::{Rid, RowBuilder, RowRef, StorageId, Timestamp};

#[derive(Default)]
struct Sum {
    entries: AtomicU64,
    sum: AtomicU64,
}

/// The amount that one entry adds to the sum.
fn weight(storage: StorageId, rid: Rid, bytes: usize) -> u64 {
    (rid.0 ^ u64::from(storage.0)).wrapping_mul(bytes as u64 | 1)
}

impl Sum {
    fn add(&self, weight: u64) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(weight, Ordering::Relaxed);
    }
}

impl Replay for Sum {
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError> {
        for (_, entry) in entries {
            let (storage, rid) = entry.record();
            let bytes = match entry {
                Entry::Image { row, .. } => row.bytes().len(),
                Entry::Patch { patch, .. } => patch.len(),
                Entry::Delete { .. } => 0,
            };
            self.add(weight(storage, rid, bytes));
        }
        Ok(())
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        block.each(|record| {
            self.add(weight(
                block.storage(),
                record.rid,
                record.row.bytes().len(),
            ));
            Ok(())
        })
    }
}

async fn write(directory: &std::path::Path, bytes: u64) -> Sum {
    let expected = Sum::default();
    let settings = Settings::default();
    let (log, _) = Log::open(directory, settings, Arc::new(Sum::default()))
        .await
        .expect("a new log");
    let mut row = Vec::new();
    let mut builder = RowBuilder::new();
    for cell in [&[1; 8][..], &[2; 8], &[3; 84]] {
        builder.push(Some(cell));
    }
    builder.finish(&mut row);
    // A patch of one cell of eight bytes.
    let patch = [&[1, 0, 1, 0, 8, 0, 0, 0][..], &[7; 8]].concat();
    let mut entries = log.entry_builder();
    let mut number = 0_u64;
    let mut last = log.installed();
    while last.lsn().0 < bytes {
        entries.clear();
        for storage in 1..=3 {
            let rid = Rid(number.wrapping_mul(0x9E37_79B9) % 1_000_000);
            let storage = StorageId(storage);
            entries.patch(storage, rid, last, &patch);
            expected.add(weight(storage, rid, patch.len()));
        }
        entries.image(StorageId(4), Rid(number), RowRef::trusted(&row));
        expected.add(weight(StorageId(4), Rid(number), row.len()));
        let credit = log.prepare(&mut entries).await.expect("room");
        let reservation = log.reserve(credit);
        last = reservation.timestamp();
        reservation.commit(&entries).installed();
        number += 1;
    }
    log.close().await.expect("an orderly end");
    expected
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: u64| {
        arguments
            .next()
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let mebibytes = argument(512);
    let threads = argument(1);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let started = coeval_env::now();
        let expected = write(directory.path(), mebibytes << 20).await;
        let written = started.elapsed().as_secs_f64();
        let sum = Arc::new(Sum::default());
        let settings = Settings {
            recovery_threads: threads as usize,
            ..Settings::default()
        };
        let started = coeval_env::now();
        let (log, summary) = Log::open(directory.path(), settings, sum.clone())
            .await
            .expect("the same log");
        let read = started.elapsed().as_secs_f64();
        assert_eq!(
            (
                sum.entries.load(Ordering::Relaxed),
                sum.sum.load(Ordering::Relaxed)
            ),
            (
                expected.entries.load(Ordering::Relaxed),
                expected.sum.load(Ordering::Relaxed)
            ),
            "every entry, once"
        );
        let megabytes = summary.bytes as f64 / 1e6;
        println!(
            "{megabytes:.0} MB, {} commits, {} entries: written at {:.0} MB/s, replayed at \
             {:.0} MB/s by {threads} threads",
            summary.commits,
            summary.entries,
            megabytes / written,
            megabytes / read
        );
        log.close().await.expect("an orderly end");
    });
}
