//! Logins in a cluster: the node that a client is connected to lets it in, by its own access
//! file and limits, by roles and passwords of the newest state, and without a leader by those
//! that it has.

use std::time::Duration;

use coeval_testkit::scram::{log_in, log_in_with};
use coeval_testkit::wire::{Answer, Wire, error, kinds, query, start};
use rustix::process::Signal;

use crate::cluster::{Cluster, ID, others};
use crate::process::in_runtime;

/// The SQLSTATE of a refused login; `None` for a session.
fn refusal(answers: &[Answer]) -> Option<String> {
    match answers.last().map(|answer| answer.kind) {
        Some('Z') => None,
        _ => Some(error(answers).sqlstate().to_owned()),
    }
}

/// How a login with this password ends.
async fn with_password(
    cluster: &Cluster,
    node: usize,
    user: &str,
    password: &str,
) -> Option<String> {
    let mut wire = Wire::open(cluster.address(node)).await;
    refusal(&log_in(&mut wire, user, password).await)
}

/// How a login ends that the server asks for no password.
async fn without_password(cluster: &Cluster, node: usize, user: &str) -> Option<String> {
    let mut wire = Wire::open(cluster.address(node)).await;
    wire.send(&start(&[("user", user), ("database", "bank")]))
        .await;
    refusal(&wire.until_ready_or_closed().await)
}

/// A session of this role that reads where its node is, in whatever state that has.
async fn reader(cluster: &Cluster, node: usize, user: &str, password: &str) -> Wire {
    let mut wire = Wire::open(cluster.address(node)).await;
    let parameters = [
        ("user", user),
        ("database", "bank"),
        ("options", "-c coeval.read_from=any"),
    ];
    let answers = log_in_with(&mut wire, &parameters, password).await;
    assert_eq!(refusal(&answers), None);
    wire
}

/// A cluster whose nodes have these access files.
#[expect(clippy::disallowed_methods, reason = "the test writes the files")]
async fn with_files(files: [&str; 3], further: &[&str]) -> Cluster {
    let mut cluster = Cluster::prepare(ID);
    for (node, text) in files.iter().enumerate() {
        let file = cluster.directory().join(format!("hba-{node}"));
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        cluster.set_further(&[&["--hba-file", &file], further].concat());
        cluster.start_node(node).await;
    }
    cluster
}

/// The root of all nodes is let in; of the others each node thinks differently.
const FILES: [&str; 3] = [
    "host all coeval 127.0.0.1/32 trust\nhost all bob 127.0.0.1/32 trust\n",
    "host all coeval 127.0.0.1/32 trust\nhost all bob 127.0.0.1/32 scram-sha-256\n",
    "host all coeval 127.0.0.1/32 trust\nhost all bob 127.0.0.1/32 reject\n",
];

