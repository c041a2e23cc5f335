//! A server process under faults: short forms of the dock command.

use std::time::Duration;

use coeval_txn::Isolation;
use coeval_workload::faults::dock::{self, Error, Kind, Options, Summary};

async fn run(options: &Options) -> Result<Summary, Error> {
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    let done = dock::run(binary, folder.path(), options).await;
    if !matches!(&done, Ok(summary) if summary.objections.is_empty()) {
        eprintln!("kept: {}", folder.keep().display());
    }
    done
}

async fn withstands(workload: &'static str, level: Isolation, kind: Kind) {
    if kind.needs_debug_build() && !cfg!(debug_assertions) {
        eprintln!("skipped: faults within a server need a debug build");
        return;
    }
    let options = Options {
        load_at_most: Duration::from_millis(100),
        ..Options::new(workload, level, kind)
    };
    let command = options.command();
    let summary = run(&options).await;
    let summary = summary.unwrap_or_else(|error| panic!("{error}\n{command}"));
    assert_eq!(summary.objections, Vec::<String>::new(), "{command}");
    assert!(summary.committed > 0);
    eprintln!("{summary}, by {}", summary.reached);
}

#[tokio::test]
async fn a_kill() {
    withstands("list-append", Isolation::Serializable, Kind::Kill).await;
}

#[tokio::test]
async fn a_pause() {
    withstands("rw-register", Isolation::SnapshotIsolation, Kind::Pause).await;
}

#[tokio::test]
async fn cut_links() {
    withstands("bank", Isolation::ReadCommitted, Kind::Cut).await;
}

#[tokio::test]
async fn a_partition() {
    withstands("smallbank", Isolation::Serializable, Kind::Partition).await;
}

#[tokio::test]
async fn a_failing_sync() {
    withstands("ledger", Isolation::ReadCommitted, Kind::Sync).await;
}

#[tokio::test]
async fn a_full_disk() {
    withstands("ycsb", Isolation::SnapshotIsolation, Kind::Full).await;
}
