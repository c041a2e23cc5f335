//! Conversations of well-behaved clients, and the server's answers.

use coeval_testkit::server::{settings, with_server, with_settings, with_stopped};
use coeval_testkit::wire::{
    Wire, bind, close, describe, error, execute, flush, kinds, packet, parse, query, start, sync,
};

#[test]
fn a_session_starts_with_parameters_and_a_key() {
    with_server(|address| async move {
        let wire = Wire::connect(address).await;
        assert_eq!(wire.key.len(), 8);
        let parameter = |name: &str| {
            let mut parameters = wire.parameters.iter();
            let found = parameters.find(|(other, _)| other == name);
            found.map(|(_, value)| value.as_str())
        };
        assert!(parameter("server_version").unwrap().starts_with("15"));
        assert_eq!(parameter("server_encoding"), Some("UTF8"));
        assert_eq!(parameter("client_encoding"), Some("UTF8"));
        assert_eq!(parameter("standard_conforming_strings"), Some("on"));
        assert_eq!(parameter("integer_datetimes"), Some("on"));
        for name in [
            "DateStyle",
            "IntervalStyle",
            "TimeZone",
            "application_name",
            "is_superuser",
            "session_authorization",
        ] {
            assert!(parameter(name).is_some(), "{name}");
        }
    });
}

#[test]
fn encryption_is_declined_and_the_session_goes_on() {
    with_server(|address| async move {
        let mut wire = Wire::open(address).await;
        for code in [80_877_104, 80_877_103] {
            wire.send(&packet(code, b"")).await;
            let mut answer = [0];
            tokio::io::AsyncReadExt::read_exact(&mut wire.stream, &mut answer)
                .await
                .unwrap();
            assert_eq!(answer, *b"N");
        }
        wire.send(&start(&[("user", "ada")])).await;
        wire.until('Z').await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn newer_protocols_are_negotiated_down() {
    with_server(|address| async move {
        let mut wire = Wire::open(address).await;
        let rest = b"user\0ada\0_pq_.fast\0on\0\0";
        wire.send(&packet(3 << 16 | 9999, rest)).await;
        let answers = wire.until('Z').await;
        assert_eq!(answers[0].kind, 'v');
        assert_eq!(&answers[0].contents[..8], [0, 3, 0, 2, 0, 0, 0, 1]);
        let key = answers.iter().find(|answer| answer.kind == 'K').unwrap();
        assert_eq!(key.contents.len(), 4 + 32);
    });
}

#[test]
fn a_simple_query_runs_every_statement_in_it() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let text = "create table t (id int primary key, name text); \
                    insert into t values (1, 'one'), (2, null); \
                    select id, name from t order by id";
        let answers = wire.query(text).await;
        assert_eq!(kinds(&answers), "CCTDDCZ");
        assert_eq!(answers[0].tag(), "CREATE TABLE");
        assert_eq!(answers[1].tag(), "INSERT 0 2");
        assert_eq!(answers[3].values(), [Some("1".into()), Some("one".into())]);
        assert_eq!(answers[4].values(), [Some("2".into()), None]);
        assert_eq!(answers[5].tag(), "SELECT 2");
        assert_eq!(answers[6].contents, b"I");
        // One that fails takes the others of its string with it.
        let answers = wire
            .query("insert into t values (3, 'three'); select 1/0; select 2")
            .await;
        assert_eq!(
            kinds(&answers)
                .trim_start_matches('C')
                .trim_start_matches('T'),
            "EZ"
        );
        assert_eq!(error(&answers).sqlstate(), "22012");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("2")
        );
        // None at all.
        assert_eq!(kinds(&wire.query("").await), "IZ");
        assert_eq!(kinds(&wire.query(" ; ; ").await), "IZ");
    });
}

