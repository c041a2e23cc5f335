//! Sessions of a cluster's clients that are not where the leader is: how they begin, what
//! they are told when there is no leader or no answer, and how they end.

use std::time::Duration;

use coeval_testkit::tls::{Certificate, connect};
use coeval_testkit::wire::{
    Wire, bind, error, execute, flush, kinds, message, packet, parse, query, start, sync,
};
use rustix::process::Signal;
use tokio_postgres::config::ChannelBinding;

use crate::cluster::{Cluster, others, status, told};
use crate::process::in_runtime;

const CANCEL: u32 = 80_877_102;

#[test]
fn passwords_are_bound_to_the_certificate_of_the_node_that_was_connected_to() {
    in_runtime(async {
        let certificate = Certificate::new();
        let file = |path: std::path::PathBuf| path.display().to_string();
        let (pem, key) = (file(certificate.certificate()), file(certificate.key()));
        let settings = ["--tls-certificate-file", &pem, "--tls-key-file", &key];
        let mut cluster = Cluster::start_with(true, &settings).await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut plain = cluster.connect(other).await;
        plain
            .rows("create role app login superuser password 'secret'")
            .await;
        let address = cluster.address(follower);
        let tls = certificate.client();
        let log_in = |password| {
            let tls = tls.clone();
            connect(address, tls, "app", password, ChannelBinding::Require)
        };
        let session = log_in("secret").await.unwrap();
        session.batch_execute("select 1").await.unwrap();
        let wrong = log_in("wrong").await;
        assert_eq!(wrong.err().unwrap().code().unwrap().code(), "28P01");
        // A man in the middle with a certificate of its own.
        let mut elsewhere = tls.clone();
        elsewhere.binding[0] ^= 1;
        let stolen = connect(address, elsewhere, "app", "secret", ChannelBinding::Require).await;
        assert_eq!(stolen.err().unwrap().code().unwrap().code(), "28000");
        // Without TLS the server does not offer the mechanism with channel binding.
        let mut wire = Wire::open(address).await;
        let offered = coeval_testkit::scram::begin(&mut wire, "app").await;
        assert_eq!(offered, ["SCRAM-SHA-256"]);

        // A client that was let in is not authenticated again.
        cluster.kill(leader).await;
        session.batch_execute("select 1").await.unwrap();
        log_in("secret").await.unwrap();
    });
}

#[test]
fn without_a_leader_clients_are_told_so_in_time_and_their_sessions_stay() {
    in_runtime(async {
        let wait = ["--cluster-wait-milliseconds", "1000"];
        let mut cluster = Cluster::start_with(false, &wait).await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut simple = cluster.connect(follower).await;
        simple.rows("set application_name = 'waits'").await;
        let mut extended = cluster.connect(follower).await;
        let mut within = cluster.connect(follower).await;
        begin_at_home(&mut within, "begin").await;
        cluster.kill(leader).await;
        cluster.kill(other).await;
        while !cluster.health(follower).await.contains("leaderless") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        let asked = [parse("", "select 1", &[]), bind("", "", &[]), sync()];
        extended.send(&asked.concat()).await;
        within.send(&query("select 1")).await;
        let answers = simple.query("select 1").await;
        assert_eq!(error(&answers).sqlstate(), "57P03");
        assert_eq!((&*kinds(&answers), status(&answers)), ("EZ", b'I'));
        let answers = extended.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "57P03");
        assert_eq!((&*kinds(&answers), status(&answers)), ("EZ", b'I'));
        let answers = within.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "57P03");
        assert_eq!(status(&answers), b'E');
        // Its block has failed where it is, and ends there.
        let failed = within.query("select 1").await;
        assert_eq!(error(&failed).sqlstate(), "25P02");
        let ended = within.query("commit").await;
        assert_eq!((&*told(&ended), status(&ended)), ("CZ", b'I'));
        let mut late = Wire::open(cluster.address(follower)).await;
        late.send(&start(&[("user", "ada"), ("database", "bank")]))
            .await;
        assert_eq!(status(&late.until('Z').await), b'I');
        let answers = late.query("select 1").await;
        assert_eq!(error(&answers).sqlstate(), "57P03");

        cluster.start_node(leader).await;
        cluster.leader().await;
        assert_eq!(late.value("select 1").await.as_deref(), Some("1"));
        let name = simple.value("show application_name").await;
        assert_eq!(name.as_deref(), Some("waits"));
        let answers = extended.ask(&[execute("", 0), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        within.rows("begin").await;
    });
}

