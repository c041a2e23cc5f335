//! Logins: passwords, access rules, and clients that violate the protocol.

use std::net::SocketAddr;
use std::path::Path;

use coeval_server::{RunningServer, Server, Settings, Storage};
use coeval_testkit::scram::{begin, first, initial, last, log_in, request};
use coeval_testkit::server::{assert_serves, settings, with_running, with_server, with_settings};
use coeval_testkit::wire::{
    Answer, Wire, bind, error, execute, kinds, message, parse, query, start, sync,
};
use tokio_postgres::NoTls;

/// Connects by tokio-postgres; the SQLSTATE, if that fails.
async fn connect(address: SocketAddr, who: &str) -> Result<tokio_postgres::Client, String> {
    let url = format!("postgres://{who}@{address}/bank");
    match tokio_postgres::connect(&url, NoTls).await {
        Ok((client, connection)) => {
            coeval_env::spawn("connection", async move {
                let _ = connection.await;
            });
            Ok(client)
        }
        Err(error) => Err(error
            .code()
            .map_or_else(|| error.to_string(), |state| state.code().to_owned())),
    }
}

async fn refused(address: SocketAddr, who: &str) -> String {
    let outcome = connect(address, who).await;
    outcome.map(drop).expect_err("not let in")
}

/// The SQLSTATE with which a session start is refused.
async fn refused_start(address: SocketAddr, user: &str) -> Answer {
    let mut wire = Wire::open(address).await;
    wire.send(&start(&[("user", user), ("database", "bank")]))
        .await;
    let answers = wire.until_closed().await;
    error(&answers).clone()
}

#[test]
fn passwords_are_asked_for_once_there_are_some() {
    with_server(|address| async move {
        let visitor = connect(address, "ada").await.unwrap();
        visitor
            .batch_execute("create role app login password 'p:ä$s'; create role bob login")
            .await
            .unwrap();
        // A role with a password must prove it; any other name is let in still.
        assert_eq!(refused(address, "app:wrong").await, "28P01");
        let app = connect(address, "app:p%3A%C3%A4%24s").await.unwrap();
        let row = app.query_one("select current_user::text", &[]).await;
        assert_eq!(row.unwrap().get::<_, &str>(0), "app");
        connect(address, "bob").await.unwrap();
        connect(address, "eve").await.unwrap();
        // The database is open until a superuser has a password.
        visitor
            .batch_execute("create role root login superuser password 'secret'")
            .await
            .unwrap();
        for who in ["eve:x", "bob:x", "ada:x", "coeval:x", "root:x"] {
            assert_eq!(refused(address, who).await, "28P01", "{who}");
        }
        let root = connect(address, "root:secret").await.unwrap();
        root.batch_execute("alter role bob password 'b' valid until '2001-01-01'")
            .await
            .unwrap();
        assert_eq!(refused(address, "bob:b").await, "28P01");
        root.batch_execute("alter role bob valid until 'infinity'")
            .await
            .unwrap();
        connect(address, "bob:b").await.unwrap();
        root.batch_execute("alter role bob nologin").await.unwrap();
        assert_eq!(refused(address, "bob:b").await, "28000");
        // Sessions that were let in stay.
        visitor.batch_execute("select 1").await.unwrap();
    });
}

#[test]
fn a_role_has_no_more_sessions_than_its_limit() {
    with_server(|address| async move {
        let visitor = connect(address, "ada").await.unwrap();
        visitor
            .batch_execute("create role app login password 'x' connection limit 1")
            .await
            .unwrap();
        let first = connect(address, "app:x").await.unwrap();
        assert_eq!(refused(address, "app:x").await, "53300");
        drop(first);
        // It is gone as soon as the server has noticed.
        while let Err(state) = connect(address, "app:x").await {
            assert_eq!(state, "53300");
        }
    });
}

/// A session of app's, with these words of the connection string.
async fn app(address: SocketAddr, options: &str) -> Wire {
    let mut wire = Wire::open(address).await;
    let parameters = [("user", "app"), ("database", "bank"), ("options", options)];
    wire.send(&start(&parameters)).await;
    assert!(kinds(&wire.until_ready_or_closed().await).ends_with('Z'));
    wire
}

