//! Sessions that no leader knows: their client's node has let them in, and they have read there
//! only. What others see of them, how they are interrupted, and what happens when the leader has
//! no place for one.

use std::time::Duration;

use coeval_server::RunningServer;
use coeval_testkit::wire::{Answer, Wire, bind, error, execute, kinds, parse, query, start, sync};

use crate::two_nodes;

/// A leader and a follower.
struct Pair {
    leader: RunningServer,
    follower: RunningServer,
}

fn run(test: impl AsyncFnOnce(&Pair)) {
    two_nodes::in_runtime(async {
        let (leader, follower, _directories) = two_nodes::start(|settings| settings).await;
        let pair = Pair { leader, follower };
        let mut wire = Wire::connect(pair.leader.address()).await;
        let raised = "select cluster_version >= 5 from coeval.cluster_status";
        while wire.value(raised).await.as_deref() != Some("t") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        drop(wire);
        test(&pair).await;
        pair.follower.stop().await;
        pair.leader.stop().await;
    });
}

/// A session, and its process id.
struct Lazy {
    wire: Wire,
    process_id: i32,
}

impl Pair {
    /// Opens a session of the follower that no leader knows.
    async fn lazy(&self, user: &str) -> Lazy {
        loop {
            let known = self.leader.sessions();
            let mut wire = Wire::open(self.follower.address()).await;
            let options = ("options", "-c coeval.read_from=any");
            wire.send(&start(&[("user", user), ("database", "bank"), options]))
                .await;
            let answers = wire.until('Z').await;
            let key = answers.iter().find(|answer| answer.kind == 'K').unwrap();
            let process_id = i32::from_be_bytes(key.contents[..4].try_into().unwrap());
            if self.leader.sessions() == known {
                return Lazy { wire, process_id };
            }
            // The follower had no tables to read yet, or another session has ended meanwhile.
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn connect(&self, to_leader: bool, user: &str) -> Wire {
        let server = match to_leader {
            true => &self.leader,
            false => &self.follower,
        };
        Wire::connect_as(server.address(), user).await
    }
}

/// Executes a statement until this is its only row.
async fn until(wire: &mut Wire, text: &str, expected: &str) {
    let expected = vec![vec![Some(expected.to_owned())]];
    while wire.rows(text).await != expected {
        coeval_env::sleep(Duration::from_millis(10)).await;
    }
}

const ENDLESS: &str = "select count(*) from generate_series(1, 1000000000)";

fn severity(answers: &[Answer]) -> (&str, &str) {
    let error = error(answers);
    (error.field(b'V').unwrap(), error.sqlstate())
}

#[test]
fn a_session_that_no_leader_knows_is_canceled_and_ended_from_every_node() {
    run(async |pair| {
        for to_leader in [true, false] {
            let mut caller = pair.connect(to_leader, "ada").await;
            caller.rows("select txid_current()").await;
            let sessions = pair.leader.sessions();
            let Lazy {
                mut wire,
                process_id,
            } = pair.lazy("ada").await;
            let mut watcher = pair.lazy("ada").await.wire;
            let call = |how: &str| format!("select pg_{how}_backend({process_id})");
            // One that is idle, and has not read yet: nothing is canceled.
            assert_eq!(caller.value(&call("cancel")).await.as_deref(), Some("t"));
            assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
            let active = format!(
                "select state from pg_stat_activity where pid = {process_id} and query = '{ENDLESS}'"
            );
            // Whatever statement calls the function.
            caller
                .rows("create table if not exists done (a bool)")
                .await;
            caller.rows("prepare p as select $1::bool").await;
            for call in [
                call("cancel"),
                format!("insert into done select pg_cancel_backend({process_id}) returning a"),
                format!("execute p(pg_cancel_backend({process_id}))"),
                format!("select (select pg_cancel_backend({process_id})) where txid_current() > 0"),
            ] {
                wire.send(&query(ENDLESS)).await;
                until(&mut watcher, &active, "active").await;
                assert_eq!(caller.value(&call).await.as_deref(), Some("t"), "{call}");
                let answers = wire.until('Z').await;
                assert_eq!(severity(&answers), ("ERROR", "57014"), "{call}");
                assert_eq!(wire.value("select 2").await.as_deref(), Some("2"));
            }
            // It ends in the middle of a statement, and at rest.
            for idle in [false, true] {
                let Lazy {
                    mut wire,
                    process_id,
                } = pair.lazy("ada").await;
                if !idle {
                    wire.send(&query(ENDLESS)).await;
                    let active = format!(
                        "select state from pg_stat_activity \
                         where pid = {process_id} and query = '{ENDLESS}'"
                    );
                    until(&mut watcher, &active, "active").await;
                }
                let call = format!("select pg_terminate_backend({process_id})");
                assert_eq!(caller.value(&call).await.as_deref(), Some("t"));
                let answers = wire.until_closed().await;
                assert_eq!(severity(&answers), ("FATAL", "57P01"));
                // It is gone, as are those that have never been.
                until(&mut caller, &call, "f").await;
            }
            for absent in [0, -1, process_id + 100_000, i32::MAX] {
                let call = format!("select pg_cancel_backend({absent})");
                assert_eq!(caller.value(&call).await.as_deref(), Some("f"), "{absent}");
            }
            // No leader has heard of the one that is left.
            let known = pair.leader.sessions();
            assert!(known <= sessions, "{known} of {sessions}");
            assert_eq!(wire.value("select 3").await.as_deref(), Some("3"));
        }
    });
}

#[test]
fn a_session_that_no_leader_knows_is_interrupted_by_those_who_may() {
    run(async |pair| {
        let mut root = pair.connect(true, "ada").await;
        for role in [
            "create role bob login",
            "create role eve login",
            "create role helper login in role bob",
            "create role chief superuser login",
        ] {
            root.rows(role).await;
        }
        for to_leader in [true, false] {
            let mut of_bob = pair.lazy("bob").await;
            let mut of_chief = pair.lazy("chief").await;
            for (caller, target, may) in [
                ("eve", of_bob.process_id, false),
                ("bob", of_bob.process_id, true),
                ("helper", of_bob.process_id, true),
                ("chief", of_bob.process_id, true),
                ("bob", of_chief.process_id, false),
                ("helper", of_chief.process_id, false),
                ("chief", of_chief.process_id, true),
            ] {
                let mut wire = pair.connect(to_leader, caller).await;
                let answers = wire
                    .query(&format!("select pg_cancel_backend({target})"))
                    .await;
                match may {
                    true => assert!(kinds(&answers).ends_with("TDCZ"), "{caller}: {answers:?}"),
                    false => assert_eq!(severity(&answers), ("ERROR", "42501"), "{caller}"),
                }
            }
            let mut eve = pair.connect(to_leader, "eve").await;
            let ends = format!("select pg_terminate_backend({})", of_bob.process_id);
            assert_eq!(error(&eve.query(&ends).await).sqlstate(), "42501");
            for lazy in [&mut of_bob, &mut of_chief] {
                assert_eq!(lazy.wire.value("select 1").await.as_deref(), Some("1"));
            }
            // The state of the leader decides who may.
            root.rows("grant bob to eve").await;
            assert_eq!(eve.value(&ends).await.as_deref(), Some("t"));
            assert_eq!(severity(&of_bob.wire.until_closed().await).1, "57P01");
            root.rows("revoke bob from eve").await;
        }
    });
}

#[test]
fn a_session_that_no_leader_knows_is_listed_on_its_node() {
    run(async |pair| {
        pair.connect(true, "ada")
            .await
            .rows("create role bob login")
            .await;
        let mut watcher = pair.lazy("ada").await.wire;
        let mut of_bob = pair.lazy("bob").await;
        let shown = format!(
            "select usename || ' ' || datname || ' ' || state || ' ' || (client_port is not null) \
             from pg_stat_activity where pid = {}",
            of_bob.process_id
        );
        let listed = vec![vec![Some("bob bank idle true".to_owned())]];
        assert_eq!(watcher.rows(&shown).await, listed);
        // Once, when it has read, and no more when it has ended.
        of_bob.wire.rows("select 1").await;
        // Its answer leaves before it is idle.
        until(&mut watcher, &shown, "bob bank idle true").await;
        drop(of_bob);
        while !watcher.rows(&shown).await.is_empty() {
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_session_that_finds_the_leader_full_stays_and_tries_again() {
    run(async |pair| {
        let mut root = pair.connect(true, "ada").await;
        root.rows("create role bob login connection limit 1").await;
        root.rows("create table t (a int primary key)").await;
        root.rows("insert into t values (1)").await;
        root.rows("grant select, insert on t to bob").await;
        let mut lazy = pair.lazy("bob").await.wire;
        until(&mut lazy, "select count(*) from t", "1").await;
        let first = pair.connect(true, "bob").await;
        let insert = |a: i32| {
            let text = format!("insert into t values ({a})");
            [parse("", &text, &[]), bind("", "", &[]), execute("", 0)].concat()
        };
        let read = query("select a from t");
        for round in 0..3 {
            let refused = lazy.query("insert into t values (2)").await;
            assert_eq!(kinds(&refused), "EZ", "{round}");
            assert_eq!(severity(&refused), ("ERROR", "53300"));
            assert_eq!(
                error(&refused).field(b'M'),
                Some("too many connections for role")
            );
            assert!(
                error(&refused)
                    .field(b'H')
                    .unwrap()
                    .contains("CONNECTION LIMIT")
            );
            assert_eq!(kinds(&lazy.query("select a from t").await), "TDCZ");
            // The cycle fails, and not the next one; in pieces, too.
            let cycles = [
                insert(2),
                insert(3),
                sync(),
                read.clone(),
                insert(2),
                sync(),
            ]
            .concat();
            lazy.send(&cycles).await;
            for expected in ["EZ", "TDCZ", "EZ"] {
                assert_eq!(kinds(&lazy.until('Z').await), expected);
            }
            lazy.send(&insert(2)).await;
            assert_eq!(severity(&lazy.until('E').await), ("ERROR", "53300"));
            lazy.send(&[insert(3), sync(), read.clone()].concat()).await;
            assert_eq!(kinds(&lazy.until('Z').await), "Z");
            assert_eq!(kinds(&lazy.until('Z').await), "TDCZ");
            assert_eq!(kinds(&lazy.ask(&[sync()]).await), "Z");
            // The Sync of the cycle that failed may come alone.
            lazy.send(&insert(2)).await;
            assert_eq!(severity(&lazy.until('E').await), ("ERROR", "53300"));
            assert_eq!(kinds(&lazy.ask(&[sync()]).await), "Z");
            // A block fails where it is.
            for begin in ["begin", "begin read only"] {
                assert_eq!(kinds(&lazy.query(begin).await), "CZ");
                assert_eq!(kinds(&lazy.query("select a from t").await), "TDCZ");
                let needs = "select a from t where txid_current() > 0";
                let refused = lazy.query(needs).await;
                assert_eq!(severity(&refused), ("ERROR", "53300"), "{begin}");
                assert_eq!(refused.last().unwrap().contents, b"E");
                let failed = lazy.query("select a from t").await;
                assert_eq!(error(&failed).sqlstate(), "25P02");
                let ended = lazy.query("rollback").await;
                assert_eq!(ended.last().unwrap().contents, b"I");
                assert_eq!(kinds(&lazy.query("select a from t").await), "TDCZ");
            }
            lazy.query("begin").await;
            lazy.query("select a from t").await;
            lazy.send(&[insert(2), sync(), query("select 1"), query("commit")].concat())
                .await;
            for expected in ["EZ", "EZ", "CZ"] {
                assert_eq!(kinds(&lazy.until('Z').await), expected);
            }
        }
        drop(first);
        // As soon as there is a place, the session is the leader's as well.
        loop {
            let tried = lazy.query("insert into t values (2)").await;
            if kinds(&tried).ends_with("CZ") {
                break;
            }
            assert_eq!(severity(&tried), ("ERROR", "53300"));
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(kinds(&lazy.ask(&[insert(3), sync()]).await), "12CZ");
        assert_eq!(
            root.value("select count(*) from t").await.as_deref(),
            Some("3")
        );
        let refused = Wire::open(pair.leader.address()).await;
        let mut refused = refused;
        refused.send(&start(&[("user", "bob")])).await;
        assert_eq!(severity(&refused.until_closed().await), ("FATAL", "53300"));
    });
}