#[test]
fn a_node_lets_clients_in_by_its_own_access_file_under_every_leader() {
    in_runtime(async {
        let mut cluster = with_files(FILES, &[]).await;
        let leader = cluster.leader().await;
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        root.rows("create role bob login password 'secret'").await;
        root.rows("create table t (a int primary key)").await;
        root.rows("grant select, insert on t to bob").await;
        let mut sessions = Vec::new();
        for next in 0..3 {
            if cluster.leader().await != next {
                let text = format!("select coeval.cluster_transfer({})", next + 1);
                root.query(&text).await;
            }
            assert_eq!(cluster.leader().await, next);
            assert_eq!(without_password(&cluster, 0, "bob").await, None);
            let wrong = with_password(&cluster, 1, "bob", "wrong").await;
            assert_eq!(wrong.as_deref(), Some("28P01"), "leader {next}");
            let unknown = without_password(&cluster, 1, "absent").await;
            assert_eq!(unknown.as_deref(), Some("28000"), "no rule for it");
            let rejected = without_password(&cluster, 2, "bob").await;
            assert_eq!(rejected.as_deref(), Some("28000"), "leader {next}");
            // What this node lets in works on the leader, and stays as leaders change.
            let mut wire = Wire::open(cluster.address(1)).await;
            let let_in = log_in(&mut wire, "bob", "secret").await;
            assert_eq!(refusal(&let_in), None, "leader {next}");
            sessions.push(wire);
            for (number, wire) in sessions.iter_mut().enumerate() {
                let key = 10 * next + number;
                let insert = format!("insert into t values ({key})");
                assert_eq!(kinds(&wire.query(&insert).await).replace('S', ""), "CZ");
                let user = wire.value("select current_user::text").await;
                assert_eq!(user.as_deref(), Some("bob"));
                for refused in [
                    "create role eve",
                    "alter role bob superuser",
                    "set session authorization coeval",
                    "set role coeval",
                    "select coeval.cluster_transfer(1)",
                    "delete from t",
                ] {
                    let answers = wire.query(refused).await;
                    assert_eq!(error(&answers).sqlstate(), "42501", "{refused}");
                }
            }
        }
        // Each login is in the log of the node that has decided it, and in no other.
        for node in 0..3 {
            let log = cluster.killed(node).await;
            let of_bob = |words: &str| {
                let lines = log.lines().filter(|line| {
                    line.contains("\"target\":\"audit\"")
                        && line.contains("\"login\"")
                        && line.contains("bob")
                        && line.contains(words)
                });
                lines.count()
            };
            let expected = match node {
                0 => [3, 0, 0, 0],
                1 => [0, 3, 3, 0],
                _ => [0, 0, 0, 3],
            };
            let found = ["trust", "scram-sha-256", "28P01", "28000"].map(of_bob);
            assert_eq!(found, expected, "node {node}");
        }
    });
}

/// Whether the clients of this node are let in by the access file of that one.
async fn is_let_in_by(cluster: &Cluster, node: usize, file: usize) -> bool {
    match file {
        0 => without_password(cluster, node, "bob").await.is_none(),
        1 => {
            let mut wire = Wire::open(cluster.address(node)).await;
            wire.send(&start(&[("user", "bob")])).await;
            // A request for SASL.
            let answer = wire.receive().await.unwrap();
            answer.kind == 'R' && answer.contents[..4] == [0, 0, 0, 10]
        }
        _ => without_password(cluster, node, "bob").await.as_deref() == Some("28000"),
    }
}

#[test]
fn below_cluster_version_4_the_file_of_the_leader_decides() {
    in_runtime(async {
        let mut cluster = with_files(FILES, &["--cluster-version-limit", "3"]).await;
        let version = "select cluster_version from coeval.cluster_status";
        while cluster.leader().await != 1 {
            let mut root = Wire::connect_as(cluster.address(0), "coeval").await;
            root.query("select coeval.cluster_transfer(2)").await;
        }
        let mut root = Wire::connect_as(cluster.address(1), "coeval").await;
        root.rows("create role bob login password 'secret'").await;
        root.rows("create table t (a int primary key)").await;
        for node in 0..3 {
            assert!(is_let_in_by(&cluster, node, 1).await, "node {node}");
        }
        assert_eq!(root.value(version).await.as_deref(), Some("3"));

        // The nodes that lead no more do no longer hold the version back.
        for node in [0, 2] {
            cluster.kill(node).await;
            let file = cluster.directory().join(format!("hba-{node}"));
            cluster.set_further(&["--hba-file", &file.display().to_string()]);
            cluster.start_node(node).await;
        }
        let mut before = Wire::connect_as(cluster.address(0), "coeval").await;
        before.rows("set application_name = 'before'").await;
        assert!(is_let_in_by(&cluster, 2, 1).await);
        assert_eq!(before.value(version).await.as_deref(), Some("3"));
        cluster.kill(1).await;
        let file = cluster.directory().join("hba-1");
        cluster.set_further(&["--hba-file", &file.display().to_string()]);
        cluster.start_node(1).await;
        reaches_version(&mut before, 4).await;
        for node in 0..3 {
            assert!(is_let_in_by(&cluster, node, node).await, "node {node}");
        }
        // A session that the leader had let in goes on, at the next leader, too.
        let leader = cluster.leader().await;
        if leader != 0 {
            cluster.kill(leader).await;
        }
        before.rows("insert into t values (1)").await;
        let name = before.value("show application_name").await;
        assert_eq!(name.as_deref(), Some("before"));
    });
}

