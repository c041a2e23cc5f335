//! A server process, and clusters of three, under faults: short forms of the dock command.
//! And servers that are known to be bad, one under each kind of fault, all of which are
//! caught.

use std::time::Duration;

use coeval_check::history::{Format, read};
use coeval_txn::Isolation;
use coeval_types::planted::Bug;
use coeval_workload::faults::harness::planted::{CATCHES, Catch, Outcome, SEEDS};
use coeval_workload::faults::harness::{self, Error, FaultKind, Options, Summary, Undecided, Whom};
use coeval_workload::faults::namespace::Namespace;

async fn run(options: &Options) -> Result<Summary, Undecided> {
    let folder = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    let done = harness::run(binary, folder.path(), options).await;
    if !matches!(&done, Ok(summary) if summary.objections.is_empty()) {
        eprintln!("kept: {}", folder.keep().display());
    }
    done
}

async fn withstands(workload: &'static str, level: Isolation, kind: FaultKind) {
    passes(Options::new(workload, level, kind)).await;
}

/// The same as a cluster of three nodes, some of which are meant.
async fn three_withstand(workload: &'static str, level: Isolation, kind: FaultKind, whom: Whom) {
    let options = Options {
        nodes: 3,
        whom,
        ..Options::new(workload, level, kind)
    };
    passes(options).await;
}

async fn passes(options: Options) {
    let kind = options.kind;
    if kind.needs_debug_build() && !cfg!(debug_assertions) {
        eprintln!("skipped: faults within a server need a debug build");
        return;
    }
    let options = Options {
        load_at_most: Duration::from_millis(100),
        ..options
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
    withstands("list-append", Isolation::Serializable, FaultKind::Kill).await;
}

#[tokio::test]
async fn a_pause() {
    withstands(
        "rw-register",
        Isolation::SnapshotIsolation,
        FaultKind::Pause,
    )
    .await;
}

#[tokio::test]
async fn cut_links() {
    withstands("bank", Isolation::ReadCommitted, FaultKind::Cut).await;
}

#[tokio::test]
async fn a_partition() {
    // Which is made by the proxy then.
    let _ = Namespace::or_say("a partition by a firewall");
    withstands("smallbank", Isolation::Serializable, FaultKind::Partition).await;
}

#[tokio::test]
async fn a_failing_sync() {
    withstands("ledger", Isolation::ReadCommitted, FaultKind::Sync).await;
}

#[tokio::test]
async fn a_full_disk() {
    withstands("ycsb", Isolation::SnapshotIsolation, FaultKind::Full).await;
}

#[tokio::test]
async fn a_kill_of_the_leader() {
    let level = Isolation::Serializable;
    three_withstand("list-append", level, FaultKind::Kill, Whom::Leader).await;
}

#[tokio::test]
async fn a_loss_of_power_of_all_nodes() {
    let level = Isolation::ReadCommitted;
    three_withstand("ledger", level, FaultKind::Power, Whom::All).await;
}

#[tokio::test]
async fn a_leader_that_reaches_nobody() {
    let level = Isolation::SnapshotIsolation;
    three_withstand("rw-register", level, FaultKind::Partition, Whom::Leader).await;
}

#[tokio::test]
async fn a_full_disk_of_a_follower() {
    let level = Isolation::ReadCommitted;
    three_withstand("ycsb", level, FaultKind::Full, Whom::Follower).await;
}

#[tokio::test]
async fn faults_of_a_cluster_together() {
    let level = Isolation::Serializable;
    three_withstand("bank", level, FaultKind::Combined, Whom::Leader).await;
}

/// A run that does not come to its end has shown something all the same.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "looks at what is kept")]
async fn a_run_that_ends_early_keeps_its_history_and_its_objections() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: planted bugs are for debug builds");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    // A bug that a history shows without the fault.
    for seed in 1..=SEEDS {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            seed,
            bug: Some(Bug::SkipRead),
            // After the fault no commit can be as fast as that.
            patience: Duration::ZERO,
            ..Options::new("list-append", Isolation::Serializable, FaultKind::Stop)
        };
        let undecided = harness::run(binary, folder.path(), &options).await;
        let undecided = undecided.expect_err("nobody commits after the fault");
        assert!(matches!(undecided.error, Error::Endless(..)), "{undecided}");
        let kept = std::fs::read_to_string(folder.path().join("objections")).unwrap();
        assert!(kept.starts_with("ended early: committing"), "{kept}");
        let history = std::fs::read(folder.path().join("history.jsonl")).unwrap();
        let history = read(&history, Format::JsonLines).unwrap();
        assert!(history.transactions.len() as u64 >= undecided.summary.committed);
        let objections = &undecided.summary.objections;
        assert!(objections.iter().all(|said| kept.contains(said)), "{kept}");
        if objections.iter().any(|said| said.contains("G2-item")) {
            return;
        }
    }
    panic!("no seed shows the bug");
}