/// Begins a block on the node that this client is connected to, once blocks begin there.
async fn begin_at_home(wire: &mut Wire, begin: &str) {
    loop {
        wire.rows(begin).await;
        let explained = wire.rows("explain select 1").await;
        let mut lines = explained.into_iter().flatten().flatten();
        if lines.any(|line| line.contains("which follows")) {
            return;
        }
        wire.rows("rollback").await;
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn without_a_leader_a_write_in_a_read_only_block_fails_where_it_is() {
    in_runtime(async {
        // A statement that waited for a leader would not end.
        let wait = ["--cluster-wait-milliseconds", "3600000"];
        let mut cluster = Cluster::start_with(false, &wait).await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut root = cluster.connect(leader).await;
        root.rows("create table t (id int primary key)").await;
        let mut blocks = Vec::new();
        for (begin, first) in [
            ("begin read only", "select count(*) from t"),
            ("begin read only", "savepoint a"),
            (
                "begin isolation level serializable read only",
                "select count(*) from t",
            ),
        ] {
            let mut wire = cluster.connect(follower).await;
            begin_at_home(&mut wire, begin).await;
            wire.rows(first).await;
            blocks.push((wire, begin, first));
        }
        cluster.kill(leader).await;
        cluster.kill(other).await;
        while !cluster.health(follower).await.contains("leaderless") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        for (wire, begin, first) in &mut blocks {
            let refused = wire.query("insert into t values (1)").await;
            assert_eq!(error(&refused).sqlstate(), "25006", "{begin}; {first}");
            assert_eq!(status(&refused), b'E');
            let ended = wire.query("rollback").await;
            assert_eq!((&*told(&ended), status(&ended)), ("CZ", b'I'));
        }
        cluster.start_node(leader).await;
        for (wire, ..) in &mut blocks {
            wire.rows("delete from t").await;
        }
    });
}

#[test]
fn who_waits_for_a_leader_can_be_canceled() {
    in_runtime(async {
        let wait = ["--cluster-wait-milliseconds", "3600000"];
        let mut cluster = Cluster::start_with(false, &wait).await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut wire = cluster.connect(follower).await;
        cluster.kill(leader).await;
        cluster.kill(other).await;
        while !cluster.health(follower).await.contains("leaderless") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        let key = wire.key.clone();
        wire.send(&query("select 1")).await;
        let canceling = async {
            loop {
                let mut another = Wire::open(cluster.address(follower)).await;
                another.send(&packet(CANCEL, &key)).await;
                another.until_closed().await;
                coeval_env::sleep(Duration::from_millis(10)).await;
            }
        };
        let answers = tokio::select! {
            answers = wire.until('Z') => answers,
            () = canceling => unreachable!(),
        };
        assert_eq!(error(&answers).sqlstate(), "57014");
        cluster.start_node(leader).await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_transaction_that_was_sent_as_a_whole_is_not_said_to_have_been_rolled_back() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut wire = cluster.connect(follower).await;
        wire.rows("create table t (id int primary key)").await;
        // It may come to the messages, or not.
        cluster.signal(leader, Signal::STOP);
        let texts = ["begin", "insert into t values (1)", "commit"];
        wire.send(&texts.map(query).concat()).await;
        let mut answers = Vec::new();
        for _ in texts {
            answers.extend(wire.until('Z').await);
        }
        // The block may have begun on the follower, which knows by then who has logged in.
        let told = told(&answers);
        assert!(["EZEZEZ", "CZEZEZ"].contains(&&*told), "{told}");
        let errors = answers.iter().filter(|answer| answer.kind == 'E');
        assert!(errors.clone().all(|error| error.sqlstate() == "40003"));
        cluster.kill(leader).await;
        wire.rows("insert into t values (2)").await;
    });
}

#[test]
fn every_request_to_a_leader_that_is_paused_is_answered() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut wire = cluster.connect(leader).await;
        wire.rows("create table t (id int primary key)").await;
        let run = |text: &str| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
        let insert = |id: u32| run(&format!("insert into t values ({id})"));
        let sync_after = |id: u32| [insert(id), sync()].concat();
        let rest = |data: &[u8]| [message(b'd', data), message(b'c', b"")].concat();
        // What is sent and answered before the pause, what is sent to the paused leader, and
        // the number of Query and Sync messages.
        let requests = [
            (Vec::new(), query("insert into t values (1)"), 1),
            (Vec::new(), sync_after(2), 1),
            (
                Vec::new(),
                [sync_after(3), sync_after(4), sync_after(5)].concat(),
                3,
            ),
            ([insert(6), flush()].concat(), sync(), 1),
            (query("copy t from stdin"), rest(b"7\n"), 1),
            (
                [run("copy t from stdin"), flush()].concat(),
                [rest(b"8\n"), sync()].concat(),
                1,
            ),
        ];
        let mut wires = Vec::new();
        for (before, _, _) in &requests {
            let mut wire = cluster.connect(leader).await;
            if !before.is_empty() {
                wire.send(before).await;
                while !matches!(wire.receive().await.unwrap().kind, 'C' | 'G') {}
            }
            wires.push(wire);
        }
        cluster.signal(leader, Signal::STOP);
        for (wire, (_, rest, _)) in wires.iter_mut().zip(&requests) {
            wire.send(rest).await;
        }
        let leads = |health: String| health.contains("\"role\":\"leader\"");
        while !leads(cluster.health(one).await) && !leads(cluster.health(other).await) {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        cluster.signal(leader, Signal::CONT);
        for (wire, (_, _, cycles)) in wires.iter_mut().zip(&requests) {
            for _ in 0..*cycles {
                let answers = wire.until('Z').await;
                // What the session takes only on the next leader succeeds there.
                if told(&answers).contains('E') {
                    let state = error(&answers).sqlstate();
                    assert!(["40001", "40003"].contains(&state), "{answers:?}");
                }
            }
            // The connection goes on, and nothing is left over.
            assert_eq!(told(&wire.query("select 1").await), "TDCZ");
        }
    });
}

