//! Read-only statements in a cluster: only the leader answers them.

use std::time::Duration;

use coeval_testkit::wire::{Wire, bind, error, execute, kinds, message, parse, query, sync};
use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::process::{Running, in_runtime};

/// How many answers have waited until this server was confirmed to lead.
async fn waits(admin: std::net::SocketAddr) -> u64 {
    let (_, metrics) = coeval_testkit::http::get(admin, "/metrics").await;
    let mut lines = metrics.lines();
    let count = lines.find_map(|line| line.strip_prefix("coeval_confirmation_wait_seconds_count "));
    count.expect("the metric").parse().expect("a number")
}

/// A leader that was away for so long that there is another one, whose client has asked
/// it meanwhile.
#[test]
fn a_leader_that_was_away_answers_nothing_that_is_old() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut first = Wire::connect(cluster.address(leader)).await;
        first
            .rows("create table t (id int primary key, n int)")
            .await;
        first.rows("insert into t values (1, 1)").await;
        let mut within = Wire::connect(cluster.address(leader)).await;
        within.rows("begin").await;
        within.rows("select n from t").await;
        let mut rows = Wire::connect(cluster.address(leader)).await;
        rows.rows("insert into t select g, 0 from generate_series(2, 20000) g")
            .await;
        let mut ends = Wire::connect(cluster.address(leader)).await;
        // An answer given while no quorum could confirm it was not confirmed. A
        // confirmation for a block lasts half an election timeout after a quorum was
        // heard, which may be over.
        let soon = Duration::from_millis(300);
        let mut tries = 0..20;
        loop {
            assert!(tries.next().is_some(), "no answer leaves unconfirmed");
            ends.rows("begin").await;
            ends.rows("select n from t where id = 1").await;
            cluster.signal(follower, Signal::STOP);
            cluster.signal(other, Signal::STOP);
            ends.send(&query("select n from t where id = 1")).await;
            let answers = coeval_env::timeout(soon, ends.until('Z')).await;
            if answers.is_ok() {
                break;
            }
            cluster.signal(follower, Signal::CONT);
            cluster.signal(other, Signal::CONT);
            ends.until('Z').await;
            ends.rows("rollback").await;
        }
        cluster.signal(leader, Signal::STOP);
        cluster.signal(follower, Signal::CONT);
        cluster.signal(other, Signal::CONT);
        let mut elsewhere = Wire::connect(cluster.address(follower)).await;
        elsewhere.rows("update t set n = 2").await;
        first.send(&query("select n from t where id = 1")).await;
        within.send(&query("select n from t where id = 1")).await;
        rows.send(&query("select n from t order by id")).await;
        ends.send(&query("commit")).await;
        cluster.signal(leader, Signal::CONT);
        for wire in [&mut first, &mut within, &mut rows] {
            let answers = wire.until('Z').await;
            // Not a row of it, whether it ends well or not: some are enough to tell.
            let shown = answers.iter().filter(|answer| answer.kind == 'D');
            for row in shown {
                assert_eq!(row.contents.last(), Some(&b'2'), "{}", kinds(&answers));
            }
            if !kinds(&answers).ends_with("CZ") {
                assert_eq!(error(&answers).sqlstate(), "40001");
            }
        }
        // The result of its last query was never confirmed.
        let answers = ends.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "40001", "{}", kinds(&answers));
        within.query("rollback").await;
        for wire in [&mut first, &mut within, &mut rows, &mut ends] {
            let now = wire.value("select n from t where id = 1").await;
            assert_eq!(now.as_deref(), Some("2"));
        }
    });
}

