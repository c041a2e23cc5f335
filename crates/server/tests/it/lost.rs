//! What was lost with its leader, or with the tables of its node. Of a block's portal the client
//! learns that the transaction is gone, and not that it never had the portal; and what only reads
//! has no unknown outcome.

use std::time::Duration;

use coeval_testkit::wire::{
    Answer, Wire, bind, describe, error, execute, kinds, parse, query, sync,
};

use crate::follower::{Pair, begin_report, run};

/// SQLSTATE of the error, and the transaction status after it.
fn state(answers: &[Answer]) -> (String, char) {
    let ready = answers.iter().rfind(|answer| answer.kind == 'Z').unwrap();
    let state = error(answers).sqlstate().to_owned();
    (state, char::from(ready.contents[0]))
}

/// Leaves a portal suspended in the block that is open.
async fn suspend(wire: &mut Wire) {
    let steps = [
        parse("", "select a from t order by a", &[]),
        bind("c", "", &[]),
        execute("c", 1),
        sync(),
    ];
    assert_eq!(kinds(&wire.ask(&steps).await), "12DsZ");
}

/// The follower becomes the leader.
async fn replace_leader(pair: &Pair) {
    let mut wire = pair.writer().await;
    let leader = wire.value("select leader from coeval.cluster_status").await;
    let next = if leader.as_deref() == Some("1") { 2 } else { 1 };
    let transfer = format!("select coeval.cluster_transfer({next})");
    while !pair.follower.leads() {
        wire.query(&transfer).await;
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_portal_of_a_lost_block_is_a_lost_transaction() {
    let change = |settings| settings;
    run(change, async |pair| {
        let mut root = pair.writer().await;
        root.rows("create table t (a int primary key)").await;
        root.rows("insert into t values (1), (2), (3)").await;
        let mut lost = Vec::new();
        for begin in [
            "begin",
            "begin isolation level repeatable read",
            "begin isolation level serializable read only",
        ] {
            // At the leader, of clients of both nodes.
            for mut wire in [pair.writer().await, pair.reader().await] {
                wire.rows("set coeval.read_from = leader").await;
                wire.rows(begin).await;
                suspend(&mut wire).await;
                lost.push(wire);
            }
        }
        // At home.
        let mut home = pair.reader().await;
        begin_report(&mut home).await;
        suspend(&mut home).await;
        lost.push(home);
        replace_leader(pair).await;
        for (number, wire) in lost.iter_mut().enumerate() {
            let first = match number % 2 {
                0 => execute("c", 1),
                _ => describe(b'P', "c"),
            };
            let answers = wire.ask(&[first, sync()]).await;
            assert_eq!(state(&answers), ("40001".into(), 'E'), "{number}");
            let hint = error(&answers).field(b'H').unwrap_or_default();
            assert!(hint.contains("Run the transaction again"), "{hint}");
            let answers = wire.ask(&[execute("c", 1), sync()]).await;
            assert_eq!(state(&answers), ("25P02".into(), 'E'), "{number}");
            wire.rows("rollback").await;
            // In a block of its own, a portal that is not there is not there.
            wire.rows("begin").await;
            let answers = wire.ask(&[execute("c", 1), sync()]).await;
            assert_eq!(state(&answers), ("34000".into(), 'E'), "{number}");
            wire.rows("rollback").await;
            wire.rows("begin").await;
            suspend(wire).await;
            assert_eq!(
                kinds(&wire.ask(&[execute("c", 0), sync()]).await),
                "DDCZ",
                "{number}"
            );
            wire.rows("commit").await;
        }
    });
}

/// A Query of several statements that is under way when its leader is replaced, whose last one
/// never ends. It has read what another session has committed since its client was answered.
#[test]
fn what_only_reads_has_no_unknown_outcome() {
    const ENDLESS: &str = "select count(*) from generate_series(1, 1000000000)";
    let change = |settings| settings;
    run(change, async |pair| {
        let mut root = pair.writer().await;
        root.rows("create table t (a int primary key)").await;
        let mut asked = Vec::new();
        for (before, expected) in [
            ("select a from t", "40001"),
            ("begin read only; table t; commit", "40001"),
            ("insert into t values (-$); commit", "40003"),
        ] {
            for mut wire in [pair.writer().await, pair.reader().await] {
                let number = asked.len() + 1;
                wire.rows("set coeval.read_from = leader").await;
                root.rows(&format!("insert into t values ({number})")).await;
                let before = before.replace('$', &number.to_string());
                wire.send(&query(&format!("{before}; {ENDLESS}"))).await;
                asked.push((wire, before, expected));
            }
        }
        let active = "select count(*) from pg_stat_activity where state = 'active' \
                      and query like '%(1, 1000000000)' and pid <> pg_backend_pid()";
        let all = Some(asked.len().to_string());
        while root.value(active).await != all {
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
        // Those that insert have come to their last statement.
        let inserted = "select count(*) from t";
        while root.value(inserted).await.as_deref() != Some("8") {
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
        replace_leader(pair).await;
        for (mut wire, before, expected) in asked {
            let answers = wire.until('Z').await;
            assert_eq!(state(&answers), (expected.into(), 'I'), "{before}");
            assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
        }
    });
}