#[test]
fn a_session_begins_with_the_settings_of_its_role() {
    with_server(|address| async move {
        let mut root = Wire::connect(address).await;
        root.rows("create role app login").await;
        let mut before = app(address, "").await;
        for setting in [
            "role all set lock_timeout = '1s'",
            "role all set statement_timeout = '1min'",
            "database bank set lock_timeout = '2s'",
            "database bank set timezone = 'Asia/Tokyo'",
            "role app set lock_timeout = '3s'",
            "role app set coeval.read_from = any",
            "role app set application_name = 'of the role'",
            "role app set my.own = 'mine'",
            "role app set log_min_duration_statement = '1h'",
            "role app in database bank set work_mem = '8MB'",
        ] {
            root.rows(&format!("alter {setting}")).await;
        }
        let mut wire = app(address, "").await;
        let all = "select name, setting || coalesce(unit, ''), reset_val, source \
            from pg_settings where source not in ('default', 'server') \
            and context <> 'postmaster' order by name";
        let mut shown = wire.rows(all).await;
        shown.retain(|row| {
            !matches!(
                row[0].as_deref(),
                Some("session_authorization" | "is_superuser")
            )
        });
        let shown: Vec<String> = shown
            .iter()
            .map(|row| {
                row.iter()
                    .flatten()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(
            shown,
            [
                "TimeZone Asia/Tokyo Asia/Tokyo database",
                "application_name of the role of the role user",
                "coeval.read_from any any user",
                "lock_timeout 3s 3 user",
                "log_min_duration_statement 1h 1 user",
                "statement_timeout 1min 1 global",
                "work_mem 8MB 8 database user",
            ]
        );
        let show = async |wire: &mut Wire, name: &str, expected: &str| {
            let value = wire.value(&format!("show {name}")).await;
            assert_eq!(value.as_deref(), Some(expected), "{name}");
        };
        show(&mut wire, "my.own", "mine").await;
        // RESET goes back to them.
        for (name, own) in [
            ("lock_timeout", "3s"),
            ("my.own", "mine"),
            ("work_mem", "8MB"),
        ] {
            wire.rows(&format!("set {name} = 999")).await;
            wire.rows(&format!("reset {name}")).await;
            show(&mut wire, name, own).await;
        }
        wire.rows("set lock_timeout = 9; set timezone = 'UTC'; set my.own = 'no'")
            .await;
        wire.rows("discard all").await;
        show(&mut wire, "lock_timeout", "3s").await;
        show(&mut wire, "timezone", "Asia/Tokyo").await;
        show(&mut wire, "my.own", "mine").await;
        // SET ROLE takes on no settings.
        wire.rows("set role app").await;
        show(&mut wire, "lock_timeout", "3s").await;
        // The connection string wins.
        let mut other = app(address, "-c lock_timeout=7s -c my.own=yours").await;
        show(&mut other, "lock_timeout", "7s").await;
        show(&mut other, "my.own", "yours").await;
        let source = "select source from pg_settings where name = 'lock_timeout'";
        assert_eq!(other.value(source).await.as_deref(), Some("client"));
        // What the role has is the role's, and not another's.
        let mut root = Wire::connect(address).await;
        show(&mut root, "lock_timeout", "2s").await;
        show(&mut root, "work_mem", "64MB").await;
        // Sessions keep what they began with; the next has what holds then.
        show(&mut before, "lock_timeout", "0").await;
        root.rows("alter role app set lock_timeout = '4s'").await;
        root.rows("alter role app rename to application").await;
        root.rows("alter role application rename to app").await;
        show(&mut wire, "lock_timeout", "3s").await;
        let mut next = app(address, "").await;
        show(&mut next, "lock_timeout", "4s").await;
        root.rows("alter role app reset lock_timeout").await;
        show(&mut app(address, "").await, "lock_timeout", "2s").await;
        drop((before, wire, other, next));
        root.rows("drop role app; create role app login").await;
        let mut anew = app(address, "").await;
        show(&mut anew, "work_mem", "64MB").await;
        show(&mut anew, "lock_timeout", "2s").await;
        let unknown = anew.query("show my.own").await;
        assert_eq!(error(&unknown).sqlstate(), "42704");
    });
}

#[test]
fn a_revoke_reaches_what_is_cached() {
    with_server(|address| async move {
        let mut owner = Wire::connect(address).await;
        owner
            .rows("create table t (a int primary key); insert into t values (1), (2), (3)")
            .await;
        owner
            .rows("create role app login; grant select on t to app")
            .await;
        let app = connect(address, "app").await.unwrap();
        let prepared = app.prepare("select a from t where a = $1").await.unwrap();
        let mut simple = Wire::connect_as(address, "app").await;
        let named = parse("s", "select a from t where a = $1", &[23]);
        simple.ask(&[named, sync()]).await;
        let run = [bind("", "s", &[Some(b"1")]), execute("", 0), sync()];
        for _ in 0..2 {
            for number in 1..=3i32 {
                // By the text's shape, by the same text, by a prepared statement.
                let text = format!("select a from t where a = {number}");
                let told = simple.value(&text).await;
                assert_eq!(told, Some(number.to_string()));
                let same = simple.value("select count(*) from t").await;
                assert_eq!(same.as_deref(), Some("3"));
                assert_eq!(kinds(&simple.ask(&run).await), "2DCZ");
                let row = app.query_one(&prepared, &[&number]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0), number);
            }
            owner.rows("revoke select on t from app").await;
            for text in ["select a from t where a = 2", "select count(*) from t"] {
                let answers = simple.query(text).await;
                assert_eq!(error(&answers).sqlstate(), "42501", "{text}");
            }
            assert_eq!(error(&simple.ask(&run).await).sqlstate(), "42501");
            let refused = app.query(&prepared, &[&1]).await.unwrap_err();
            assert_eq!(refused.code().unwrap().code(), "42501");
            owner.rows("grant select on t to app").await;
        }
    });
}

/// A server with a file of rules.
fn with_rules<F: Future<Output = ()>>(rules: &str, test: impl FnOnce(SocketAddr) -> F) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hba");
    write(&path, rules);
    let mut settings = settings();
    settings.hba_file.0 = Some(path);
    with_settings(settings, |server| test(server.address()));
}

