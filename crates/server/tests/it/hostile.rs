//! Malformed and malicious input: the server answers with a clear error or a clean close,
//! and other sessions are not affected.

use std::net::SocketAddr;

use coeval_testkit::server::{assert_serves, resident, settings, with_server, with_settings};
use coeval_testkit::wire::{
    Wire, bind, close, describe, error, execute, kinds, message, packet, parse, query, start, sync,
};

/// Runs a hostile session beside a good one.
fn against<F: Future<Output = ()>>(test: impl FnOnce(SocketAddr) -> F) {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        test(address).await;
        assert_serves(&mut other, address).await;
    });
}

#[test]
fn malformed_startup() {
    against(|address| async move {
        let long = vec![b'x'; 20_000];
        let cases: &[(&[u8], &str)] = &[
            (b"\0\0\0\0", "08P01"),
            (b"\0\0\0\x07\0\x03\0", "08P01"),
            (b"\xff\xff\xff\xff\0\x03\0\0", "08P01"),
            (b"\x7f\xff\xff\xff\0\x03\0\0", "08P01"),
            (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "08P01"),
            (&packet(2 << 16, b"user\0ada\0\0"), "0A000"),
            (&packet(4 << 16, b"user\0ada\0\0"), "0A000"),
            (&packet(3 << 16, b"user\0ada"), "08P01"),
            (&packet(3 << 16, b"user\0ada\0"), "08P01"),
            (&packet(3 << 16, b"user\0ada\0\0more"), "08P01"),
            (&packet(3 << 16, b"user\0\xff\xfe\0\0"), "08P01"),
            (&packet(3 << 16, &long), "08P01"),
            (&packet(3 << 16, b"\0"), "28000"),
            (&packet(80_877_103, b"more"), "08P01"),
            (&start(&[("user", "ada"), ("replication", "true")]), "0A000"),
            (&start(&[("user", "ada"), ("options", "-x")]), "42601"),
        ];
        for (bytes, sqlstate) in cases {
            let mut wire = Wire::open(address).await;
            wire.send(bytes).await;
            let answers = wire.until_closed().await;
            assert_eq!(error(&answers).sqlstate(), *sqlstate, "{bytes:?}");
            assert_eq!(error(&answers).field(b'S'), Some("FATAL"), "{bytes:?}");
        }
        // Half a packet and gone; nothing and gone.
        for bytes in [&b"\0\0\0\x20\0\x03"[..], b""] {
            let mut wire = Wire::open(address).await;
            wire.send(bytes).await;
        }
    });
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let settings = coeval_server::Settings {
        startup_timeout_milliseconds: 50,
        ..settings()
    };
    with_settings(settings, |server| {
        let address = server.address();
        async move {
            let mut wire = Wire::open(address).await;
            wire.send(b"\0\0\0\x20\0\x03").await;
            assert!(wire.until_closed().await.is_empty());
        }
    });
}

/// One good message of every type, with a session in which it is good.
fn messages() -> Vec<Vec<u8>> {
    vec![
        query("select 1"),
        parse("s2", "select $1::int", &[23]),
        bind("p2", "s", &[Some(b"1")]),
        describe(b'S', "s"),
        execute("p", 7),
        close(b'S', "s"),
        message(b'f', b"reason\0"),
    ]
}

#[test]
fn truncated_messages_of_every_type() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        let setup = [
            parse("s", "select $1::int", &[23]),
            bind("p", "s", &[Some(b"1")]),
        ];
        wire.rows("begin").await;
        wire.ask(&[&setup[..], &[sync()]].concat()).await;
        for whole in messages() {
            let (kind, contents) = (whole[0], &whole[5..]);
            for end in 0..contents.len() {
                // The length is honest about what is there; the contents are short.
                wire.send(&message(kind, &contents[..end])).await;
                match kind {
                    b'Q' => {
                        let answers = wire.until('Z').await;
                        assert_eq!(error(&answers).sqlstate(), "08P01");
                    }
                    // Outside of a COPY it is ignored, whatever it says.
                    b'f' => {}
                    _ => {
                        let answers = wire.ask(&[sync()]).await;
                        assert_eq!(error(&answers).sqlstate(), "08P01");
                    }
                }
            }
        }
        wire.query("rollback").await;
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
        // Cut off by the end of the connection.
        for whole in messages() {
            for end in [1, 3, 5, whole.len() - 1] {
                let mut wire = Wire::connect(address).await;
                wire.send(&whole[..end]).await;
            }
        }
    });
}