#[test]
fn a_changed_password_holds_for_the_next_login_on_every_node() {
    const CHANGES: usize = 100;
    in_runtime(async {
        let cluster = with_files([FILES[1]; 3], &[]).await;
        cluster.leader().await;
        let mut roots = Vec::new();
        for node in 0..3 {
            roots.push(Wire::connect_as(cluster.address(node), "coeval").await);
        }
        roots[0].rows("create role bob login password 'p0'").await;
        for change in 1..=CHANGES {
            let (by, at) = (change % 3, (change + 1 + change / 3 % 2) % 3);
            let text = format!("alter role bob password 'p{change}'");
            roots[by].rows(&text).await;
            let now = with_password(&cluster, at, "bob", &format!("p{change}")).await;
            assert_eq!(now, None, "change {change}");
            let before = with_password(&cluster, at, "bob", &format!("p{}", change - 1)).await;
            assert_eq!(before.as_deref(), Some("28P01"), "change {change}");
        }
        for round in 0..10 {
            let (by, at) = (round % 3, (round + 1) % 3);
            let password = format!("p{CHANGES}");
            roots[by].rows("alter role bob nologin").await;
            let refused = with_password(&cluster, at, "bob", &password).await;
            assert_eq!(refused.as_deref(), Some("28000"), "round {round}");
            roots[by].rows("alter role bob login").await;
            assert_eq!(with_password(&cluster, at, "bob", &password).await, None);
            roots[by].rows("drop role bob").await;
            let gone = with_password(&cluster, at, "bob", &password).await;
            assert_eq!(gone.as_deref(), Some("28P01"), "as any unknown user");
            let text = format!("create role bob login password '{password}'");
            roots[by].rows(&text).await;
            assert_eq!(with_password(&cluster, at, "bob", &password).await, None);
        }
    });
}

