//! Reads that a follower executes for its own clients: never stale, without the leader's
//! executor, and on while leaders change.

use coeval_testkit::wire::Wire;
use rustix::process::Signal;

use crate::cluster::{Cluster, others};
use crate::process::in_runtime;

/// The sum of the metrics of a node whose names begin so.
async fn sum(cluster: &Cluster, node: usize, beginning: &str) -> f64 {
    let metrics = coeval_testkit::http::metrics(cluster.admin(node)).await;
    let named = metrics
        .iter()
        .filter(|(name, _)| name.starts_with(beginning));
    named.map(|(_, value)| value).sum()
}

const LOCAL: &str = "coeval_reads_total{route=\"local\"";
const LAG: &str = "coeval_visibility_lag_seconds";
const SELECTS: &str = "coeval_statement_duration_seconds_count{kind=\"select\"}";

/// Waits until reads run on this node, for a client that wants them to.
async fn reads_locally(cluster: &Cluster, node: usize, wire: &mut Wire) {
    loop {
        let before = sum(cluster, node, LOCAL).await;
        wire.rows("select 1").await;
        if sum(cluster, node, LOCAL).await > before {
            return;
        }
        coeval_env::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Executes a statement that may be executed again, until it comes to its end under one leader.
/// Returns the first value of its result.
async fn executed(wire: &mut Wire, text: &str) -> Option<String> {
    for _ in 0..100 {
        let answers = wire.query(text).await;
        let Some(lost) = answers.iter().find(|answer| answer.kind == 'E') else {
            let row = answers.iter().find(|answer| answer.kind == 'D');
            return row.and_then(|row| row.values().swap_remove(0));
        };
        assert!(["40001", "40003"].contains(&lost.sqlstate()), "{answers:?}");
    }
    panic!("{text}: leaders are lost again and again")
}

/// Begins a block at the client's node with the snapshot that this statement reads, and returns
/// the first value of its result. A node that is busy may leave a block to the leader.
async fn report(wire: &mut Wire, begin: &str, read: &str) -> Option<String> {
    loop {
        wire.rows(begin).await;
        let value = wire.value(read).await;
        let explained = wire.rows("explain select 1").await;
        let mut lines = explained.into_iter().flatten().flatten();
        if lines.any(|line| line.contains("which follows")) {
            return value;
        }
        wire.rows("rollback").await;
    }
}

async fn reader(cluster: &Cluster, node: usize) -> Wire {
    let mut wire = cluster.connect(node).await;
    wire.rows("set coeval.read_from = fresh").await;
    wire
}

#[test]
fn what_was_written_on_one_node_is_read_on_another() {
    const PAIRS: u32 = 2000;
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut writers = [reader(&cluster, one).await, reader(&cluster, other).await];
        let mut readers = [reader(&cluster, other).await, reader(&cluster, one).await];
        writers[0]
            .rows("create table t (id int primary key, n int)")
            .await;
        writers[0].rows("insert into t values (1, 0)").await;
        for (node, wire) in [(other, &mut readers[0])] {
            reads_locally(&cluster, node, wire).await;
        }
        reads_locally(&cluster, one, &mut readers[1]).await;
        let before = (
            sum(&cluster, leader, SELECTS).await,
            sum(&cluster, one, LOCAL).await + sum(&cluster, other, LOCAL).await,
        );
        let mut stale = 0;
        for pair in 1..=PAIRS {
            let at = (pair % 2) as usize;
            let update = format!("update t set n = {pair} where id = 1");
            assert_eq!(writers[at].rows(&update).await.len(), 0);
            let read = readers[at].value("select n from t where id = 1").await;
            stale += u32::from(read.as_deref() != Some(&*pair.to_string()));
        }
        assert_eq!(stale, 0);
        let after = (
            sum(&cluster, leader, SELECTS).await,
            sum(&cluster, one, LOCAL).await + sum(&cluster, other, LOCAL).await,
        );
        let at_leader = after.0 - before.0;
        let local = after.1 - before.1;
        assert!(
            local >= f64::from(PAIRS) * 0.95,
            "{local} of {PAIRS} reads are local"
        );
        assert!(
            at_leader <= f64::from(PAIRS) - local,
            "{at_leader} reads at the leader"
        );

        // A definition and a REVOKE hold for the next read.
        let mut root = cluster.connect(leader).await;
        root.rows("create role app").await;
        root.rows("grant select on t to app").await;
        readers[0].rows("set role app").await;
        readers[0].rows("select n from t").await;
        for _ in 0..50 {
            root.rows("revoke select on t from app").await;
            let refused = readers[0].query("select n from t").await;
            assert_eq!(coeval_testkit::wire::error(&refused).sqlstate(), "42501");
            root.rows("grant select on t to app").await;
            readers[0].rows("select n from t").await;
        }
        root.rows("alter table t add column late int default 5")
            .await;
        assert_eq!(
            readers[1].value("select late from t").await.as_deref(),
            Some("5")
        );

        // The leader is lost: reads go on, at the next leader or beside it.
        cluster.kill(leader).await;
        for wire in &mut readers {
            let read = executed(wire, "select n from t where id = 1").await;
            assert_eq!(read.as_deref(), Some(&*PAIRS.to_string()));
        }
        let next = cluster.leader().await;
        let node = if next == one { other } else { one };
        let mut wire = reader(&cluster, node).await;
        reads_locally(&cluster, node, &mut wire).await;
        for pair in 1..=100 {
            let at = pair % 2;
            let update = format!("update t set n = {pair} where id = 1");
            executed(&mut writers[at], &update).await;
            let read = executed(&mut wire, "select n from t where id = 1").await;
            assert_eq!(read.as_deref(), Some(&*pair.to_string()));
        }
    });
}

