//! Slow statements in the log: which, with what, and what must not be there.

use coeval_testkit::wire::{Wire, bind, error, execute, parse, sync};

use crate::audit::logged;

/// The fields of the lines about slow statements.
fn slow(lines: &[String]) -> Vec<serde_json::Value> {
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<serde_json::Value> = lines.collect();
    lines.retain(|line| line["message"] == "slow statement");
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
    let slow = slow(&lines);
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