#[test]
fn without_a_majority_a_client_logs_in_and_reads() {
    in_runtime(async {
        let further = ["--cluster-wait-milliseconds", "1500"];
        let mut cluster = with_files([FILES[1]; 3], &further).await;
        let leader = cluster.leader().await;
        let (survivor, other) = others(leader);
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        root.rows("create role bob login password 'secret'").await;
        root.rows("create table t (a int primary key)").await;
        root.rows("grant select, insert on t to bob").await;
        root.rows("insert into t values (7)").await;
        // The survivor shows all that.
        let mut early = reader(&cluster, survivor, "bob", "secret").await;
        let commit = root.value("select coeval.last_commit()").await.unwrap();
        early
            .rows(&format!("select coeval.wait_for('{commit}')"))
            .await;
        cluster.kill(leader).await;
        cluster.kill(other).await;

        let read = "select a from t";
        let mut late = reader(&cluster, survivor, "bob", "secret").await;
        for wire in [&mut early, &mut late] {
            assert_eq!(wire.value(read).await.as_deref(), Some("7"));
            // What needs a leader waits for one, and the session stays.
            let answers = wire.query("insert into t values (8)").await;
            assert_eq!(error(&answers).sqlstate(), "57P03");
            assert_eq!(wire.value(read).await.as_deref(), Some("7"));
        }
        let wrong = with_password(&cluster, survivor, "bob", "wrong").await;
        assert_eq!(wrong.as_deref(), Some("28P01"));
        let mut trusted = Wire::connect_as(cluster.address(survivor), "coeval").await;

        // The others change the password while the survivor hears nothing.
        cluster.signal(survivor, Signal::STOP);
        cluster.set_further(&[&["--hba-file", &file(&cluster)], &further[..]].concat());
        cluster.start_node(leader).await;
        cluster.start_node(other).await;
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        root.rows("alter role bob password 'changed'").await;
        cluster.signal(survivor, Signal::CONT);
        // Who was let in by the old one is not let on; who had been before, is.
        let last = coeval_env::timeout(Duration::from_secs(60), late.until_closed()).await;
        let last = last.expect("the session ends");
        assert_eq!(error(&last).sqlstate(), "28P01");
        for (number, wire) in [&mut early, &mut trusted].into_iter().enumerate() {
            let insert = format!("insert into t values ({})", 10 + number);
            let mut tries = 0..100;
            loop {
                let answers = wire.query(&insert).await;
                if kinds(&answers).contains('C') {
                    break;
                }
                assert_eq!(error(&answers).sqlstate(), "57P03");
                assert!(tries.next().is_some(), "no leader");
            }
        }
        let old = with_password(&cluster, survivor, "bob", "secret").await;
        assert_eq!(old.as_deref(), Some("28P01"));
        assert_eq!(
            with_password(&cluster, survivor, "bob", "changed").await,
            None
        );
        let log = cluster.killed(survivor).await;
        let said = log
            .lines()
            .filter(|line| line.contains("no leader answered: by the newest state"));
        assert_eq!(said.count(), 3, "late, wrong and trusted");
    });
}

/// The access file of the first node.
fn file(cluster: &Cluster) -> String {
    cluster.directory().join("hba-0").display().to_string()
}

/// A session of bob's that begins on the leader, or the SQLSTATE of the refusal.
async fn at_the_leader(cluster: &Cluster, node: usize) -> Result<Wire, String> {
    let mut wire = Wire::open(cluster.address(node)).await;
    let parameters = [("user", "bob"), ("options", "-c coeval.read_from=leader")];
    wire.send(&start(&parameters)).await;
    match refusal(&wire.until_ready_or_closed().await) {
        None => Ok(wire),
        Some(state) => Err(state),
    }
}

