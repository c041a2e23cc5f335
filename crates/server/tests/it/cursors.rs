//! Cursors of SQL and portals of the protocol: two kinds of one thing, with names in common.

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{
    Answer, Wire, bind, close, describe, error, execute, kinds, parse, sync,
};

async fn table(wire: &mut Wire) {
    wire.rows("create table t (id int primary key)").await;
    wire.rows("insert into t select x from generate_series(1, 5) x")
        .await;
}

fn values(answers: &[Answer]) -> Vec<String> {
    let rows = answers.iter().filter(|answer| answer.kind == 'D');
    rows.map(|row| row.values()[0].clone().unwrap_or_default())
        .collect()
}

#[test]
fn messages_reach_a_cursor_by_its_name() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        table(&mut wire).await;
        wire.rows("begin").await;
        // As psycopg declares it: with parameters, by the extended protocol.
        let stream = [
            parse(
                "",
                "declare c cursor for select id from t where id > $1 order by id",
                &[],
            ),
            bind("", "", &[Some(b"1")]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&stream).await;
        assert_eq!(kinds(&answers), "12nCZ");
        assert_eq!(answers[3].tag(), "DECLARE CURSOR");
        let answers = wire.ask(&[describe(b'P', "c"), sync()]).await;
        assert_eq!(kinds(&answers), "TZ");
        let answers = wire.ask(&[execute("c", 2), sync()]).await;
        assert_eq!(kinds(&answers), "DDsZ");
        assert_eq!(values(&answers), ["2", "3"]);
        assert_eq!(
            wire.value("fetch c").await.as_deref(),
            Some("4"),
            "one position for both"
        );
        let answers = wire.ask(&[execute("c", 0), sync()]).await;
        assert_eq!(kinds(&answers), "DCZ");
        assert_eq!(answers[1].tag(), "SELECT 1");
        let answers = wire.ask(&[close(b'P', "c"), sync()]).await;
        assert_eq!(kinds(&answers), "3Z");
        let answers = wire.query("fetch c").await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        wire.rows("rollback").await;
    });
}

#[test]
fn a_name_is_a_cursors_or_a_portals() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        table(&mut wire).await;
        wire.rows("begin").await;
        wire.rows("declare c cursor for select 1").await;
        let stream = [parse("", "select 2", &[]), bind("c", "", &[]), sync()];
        let answers = wire.ask(&stream).await;
        assert_eq!(error(&answers).sqlstate(), "42P03");
        wire.rows("rollback").await;
        wire.rows("begin").await;
        let stream = [parse("", "select 2", &[]), bind("p", "", &[]), sync()];
        assert_eq!(kinds(&wire.ask(&stream).await), "12Z");
        wire.rows("savepoint s").await;
        let answers = wire.query("declare p cursor for select 1").await;
        assert_eq!(error(&answers).sqlstate(), "42P03");
        wire.rows("rollback to s").await;
        wire.ask(&[close(b'P', "p"), sync()]).await;
        wire.rows("declare p cursor for select 1").await;
        wire.rows("commit").await;
        // Both have ended with the transaction.
        wire.rows("begin").await;
        wire.rows("declare p cursor for select 1").await;
        wire.rows("rollback").await;
    });
}

#[test]
fn fetch_reaches_a_portal_by_its_name() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        table(&mut wire).await;
        wire.rows("begin").await;
        let stream = [
            parse("", "select id from t order by id", &[]),
            bind("p", "", &[]),
            execute("p", 1),
            bind("q", "", &[]),
            sync(),
        ];
        assert_eq!(kinds(&wire.ask(&stream).await), "12Ds2Z");
        assert_eq!(wire.value("fetch p").await.as_deref(), Some("2"));
        let answers = wire.ask(&[execute("p", 1), sync()]).await;
        assert_eq!(kinds(&answers), "DsZ");
        assert_eq!(values(&answers), ["3"]);
        // One that has not been executed.
        wire.rows("move 3 from q").await;
        wire.rows("delete from t").await;
        let answers = wire.ask(&[execute("q", 0), execute("p", 0), sync()]).await;
        assert_eq!(kinds(&answers), "DDCDDCZ");
        assert_eq!(values(&answers), ["4", "5", "4", "5"]);
        wire.rows("savepoint s").await;
        let answers = wire.query("fetch prior from p").await;
        assert_eq!(error(&answers).sqlstate(), "55000");
        wire.rows("rollback").await;
        let answers = wire.query("fetch p").await;
        assert_eq!(error(&answers).sqlstate(), "34000");
    });
}

#[test]
fn a_prepared_fetch_follows_its_cursor() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        table(&mut wire).await;
        wire.ask(&[parse("f", "fetch 2 from c", &[]), sync()]).await;
        for (text, first) in [
            ("select id from t order by id", "1"),
            ("select 'x' || id, id from t order by id desc", "x5"),
        ] {
            wire.rows("begin").await;
            wire.rows(&format!("declare c cursor for {text}")).await;
            let stream = [
                bind("", "f", &[]),
                describe(b'P', ""),
                execute("", 0),
                sync(),
            ];
            let answers = wire.ask(&stream).await;
            assert_eq!(kinds(&answers), "2TDDCZ", "{text}");
            assert_eq!(values(&answers)[0], first);
            wire.rows("commit").await;
        }
    });
}

#[test]
fn a_binary_cursor_returns_binary_values() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        table(&mut wire).await;
        wire.rows("begin").await;
        wire.rows("declare c binary cursor for select id from t order by id")
            .await;
        let answers = wire.query("fetch c").await;
        assert_eq!(kinds(&answers), "TDCZ");
        let format = &answers[0].contents[answers[0].contents.len() - 2..];
        assert_eq!(format, [0, 1]);
        assert!(answers[1].contents.ends_with(&[0, 0, 0, 4, 0, 0, 0, 1]));
        wire.rows("commit").await;
    });
}

#[test]
fn a_large_result_is_read_forwards_in_little_memory() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table l (id int primary key, b text)")
            .await;
        wire.rows("insert into l select x, repeat('x', 100) from generate_series(1, 5000) x")
            .await;
        wire.rows("set work_mem = '64kB'").await;
        wire.rows("begin").await;
        wire.rows("declare c cursor for select * from l").await;
        wire.rows("declare s scroll cursor for select * from l")
            .await;
        let mut count = 0;
        loop {
            let rows = wire.rows("fetch 1000 from c").await;
            count += rows.len();
            if rows.is_empty() {
                break;
            }
        }
        assert_eq!(count, 5000);
        // What is not kept any more cannot be returned again,
        wire.rows("savepoint s").await;
        let answers = wire.query("fetch first from c").await;
        assert_eq!(error(&answers).sqlstate(), "55000");
        wire.rows("rollback to s").await;
        // unless the cursor was declared to.
        wire.rows("move all from s").await;
        assert_eq!(wire.rows("fetch first from s").await.len(), 1);
        wire.rows("rollback").await;
        // A cursor that outlives its transaction has to fit.
        let answers = wire
            .query("declare h cursor with hold for select * from l")
            .await;
        assert_eq!(error(&answers).sqlstate(), "53200");
        let answers = wire.query("fetch h").await;
        assert_eq!(error(&answers).sqlstate(), "34000");
    });
}