#[test]
fn lengths_that_lie() {
    against(|address| async move {
        let lies: &[(&[u8], &str)] = &[
            (b"Q\0\0\0\0", "08P01"),
            (b"Q\0\0\0\x03", "08P01"),
            (b"P\xff\xff\xff\xff", "08P01"),
            (b"Q\x7f\xff\xff\xff", "54000"),
            (b"B\x7f\xff\xff\xff", "54000"),
            (b"d\x7f\xff\xff\xff", "54000"),
            (b"S\0\x01\0\0", "54000"),
            (b"E\x7f\xff\xff\xff", "54000"),
            (b"\0\0\0\0\x04", "08P01"),
            (b"z\0\0\0\x04", "08P01"),
        ];
        for (bytes, sqlstate) in lies {
            let mut wire = Wire::connect(address).await;
            wire.send(bytes).await;
            let answers = wire.until_closed().await;
            assert_eq!(error(&answers).sqlstate(), *sqlstate, "{bytes:?}");
            assert_eq!(error(&answers).field(b'S'), Some("FATAL"), "{bytes:?}");
        }
        // Inner lengths and counts that run past their message, into the next one.
        let mut wire = Wire::connect(address).await;
        wire.ask(&[parse("s", "select $1::text", &[25]), sync()])
            .await;
        let inner: &[(u8, &[u8])] = &[
            (b'P', b"\0select 1\0\xff\xff"),
            (b'B', b"\0s\0\0\0\0\x01\0\0\x10\0ab\0\0"),
            (b'B', b"\0s\0\0\0\0\x01\x7f\xff\xff\xffab\0\0"),
            (b'B', b"\0s\0\0\0\xff\xff"),
            (b'B', b"\0s\0\xff\xff\0\x01"),
            (b'B', b"\0s\0\0\0\0\x01\0\0\0\x01a\xff\xff"),
        ];
        for (kind, contents) in inner {
            wire.send(&message(*kind, contents)).await;
            // What an over-reading decoder would take for the rest.
            wire.send(&query(&"x".repeat(5000))).await;
            let answers = wire.ask(&[sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "08P01", "{contents:?}");
        }
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn announced_megabytes_take_no_memory() {
    against(|address| async move {
        let before = resident();
        let mut wires = Vec::new();
        for _ in 0..50 {
            let mut wire = Wire::connect(address).await;
            // 64 MB each, of which a few bytes come.
            wire.send(b"Q\x03\xff\xff\xff").await;
            wire.send(&[b' '; 1000]).await;
            wires.push(wire);
        }
        let mut property_checker = Wire::connect(address).await;
        assert_eq!(
            property_checker.value("select 1").await.as_deref(),
            Some("1")
        );
        let grown = resident().saturating_sub(before);
        assert!(grown < 100 << 20, "{grown} bytes");
    });
}

#[test]
fn invalid_utf8() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        for text in [
            &b"select '\xff'\0"[..],
            b"select '\xed\xa0\x80'\0",
            b"\xc3\x28\0",
        ] {
            wire.send(&message(b'Q', text)).await;
            let answers = wire.until('Z').await;
            assert_eq!(error(&answers).sqlstate(), "22021");
        }
        let stream = [message(b'P', b"\xff\0select 1\0\0\0"), sync()];
        assert_eq!(error(&wire.ask(&stream).await).sqlstate(), "22021");
        wire.ask(&[parse("s", "select $1::text", &[25]), sync()])
            .await;
        let answers = wire.ask(&[bind("", "s", &[Some(b"a\xffb")]), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "22021");
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn nul_in_text() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.send(&message(b'Q', b"select 'a\0b'\0")).await;
        assert_eq!(error(&wire.until('Z').await).sqlstate(), "08P01");
        wire.ask(&[parse("s", "select $1::text", &[25]), sync()])
            .await;
        let answers = wire.ask(&[bind("", "s", &[Some(b"a\0b")]), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "22021");
        // The same in binary format, which for text is the same bytes.
        let contents = b"\0s\0\0\x01\0\x01\0\x01\0\0\0\x03a\0b\0\0";
        let answers = wire
            .ask(&[message(b'B', contents), execute("", 0), sync()])
            .await;
        assert_eq!(error(&answers).sqlstate(), "22021");
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn row_limits_at_the_edges() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (1), (2), (3)").await;
        for limit in [i32::MAX, 0, -1, i32::MIN] {
            let stream = [
                parse("", "select id from t", &[]),
                bind("", "", &[]),
                execute("", limit),
                sync(),
            ];
            assert_eq!(kinds(&wire.ask(&stream).await), "12DDDCZ", "{limit}");
        }
    });
}

#[test]
fn as_many_parameters_as_there_can_be_and_one_more() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        // The message can count 65,535 of them.
        let values = vec![None; 65_535];
        wire.ask(&[parse("s", "select $1::int", &[23]), sync()])
            .await;
        let answers = wire.ask(&[bind("", "s", &values), sync()]).await;
        assert_eq!(error(&answers).sqlstate(), "08P01");
        // The statement can name one more, which no message can bring.
        for name in ["$65536", "$2147483648", "$99999999999999999999", "$0"] {
            let answers = wire
                .ask(&[parse("", &format!("select {name}::int"), &[]), sync()])
                .await;
            let refused = error(&answers).sqlstate();
            assert!(
                matches!(refused, "42P02" | "54000" | "42601"),
                "{name}: {refused}"
            );
        }
        let mut text = "select 1 where 1 in (".to_owned();
        for number in 1..=65_536 {
            text.push_str(&format!("${number},"));
        }
        text.push_str("0)");
        let answers = wire.ask(&[parse("", &text, &[]), sync()]).await;
        let refused = error(&answers).sqlstate();
        assert!(
            matches!(refused, "42P02" | "54000" | "54001" | "42601"),
            "{refused}"
        );
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn a_megabyte_of_sql() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        // One long literal; it comes back whole.
        let long = "x".repeat(1 << 20);
        let value = wire.value(&format!("select '{long}'")).await;
        assert!(value.as_deref() == Some(&long));
        // A long wrong statement; the error does not repeat it.
        let answers = wire.query(&format!("selekt {long}")).await;
        assert_eq!(error(&answers).sqlstate(), "42601");
        assert!(error(&answers).contents.len() < 100_000);
        // Very many statements in one string.
        let answers = wire.query(&"select 1;".repeat(7_000)).await;
        assert_eq!(
            answers.iter().filter(|answer| answer.kind == 'C').count(),
            7_000
        );
        // Blanks and comments.
        let blank = " ".repeat(1 << 20);
        assert_eq!(kinds(&wire.query(&blank).await), "IZ");
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn expressions_ten_thousand_deep() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        let depth = 10_000;
        let deep = [
            format!("select {}1{}", "(".repeat(depth), ")".repeat(depth)),
            format!("select {}1", "- ".repeat(depth)),
            format!("select {}true", "not ".repeat(depth)),
            format!("select 1{}", " + 1".repeat(depth)),
            format!("select 1 where true{}", " or false".repeat(depth)),
            format!("select {}1{}", "abs(".repeat(depth), ")".repeat(depth)),
            format!(
                "select {}1{}",
                "case when true then ".repeat(depth),
                " end".repeat(depth)
            ),
            format!(
                "{}select 1{}",
                "select * from (".repeat(depth),
                ") t".repeat(depth)
            ),
            format!("select 1{}", "::int".repeat(depth)),
            format!("select array{}1{}", "[".repeat(depth), "]".repeat(depth)),
        ];
        for text in deep {
            let start: String = text.chars().take(30).collect();
            let answers = wire.query(&text).await;
            let outcome = kinds(&answers);
            if outcome != "TDCZ" {
                let refused = error(&answers).sqlstate();
                assert!(
                    matches!(refused, "54001" | "42601" | "0A000"),
                    "{start}: {answers:?}"
                );
            }
        }
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn numbers_that_do_not_fit() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        for (text, sqlstate) in [
            ("select 2147483647 + 1", "22003"),
            ("select 9223372036854775807 + 1", "22003"),
            ("select -32768::smallint - 1::smallint", "22003"),
            ("select 40000::smallint", "22003"),
            ("select 1 / 0", "22012"),
            ("select 1 % 0", "22012"),
            ("select 1.0 / 0", "22012"),
            ("select abs((-2147483648)::int)", "22003"),
            ("select (-9223372036854775808)::bigint / -1", "22003"),
            ("select '99999999999'::int", "22003"),
            ("select 'x'::int", "22P02"),
        ] {
            let answers = wire.query(text).await;
            assert_eq!(error(&answers).sqlstate(), sqlstate, "{text}");
        }
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

#[test]
fn messages_out_of_place() {
    against(|address| async move {
        // A password message without a request for it.
        let mut wire = Wire::connect(address).await;
        wire.send(&message(b'p', b"secret\0")).await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "08P01");
        // The function call of old, and COPY data without a COPY.
        let mut wire = Wire::connect(address).await;
        wire.send(&message(b'd', b"1\tone\n")).await;
        wire.send(&message(b'c', b"")).await;
        wire.send(&message(b'f', b"why\0")).await;
        wire.send(&message(b'F', b"\0\0\0\x01\0\0\0\0\0\0")).await;
        let answers = wire.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "0A000");
        // Describe and Close of neither statement nor portal.
        for kind in [b'D', b'C'] {
            let answers = wire.ask(&[message(kind, b"Xname\0"), sync()]).await;
            assert_eq!(error(&answers).sqlstate(), "08P01");
        }
        // Another session start in the middle of one.
        wire.send(&start(&[("user", "ada")])).await;
        let answers = wire.until_closed().await;
        assert_eq!(error(&answers).sqlstate(), "08P01");
    });
}

#[test]
fn statements_and_portals_without_end() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        let mut stream = Vec::new();
        for number in 0..=10_000 {
            stream.extend(parse(&format!("s{number}"), "select 1", &[]));
        }
        stream.extend(sync());
        let (mut read, mut write) = (Vec::new(), &stream[..]);
        while !write.is_empty() {
            let piece = write.len().min(64 << 10);
            wire.send(&write[..piece]).await;
            write = &write[piece..];
        }
        read.extend(wire.until('Z').await);
        assert_eq!(error(&read).sqlstate(), "54000");
        assert_eq!(wire.value("select 1").await.as_deref(), Some("1"));
    });
}