#[test]
fn limits_hold_on_the_clients_node_and_on_the_leader() {
    in_runtime(async {
        let further = [
            "--max-connections",
            "6",
            "--superuser-reserved-connections",
            "2",
        ];
        let cluster = with_files([FILES[0]; 3], &further).await;
        let leader = cluster.leader().await;
        let (one, two) = others(leader);
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        root.rows("create role bob login connection limit 1").await;
        root.rows("create table t (a int primary key)").await;
        root.rows("grant select, insert on t to bob").await;
        // Sessions that run on the leader are counted there, wherever they come from.
        let first = at_the_leader(&cluster, one).await.unwrap();
        for node in 0..3 {
            let refused = at_the_leader(&cluster, node).await.err();
            assert_eq!(refused.as_deref(), Some("53300"), "node {node}");
        }
        drop(first);
        let open = async |node: usize| loop {
            let mut wire = Wire::open(cluster.address(node)).await;
            let parameters = [("user", "bob"), ("options", "-c coeval.read_from=any")];
            wire.send(&start(&parameters)).await;
            match refusal(&wire.until_ready_or_closed().await).as_deref() {
                None => return wire,
                Some(state) => assert_eq!(state, "53300"),
            }
            coeval_env::sleep(Duration::from_millis(20)).await;
        };
        // Those that read where they are, on each node apart; the leader gets one.
        let mut readers = [open(one).await, open(two).await];
        for wire in &mut readers {
            wire.rows("select a from t").await;
        }
        assert_eq!(
            without_password(&cluster, one, "bob").await.as_deref(),
            Some("53300")
        );
        let [mut has_place, mut has_none] = readers;
        has_place.rows("insert into t values (1)").await;
        for _ in 0..3 {
            let refused = has_none.query("insert into t values (2)").await;
            assert_eq!(kinds(&refused), "EZ");
            assert_eq!(error(&refused).sqlstate(), "53300");
            has_none.rows("select a from t").await;
        }
        has_place.rows("insert into t values (3)").await;
        drop(has_place);
        while !kinds(&has_none.query("insert into t values (2)").await).ends_with("CZ") {
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        drop(has_none);

        // The places of a node, of which superusers have some for themselves.
        root.rows("alter role bob connection limit -1").await;
        let mut all = Vec::new();
        let full = loop {
            let mut wire = Wire::open(cluster.address(one)).await;
            let parameters = [("user", "bob"), ("options", "-c coeval.read_from=any")];
            wire.send(&start(&parameters)).await;
            let answers = wire.until_ready_or_closed().await;
            match refusal(&answers) {
                None => all.push(wire),
                Some(state) => break state,
            }
            assert!(all.len() < 6);
        };
        assert_eq!((all.len(), &*full), (4, "53300"));
        assert_eq!(without_password(&cluster, two, "bob").await, None);
        let mut root = Wire::open(cluster.address(one)).await;
        let parameters = [("user", "coeval"), ("options", "-c coeval.read_from=any")];
        root.send(&start(&parameters)).await;
        assert_eq!(refusal(&root.until_ready_or_closed().await), None);
    });
}

#[test]
fn a_membership_that_is_revoked_holds_for_the_next_login_and_the_next_fresh_read() {
    const ROUNDS: usize = 30;
    in_runtime(async {
        let by_group = "host all coeval 127.0.0.1/32 trust\nhost all +readers 127.0.0.1/32 trust\n";
        let cluster = with_files([by_group; 3], &[]).await;
        let leader = cluster.leader().await;
        let (one, two) = others(leader);
        let mut root = Wire::connect_as(cluster.address(one), "coeval").await;
        root.rows("create role readers").await;
        root.rows("create role bob login in role readers").await;
        root.rows("create table t (a int primary key)").await;
        root.rows("grant select on t to readers").await;
        let mut bob = Wire::open(cluster.address(two)).await;
        let parameters = [("user", "bob"), ("options", "-c coeval.read_from=fresh")];
        bob.send(&start(&parameters)).await;
        assert_eq!(refusal(&bob.until_ready_or_closed().await), None);
        for round in 0..ROUNDS {
            bob.rows("select a from t").await;
            assert_eq!(without_password(&cluster, two, "bob").await, None);
            root.rows("revoke readers from bob").await;
            let answers = bob.query("select a from t").await;
            assert_eq!(error(&answers).sqlstate(), "42501", "round {round}");
            let refused = without_password(&cluster, two, "bob").await;
            assert_eq!(refused.as_deref(), Some("28000"), "round {round}");
            root.rows("grant readers to bob").await;
        }
        let metrics = coeval_testkit::http::metrics(cluster.admin(two)).await;
        let local = metrics
            .iter()
            .filter(|(name, _)| name.starts_with("coeval_reads_total{route=\"local\""));
        let local: f64 = local.map(|(_, value)| value).sum();
        assert!(local >= ROUNDS as f64, "{local} reads on the node itself");
    });
}

#[test]
fn a_session_waits_on_its_node_for_what_another_has_committed_on_another_node() {
    const PAIRS: u32 = 300;
    in_runtime(async {
        let mut cluster = with_files([FILES[0]; 3], &[]).await;
        let leader = cluster.leader().await;
        let (one, two) = others(leader);
        let mut writer = Wire::connect_as(cluster.address(one), "coeval").await;
        writer
            .rows("create table t (a int primary key, n int)")
            .await;
        writer.rows("insert into t values (1, 0)").await;
        let open = async |node: usize| {
            let mut wire = Wire::open(cluster.address(node)).await;
            let parameters = [("user", "coeval"), ("options", "-c coeval.read_from=any")];
            wire.send(&start(&parameters)).await;
            assert_eq!(refusal(&wire.until_ready_or_closed().await), None);
            wire
        };
        let mut reader = open(two).await;
        for pair in 1..=PAIRS {
            writer.rows(&format!("update t set n = {pair}")).await;
            let commit = writer.value("select coeval.last_commit()").await.unwrap();
            let wait = format!("select coeval.wait_for('{commit}', '30s')");
            assert_eq!(reader.value(&wait).await.as_deref(), Some("t"));
            let read = reader.value("select n from t where a = 1").await;
            assert_eq!(read, Some(pair.to_string()));
        }
        let commit = writer.value("select coeval.last_commit()").await.unwrap();
        // The writer's session goes on elsewhere, and knows its commit still.
        cluster.kill(leader).await;
        assert_eq!(
            writer.value("select coeval.last_commit()").await,
            Some(commit)
        );
        writer.rows("update t set n = -1").await;
        let commit = writer.value("select coeval.last_commit()").await.unwrap();
        reader
            .rows(&format!("select coeval.wait_for('{commit}')"))
            .await;
        let read = reader.value("select n from t where a = 1").await;
        assert_eq!(read.as_deref(), Some("-1"));
        // One that nothing makes is not there in time.
        let (term, _) = commit.split_once('/').unwrap();
        let never = format!(
            "select coeval.wait_for('{}/9000000000000', '100ms')",
            term.parse::<u32>().unwrap() + 9
        );
        let answers = reader.query(&never).await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        assert_eq!(reader.value("select 1").await.as_deref(), Some("1"));
    });
}

/// The value of a setting.
async fn shown(wire: &mut Wire, name: &str) -> String {
    let value = wire.value(&format!("show {name}")).await;
    value.expect("every setting has a value")
}

/// The value of a setting, as the node says it that the client is connected to.
async fn shown_here(wire: &mut Wire, name: &str) -> String {
    wire.rows("begin read only").await;
    let value = shown(wire, name).await;
    wire.rows("commit").await;
    value
}

/// A session of bob's, with these settings in its connection string, and what it was told.
async fn bob(cluster: &Cluster, node: usize, options: &str) -> (Wire, Vec<Answer>) {
    let mut wire = Wire::open(cluster.address(node)).await;
    let parameters = [("user", "bob"), ("database", "bank"), ("options", options)];
    wire.send(&start(&parameters)).await;
    let answers = wire.until_ready_or_closed().await;
    assert_eq!(refusal(&answers), None);
    (wire, answers)
}

/// Waits until the cluster version is this one or a later one.
async fn reaches_version(wire: &mut Wire, version: u32) {
    let asked = format!("select cluster_version >= {version} from coeval.cluster_status");
    while wire.value(&asked).await.as_deref() != Some("t") {
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn settings_of_a_role_hold_for_the_next_login_on_every_node() {
    in_runtime(async {
        let further = ["--cluster-wait-milliseconds", "1500"];
        let mut cluster = with_files([FILES[0]; 3], &further).await;
        let leader = cluster.leader().await;
        let mut roots = Vec::new();
        for node in 0..3 {
            roots.push(Wire::connect_as(cluster.address(node), "coeval").await);
        }
        reaches_version(&mut roots[leader], 5).await;
        roots[0].rows("create role bob login").await;
        roots[0].rows("create table t (a int primary key)").await;
        roots[0].rows("grant select, insert on t to bob").await;
        // One node is told, and the next login on any has it: with reads there, and on the
        // leader.
        for round in 1..=12 {
            let (by, at) = (round % 3, (round + 1 + round / 3 % 2) % 3);
            let text = format!("alter role bob set lock_timeout = '{round}s'");
            roots[by].rows(&text).await;
            for from in ["any", "fresh", "leader"] {
                let options = format!("-c coeval.read_from={from}");
                let (mut wire, _) = bob(&cluster, at, &options).await;
                let expected = format!("{round}s");
                assert_eq!(
                    shown_here(&mut wire, "lock_timeout").await,
                    expected,
                    "{from}"
                );
                assert_eq!(shown(&mut wire, "lock_timeout").await, expected, "{from}");
                wire.rows("set lock_timeout = 0; reset lock_timeout").await;
                assert_eq!(shown(&mut wire, "lock_timeout").await, expected, "{from}");
            }
        }
        // Where the role reads is a setting of the role.
        let (one, two) = others(leader);
        roots[one]
            .rows("alter role bob set coeval.read_from = any")
            .await;
        roots[one].rows("alter role bob set my.own = 'kept'").await;
        roots[one]
            .rows("alter database bank set timezone = 'Asia/Tokyo'")
            .await;
        let (mut reader, told) = bob(&cluster, two, "").await;
        let zone = told.iter().any(|answer| {
            answer.kind == 'S' && String::from_utf8_lossy(&answer.contents).contains("Asia/Tokyo")
        });
        assert!(zone, "the client is told of its time zone");
        let (mut writer, _) = bob(&cluster, one, "").await;
        let here = format!(
            "Runs on: node {}, which follows (coeval.read_from = any)",
            two + 1
        );
        // A busy node may leave a read to the leader: one of many runs here.
        let mut tries = 0..100;
        loop {
            let plan = reader.rows("explain select a from t").await;
            if plan.iter().any(|row| row[0].as_ref() == Some(&here)) {
                break;
            }
            assert!(tries.next().is_some(), "{plan:?}");
        }
        // A session keeps what it began with, wherever it moves.
        roots[one]
            .rows("alter role bob set lock_timeout = '99s'")
            .await;
        roots[one].rows("alter role bob reset my.own").await;
        writer.rows("insert into t values (1)").await;
        let (mut at_leader, _) = bob(&cluster, leader, "").await;
        assert_eq!(shown(&mut at_leader, "lock_timeout").await, "99s");
        roots[one]
            .rows("alter role bob set lock_timeout = '100s'")
            .await;
        roots[one]
            .query(&format!("select coeval.cluster_transfer({})", one + 1))
            .await;
        assert_eq!(cluster.leader().await, one);
        for (number, wire, value) in [
            (2, &mut writer, "12s"),
            (3, &mut reader, "12s"),
            (4, &mut at_leader, "99s"),
        ] {
            wire.rows(&format!("insert into t values ({number})")).await;
            assert_eq!(shown(wire, "lock_timeout").await, value, "{number}");
            wire.rows("set lock_timeout = 0; reset lock_timeout").await;
            assert_eq!(shown(wire, "lock_timeout").await, value, "{number}");
        }
        assert_eq!(shown(&mut writer, "my.own").await, "kept");
        // Without a majority as well: the survivor shows all that.
        let commit = roots[one]
            .value("select coeval.last_commit()")
            .await
            .unwrap();
        reader
            .rows(&format!("select coeval.wait_for('{commit}')"))
            .await;
        cluster.kill(one).await;
        cluster.kill(leader).await;
        let (mut late, _) = bob(&cluster, two, "").await;
        assert_eq!(
            late.value("select count(*) from t").await.as_deref(),
            Some("4")
        );
        assert_eq!(shown_here(&mut late, "lock_timeout").await, "100s");
        assert_eq!(shown_here(&mut late, "timezone").await, "Asia/Tokyo");
        assert_eq!(shown_here(&mut reader, "lock_timeout").await, "12s");
    });
}

#[test]
fn settings_of_a_role_wait_for_the_cluster_version_that_reads_them() {
    in_runtime(async {
        let limited = ["--cluster-version-limit", "4"];
        let mut cluster = with_files([FILES[0]; 3], &limited).await;
        let leader = cluster.leader().await;
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        reaches_version(&mut root, 4).await;
        root.rows("create role bob login").await;
        for refused in [
            "alter role bob set lock_timeout = '1s'",
            "alter database bank set lock_timeout = '1s'",
        ] {
            let answers = root.query(refused).await;
            assert_eq!(error(&answers).sqlstate(), "0A000", "{refused}");
            let hint = error(&answers).field(b'H').unwrap_or_default();
            assert!(hint.contains("cluster version 5"), "{hint}");
        }
        // There is nothing to reset.
        root.rows("alter role bob reset lock_timeout").await;
        root.rows("alter role bob reset all").await;
        let nothing = root.value("select count(*) from pg_db_role_setting").await;
        assert_eq!(nothing.as_deref(), Some("0"));
        for node in 0..3 {
            cluster.kill(node).await;
            let file = cluster.directory().join(format!("hba-{node}"));
            cluster.set_further(&["--hba-file", &file.display().to_string()]);
            cluster.start_node(node).await;
        }
        let leader = cluster.leader().await;
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        reaches_version(&mut root, 5).await;
        root.rows("alter role bob set lock_timeout = '1s'").await;
        for node in 0..3 {
            let (mut wire, _) = bob(&cluster, node, "").await;
            assert_eq!(shown(&mut wire, "lock_timeout").await, "1s", "node {node}");
        }
    });
}

#[test]
fn a_session_that_only_its_node_knows_is_interrupted_from_the_others() {
    in_runtime(async {
        let cluster = with_files([FILES[0]; 3], &[]).await;
        let leader = cluster.leader().await;
        let (one, two) = others(leader);
        let mut root = Wire::connect_as(cluster.address(leader), "coeval").await;
        reaches_version(&mut root, 5).await;
        root.rows("create role bob login").await;
        let lazy = async || {
            let mut wire = Wire::open(cluster.address(one)).await;
            let parameters = [("user", "bob"), ("options", "-c coeval.read_from=any")];
            wire.send(&start(&parameters)).await;
            let answers = wire.until('Z').await;
            let key = answers.iter().find(|answer| answer.kind == 'K').unwrap();
            let number = i32::from_be_bytes(key.contents[..4].try_into().unwrap());
            (wire, number)
        };
        let mut other = Wire::connect_as(cluster.address(two), "coeval").await;
        for caller in [&mut root, &mut other] {
            let (mut wire, number) = lazy().await;
            let cancel = format!("select pg_cancel_backend({number})");
            wire.send(&query(
                "select count(*) from generate_series(1, 1000000000)",
            ))
            .await;
            let mut waiting = Box::pin(wire.until('Z'));
            // Until it has come to the session, and has run.
            let answers = loop {
                assert_eq!(caller.value(&cancel).await.as_deref(), Some("t"));
                let answered = coeval_env::timeout(Duration::from_millis(200), &mut waiting);
                if let Ok(answers) = answered.await {
                    break answers;
                }
            };
            drop(waiting);
            assert_eq!(error(&answers).sqlstate(), "57014");
            // A node that does not answer is not taken for one without the session.
            cluster.signal(one, Signal::STOP);
            let refused = caller.query(&cancel).await;
            let state = error(&refused).sqlstate().to_owned();
            // The session of another node is not asked for.
            let absent = caller.value("select pg_cancel_backend(1)").await;
            cluster.signal(one, Signal::CONT);
            assert_eq!((&*state, absent.as_deref()), ("57P03", Some("f")));
            let end = format!("select pg_terminate_backend({number})");
            loop {
                let answers = caller.query(&end).await;
                if !kinds(&answers).contains('E') {
                    break;
                }
                assert_eq!(error(&answers).sqlstate(), "57P03");
            }
            let answers = wire.until_closed().await;
            let last = answers.iter().rfind(|answer| answer.kind == 'E').unwrap();
            assert_eq!(last.sqlstate(), "57P01");
        }
    });
}
