//! A session whose cycles are executed by two nodes is one session, whatever their order: a
//! property, over random orders.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_testkit::wire::{Answer, Wire, bind, close, describe, execute, parse, query, sync};

use crate::home::run;

/// What a block at home answers that has a snapshot, and is asked for what only the leader
/// knows.
const STAYS: &str = "cannot move to the leader";

/// Cycles whose answers do not depend on who gives them, if the two sessions are one.
fn cycles() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let simple = |text: &'static str| (text, vec![query(text)]);
    let unnamed = |text: &'static str| {
        let messages = vec![
            parse("", text, &[]),
            describe(b'S', ""),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        (text, messages)
    };
    vec![
        simple(
            "select current_user, session_user, 0.1::float8 + 0.2::float8, '2020-01-01 00:00Z'::timestamptz",
        ),
        simple("select a from t where a = 1"),
        simple("select a from t; select current_user"),
        simple("select a from t; select txid_current() > 0"),
        simple("set role bob"),
        simple("set role readers"),
        simple("reset role"),
        simple("set extra_float_digits = -15"),
        simple("set timezone = 'Asia/Tokyo'"),
        simple("reset all"),
        simple("set session coeval.read_from = any"),
        simple("set coeval.read_from = fresh"),
        simple("begin"),
        simple("begin read only"),
        simple("begin isolation level repeatable read read only"),
        simple("begin isolation level serializable"),
        simple("start transaction read only; select a from t"),
        simple("begin; select a from t; update t set a = a where false; select a from t"),
        simple("set transaction read only"),
        simple("set transaction isolation level serializable"),
        simple("select a from t; begin; select a from t"),
        simple("commit and chain"),
        simple("savepoint s"),
        simple("rollback to s"),
        simple("release s"),
        simple("set local role bob"),
        simple("set search_path = pg_catalog, public"),
        simple("select a from t where false for update"),
        simple("delete from t where false"),
        simple("show transaction_isolation"),
        simple("show transaction_read_only"),
        simple("show search_path"),
        (
            "begin in steps",
            vec![
                parse("", "begin", &[]),
                bind("", "", &[]),
                execute("", 0),
                parse("", "select a from t", &[]),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ],
        ),
        (
            "bind c",
            vec![
                parse("", "select g from generate_series(1, 5) g", &[]),
                bind("c", "", &[]),
                execute("c", 2),
                sync(),
            ],
        ),
        ("execute c", vec![execute("c", 2), sync()]),
        ("close c", vec![close(b'P', "c"), sync()]),
        simple("set local timezone = 'Europe/Berlin'"),
        simple("commit"),
        simple("rollback"),
        simple("prepare p as select a, current_user from t"),
        simple("execute p"),
        simple("deallocate all"),
        simple("select 1 / (a - 1) from t"),
        simple("select * from nothing"),
        simple(""),
        unnamed("select a, current_user from t"),
        unnamed("select txid_current() > 0"),
        unnamed("select 1 / (a - 1) from t"),
        unnamed("update t set a = a where false"),
        (
            "parse unnamed",
            vec![parse("", "select 7, current_user", &[]), sync()],
        ),
        (
            "parse named",
            vec![parse("n", "select 8, current_user", &[]), sync()],
        ),
        (
            "bind unnamed",
            vec![bind("", "", &[]), execute("", 0), sync()],
        ),
        (
            "bind named",
            vec![bind("", "n", &[]), execute("", 0), sync()],
        ),
        (
            "describe both",
            vec![describe(b'S', ""), describe(b'S', "n"), sync()],
        ),
        (
            "bind p",
            vec![
                bind("x", "p", &[]),
                execute("x", 1),
                execute("x", 0),
                sync(),
            ],
        ),
        ("close n", vec![close(b'S', "n"), sync()]),
        ("close unnamed", vec![close(b'S', ""), sync()]),
        ("sync", vec![sync()]),
    ]
}

#[test]
fn any_order_of_cycles_is_that_of_one_session() {
    run(async |two| {
        let cycles = cycles();
        let seed = std::env::var("HOME_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let mut state = seed.unwrap_or(0x9E37_79B9_7F4A_7C15_u64);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let before = two.begun();
        for round in 0..40 {
            let mut one = Wire::connect(two.leader.address()).await;
            let mut both = two.client().await;
            one.rows("set coeval.read_from = fresh").await;
            let mut said = Vec::new();
            for _ in 0..32 {
                let (name, messages) = &cycles[(next() % cycles.len() as u64) as usize];
                said.push(*name);
                two.tables.loses.store(next() % 8 == 0, Ordering::Relaxed);
                let expected = one.ask(messages).await;
                let found = async {
                    let found = both.ask(messages).await;
                    two.tables.loses.store(false, Ordering::Relaxed);
                    found
                };
                let answered = async {
                    // A block that cannot move waits for an answer.
                    coeval_env::sleep(Duration::from_millis(20)).await;
                    two.tables.loses.store(false, Ordering::Relaxed);
                };
                let (found, ()) = tokio::join!(found, answered);
                let stays = |answer: &Answer| {
                    answer.kind == 'E' && String::from_utf8_lossy(&answer.contents).contains(STAYS)
                };
                if found.iter().any(stays) {
                    // It said so, and the block has failed: this session differs from here on.
                    break;
                }
                assert_eq!(found, expected, "round {round}: {said:#?}");
            }
        }
        assert!(
            two.begun() > before + 100,
            "reads at home: {}",
            two.begun() - before
        );
    });
}
