//! Tests of table 6.1 of FRS: requests and entries that a recovering follower takes.

use std::sync::Arc;
use std::time::Duration;

use coeval_consensus::{NodeId, Recovery as Method};
use coeval_measure::virtual_cluster::{Case, Cluster, Model, Recovery};
use coeval_measure::virtual_cluster::{cases, disk_with, expected, log_of};

fn count(case: &Case, method: Method) -> Recovery {
    match case.count(method) {
        Ok(recovery) => recovery,
        Err(error) => panic!("{}, {method:?}: {error}", case.name),
    }
}

#[test]
fn requests_and_entries_are_as_the_table_says() {
    for case in cases() {
        for method in [Method::Marks, Method::Checking, Method::Truncating] {
            let recovery = count(&case, method);
            let (requests, mut entries) = expected(method, &recovery);
            if method == Method::Marks {
                entries += case.repeated;
            }
            assert_eq!(
                (recovery.requests, recovery.entries),
                (requests, entries),
                "{method:?}: {case:?}"
            );
        }
    }
}

#[test]
fn frs_asks_once_and_takes_what_differs() {
    for case in cases().iter().filter(|case| case.repeated == 0) {
        let recovery = count(case, Method::Marks);
        let (last, diverges) = (recovery.last.0, recovery.diverges.0);
        // Ends are after the last entry, so "lst − div + 1" has no "+ 1" here.
        assert_eq!(recovery.entries, last - diverges, "{case:?}");
        assert_eq!(recovery.requests, 1, "{case:?}");
        assert!(recovery.answers <= 1, "{case:?}");
    }
}

/// The text's own numbers: commit point 2, divergent point 5, last point 6.
#[test]
fn figure_6_2_of_frs() {
    let case = &cases()[0];
    let counts = [Method::Marks, Method::Checking, Method::Truncating].map(|method| {
        let recovery = count(case, method);
        assert_eq!(
            (recovery.commit.0, recovery.diverges.0, recovery.last.0),
            (2, 4, 6)
        );
        (recovery.requests, recovery.entries)
    });
    assert_eq!(counts, [(1, 2), (3, 4), (1, 4)]);
}

/// Recovery of a leader that was partitioned, lost its term and was never down.
#[test]
fn a_deposed_leader_that_lives_recovers_as_one_that_starts() {
    for method in [Method::Marks, Method::Checking, Method::Truncating] {
        let log = Arc::new(log_of([(1, 100), (2, 100)]));
        let disks = std::iter::repeat_n(disk_with(log, 200), 3);
        let mut cluster = Cluster::new(Model::default(), method, disks);
        for node in 1..=3 {
            cluster.start_whole(NodeId(node)).unwrap();
        }
        let limit = Duration::from_secs(60);
        let leads = |cluster: &Cluster| cluster.leader().is_some();
        cluster.pass_until("a leader", limit, leads).unwrap();
        cluster.load(30, 1);
        cluster.pass(Duration::from_millis(100)).unwrap();
        let old = cluster.leader().unwrap();
        cluster.cut_off(old);
        let deposed = |cluster: &Cluster| cluster.leader().is_some_and(|leader| leader != old);
        cluster
            .pass_until("another leader", limit, deposed)
            .unwrap();
        cluster.pass(Duration::from_secs(2)).unwrap();
        cluster.watch(old).unwrap();
        cluster.reconnect(old);
        let recovered = |cluster: &Cluster| {
            let recovery = cluster.recovery();
            recovery.is_some_and(|watch| watch.log_recovered.is_some())
        };
        cluster.pass_until("recovery", limit, recovered).unwrap();
        cluster.load(0, 1);
        cluster.pass(Duration::from_secs(1)).unwrap();
        cluster.check().unwrap();
        let recovery = cluster.recovery().unwrap();
        // The others have what was sent before the partition: of each client at most one
        // write is missing.
        assert!((1..=30).contains(&recovery.invalid()), "{recovery:?}");
        let counted = (recovery.requests, recovery.entries);
        assert_eq!(
            counted,
            expected(method, recovery),
            "{method:?}: {recovery:?}"
        );
    }
}

/// The check itself works: it refuses a run with a wrong outcome.
#[test]
fn logs_that_part_below_the_commit_point_are_seen() {
    let disks = [(2, 150), (2, 150), (3, 150)].map(|(term, length)| {
        let log = log_of([(1, 50), (term, length)]);
        disk_with(Arc::new(log), 200)
    });
    let mut cluster = Cluster::new(Model::default(), Method::Marks, disks);
    for node in 1..=3 {
        cluster.start_whole(NodeId(node)).unwrap();
    }
    let error = cluster.check().unwrap_err();
    assert!(error.contains("part at place 50"), "{error}");
}
