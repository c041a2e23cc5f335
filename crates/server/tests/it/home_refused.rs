//! Writes in READ ONLY blocks on the node of their client, whose questions no leader answers:
//! they fail where they are, and so do their blocks.

use std::sync::atomic::Ordering;

use coeval_testkit::wire::{
    Answer, Wire, bind, describe, error, execute, kinds, parse, query, sync,
};

use crate::home::{Two, WHO, run, who};

/// The transaction status in the last ReadyForQuery.
fn status(answers: &[Answer]) -> char {
    let ready = answers.iter().rfind(|answer| answer.kind == 'Z').unwrap();
    char::from(ready.contents[0])
}

async fn state(wire: &mut Wire, text: &str) -> (String, char) {
    let answers = wire.query(text).await;
    (error(&answers).sqlstate().to_owned(), status(&answers))
}

/// Whether the node's questions are lost.
fn lose(two: &Two, loses: bool) {
    two.tables.loses.store(loses, Ordering::Relaxed);
}

/// What the leader's session of this client is doing.
async fn at_leader(two: &Two, wire: &Wire) -> Option<String> {
    let number = i32::from_be_bytes(wire.key[..4].try_into().unwrap());
    let mut root = Wire::connect(two.leader.address()).await;
    let shown = format!("select state from pg_stat_activity where pid = {number}");
    root.value(&shown).await
}

fn steps(text: &str) -> Vec<u8> {
    [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat()
}

const INSERT: &str = "insert into t values (9, 'x')";

/// Beginnings of READ ONLY blocks, of which some cannot move to the leader any more.
const BLOCKS: [(&str, &str); 3] = [
    ("begin read only", "select 1"),
    ("begin read only", "savepoint a"),
    ("begin isolation level repeatable read read only", WHO),
];

#[test]
fn a_write_in_a_read_only_block_fails_without_a_leader() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows(&format!("prepare p as {INSERT}")).await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        for (begin, first) in BLOCKS {
            for write in [
                INSERT,
                "update t set b = b",
                "delete from t",
                "truncate t",
                "create table u (a int)",
                "drop table t",
                "copy t from stdin",
                "select b from t for update",
                "explain analyze delete from t",
                "create role r",
                "grant select on t to bob",
                "execute p",
                "delete from t; select b from t",
            ] {
                wire.query(begin).await;
                wire.query(first).await;
                lose(two, true);
                let refused = state(&mut wire, write).await;
                assert_eq!(refused, ("25006".into(), 'E'), "{begin}: {write}");
                // The block is here.
                let there = at_leader(two, &wire).await;
                assert_eq!(there.as_deref(), Some("idle"), "{begin}: {write}");
                assert_eq!(state(&mut wire, WHO).await, ("25P02".into(), 'E'));
                let ended = wire.query("rollback").await;
                assert_eq!((&*kinds(&ended), status(&ended)), ("CZ", 'I'), "{write}");
                lose(two, false);
                assert_eq!(who(&wire.query(WHO).await), "home");
            }
        }
    });
}

#[test]
fn messages_that_write_in_a_read_only_block_fail_without_a_leader() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.ask(&[parse("p", INSERT, &[]), sync()]).await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        for (begin, first) in BLOCKS {
            for (messages, expected) in [
                (vec![steps(INSERT), sync()], "12EZ"),
                (vec![bind("", "p", &[]), execute("", 0), sync()], "2EZ"),
                (
                    vec![
                        parse("n", INSERT, &[]),
                        describe(b'S', "n"),
                        sync(),
                        bind("", "n", &[]),
                        execute("", 0),
                        sync(),
                    ],
                    "1tnZ2EZ",
                ),
            ] {
                wire.query(begin).await;
                wire.query(first).await;
                lose(two, true);
                let cycles = expected.matches('Z').count();
                wire.send(&messages.concat()).await;
                let mut answers = Vec::new();
                for _ in 0..cycles {
                    answers.extend(wire.until('Z').await);
                }
                assert_eq!(kinds(&answers), expected, "{begin}");
                assert_eq!(error(&answers).sqlstate(), "25006", "{begin}");
                assert_eq!(at_leader(two, &wire).await.as_deref(), Some("idle"));
                assert_eq!(status(&wire.query("rollback").await), 'I');
                lose(two, false);
                wire.query("deallocate n").await;
                assert_eq!(who(&wire.query(WHO).await), "home");
            }
        }
    });
}

/// What the node has to read for a statement it cannot know without a leader.
#[test]
fn what_may_read_in_a_read_only_block_needs_the_leader() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows("create table late (a int)").await;
        let both = [steps(WHO), steps(INSERT), sync()].concat();
        for messages in [both, query(&format!("{WHO}; {INSERT}"))] {
            wire.query("begin read only").await;
            lose(two, true);
            wire.send(&messages).await;
            let answers = wire.until('Z').await;
            assert_eq!(who(&answers), "leader");
            assert_eq!(error(&answers).sqlstate(), "25006");
            let there = at_leader(two, &wire).await;
            assert_eq!(there.as_deref(), Some("idle in transaction (aborted)"));
            wire.query("rollback").await;
            lose(two, false);
        }
        // This node's tables lack one that there may be.
        for (begin, first) in BLOCKS {
            wire.query(begin).await;
            wire.query(first).await;
            lose(two, true);
            let refused = state(&mut wire, "insert into late values (1)").await;
            let expected = match begin {
                // Its snapshot is what it has.
                "begin isolation level repeatable read read only" => "42P01",
                _ => "57P03",
            };
            assert_eq!(refused, (expected.into(), 'E'), "{begin}, {first}");
            assert_eq!(status(&wire.query("rollback").await), 'I');
            lose(two, false);
        }
        // With an answer it is asked for first.
        wire.query("begin read only").await;
        assert_eq!(
            state(&mut wire, "insert into late values (1)").await.0,
            "25006"
        );
        let there = at_leader(two, &wire).await;
        assert_eq!(there.as_deref(), Some("idle in transaction (aborted)"));
        wire.query("rollback").await;
    });
}