#[expect(clippy::disallowed_methods, reason = "a test writes its files")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn rules_decide() {
    let rules = "host all mallory all reject\n\
                 hostssl all app all trust\n\
                 host bank coeval 127.0.0.1/32 trust\n";
    with_rules(rules, |address| async move {
        let root = connect(address, "coeval").await.unwrap();
        root.batch_execute("create role app login; create role mallory login")
            .await
            .unwrap();
        let reject = refused_start(address, "mallory").await;
        assert_eq!(reject.sqlstate(), "28000");
        assert!(reject.field(b'M').unwrap().contains("reject"), "{reject:?}");
        // The only rule for this one asks for TLS, and this connection has none.
        let downgrade = refused_start(address, "app").await;
        assert_eq!(downgrade.sqlstate(), "28000");
        let message = downgrade.field(b'M').unwrap();
        assert!(message.contains("no encryption"), "{message}");
        // With a file, the server lets no name in that no role has.
        assert_eq!(refused_start(address, "visitor").await.sqlstate(), "28000");
        let mut wire = Wire::open(address).await;
        wire.send(&start(&[("user", "coeval"), ("database", "other")]))
            .await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "28000");
    });
}

#[test]
fn rules_are_read_again_when_asked_for_and_wrong_ones_are_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hba");
    write(&path, "host all all all trust");
    let mut settings = settings();
    settings.hba_file.0 = Some(path.clone());
    with_running(settings, async |server: &RunningServer| {
        let address = server.address();
        connect(address, "coeval").await.unwrap();
        write(&path, "host all all all reject");
        connect(address, "coeval").await.unwrap();
        server.reload().await.unwrap();
        assert_eq!(refused(address, "coeval").await, "28000");
        write(&path, "host all all all trust\nhost all all all maybe");
        let wrong = server.reload().await.unwrap_err().to_string();
        assert!(wrong.contains("hba, line 2: \"maybe\""), "{wrong}");
        assert_eq!(refused(address, "coeval").await, "28000");
    });
}

