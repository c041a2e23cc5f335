//! Portals that stop at a row limit, and what happens around them meanwhile.

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{
    Answer, Wire, bind, describe, error, execute, kinds, parse, query, sync,
};

/// A transaction in which portal `p` has shown the first two of five rows.
async fn suspended(wire: &mut Wire, begin: &str) {
    wire.rows("create table t (id int primary key, v int)")
        .await;
    wire.rows("insert into t select x, x from generate_series(1, 5) x")
        .await;
    wire.rows(begin).await;
    suspend(wire).await;
}

async fn suspend(wire: &mut Wire) {
    let stream = [
        parse("", "select id, v from t order by id", &[]),
        bind("p", "", &[]),
        execute("p", 2),
        sync(),
    ];
    let answers = wire.ask(&stream).await;
    assert_eq!(kinds(&answers), "12DDsZ");
}

fn values(answers: &[Answer]) -> Vec<String> {
    let rows = answers.iter().filter(|answer| answer.kind == 'D');
    rows.map(|row| {
        let values = row.values().into_iter();
        let texts: Vec<String> = values.map(|value| value.unwrap_or_default()).collect();
        texts.join(" ")
    })
    .collect()
}

#[test]
fn a_portal_shows_what_it_would_have_shown_at_once() {
    for begin in ["begin", "begin isolation level repeatable read"] {
        with_server(|address| async move {
            let mut wire = Wire::connect(address).await;
            suspended(&mut wire, begin).await;
            let mut other = Wire::connect(address).await;
            other.rows("insert into t values (6, 6)").await;
            wire.rows("update t set v = v + 100").await;
            wire.rows("delete from t where id = 4").await;
            let answers = wire.ask(&[execute("p", 2), sync()]).await;
            assert_eq!(kinds(&answers), "DDsZ");
            assert_eq!(values(&answers), ["3 3", "4 4"], "{begin}");
            wire.rows("savepoint s").await;
            let answers = wire.ask(&[execute("p", 2), sync()]).await;
            assert_eq!(kinds(&answers), "DCZ");
            assert_eq!(values(&answers), ["5 5"], "{begin}");
            assert_eq!(answers[1].tag(), "SELECT 1");
            wire.rows("rollback").await;
        });
    }
}

#[test]
fn the_rest_of_a_portal_is_kept_within_work_mem() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        suspended(&mut wire, "begin").await;
        wire.rows("set local work_mem = '64kB'").await;
        wire.rows("insert into t select x, x from generate_series(6, 5000) x")
            .await;
        // That one collected three rows. Five thousand are too many,
        suspend_again(&mut wire).await;
        let answers = wire.query("delete from t where id = 0").await;
        assert_eq!(error(&answers).sqlstate(), "53200");
        wire.rows("rollback").await;
        // but nothing is collected while its transaction writes nothing.
        wire.rows("insert into t select x, x from generate_series(6, 5000) x")
            .await;
        wire.rows("begin").await;
        wire.rows("set local work_mem = '64kB'").await;
        suspend(&mut wire).await;
        wire.rows("savepoint s").await;
        wire.rows("select count(*) from t").await;
        let answers = wire.ask(&[execute("p", 0), sync()]).await;
        assert_eq!(answers[answers.len() - 2].tag(), "SELECT 4998");
        wire.rows("rollback").await;
    });
}

async fn suspend_again(wire: &mut Wire) {
    let stream = [
        parse("", "select id, v from t", &[]),
        bind("q", "", &[]),
        execute("q", 2),
        sync(),
    ];
    assert_eq!(kinds(&wire.ask(&stream).await), "12DDsZ");
}

#[test]
fn a_portal_ends_with_its_transaction_wherever_that_ends() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        suspended(&mut wire, "begin").await;
        wire.ask(&[parse("commit", "commit", &[]), sync()]).await;
        // In the middle of a series of messages,
        let answers = wire
            .ask(&[
                bind("", "commit", &[]),
                execute("", 0),
                execute("p", 2),
                sync(),
            ])
            .await;
        assert_eq!(kinds(&answers), "2CEZ");
        assert_eq!(error(&answers).sqlstate(), "34000");
        // with another one beginning at once, and before it was executed at all.
        wire.rows("begin").await;
        suspend(&mut wire).await;
        wire.ask(&[bind("new", "", &[]), sync()]).await;
        wire.rows("commit and chain").await;
        for name in ["p", "new"] {
            let answers = wire.ask(&[execute(name, 2), sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "34000", "{name}");
            wire.rows("rollback and chain").await;
        }
        wire.rows("rollback").await;
    });
}