/// A session that makes a table with these rows, and holds them.
async fn holder(cluster: &Cluster, node: usize, rows: &str) -> Wire {
    let mut holder = cluster.connect(node).await;
    holder
        .rows("create table t (id int primary key, n int)")
        .await;
    holder.rows(&format!("insert into t values {rows}")).await;
    holder.rows("begin").await;
    holder.rows("update t set n = 1").await;
    holder
}

#[test]
fn a_follower_that_stops_lets_running_statements_finish() {
    in_runtime(async {
        let grace = ["--stop-grace-milliseconds", "60000"];
        let mut cluster = Cluster::start_with(false, &grace).await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut holder = holder(&cluster, leader, "(1, 0), (2, 0)").await;
        let mut waiting = cluster.connect(follower).await;
        waiting
            .send(&query("update t set n = n + 1 where id = 1"))
            .await;
        let mut copying = cluster.connect(follower).await;
        copying.send(&query("copy t from stdin")).await;
        copying.until('G').await;
        // The statement has begun once it waits.
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        while holder.value(waits).await.as_deref() != Some("1") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        // It hears of the end when the others have.
        let mut idle = cluster.connect(follower).await;
        cluster.signal(follower, Signal::TERM);
        let said = idle.until_closed().await;
        assert_eq!(error(&said).sqlstate(), "57P01");
        // A request from now on is not begun.
        waiting.send(&query("update t set n = 100")).await;
        holder.rows("commit").await;
        let said = waiting.until_closed().await;
        assert_eq!(told(&said), "CZE", "{said:?}");
        assert_eq!(error(&said).sqlstate(), "57P01");
        copying
            .send(&coeval_testkit::wire::message(b'd', b"3\t0\n"))
            .await;
        copying
            .send(&coeval_testkit::wire::message(b'c', b""))
            .await;
        let said = copying.until_closed().await;
        assert_eq!(told(&said), "CZE", "{said:?}");
        assert!(cluster.ended(follower).await);
        let sum = holder.value("select sum(n) from t").await;
        assert_eq!(sum.as_deref(), Some("3"));
    });
}

#[test]
fn what_was_committed_within_a_query_is_not_said_to_be_rolled_back_once_some_of_it_is_told() {
    in_runtime(async {
        let cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let _holder = holder(&cluster, leader, "(1, 0)").await;
        let mut wire = cluster.connect(leader).await;
        // So many rows that some leave before the statement behind them has its lock.
        let text = "begin; insert into t values (2, 2); commit; \
                    select repeat('x', 1000) from generate_series(1, 3000); \
                    update t set n = 2 where id = 1";
        wire.send(&query(text)).await;
        let mut answers = wire.until('D').await;
        assert_eq!(told(&answers), "CCCTD");
        let mut other = cluster.connect(follower).await;
        other.rows("set coeval.read_from = leader").await;
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        let transfer = format!("select coeval.cluster_transfer({})", follower + 1);
        let moving = async {
            while other.value(waits).await.as_deref() != Some("1") {
                coeval_env::sleep(Duration::from_millis(20)).await;
            }
            other.query(&transfer).await;
        };
        let (rest, ()) = tokio::join!(wire.until('Z'), moving);
        answers.extend(rest);
        assert_eq!(error(&answers).sqlstate(), "40003");
        let there = wire.value("select n from t where id = 2").await;
        assert_eq!(there.as_deref(), Some("2"));
    });
}