#[test]
fn an_explicit_transaction_spans_queries_and_fails_as_one() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        let answers = wire.query("begin").await;
        assert_eq!(answers.last().unwrap().contents, b"T");
        wire.rows("insert into t values (1)").await;
        let answers = wire.query("insert into t values (1)").await;
        assert_eq!(error(&answers).sqlstate(), "23505");
        assert!(error(&answers).field(b'D').is_some());
        assert_eq!(answers.last().unwrap().contents, b"E");
        let answers = wire.query("select 1").await;
        assert_eq!(error(&answers).sqlstate(), "25P02");
        let answers = wire.query("commit").await;
        assert_eq!(answers[0].tag(), "ROLLBACK");
        assert_eq!(answers.last().unwrap().contents, b"I");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}

#[test]
fn extended_query_step_by_step() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key, name text)")
            .await;
        wire.rows("insert into t values (1, 'one'), (2, 'two')")
            .await;
        let answers = wire
            .ask(&[
                parse("s", "select name from t where id = $1", &[]),
                describe(b'S', "s"),
                bind("p", "s", &[Some(b"2")]),
                describe(b'P', "p"),
                execute("p", 0),
                close(b'P', "p"),
                sync(),
            ])
            .await;
        assert_eq!(kinds(&answers), "1tT2TDC3Z");
        // One parameter, of type int4.
        assert_eq!(answers[1].contents, [0, 1, 0, 0, 0, 23]);
        assert_eq!(answers[5].values(), [Some("two".into())]);
        assert_eq!(answers[6].tag(), "SELECT 1");
        // The statement is still there, the portal is not.
        let answers = wire
            .ask(&[bind("", "s", &[Some(b"1")]), execute("", 0), sync()])
            .await;
        assert_eq!(kinds(&answers), "2DCZ");
        assert_eq!(answers[1].values(), [Some("one".into())]);
        let answers = wire.ask(&[execute("p", 0), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        // Names are taken once.
        let again = [parse("s", "select 1", &[]), sync()];
        let answers = wire.ask(&again).await;
        assert_eq!(error(&answers).sqlstate(), "42P05");
        let answers = wire
            .ask(&[close(b'S', "s"), again[0].clone(), sync()])
            .await;
        assert_eq!(kinds(&answers), "31Z");
        let missing = wire.ask(&[bind("", "nothing", &[]), sync()]).await;
        assert_eq!(error(&missing).sqlstate(), "26000");
    });
}

#[test]
fn an_error_skips_to_the_next_sync() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let good = |text| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
        let stream = [
            good("select 1/0"),
            good("select 1"),
            sync(),
            good("select 2"),
            sync(),
        ];
        wire.send(&stream.concat()).await;
        let first = wire.until('Z').await;
        assert_eq!(error(&first).sqlstate(), "22012");
        assert!(kinds(&first).ends_with("EZ"), "{first:?}");
        let second = wire.until('Z').await;
        assert_eq!(kinds(&second), "12DCZ");
    });
}

/// An Execute directly followed by its Sync is a transaction that the server may retry:
/// its commit fails, and the client does not notice.
#[test]
fn a_statement_right_before_its_sync_is_retried_when_its_commit_fails() {
    with_server(|address| async move {
        let mut holder = Wire::connect(address).await;
        holder
            .rows("create table t (id int primary key, n bigint)")
            .await;
        holder.rows("create table u (n int)").await;
        holder.rows("insert into t values (1, 0)").await;
        holder.rows("insert into u values (1)").await;
        let mut wire = Wire::connect(address).await;
        wire.rows("set default_transaction_isolation = serializable")
            .await;
        // Holds the row up, leaves it as it is, and changes what was summed up.
        holder.query("begin").await;
        holder.rows("select * from t where id = 1 for update").await;
        holder.rows("insert into u values (2)").await;
        let update = "update t set n = (select sum(n) from u) where id = 1";
        let stream = [parse("", update, &[]), bind("", "", &[]), execute("", 0)];
        wire.send(&[stream.concat(), sync()].concat()).await;
        let waiting = "select count(*) from coeval.locks where relation = 't'";
        let mut viewer = Wire::connect(address).await;
        while viewer.value(waiting).await.as_deref() != Some("1") {}
        holder.query("commit").await;
        let answers = wire.until('Z').await;
        assert_eq!(kinds(&answers), "12CZ", "{answers:?}");
        let sum = viewer.value("select n from t").await;
        assert_eq!(sum.as_deref(), Some("3"));
        let conflicts = "select count from coeval.conflicts where relation = 'u'";
        assert_eq!(viewer.value(conflicts).await.as_deref(), Some("1"));
    });
}