#[test]
fn without_a_majority_nothing_is_shown_and_sessions_stay() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut simple = Wire::connect(cluster.address(leader)).await;
        simple.rows("create table t (id int primary key)").await;
        simple.rows("insert into t values (7)").await;
        simple.rows("set application_name = 'stays'").await;
        let mut extended = Wire::connect(cluster.address(leader)).await;
        extended
            .ask(&[parse("s", "select id from t where id = $1", &[23]), sync()])
            .await;
        cluster.signal(one, Signal::STOP);
        cluster.signal(other, Signal::STOP);
        simple.send(&query("select id from t")).await;
        // A client that uses Flush waits as long as one that uses Sync.
        let flush = message(b'H', b"");
        for part in [bind("", "s", &[Some(b"7")]), execute("", 0), flush] {
            extended.send(&part).await;
        }
        let soon = Duration::from_millis(150);
        let mut early = Vec::new();
        let _ = coeval_env::timeout(soon, async {
            while let Some(answer) = extended.receive().await {
                early.push(answer);
            }
        })
        .await;
        assert!(!kinds(&early).contains('D'), "{}", kinds(&early));
        let shown = coeval_env::timeout(soon, simple.until('Z')).await;
        if let Ok(answers) = shown {
            // It may have given up by now, but has nothing to show.
            assert_eq!(error(&answers).sqlstate(), "40001");
        } else {
            cluster.signal(one, Signal::CONT);
            let answers = simple.until('Z').await;
            match kinds(&answers).as_str() {
                "TDCZ" => {}
                _ => assert_eq!(error(&answers).sqlstate(), "40001"),
            }
        }
        cluster.signal(one, Signal::CONT);
        extended.send(&sync()).await;
        let mut answers = early;
        answers.extend(extended.until('Z').await);
        if !kinds(&answers).contains('D') {
            assert_eq!(error(&answers).sqlstate(), "40001");
        }
        // With a majority there are answers again, to the sessions that there were.
        assert_eq!(simple.value("select id from t").await.as_deref(), Some("7"));
        let name = simple.value("show application_name").await;
        assert_eq!(name.as_deref(), Some("stays"));
        let answers = extended
            .ask(&[bind("", "s", &[Some(b"7")]), execute("", 0), sync()])
            .await;
        assert!(kinds(&answers).ends_with("2DCZ"), "{}", kinds(&answers));
        cluster.signal(other, Signal::CONT);
    });
}

/// An error tells of the rows that it is about, so it waits as they do.
#[test]
fn an_error_that_could_not_be_confirmed_is_told_as_another() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut wire = Wire::connect(cluster.address(leader)).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (0)").await;
        wire.ask(&[parse("s", "select 1 / id from t", &[]), sync()])
            .await;
        cluster.signal(one, Signal::STOP);
        cluster.signal(other, Signal::STOP);
        for part in [bind("", "s", &[]), execute("", 0), sync()] {
            wire.send(&part).await;
        }
        // It leads no more, and has to say so: after two election timeouts at most, but that
        // it may be so slow that it leads all the same.
        coeval_env::sleep(Duration::from_secs(3)).await;
        cluster.signal(one, Signal::CONT);
        cluster.signal(other, Signal::CONT);
        let answers = wire.until('Z').await;
        let told = error(&answers).sqlstate().to_owned();
        assert!(["40001", "22012"].contains(&told.as_str()), "{told}");
        assert_eq!(
            wire.value("select id from t").await.as_deref(),
            Some("0"),
            "the session goes on"
        );
    });
}

#[test]
fn reads_in_a_cluster_are_confirmed_and_those_of_a_server_alone_are_not() {
    in_runtime(async {
        let statements = [
            "create table t (id int primary key)",
            "insert into t values (1)",
            "select 1",
            "show search_path",
        ];
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        for node in [leader, follower] {
            let mut wire = Wire::connect(cluster.address(node)).await;
            wire.rows("set coeval.read_from = leader").await;
            if node == leader {
                wire.rows(statements[0]).await;
            }
            wire.rows("delete from t").await;
            let before = waits(cluster.admin(leader)).await;
            for statement in &statements[1..] {
                wire.rows(statement).await;
            }
            assert_eq!(waits(cluster.admin(leader)).await, before, "through {node}");
            // An answer that was confirmed before it was made does not wait. Not each is.
            let mut tries = 0..1000;
            while waits(cluster.admin(leader)).await == before {
                assert!(tries.next().is_some(), "through {node}");
                wire.rows("select * from t").await;
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let admin = ["--admin-listen", "127.0.0.1:0"];
        let alone = Running::start_with(directory.path(), &admin).await;
        let mut wire = Wire::connect(alone.address).await;
        for statement in statements {
            wire.rows(statement).await;
        }
        wire.rows("select * from t").await;
        assert_eq!(waits(alone.admin.unwrap()).await, 0);
    });
}