/// Nesting that the parser takes needs much stack, in FROM most of all.
#[test]
fn deep_nesting_is_answered_or_refused_at_once() {
    against(|address| async move {
        let mut wire = Wire::connect(address).await;
        let within = |open: &str, inner: &str, close: &str, depth: usize| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let pair = "(select 1) a cross join (select 1) b";
        let sides: String = (0..120)
            .map(|n| format!("(select 1) x{n} join ("))
            .collect();
        for (text, answer) in [
            (format!("select 1 from {}", within("(", pair, ")", 240)), ""),
            (
                format!("select 1 from {sides}{pair}{}", ") on true".repeat(120)),
                "",
            ),
            (
                format!(
                    "select {}",
                    within("case when true then ", "1", " end", 900)
                ),
                "",
            ),
            (
                format!("select {}", within("array[", "1", "]", 1_100)),
                "54001",
            ),
            (
                format!(
                    "select {}",
                    within("case when true then ", "1", " end", 1_100)
                ),
                "54001",
            ),
            (format!("select {}true", "not ".repeat(1_100)), "54001"),
        ] {
            for explains in ["", "explain "] {
                let answers = wire.query(&format!("{explains}{text}")).await;
                match answer {
                    "" => assert!(kinds(&answers).starts_with("TD"), "{answers:?}"),
                    state => assert_eq!(error(&answers).sqlstate(), state),
                }
            }
        }
    });
}