#[test]
fn without_a_majority_any_state_can_be_read() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, other) = others(leader);
        let mut wire = reader(&cluster, follower).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (7)").await;
        reads_locally(&cluster, follower, &mut wire).await;
        assert_eq!(wire.value("select id from t").await.as_deref(), Some("7"));
        wire.rows("set coeval.read_from = any").await;
        assert_eq!(wire.value("select id from t").await.as_deref(), Some("7"));
        // The gauge is of a state that is looked at now and then.
        while sum(&cluster, follower, LAG).await > 0.0 {
            coeval_env::sleep(std::time::Duration::from_millis(50)).await;
        }
        cluster.kill(leader).await;
        cluster.kill(other).await;
        for _ in 0..20 {
            assert_eq!(wire.value("select id from t").await.as_deref(), Some("7"));
            coeval_env::sleep(std::time::Duration::from_millis(100)).await;
        }
        // Nothing is known to be missing, nor that nothing is.
        let mut before = 0.0;
        for _ in 0..3 {
            let lag = loop {
                let lag = sum(&cluster, follower, LAG).await;
                if lag > before {
                    break lag;
                }
                coeval_env::sleep(std::time::Duration::from_millis(50)).await;
            };
            before = lag;
        }
    });
}

#[test]
fn slow_statements_are_logged_where_they_run() {
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (follower, _) = others(leader);
        let mut wire = reader(&cluster, follower).await;
        wire.rows("create table t (id int primary key)").await;
        reads_locally(&cluster, follower, &mut wire).await;
        wire.rows("set log_min_duration_statement = 0").await;
        // A read whose question a busy leader leaves unanswered runs there: one of many runs here.
        let before = sum(&cluster, follower, LOCAL).await;
        for _ in 0..100 {
            wire.rows("select id from t where id = 4711").await;
        }
        assert!(
            sum(&cluster, follower, LOCAL).await > before,
            "none ran here"
        );
        cluster.signal(follower, Signal::TERM);
        let (_, said) = cluster.last_words(follower).await;
        let is_it = |line: &&str| line.contains("slow statement") && line.contains("from t where");
        let logged = said.lines().find(is_it);
        let logged = logged.unwrap_or_else(|| panic!("not in {said}"));
        assert!(!logged.contains("4711"), "{logged}");
    });
}