/// Whether the dock catches the servers that are bad under this kind of fault.
async fn catches(kind: FaultKind) {
    catches_each(|catch| catch.kind == kind && !catch.namespace).await;
}

async fn catches_each(is_wanted: impl Fn(&Catch) -> bool) {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: planted bugs are for debug builds");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    for catch in CATCHES.iter().filter(|catch| is_wanted(catch)) {
        let folder = tempfile::tempdir().unwrap();
        match catch.test(binary, folder.path()).await.unwrap() {
            Outcome::Caught { seed, said } => eprintln!("{}: seed {seed}: {said}", catch.name()),
            Outcome::Missed(said) => panic!("{} is missed: {said:#?}", catch.name()),
        }
    }
}

/// Whether nothing is said of the same run when the server is not bad.
async fn is_to_blame(kind: FaultKind) {
    are_to_blame(|catch| catch.kind == kind && !catch.namespace).await;
}

async fn are_to_blame(is_wanted: impl Fn(&Catch) -> bool) {
    if !cfg!(debug_assertions) {
        return;
    }
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    for catch in CATCHES.iter().filter(|catch| is_wanted(catch)) {
        let folder = tempfile::tempdir().unwrap();
        let said = catch.without(binary, folder.path()).await.unwrap();
        assert_eq!(said, Vec::<String>::new(), "{}", catch.name());
    }
}

#[tokio::test]
async fn a_bad_server_under_kills() {
    catches(FaultKind::Kill).await;
}

/// And one that is not bad under the same.
#[tokio::test]
async fn a_bad_server_under_stops() {
    catches(FaultKind::Stop).await;
    is_to_blame(FaultKind::Stop).await;
}

/// What is bad only as the server stops is not seen before.
#[tokio::test]
async fn a_bad_server_that_is_not_stopped() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: planted bugs are for debug builds");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_coeval").as_ref();
    for catch in CATCHES.iter().filter(|catch| catch.kind == FaultKind::Stop) {
        let folder = tempfile::tempdir().unwrap();
        let said = catch.without_fault(binary, folder.path()).await.unwrap();
        assert_eq!(said, Vec::<String>::new(), "{}", catch.name());
    }
}

#[tokio::test]
async fn a_bad_server_under_pauses() {
    catches(FaultKind::Pause).await;
}

#[tokio::test]
async fn a_bad_server_under_a_bad_network() {
    catches(FaultKind::Network).await;
}

#[tokio::test]
async fn a_bad_server_under_cut_links() {
    catches(FaultKind::Cut).await;
}

#[tokio::test]
async fn a_bad_server_under_a_partition() {
    catches(FaultKind::Partition).await;
}

/// Where packets are lost by a firewall, not held back by a proxy; and servers that are
/// not bad in the same place.
#[tokio::test]
async fn a_bad_server_in_a_network_namespace() {
    if Namespace::or_say("the dock's bad servers behind a firewall").is_none() {
        return;
    }
    catches_each(|catch| catch.namespace).await;
    are_to_blame(|catch| catch.namespace).await;
}

#[tokio::test]
async fn a_bad_server_under_a_one_way_partition() {
    catches(FaultKind::OneWay).await;
}

#[tokio::test]
async fn a_bad_server_under_losses() {
    catches(FaultKind::Loss).await;
}

#[tokio::test]
async fn a_bad_server_under_a_loss_of_power() {
    catches(FaultKind::Power).await;
}

#[tokio::test]
async fn a_bad_server_under_failing_syncs() {
    catches(FaultKind::Sync).await;
}

#[tokio::test]
async fn a_bad_server_under_slow_syncs() {
    catches(FaultKind::Slow).await;
    is_to_blame(FaultKind::Slow).await;
}

#[tokio::test]
async fn a_bad_server_under_failing_writes() {
    catches(FaultKind::Write).await;
}

#[tokio::test]
async fn a_bad_server_under_a_full_disk() {
    catches(FaultKind::Full).await;
}

#[tokio::test]
async fn a_bad_server_under_a_jumping_clock() {
    catches(FaultKind::Clock).await;
}
