//! Clients that vanish in the middle of a conversation: the server releases their locks,
//! and other sessions are not affected.

use coeval_testkit::server::{assert_serves, resident, settings, with_server, with_settings};
use coeval_testkit::wire::{Wire, bind, execute, message, parse, query, sync};

/// Waits until the other side has noticed: until `text` gives `value`.
async fn eventually(wire: &mut Wire, text: &str, value: &str) {
    while wire.value(text).await.as_deref() != Some(value) {
        coeval_env::yield_now().await;
    }
}

#[test]
fn in_the_middle_of_a_transaction() {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        other
            .rows("create table t (id int primary key, n int)")
            .await;
        other.rows("insert into t values (1, 0)").await;
        let mut wire = Wire::connect(address).await;
        wire.rows("begin").await;
        wire.rows("update t set n = 1 where id = 1").await;
        drop(wire);
        // Its lock is free again, and its write undone.
        other.rows("update t set n = n + 10 where id = 1").await;
        assert_eq!(other.value("select n from t").await.as_deref(), Some("10"));
        assert_serves(&mut other, address).await;
    });
}

#[test]
fn while_waiting_for_a_lock() {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        other
            .rows("create table t (id int primary key, n int)")
            .await;
        other.rows("insert into t values (1, 0), (2, 0)").await;
        other.rows("begin").await;
        other.rows("update t set n = 1 where id = 1").await;
        // Holds 2, waits for 1, and vanishes without waiting for an answer.
        let mut wire = Wire::connect(address).await;
        wire.rows("begin").await;
        wire.rows("update t set n = 2 where id = 2").await;
        wire.send(&query("update t set n = 2 where id = 1")).await;
        drop(wire);
        // Row 2 is free although row 1 is still locked. A third session asks for row 2:
        // the holder of row 1 would cause a deadlock until the server notices the lost
        // connection.
        let mut third = Wire::connect(address).await;
        third.rows("update t set n = 3 where id = 2").await;
        other.rows("commit").await;
        let rows = other.rows("select n from t order by id").await;
        assert_eq!(rows, [[Some("1".into())], [Some("3".into())]]);
        assert_serves(&mut other, address).await;
    });
}

#[test]
fn in_the_middle_of_copy() {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        other.rows("create table t (id int primary key)").await;
        let mut wire = Wire::connect(address).await;
        wire.send(&query("copy t from stdin")).await;
        wire.until('G').await;
        wire.send(&message(b'd', b"1\n2\n3")).await;
        drop(wire);
        // None of it is there, and the table is not locked.
        other.rows("insert into t values (1)").await;
        assert_eq!(
            other.value("select count(*) from t").await.as_deref(),
            Some("1")
        );
        assert_serves(&mut other, address).await;
    });
}

#[test]
fn in_the_middle_of_a_large_result() {
    with_settings(settings(), |server| {
        let address = server.address();
        async move {
            let mut other = Wire::connect(address).await;
            other
                .rows("create table t (id int primary key, filler text)")
                .await;
            let filler = "x".repeat(1000);
            for hundred in 0..100 {
                let rows: Vec<_> = (0..100)
                    .map(|row| format!("({}, '{filler}')", hundred * 100 + row))
                    .collect();
                other
                    .rows(&format!("insert into t values {}", rows.join(",")))
                    .await;
            }
            let before = resident();
            // Ten megabytes each, which the client does not read.
            let mut wires = Vec::new();
            for _ in 0..10 {
                let mut wire = Wire::connect(address).await;
                wire.send(&query("select * from t; select * from t")).await;
                wires.push(wire);
            }
            for wire in &mut wires {
                assert_eq!(wire.receive().await.unwrap().kind, 'T');
            }
            assert_serves(&mut other, address).await;
            let grown = resident().saturating_sub(before);
            assert!(grown < 100 << 20, "{grown} bytes");
            drop(wires);
            assert_serves(&mut other, address).await;
        }
    });
}

#[test]
fn in_the_middle_of_a_pipeline() {
    with_server(|address| async move {
        let mut other = Wire::connect(address).await;
        other.rows("create table t (id int primary key)").await;
        let mut wire = Wire::connect(address).await;
        let insert = [
            parse("", "insert into t values (1)", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        // One series is complete, of the next the end is missing.
        let stream = [
            insert.concat(),
            sync(),
            parse("", "insert into t values (2)", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        wire.send(&stream.concat()).await;
        drop(wire);
        eventually(&mut other, "select count(*) from t", "1").await;
        other.rows("insert into t values (2)").await;
        assert_serves(&mut other, address).await;
    });
}