#[test]
fn a_server_does_not_start_with_rules_that_are_wrong_or_careless() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hba");
    let started = |listen: [u8; 4], insecure, text: &str| {
        write(&path, text);
        let mut settings = Settings {
            listen: (listen, 0).into(),
            insecure,
            ..settings()
        };
        settings.hba_file.0 = Some(path.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let start = coeval_env::spawn("server", Server::start(settings, Storage::Memory));
            match start.await.unwrap() {
                Ok(server) => {
                    server.stop().await;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            }
        })
    };
    let wrong = started([127, 0, 0, 1], false, "host all all nowhere trust");
    assert!(wrong.unwrap_err().contains("line 1"));
    let careless = "host all all 127.0.0.1/32 trust\nhost all all all trust";
    started([127, 0, 0, 1], false, careless).unwrap();
    let refused = started([0, 0, 0, 0], false, careless).unwrap_err();
    assert!(
        refused.contains("line 2") && refused.contains("--insecure"),
        "{refused}"
    );
    started([0, 0, 0, 0], true, careless).unwrap();
    started([0, 0, 0, 0], false, "host all all all scram-sha-256").unwrap();
}

/// A server in which `app` has to show the password `secret`.
fn closed<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr) -> F) {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        other
            .rows("create role app login superuser password 'secret'")
            .await;
        test(address).await;
        assert_eq!(other.value("select 40 + 2").await.as_deref(), Some("42"));
        let answers = log_in(&mut Wire::open(address).await, "app", "secret").await;
        assert_eq!(kinds(&answers).replace('S', ""), "RRKZ", "{answers:?}");
    });
}

/// A session in which the rules ask for a password, up to the offer.
async fn asked(address: SocketAddr) -> Wire {
    let mut wire = Wire::open(address).await;
    assert_eq!(begin(&mut wire, "app").await, ["SCRAM-SHA-256"]);
    wire
}

