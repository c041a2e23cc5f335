//! What the leader executes, whatever a session wants and wherever it stands: a test for each
//! kind, on its own and in a block that began on the client's node.

use std::sync::atomic::Ordering;

use coeval_testkit::wire::{Wire, bind, error, execute, parse, query, sync};

use crate::home::{WHO, run, who};

/// Statements that return one row of the table, with who has given it.
const ROWS: [&str; 16] = [
    // Writes.
    "update t set a = a returning b",
    "insert into t values (1, 'x') on conflict (a) do update set a = t.a returning b",
    // Row locks.
    "select b from t for update",
    "select b from t for no key update",
    "select b from t for share",
    "select b from t for key share",
    "select b from (select * from t for update) x",
    "with w as (select b from t for share) select b from w",
    // The numbers of transactions, and their outcomes.
    "select b from t where txid_current() > 0",
    "select b from t where pg_current_xact_id() > 0",
    "select b from t where txid_current_if_assigned() is null or true",
    "select b from t where txid_status(1) is null or true",
    // What only the leader's process knows, or would change.
    "select b from t where pg_cancel_backend(0) or true",
    "select b from t where pg_advisory_unlock_all() is not null",
    "select b from t where set_config('work_mem', '5MB', false) is not null",
    "select b from t where exists (select 1 from pg_settings)",
];

#[test]
fn what_is_the_leaders_goes_there_from_everywhere() {
    run(async |two| {
        let mut wire = two.client().await;
        for text in ROWS {
            assert_eq!(who(&wire.query(WHO).await), "home");
            assert_eq!(who(&wire.query(text).await), "leader", "{text}");
            assert_eq!(who(&wire.query(WHO).await), "home");
            let steps = [
                parse("", text, &[]),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ];
            assert_eq!(who(&wire.ask(&steps).await), "leader", "{text}");
            // With a name: it is prepared there, and found there.
            wire.ask(&[parse("n", text, &[]), sync()]).await;
            let named = [bind("", "n", &[]), execute("", 0), sync()];
            assert_eq!(who(&wire.ask(&named).await), "leader", "{text}");
            wire.rows("deallocate all").await;
            // In a block that has read at home, and stays at the leader from there on.
            wire.rows("begin").await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{text}");
            assert_eq!(who(&wire.query(text).await), "leader", "{text}");
            assert_eq!(who(&wire.query(WHO).await), "leader", "{text}");
            wire.rows("rollback").await;
            // After what reads, in one query.
            let both = wire.query(&format!("select b from t; {text}")).await;
            assert_eq!(who(&both), "leader", "{text}");
        }
    });
}

#[test]
fn functions_and_tables_of_the_cluster_are_the_leaders() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows("select 1").await;
        for call in [
            "coeval.cluster_add(9, 'nowhere')",
            "coeval.cluster_remove(9)",
            "coeval.cluster_transfer(9)",
            "pg_terminate_backend(0)",
            "pg_current_xact_id_if_assigned()",
            "pg_xact_status(1)",
            "pg_postmaster_start_time()",
            "pg_conf_load_time()",
            "current_setting('port')",
        ] {
            let begun = two.begun();
            let plan = wire.rows(&format!("explain select {call}")).await;
            let plan = format!("{plan:?}");
            assert!(
                plan.contains("Runs on: the leader, because it calls"),
                "{call}: {plan}"
            );
            assert!(two.begun() > begun, "explained at home");
        }
        for table in [
            "coeval.cluster_status",
            "coeval.cluster_members",
            "coeval.replicas",
            "coeval.locks",
            "pg_settings",
            "pg_stat_replication",
            "pg_stat_database",
        ] {
            let plan = wire.rows(&format!("explain select * from {table}")).await;
            let plan = format!("{plan:?}");
            assert!(
                plan.contains("Runs on: the leader, because it reads"),
                "{table}: {plan}"
            );
        }
    });
}

