//! How large statements and results may be, and how many sessions there may be.

use coeval_server::{Server, Storage};
use coeval_testkit::server::{settings, with_settings};
use coeval_testkit::wire::{Wire, bind, error, execute, kinds, message, parse, query, start, sync};

/// A message's hint has to name the setting, and its text the limit.
fn assert_names(answer: &coeval_testkit::wire::Answer, limit: &str, setting: &str) {
    assert!(answer.field(b'M').unwrap().contains(limit), "{answer:?}");
    assert!(answer.field(b'H').unwrap().contains(setting), "{answer:?}");
}

#[test]
fn the_last_connections_are_for_superusers() {
    let settings = coeval_server::Settings {
        max_connections: 3,
        superuser_reserved_connections: 1,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut first = Wire::connect(address).await;
            let _second = Wire::connect(address).await;
            let refused = |user: &'static str| async move {
                let mut wire = Wire::open(address).await;
                wire.send(&start(&[("user", user)])).await;
                let answers = wire.until_closed().await;
                assert_eq!(error(&answers).sqlstate(), "53300");
                error(&answers).clone()
            };
            let reserved = refused("ada").await;
            assert!(reserved.field(b'M').unwrap().contains("SUPERUSER"));
            let mut third = Wire::connect_as(address, "coeval").await;
            assert_eq!(third.value("select 1").await.as_deref(), Some("1"));
            let full = refused("coeval").await;
            assert!(full.field(b'H').unwrap().contains("max_connections"));
            assert_eq!(first.value("select 1").await.as_deref(), Some("1"));
        }
    });
}

#[test]
fn a_statement_has_a_longest_text_and_most_parameters() {
    let settings = coeval_server::Settings {
        max_statement_bytes: 64 << 10,
        max_parameters: 2,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            let long = format!("select '{}'", "x".repeat(64 << 10));
            let answers = wire.query(&long).await;
            assert_eq!(error(&answers).sqlstate(), "54000");
            assert_names(error(&answers), "65536", "max_statement_bytes");
            let answers = wire.ask(&[parse("", &long, &[]), sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "54000");
            let three = "select $1::int + $2::int + $3::int";
            let answers = wire.ask(&[parse("", three, &[]), sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "54000");
            assert_names(error(&answers), "2", "max_parameters");
            let two = parse("", "select $1::int + $2::int", &[]);
            let values = bind("", "", &[Some(b"40"), Some(b"2")]);
            let answers = wire.ask(&[two, values, execute("", 0), sync()]).await;
            assert_eq!(kinds(&answers), "12DCZ");
        }
    });
}

#[test]
fn a_session_keeps_only_so_many_statements() {
    let settings = coeval_server::Settings {
        max_prepared_statements: 2,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            // PREPARE and Parse name statements in one space.
            let parsed = wire.ask(&[parse("s0", "select 1", &[]), sync()]).await;
            assert!(parsed.iter().all(|answer| answer.kind != 'E'));
            wire.rows("prepare s1 as select 1").await;
            let parsed = wire.ask(&[parse("s2", "select 1", &[]), sync()]).await;
            let prepared = wire.query("prepare s2 as select 1").await;
            for answers in [parsed, prepared] {
                assert_eq!(error(&answers).sqlstate(), "54000");
                assert_names(error(&answers), "2", "max_prepared_statements");
            }
            // Room comes back.
            wire.rows("deallocate s0").await;
            wire.rows("prepare s2 as select 1").await;
        }
    });
}