#[test]
fn nothing_but_an_answer_is_taken_before_the_client_is_known() {
    closed(|address| async move {
        let forged: &[Vec<u8>] = &[
            query("drop table account"),
            parse("", "select 1", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
            message(b'H', b""),
            message(b'd', b"data"),
            message(b'X', b""),
            message(b'F', b""),
            message(b'?', b""),
            start(&[("user", "app")]),
        ];
        for bytes in forged {
            // Before the first answer, and between the two.
            for step in 0..2 {
                let mut wire = asked(address).await;
                if step == 1 {
                    wire.send(&first()).await;
                    wire.receive().await.unwrap();
                }
                wire.send(bytes).await;
                let answers = wire.until_closed().await;
                assert_eq!(kinds(&answers), "E", "{bytes:?}");
                assert_eq!(answers[0].sqlstate(), "08P01", "{bytes:?}");
                assert_eq!(answers[0].field(b'S'), Some("FATAL"));
            }
        }
    });
}

#[test]
fn forged_answers_are_refused() {
    closed(|address| async move {
        let cases: &[(Vec<u8>, &str)] = &[
            (message(b'p', b""), "08P01"),
            (message(b'p', b"secret\0"), "08P01"),
            (message(b'p', b"SCRAM-SHA-256\0\x7f\xff\xff\xff"), "08P01"),
            (initial("SCRAM-SHA-1", "n,,n=,r=abc"), "08P01"),
            (initial("SCRAM-SHA-256", ""), "08P01"),
            (initial("SCRAM-SHA-256", "n,,n=,r="), "08P01"),
            (initial("SCRAM-SHA-256", "n,a=root,n=,r=abc"), "0A000"),
            (
                initial("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc"),
                "28000",
            ),
            // Longer than any exchange, and only announced.
            (b"p\0\x10\0\0".to_vec(), "54000"),
        ];
        for (bytes, sqlstate) in cases {
            let mut wire = asked(address).await;
            wire.send(bytes).await;
            let answers = wire.until_closed().await;
            assert_eq!(error(&answers).sqlstate(), *sqlstate, "{bytes:?}");
        }
    });
}

#[test]
fn an_overheard_login_is_of_no_use() {
    closed(|address| async move {
        let mut wire = asked(address).await;
        wire.send(&first()).await;
        let answer = wire.receive().await.unwrap();
        let overheard = last(&answer, "secret");
        wire.send(&overheard).await;
        let answers = wire.until('Z').await;
        assert_eq!(request(&answers[0]), 12);
        // Once more in the same session, and in another one.
        wire.send(&overheard).await;
        assert_eq!(error(&wire.until_closed().await).sqlstate(), "08P01");
        let mut wire = asked(address).await;
        wire.send(&[first(), overheard].concat()).await;
        let answers = wire.until_closed().await;
        assert_eq!(kinds(&answers), "RE");
        assert_eq!(answers[1].sqlstate(), "08P01");
    });
}

#[test]
fn who_exists_is_nobodys_business() {
    closed(|address| async move {
        let mut seen = Vec::new();
        // An unknown name twice, and a known role with a wrong password.
        for user in ["nobody", "nobody", "app"] {
            let mut wire = Wire::open(address).await;
            assert_eq!(begin(&mut wire, user).await, ["SCRAM-SHA-256"]);
            wire.send(&first()).await;
            let answer = wire.receive().await.unwrap();
            let text = String::from_utf8(answer.contents[4..].to_vec()).unwrap();
            let salt = text.split(',').nth(1).unwrap().to_owned();
            assert!(text.ends_with(",i=4096"), "{text}");
            wire.send(&last(&answer, "wrong")).await;
            let answers = wire.until_closed().await;
            assert_eq!(kinds(&answers), "E");
            let error = &answers[0];
            assert_eq!(error.sqlstate(), "28P01");
            let expected = format!("password authentication failed for user \"{user}\"");
            assert_eq!(error.field(b'M'), Some(expected.as_str()));
            assert_eq!((error.field(b'D'), error.field(b'H')), (None, None));
            seen.push((salt.len(), salt));
        }
        assert_eq!(seen[0], seen[1], "the same every time");
        assert_eq!(seen[0].0, seen[2].0, "of the same form");
    });
}

#[test]
fn the_same_name_meets_the_same_salt_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut salts = Vec::new();
    for _ in 0..2 {
        let settings = Settings {
            data_dir: directory.path().to_owned(),
            ..settings()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(1)
            .thread_stack_size(8 << 20)
            .build()
            .unwrap();
        let salt = runtime.block_on(async {
            let start = coeval_env::spawn("server", Server::start(settings, Storage::Directory));
            let server = start.await.unwrap().unwrap();
            let address = server.address();
            let answers = if salts.is_empty() {
                let mut wire = Wire::connect(address).await;
                wire.rows("create role app login superuser password 'secret'")
                    .await;
                Vec::new()
            } else {
                log_in(&mut Wire::open(address).await, "app", "secret").await
            };
            assert!(answers.iter().all(|answer| answer.kind != 'E'));
            let mut wire = Wire::open(address).await;
            begin(&mut wire, "nobody").await;
            wire.send(&first()).await;
            let answer = wire.receive().await.unwrap();
            server.stop().await;
            let text = String::from_utf8(answer.contents[4..].to_vec()).unwrap();
            text.split(',').nth(1).unwrap().to_owned()
        });
        salts.push(salt);
    }
    assert_eq!(salts[0], salts[1]);
}

#[test]
fn who_dawdles_while_logging_in_is_not_waited_for() {
    let settings = Settings {
        startup_timeout_milliseconds: 500,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut other = Wire::connect(address).await;
            other
                .rows("create role app login superuser password 'secret'")
                .await;
            // One byte at a time, until the server closes the connection.
            let mut slow = Vec::new();
            for _ in 0..20 {
                let mut wire = asked(address).await;
                slow.push(coeval_env::spawn("slow", async move {
                    for byte in first().iter().cycle() {
                        if tokio::io::AsyncWriteExt::write_u8(&mut wire.stream, *byte)
                            .await
                            .is_err()
                        {
                            break;
                        }
                        coeval_env::sleep(std::time::Duration::from_millis(20)).await;
                    }
                }));
            }
            let answers = log_in(&mut Wire::open(address).await, "app", "secret").await;
            assert_eq!(answers.last().unwrap().kind, 'Z');
            for each in slow {
                each.await.unwrap();
            }
            assert_eq!(other.value("select 1").await.as_deref(), Some("1"));
        }
    });
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let settings = Settings {
        max_connections: 4,
        superuser_reserved_connections: 1,
        startup_timeout_milliseconds: 600_000,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut silent = Vec::new();
            for _ in 0..200 {
                silent.push(Wire::open(address).await);
            }
            let mut wire = Wire::connect(address).await;
            assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
            // The first of them has made room.
            let answers = silent[0].until_closed().await;
            assert!(answers.is_empty());
        }
    });
}

#[test]
fn a_password_nobody_asked_for_ends_the_session() {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        let mut wire = Wire::connect(address).await;
        wire.send(&message(b'p', b"secret\0")).await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "08P01");
        assert_serves(&mut other, address).await;
    });
}