/// Sequences, advisory locks and channels do not exist; the test fails when one of them does, and
/// has to be the leader's.
#[test]
fn what_does_not_exist_is_refused_as_the_leader_refuses_it() {
    run(async |two| {
        let mut wire = two.client().await;
        let mut leader = Wire::connect(two.leader.address()).await;
        for text in [
            "select nextval('s')",
            "select setval('s', 1)",
            "select currval('s')",
            "select lo_create(0)",
            "select pg_current_snapshot()",
            "listen c",
            "notify c",
        ] {
            wire.rows("select 1").await;
            let expected = leader.query(text).await;
            let found = wire.query(text).await;
            assert_eq!(found, expected, "{text}");
            error(&found);
            // In a block as well, which has failed then.
            for wire in [&mut wire, &mut leader] {
                wire.rows("begin").await;
                wire.rows("select 1").await;
            }
            assert_eq!(wire.query(text).await, leader.query(text).await, "{text}");
            for wire in [&mut wire, &mut leader] {
                assert_eq!(error(&wire.query(WHO).await).sqlstate(), "25P02");
                wire.rows("rollback").await;
            }
        }
    });
}

#[test]
fn what_follows_a_write_that_is_not_answered_follows_it() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows("select 1").await;
        let update = query("update t set b = b");
        for _ in 0..20 {
            wire.send(&[update.clone(), query(WHO), query(WHO)].concat())
                .await;
            wire.until('Z').await;
            for _ in 0..2 {
                assert_eq!(who(&wire.until('Z').await), "leader");
            }
            assert_eq!(who(&wire.query(WHO).await), "home");
        }
        // And in a block that moves with it.
        for _ in 0..20 {
            let all = [
                query("begin"),
                query(WHO),
                update.clone(),
                query(WHO),
                query("commit"),
            ];
            wire.send(&all.concat()).await;
            let mut seen = Vec::new();
            for _ in 0..5 {
                seen.push(wire.until('Z').await);
            }
            assert_eq!((&*who(&seen[1]), &*who(&seen[3])), ("home", "leader"));
        }
    });
}

#[test]
fn settings_for_a_block_say_where_it_reads() {
    run(async |two| {
        let mut wire = two.client().await;
        let asked = || two.tables.questions.load(Ordering::Relaxed);
        wire.rows("select 1").await;
        // With SET LOCAL, a READ ONLY block does not ask.
        wire.rows("begin read only").await;
        wire.rows("set local coeval.read_from = any").await;
        let before = asked();
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(asked(), before);
        wire.rows("commit").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(asked(), before + 1);
        // The leader, for one block of any kind.
        for begin in [
            "begin",
            "begin read only",
            "begin isolation level serializable read only",
        ] {
            wire.rows(begin).await;
            wire.rows("set local coeval.read_from = leader").await;
            assert_eq!(who(&wire.query(WHO).await), "leader", "{begin}");
            wire.rows("commit").await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{begin}");
        }
        // Its own commits are all that a session asks for; without one it asks.
        wire.rows("set coeval.read_from = session").await;
        wire.rows("select 1").await;
        let before = asked();
        for begin in [
            "begin",
            "begin read only",
            "begin isolation level repeatable read read only",
        ] {
            wire.rows(begin).await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{begin}");
            wire.rows("commit").await;
        }
        assert_eq!(asked(), before);
        // In the connection string.
        for (value, expected) in [("leader", "leader"), ("any", "home"), ("fresh", "home")] {
            let mut wire = Wire::open(two.follower.address()).await;
            let option = format!("-c coeval.read_from={value}");
            let asked = [("user", "ada"), ("options", &*option)];
            wire.send(&coeval_testkit::wire::start(&asked)).await;
            wire.until('Z').await;
            wire.rows("select 1").await;
            assert_eq!(who(&wire.query(WHO).await), expected, "{value}");
            wire.rows("begin").await;
            assert_eq!(who(&wire.query(WHO).await), expected, "{value}");
        }
    });
}
