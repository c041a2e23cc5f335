//! Slow and failing statements in the log: which, with what, and what must not be there.

use coeval_testkit::wire::{Wire, bind, error, execute, parse, sync};

use crate::audit::logged;

/// The fields of the lines with this message.
fn with_message(lines: &[String], message: &str) -> Vec<serde_json::Value> {
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<serde_json::Value> = lines.collect();
    lines.retain(|line| line["message"] == message);
    lines
}

#[test]
fn they_are_logged_without_their_values() {
    let lines = logged(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key, name text)")
            .await;
        wire.rows("set application_name = 'payroll'").await;
        wire.rows("set log_min_duration_statement = 0").await;
        wire.rows("insert into t values (1, 'geheim'), (2, 'geheim')")
            .await;
        let text = "select name from t where id = $1 and name <> 'geheim'";
        let asked = [
            parse("", text, &[]),
            bind("", "", &[Some(b"1077001077")]),
            execute("", 0),
            sync(),
        ];
        wire.ask(&asked).await;
        error(&wire.query("insert into t values (1, 'geheim')").await);
        // Not so slow, and not at all.
        wire.rows("set log_min_duration_statement = '1h'").await;
        wire.rows("select 'fast'").await;
        wire.rows("set log_min_duration_statement = -1").await;
        wire.rows("select 'off'").await;
    });
    let slow = with_message(&lines, "slow statement");
    let all = format!("{slow:?}");
    let values = ["geheim", "1077001077"];
    assert!(!values.iter().any(|value| all.contains(value)), "{all}");
    let find = |part: &str| {
        let text = |line: &&serde_json::Value| line["statement"].as_str().unwrap().contains(part);
        let mut found: Vec<_> = slow.iter().filter(text).collect();
        assert!(!found.is_empty(), "{part} in none of {slow:#?}");
        found.remove(0)
    };
    let insert = find("insert into t values ($1, ?), ($2, ?)");
    assert_eq!(insert["rows"], 2);
    assert_eq!(insert["sqlstate"], "00000");
    for (field, value) in [
        ("user", "ada"),
        ("database", "bank"),
        ("application", "payroll"),
    ] {
        assert_eq!(insert[field], value, "{insert}");
    }
    assert!(insert["milliseconds"].as_f64().unwrap() >= 0.0);
    assert!(insert["session"].as_i64().is_some());
    find("where id = $1 and name <> ?");
    let failed = slow.iter().find(|line| line["sqlstate"] == "23505");
    assert_eq!(failed.expect("failures are slow too")["rows"], 0);
    for text in ["select ?", "create table"] {
        let logged = slow.iter().any(|line| line["statement"] == text);
        assert!(!logged, "{text} in {slow:#?}");
    }
}

#[test]
fn failing_statements_are_logged_with_their_message() {
    let lines = logged(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.rows("insert into t values (1)").await;
        error(&wire.query("insert into t values (1), (4711)").await);
        error(&wire.query("selec 'geheim'").await);
        error(
            &wire
                .query("alter role ada nonsense password 'geheim'")
                .await,
        );
        for (text, values) in [
            ("select missing from t where id = $1", &[][..]),
            ("select 10 / $1::int", &[Some(&b"0"[..])]),
            ("select $1::int + $2", &[Some(&b"1"[..])]),
        ] {
            let bound = bind("", "", values);
            wire.ask(&[parse("", text, &[]), bound, execute("", 0), sync()])
                .await;
        }
        // A failure within a block is one line, the statements after it are failures too.
        wire.rows("begin").await;
        error(&wire.query("select 1 / (id - 1) from t").await);
        error(&wire.query("select 'ignored'").await);
        wire.rows("rollback").await;
        wire.rows("set log_min_error_statement = fatal").await;
        error(&wire.query("select off").await);
    });
    let failed = with_message(&lines, "statement failed");
    let seen: Vec<_> = failed
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            assert_eq!(
                (&line["user"], &line["severity"]),
                (&"ada".into(), &"ERROR".into())
            );
            (text("sqlstate"), text("error"), text("statement"))
        })
        .collect();
    let all = format!("{seen:?}");
    assert!(!all.contains("geheim") && !all.contains("4711"), "{all}");
    let aborted = "current transaction is aborted, commands ignored until end of transaction block";
    let unknown = "column \"missing\" does not exist";
    let supplied = "bind message supplies 1 parameters, but prepared statement \"\" requires 2";
    let expected = [
        (
            "23505",
            "duplicate key value violates unique constraint \"t_pkey\"",
            "insert into t values (?), (?)",
        ),
        ("42601", "syntax error at or near \"selec\"", "selec ?"),
        (
            "42601",
            "unrecognized role option \"nonsense\"",
            "alter role ada nonsense password …",
        ),
        ("42703", unknown, "select missing from t where id = $1"),
        ("22012", "division by zero", "select ? / $1::int"),
        ("08P01", supplied, "select $1::int + $2"),
        ("22012", "division by zero", "select ? / (id - ?) from t"),
        ("25P02", aborted, "select ?"),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(state, error, text)| (state.to_owned(), error.to_owned(), text.to_owned()))
        .collect();
    assert_eq!(seen, expected);
}