#[test]
fn what_stands_between_two_syncs_is_one_transaction() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        let run = |text| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
        let answers = wire
            .ask(&[
                run("insert into t values (1)"),
                run("insert into t values (1)"),
                sync(),
            ])
            .await;
        assert_eq!(error(&answers).sqlstate(), "23505");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
        wire.ask(&[
            run("insert into t values (1)"),
            run("insert into t values (2)"),
            sync(),
        ])
        .await;
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("2")
        );
    });
}

#[test]
fn a_pipeline_is_answered_in_order() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.ask(&[parse("s", "select $1::int + 1", &[]), sync()])
            .await;
        let mut stream = Vec::new();
        for number in 0..1000 {
            let value = number.to_string();
            stream.extend(bind("", "s", &[Some(value.as_bytes())]));
            stream.extend(execute("", 0));
            stream.extend(sync());
        }
        wire.send(&stream).await;
        for number in 0..1000 {
            let answers = wire.until('Z').await;
            assert_eq!(kinds(&answers), "2DCZ");
            assert_eq!(answers[1].values(), [Some((number + 1).to_string())]);
        }
    });
}

#[test]
fn an_error_is_told_before_the_sync() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.send(&[parse("", "select nothing", &[]), flush()].concat())
            .await;
        assert_eq!(error(&wire.until('E').await).sqlstate(), "42703");
        wire.send(&sync()).await;
        assert_eq!(kinds(&wire.until('Z').await), "Z");
    });
}

#[test]
fn flush_sends_without_ending_anything() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.send(&[parse("", "select 1", &[]), flush()].concat())
            .await;
        assert_eq!(wire.receive().await.unwrap().kind, '1');
        wire.send(&[bind("", "", &[]), execute("", 0), flush()].concat())
            .await;
        assert_eq!(kinds(&wire.until('C').await), "2DC");
        assert_eq!(kinds(&wire.ask(&[sync()]).await), "Z");
    });
}

#[test]
fn portals_go_on_where_their_limit_stopped_them() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (1), (2), (3), (4), (5)")
            .await;
        let begin = [
            parse("", "select id from t order by id", &[]),
            bind("p", "", &[]),
        ];
        let stream = [
            &begin[..],
            &[execute("p", 2), execute("p", 2), execute("p", 2), sync()],
        ];
        let answers = wire.ask(&stream.concat()).await;
        assert_eq!(kinds(&answers), "12DDsDDsDCZ");
        assert_eq!(answers[8].values(), [Some("5".into())]);
        // Without a transaction around it, the portal ended with the Sync.
        let answers = wire.ask(&[execute("p", 2), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        wire.rows("begin").await;
        let answers = wire
            .ask(&[&begin[..], &[execute("p", 3), sync()]].concat())
            .await;
        assert_eq!(kinds(&answers), "12DDDsZ");
        let answers = wire.ask(&[execute("p", 0), sync()]).await;
        assert_eq!(kinds(&answers), "DDCZ");
        wire.rows("commit").await;
    });
}

#[test]
fn notices_and_parameter_changes_are_told() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let answers = wire.query("commit").await;
        let notice = answers.iter().find(|answer| answer.kind == 'N').unwrap();
        assert_eq!(notice.field(b'S'), Some("WARNING"));
        assert_eq!(notice.sqlstate(), "25P01");
        let answers = wire.query("set application_name = 'tests'").await;
        let status = answers.iter().find(|answer| answer.kind == 'S').unwrap();
        assert_eq!(status.contents, b"application_name\0tests\0");
        // Unchanged, it is not told again.
        assert_eq!(kinds(&wire.query("select 1").await), "TDCZ");
    });
}

