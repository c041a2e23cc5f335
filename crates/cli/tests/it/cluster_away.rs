//! Reads of a follower's own state that waited in its sockets while its process was stopped:
//! older than what was committed meanwhile without the hold of such reads, and with it never.

use std::time::Duration;

use coeval_testkit::wire::{Wire, query};
use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::process::in_runtime;

/// Longer than the 20 ms by which a node has to be late to notice.
const STOPPED: Duration = Duration::from_millis(200);

/// Stops a follower, commits beside it, sends it a read and lets it go on, up to so many
/// times. Returns how many of the answers, of which the first old one is the last, were older
/// than the commit, and whether any read was held.
async fn old_answers(settings: &[&str], stops: u32) -> (u32, bool) {
    let cluster = Cluster::start_with(false, settings).await;
    let leader = cluster.leader().await;
    let (follower, _) = others(leader);
    let mut writer = cluster.connect(leader).await;
    writer.rows("create table t (n int)").await;
    writer.rows("insert into t values (0)").await;
    let mut reader = cluster.connect(follower).await;
    // The follower has the table, and its driver knows that such reads come.
    while reader.value("select n from t").await.as_deref() != Some("0") {}
    reader.rows("set coeval.read_from = any").await;
    while held_or_local(&cluster, follower).await.0 < 1.0 {
        reader.rows("select n from t").await;
    }
    let mut old = 0;
    for stop in 1..=stops {
        reader.rows("select n from t").await;
        cluster.signal(follower, Signal::STOP);
        coeval_env::sleep(STOPPED).await;
        let commit = format!("update t set n = {stop}");
        writer.rows(&commit).await;
        reader.send(&query("select n from t")).await;
        cluster.signal(follower, Signal::CONT);
        if answered(&mut reader).await != stop.to_string() {
            old += 1;
            break;
        }
    }
    (old, held_or_local(&cluster, follower).await.1 > 0.0)
}

async fn answered(reader: &mut Wire) -> String {
    let answers = reader.until('Z').await;
    let row = answers.iter().find(|answer| answer.kind == 'D');
    let mut values = row.expect("a row").values();
    values.pop().flatten().expect("a value")
}

/// How many reads the node has executed from the state that it had, and how many it has held.
async fn held_or_local(cluster: &Cluster, node: usize) -> (f64, f64) {
    let metrics = coeval_testkit::http::metrics(cluster.admin(node)).await;
    let sum = |beginning: &str| {
        let named = metrics
            .iter()
            .filter(|(name, _)| name.starts_with(beginning));
        named.map(|(_, value)| value).sum()
    };
    (
        sum("coeval_reads_total{route=\"local\",stamp=\"none\""),
        sum("coeval_any_read_hold_seconds_count"),
    )
}

#[test]
fn what_was_committed_while_a_follower_was_stopped_is_read_with_the_hold() {
    in_runtime(async {
        // The bound of a hold is not what is tested: on a busy machine catching up takes long.
        let held = &["--any-read-hold-milliseconds", "60000"];
        let (old, has_held) = old_answers(held, 12).await;
        assert_eq!(old, 0);
        assert!(has_held, "the follower has noticed no stop");
    });
}

#[test]
fn without_the_hold_a_follower_that_was_stopped_answers_from_before() {
    in_runtime(async {
        // Which comes first, the read or the log, is the machine's to decide: nearly always
        // the read, and the first time is enough.
        let none = &["--any-read-away-milliseconds", "0"];
        let (old, has_held) = old_answers(none, 200).await;
        assert_eq!(
            old, 1,
            "none of 200 reads was answered from before the stop"
        );
        assert!(!has_held);
    });
}