#[test]
fn blocks_begin_where_their_client_is_and_move_when_they_write() {
    const ROUNDS: u32 = 100;
    const REPORT: &str = "begin isolation level repeatable read read only";
    in_runtime(async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let (one, other) = others(leader);
        let mut clients = [cluster.connect(one).await, cluster.connect(other).await];
        clients[0]
            .rows("create table t (id int primary key, n int)")
            .await;
        clients[0].rows("insert into t values (1, 0)").await;
        for (node, wire) in [one, other].into_iter().zip(&mut clients) {
            reads_locally(&cluster, node, wire).await;
        }
        let before = sum(&cluster, one, LOCAL).await + sum(&cluster, other, LOCAL).await;
        let read = "select n from t where id = 1";
        for round in 0..ROUNDS {
            let wire = &mut clients[(round % 2) as usize];
            wire.rows("begin").await;
            let now = wire.value("select now()").await;
            assert_eq!(wire.value(read).await.as_deref(), Some(&*round.to_string()));
            let update = format!("update t set n = {} where id = 1", round + 1);
            wire.rows(&update).await;
            assert_eq!(wire.value("select now()").await, now);
            wire.rows("commit").await;
        }
        let local = sum(&cluster, one, LOCAL).await + sum(&cluster, other, LOCAL).await - before;
        assert!(
            local >= f64::from(2 * ROUNDS) * 0.95,
            "{local} reads are local"
        );

        // A session that asks for its own commits only reads them without a question.
        const OWN: &str = "coeval_reads_total{route=\"local\",stamp=\"session\"";
        let wire = &mut clients[0];
        wire.rows("set coeval.read_from = session").await;
        wire.rows("update t set n = n").await;
        let before = (
            sum(&cluster, one, OWN).await,
            sum(&cluster, one, LOCAL).await,
        );
        for round in 1..=ROUNDS {
            wire.rows(&format!("update t set n = {round} where id = 1"))
                .await;
            let found = wire.value(read).await;
            assert_eq!(found.as_deref(), Some(&*round.to_string()));
        }
        let own = sum(&cluster, one, OWN).await - before.0;
        assert!(
            own >= f64::from(ROUNDS) * 0.95,
            "{own} reads of own commits are local"
        );
        let local = sum(&cluster, one, LOCAL).await - before.1;
        assert_eq!(local, own, "nothing was asked");
        wire.rows("reset coeval.read_from").await;

        // A report goes on while the leader is lost, and what was committed meanwhile is not
        // in it.
        let shown = Some(ROUNDS.to_string());
        for wire in &mut clients {
            assert_eq!(report(wire, REPORT, read).await, shown);
        }
        let mut writer = cluster.connect(leader).await;
        writer.rows("update t set n = -1 where id = 1").await;
        cluster.kill(leader).await;
        let next = loop {
            for wire in &mut clients {
                let answers = wire.query(read).await;
                let lost = answers.iter().any(|answer| answer.kind == 'E');
                if lost {
                    // That of the node that leads by now ends with its tables.
                    let state = coeval_testkit::wire::error(&answers).sqlstate().to_owned();
                    assert!(["40001", "25P02"].contains(&&*state), "{answers:?}");
                } else {
                    let row = answers.iter().find(|answer| answer.kind == 'D').unwrap();
                    assert_eq!(row.values().swap_remove(0), shown);
                }
            }
            if let Ok(next) =
                coeval_env::timeout(std::time::Duration::from_millis(100), cluster.leader()).await
            {
                break next;
            }
        };
        let stays = usize::from(next == one);
        for _ in 0..20 {
            let answers = clients[stays].query(read).await;
            let Some(row) = answers.iter().find(|answer| answer.kind == 'D') else {
                // On a busy machine there may be one more election, which this node has won.
                assert_eq!(cluster.leader().await, [one, other][stays], "{answers:?}");
                break;
            };
            assert_eq!(row.values().swap_remove(0), shown);
        }
        for wire in &mut clients {
            wire.query("commit").await;
            assert_eq!(executed(wire, read).await.as_deref(), Some("-1"));
        }
    });
}