#[test]
fn a_result_has_a_largest_size() {
    let settings = coeval_server::Settings {
        max_result_bytes: 1 << 20,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::connect(address).await;
            wire.rows("create table t (id int primary key, wide text)")
                .await;
            // A few rows, and many.
            let wide = "repeat('x', 600000)";
            for text in [
                format!("select {wide} union all select {wide}"),
                "select * from generate_series(1, 10000000)".to_owned(),
                "copy (select * from generate_series(1, 10000000)) to stdout".to_owned(),
                // A statement whose result cannot be sent has no effect.
                format!("insert into t values (1, {wide}), (2, {wide}) returning wide"),
            ] {
                wire.send(&query(&text)).await;
                let answers = wire.until('Z').await;
                assert_eq!(error(&answers).sqlstate(), "54000", "{text}");
                assert_names(error(&answers), "1048576", "max_result_bytes");
            }
            let count = wire.value("select count(*) from t").await;
            assert_eq!(count.as_deref(), Some("0"));
            // In parts it can be had.
            let parts = [
                parse("", "select * from generate_series(1, 100000)", &[]),
                bind("", "", &[]),
                execute("", 30_000),
                execute("", 30_000),
                execute("", 30_000),
                sync(),
            ];
            let answers = wire.ask(&parts).await;
            let rows = answers.iter().filter(|answer| answer.kind == 'D').count();
            assert_eq!(rows, 90_000);
        }
    });
}

/// A row that fits no frame of the log fails when it is written, not at COMMIT, where the
/// whole transaction would be lost: with a log, and in memory alike.
#[test]
fn a_row_that_is_too_big_is_refused_at_its_statement() {
    for storage in [Storage::Memory, Storage::Directory] {
        let folder = tempfile::tempdir().unwrap();
        let settings = coeval_server::Settings {
            data_dir: folder.path().join("data"),
            ..settings()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(8 << 20)
            .build()
            .unwrap();
        runtime.block_on(async {
            let server = Server::start(settings, storage).await.unwrap();
            let mut wire = Wire::connect(server.address()).await;
            wire.rows("create table t (id int primary key, a text)")
                .await;
            wire.rows("begin; insert into t values (1, 'kept'); savepoint s")
                .await;
            for statement in [
                "insert into t values (2, repeat('x', 1048577))",
                "insert into t select n, repeat('x', n) from generate_series(1048570, 1048577) as g (n)",
                "update t set a = repeat('x', 1048577) where id = 1",
                "update t set a = repeat('x', 1048577), id = 5",
                "copy t from stdin",
            ] {
                let answers = match statement {
                    "copy t from stdin" => {
                        wire.send(&query(statement)).await;
                        let row = format!("3\t{}\n", "x".repeat(1_048_577));
                        let done = [message(b'd', row.as_bytes()), message(b'c', b"")];
                        wire.send(&done.concat()).await;
                        wire.until('Z').await
                    }
                    statement => wire.query(statement).await,
                };
                let refused = error(&answers);
                assert_eq!(refused.sqlstate(), "54000", "{statement}");
                let text = refused.field(b'M').unwrap();
                assert!(text.starts_with("row is too big: size 10485"), "{text}");
                wire.rows("rollback to s").await;
            }
            // The longest that fits, and all of it is committed.
            wire.rows("insert into t values (4, repeat('x', 1048500))")
                .await;
            wire.rows("update t set a = repeat('y', 1048500) where id = 4; commit")
                .await;
            let count = wire.value("select sum(length(a)) from t").await;
            assert_eq!(count.as_deref(), Some("1048504"));
            server.stop().await;
        });
    }
}

#[test]
fn nonsense_is_refused() {
    use coeval_server::Settings;
    for (settings, name) in [
        (
            Settings {
                max_connections: 3,
                ..Settings::default()
            },
            "superuser_reserved_connections",
        ),
        (
            Settings {
                max_statement_bytes: 10,
                ..Settings::default()
            },
            "max_statement_bytes",
        ),
        (
            Settings {
                max_parameters: 70_000,
                ..Settings::default()
            },
            "max_parameters",
        ),
        (
            Settings {
                max_prepared_statements: 0,
                ..Settings::default()
            },
            "max_prepared_statements",
        ),
    ] {
        let refused = settings.check().unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
    }
}