#[test]
fn settings_of_the_start_packet_hold() {
    with_server(|address| async move {
        let mut wire = Wire::open(address).await;
        let parameters = [
            ("user", "ada"),
            ("application_name", "tests"),
            ("options", "-c default_transaction_isolation=serializable"),
        ];
        wire.send(&start(&parameters)).await;
        wire.until('Z').await;
        let shown = wire.value("show application_name").await;
        assert_eq!(shown.as_deref(), Some("tests"));
        let shown = wire.value("show default_transaction_isolation").await;
        assert_eq!(shown.as_deref(), Some("serializable"));
    });
}

#[test]
fn one_connection_too_many_is_told_so() {
    let settings = coeval_server::Settings {
        max_connections: 2,
        superuser_reserved_connections: 0,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut first = Wire::connect(address).await;
            let _second = Wire::connect(address).await;
            let mut third = Wire::open(address).await;
            third.send(&start(&[("user", "ada")])).await;
            let answers = third.until_closed().await;
            assert_eq!(error(&answers).sqlstate(), "53300");
            assert_eq!(error(&answers).field(b'S'), Some("FATAL"));
            assert_eq!(first.value("select 1").await.as_deref(), Some("1"));
        }
    });
}

#[test]
fn a_stopping_server_says_good_bye() {
    with_stopped(
        settings(),
        async |server| {
            let idle = Wire::connect(server.address()).await;
            let mut busy = Wire::connect(server.address()).await;
            busy.rows("begin").await;
            [idle, busy]
        },
        async |wires| {
            for mut wire in wires {
                let answers = wire.until_closed().await;
                assert_eq!(error(&answers).sqlstate(), "57P01");
            }
        },
    );
}

#[test]
fn a_query_after_an_extended_error_waits_for_the_sync() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let stream = [parse("", "select nothing", &[]), query("select 1"), sync()];
        let answers = wire.ask(&stream).await;
        assert_eq!(kinds(&answers), "EZ");
    });
}

#[test]
fn a_statement_prepared_again_and_again_is_always_the_present_one() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let ask = |text: &str| {
            [
                parse("", text, &[]),
                describe(b'S', ""),
                bind("", "", &[]),
                execute("", 0),
                sync(),
            ]
        };
        // Often enough to be remembered; then the settings change,
        let instant = "select timestamptz '2026-01-01 12:00:00+00'";
        for (zone, shown) in [
            ("UTC", "2026-01-01 12:00:00+00"),
            ("Asia/Tokyo", "2026-01-01 21:00:00+09"),
            ("UTC", "2026-01-01 12:00:00+00"),
        ] {
            wire.rows(&format!("set timezone = '{zone}'")).await;
            for _ in 0..4 {
                let answers = wire.ask(&ask(instant)).await;
                assert_eq!(kinds(&answers), "1tT2DCZ");
                assert_eq!(answers[4].values(), [Some(shown.into())]);
            }
        }
        let local = "select timestamptz '2026-01-01 12:00:00' = '2026-01-01 12:00:00+00'";
        for (zone, same) in [("UTC", "t"), ("Asia/Tokyo", "f")] {
            wire.rows(&format!("set timezone = '{zone}'")).await;
            for _ in 0..4 {
                let answers = wire.ask(&ask(local)).await;
                assert_eq!(answers[4].values(), [Some(same.into())]);
            }
        }
        // and another session changes the schema.
        let mut other = Wire::connect(address).await;
        for columns in ["a int", "a int, b text", "a text"] {
            other.query("drop table t").await;
            other.rows(&format!("create table t ({columns})")).await;
            let mut described = Vec::new();
            for _ in 0..4 {
                let answers = wire.ask(&ask("select * from t")).await;
                assert_eq!(kinds(&answers), "1tT2CZ", "{columns}: {answers:?}");
                described.push(answers[2].contents.clone());
            }
            assert_eq!(usize::from(described[0][1]), columns.split(',').count());
            assert!(described.iter().all(|contents| *contents == described[0]));
        }
    });
}