#[test]
fn a_portal_ends_with_the_savepoint_it_was_made_after() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        suspended(&mut wire, "begin").await;
        wire.rows("savepoint s").await;
        suspend_again(&mut wire).await;
        wire.rows("rollback to s").await;
        let answers = wire.ask(&[execute("p", 1), sync()]).await;
        assert_eq!(values(&answers), ["3 3"]);
        // Its name is free again.
        suspend_again(&mut wire).await;
        wire.rows("rollback to s").await;
        let answers = wire.ask(&[describe(b'P', "q"), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        wire.rows("rollback").await;
    });
}

#[test]
fn a_failed_transaction_shows_nothing_more() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        suspended(&mut wire, "begin").await;
        wire.rows("savepoint s").await;
        wire.rows("insert into t values (7, 7)").await;
        wire.ask(&[parse("", "select 1", &[]), sync()]).await;
        wire.ask(&[
            parse("bad", "select 1 / 0", &[]),
            bind("", "bad", &[]),
            execute("", 0),
            sync(),
        ])
        .await;
        for message in [
            execute("p", 1),
            bind("new", "", &[]),
            describe(b'S', ""),
            describe(b'P', "p"),
        ] {
            let answers = wire.ask(&[message, sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "25P02");
        }
        wire.rows("rollback to s").await;
        let answers = wire.ask(&[execute("p", 0), sync()]).await;
        assert_eq!(values(&answers), ["3 3", "4 4", "5 5"]);
        wire.rows("rollback").await;
    });
}

#[test]
fn messages_and_statements_share_the_names_of_prepared_statements() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let run = |name: &str| [bind("", name, &[]), execute("", 0), sync()];
        wire.ask(&[parse("a", "select 1", &[]), sync()]).await;
        assert_eq!(wire.value("execute a").await.as_deref(), Some("1"));
        let answers = wire.query("prepare a as select 2").await;
        assert_eq!(error(&answers).sqlstate(), "42P05");
        wire.rows("prepare b as select 2").await;
        let answers = wire.ask(&run("b")).await;
        assert_eq!(values(&answers), ["2"]);
        // What drivers clean up with.
        for (clean, gone) in [
            ("deallocate a", "a"),
            ("deallocate all", "b"),
            ("discard all", "c"),
        ] {
            wire.ask(&[parse("c", "select 3", &[]), sync()]).await;
            wire.rows(clean).await;
            let answers = wire.ask(&run(gone)).await;
            assert_eq!(error(&answers).sqlstate(), "26000", "{clean}");
        }
        // One that no plan is made for can be bound, and is no query to EXECUTE.
        wire.ask(&[parse("begin", "begin", &[]), sync()]).await;
        let answers = wire.query("execute begin").await;
        assert_eq!(error(&answers).sqlstate(), "0A000");
        wire.send(&[query("deallocate all"), query("deallocate begin")].concat())
            .await;
        wire.until('Z').await;
        assert_eq!(error(&wire.until('Z').await).sqlstate(), "26000");
    });
}

#[test]
fn what_is_done_is_not_done_again() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        let insert = [
            parse("", "insert into t values (1), (2), (3) returning id", &[]),
            bind("", "", &[]),
            execute("", 2),
            execute("", 2),
            execute("", 2),
            sync(),
        ];
        let answers = wire.ask(&insert).await;
        assert_eq!(kinds(&answers), "12DDsDCCZ");
        assert_eq!(answers[7].tag(), "INSERT 0 0");
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count.as_deref(), Some("3"));
        // Without rows it has nothing to say again.
        let delete = [
            parse("", "delete from t", &[]),
            bind("", "", &[]),
            execute("", 0),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&delete).await;
        assert_eq!(error(&answers).sqlstate(), "55000");
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count.as_deref(), Some("3"));
    });
}

#[test]
fn a_prepared_statement_outlives_its_table_if_a_like_one_comes() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let run = [bind("", "s", &[]), execute("", 0), sync()];
        wire.rows("create table t (id int)").await;
        wire.ask(&[parse("s", "select * from t", &[]), sync()])
            .await;
        wire.rows("drop table t").await;
        assert_eq!(error(&wire.ask(&run).await).sqlstate(), "42P01");
        wire.rows("create table t (id bigint)").await;
        assert_eq!(error(&wire.ask(&run).await).sqlstate(), "0A000");
        wire.rows("drop table t").await;
        wire.rows("create table t (id int)").await;
        wire.rows("insert into t values (7)").await;
        assert_eq!(values(&wire.ask(&run).await), ["7"]);
    });
}

#[test]
fn a_simple_query_has_no_parameters() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        for text in ["select $1", "select 1; select $1::int"] {
            let answers = wire.query(text).await;
            assert_eq!(error(&answers).sqlstate(), "42P02", "{text}");
        }
    });
}
