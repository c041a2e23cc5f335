//! Commits of a node's other sessions that answer a read's question, and what answers none.
//! That such tests can fail, and how, is shown with a known bug by the tests of `coeval-leader`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use coeval_server::Settings;
use coeval_testkit::wire::{Answer, Wire, query};

use crate::follower::{Pair, run};

/// The leader stays, however busy the machine is.
fn patient(settings: Settings) -> Settings {
    Settings {
        cluster_election_timeout_milliseconds: 5_000,
        ..settings
    }
}

/// A client of the follower whose statements the leader executes.
async fn forwarded(pair: &Pair) -> Wire {
    let mut wire = Wire::connect(pair.follower.address()).await;
    wire.rows("set coeval.read_from = leader").await;
    wire
}

/// A read on the follower that asks no node, and waits for a commit.
async fn waiting(pair: &Pair) -> Wire {
    let mut reader = pair.reader().await;
    reader.rows("set coeval.read_comparator = adaptive").await;
    reader.rows("set coeval.read_comparator_wait = '1h'").await;
    // Its home session opens with a question.
    reader.query("select n from t").await;
    reader
}

const HOW: &str = "explain analyze select n from t";

/// How the answers say that the read got its state, if the follower has executed it.
fn is_spared(answers: &[Answer]) -> bool {
    let mut lines = answers.iter().filter(|answer| answer.kind == 'D');
    lines.any(|line| {
        let text = line.values().swap_remove(0).unwrap_or_default();
        text.contains("spared")
    })
}

#[test]
fn a_commit_of_another_session_of_the_node_answers_a_read_and_nothing_else_does() {
    run(patient, async |pair| {
        let mut writer = forwarded(pair).await;
        let table = "create table t (a int primary key, n int)";
        writer.rows(table).await;
        writer.rows("insert into t values (1, 0)").await;
        let mut reader = waiting(pair).await;
        // The cluster version is being raised, or the machine was too slow for a read that
        // waits for a second.
        let mut tries = 0..60;
        loop {
            assert!(tries.next().is_some(), "no commit has answered a read");
            reader.send(&query(HOW)).await;
            coeval_env::sleep(Duration::from_millis(30)).await;
            for _ in 0..3 {
                writer.rows("update t set n = n + 1").await;
            }
            if is_spared(&reader.until('Z').await) {
                break;
            }
        }
        for cycle in CYCLES_WITHOUT_COMMIT {
            assert!(
                !is_spared_by(&mut writer, &mut reader, cycle).await,
                "{cycle}"
            );
        }
    });
}

const CYCLES_WITHOUT_COMMIT: [&str; 3] = [
    "select n from t",
    "begin; update t set n = n + 1; rollback",
    "update t set n = n where a > 1",
];

/// Whether cycles of a session that has committed before answer a read that waits.
async fn is_spared_by(writer: &mut Wire, reader: &mut Wire, cycle: &str) -> bool {
    // So the newest commit of the session is old.
    writer.rows("update t set n = n + 1").await;
    reader.send(&query(HOW)).await;
    coeval_env::sleep(Duration::from_millis(100)).await;
    for _ in 0..3 {
        writer.query(cycle).await;
    }
    is_spared(&reader.until('Z').await)
}

/// What [`interrupt_commits`] has seen.
#[derive(Debug, Default)]
struct Interruptions {
    pairs: u32,
    interrupted: u32,
    spared: u32,
    stale: u32,
}

/// Sessions of the follower's node interrupt their commits (40003), and then have the leader
/// read. Beside them a commit of another session is read on the follower, until `is_enough`.
async fn interrupt_commits(
    pair: &Pair,
    is_enough: impl Fn(&Interruptions) -> bool,
) -> Interruptions {
    let mut writer = pair.writer().await;
    let table = "create table t (a int primary key, n int)";
    writer.rows(table).await;
    let rows = "insert into t select g, 0 from generate_series(0, 3) g";
    writer.rows(rows).await;
    let mut reader = waiting(pair).await;
    let wait = "set coeval.read_comparator_wait = '200ms'";
    reader.rows(wait).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::new(AtomicU32::new(0));
    let mut impatient = Vec::new();
    for row in 1..=3 {
        let mut wire = forwarded(pair).await;
        let (is_over, interrupted) = (Arc::clone(&is_over), Arc::clone(&interrupted));
        impatient.push(coeval_env::spawn("impatient", async move {
            let update = format!("update t set n = n + 1 where a = {row}");
            while !is_over.load(Relaxed) {
                wire.query("set statement_timeout = 1").await;
                let answers = wire.query(&update).await;
                let mut errors = answers.iter().filter(|answer| answer.kind == 'E');
                let is_interrupted = errors.any(|error| error.sqlstate() == "40003");
                interrupted.fetch_add(u32::from(is_interrupted), Relaxed);
                wire.query("set statement_timeout = 0").await;
                for _ in 0..2 {
                    wire.query("select n from t where a = 0").await;
                }
            }
        }));
    }
    let mut found = Interruptions::default();
    while !is_enough(&found) {
        found.pairs += 1;
        let number = found.pairs;
        let update = format!("update t set n = {number} where a = 0");
        writer.rows(&update).await;
        let read = reader.value("select n from t where a = 0").await;
        found.stale += u32::from(read.as_deref() != Some(&*number.to_string()));
        if number % 8 == 0 {
            found.spared += u32::from(is_spared(&reader.query(HOW).await));
        }
        found.interrupted = interrupted.load(Relaxed);
    }
    is_over.store(true, Relaxed);
    for session in impatient {
        session.await.unwrap();
    }
    found
}

/// Most pairs of a write and a read, until there is what a test waits for.
const PAIRS: u32 = 5_000;

/// What the leader's answers tell of interrupted commits makes no read of the node stale.
#[test]
fn interrupted_commits_make_no_read_stale() {
    run(patient, async |pair| {
        let is_enough = |found: &Interruptions| {
            let has_both = found.interrupted > 0 && found.spared > 0;
            found.pairs >= if has_both { 200 } else { PAIRS }
        };
        let found = interrupt_commits(pair, is_enough).await;
        assert!(found.interrupted > 0 && found.spared > 0, "{found:?}");
        assert_eq!(found.stale, 0, "{found:?}");
    });
}
