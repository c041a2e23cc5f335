//! Cancel requests.

use std::cell::Cell;

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{Wire, error, kinds, packet, query};

const CANCEL: u32 = 80_877_102;

async fn cancel(address: std::net::SocketAddr, key: &[u8]) {
    let mut wire = Wire::open(address).await;
    wire.send(&packet(CANCEL, key)).await;
    assert!(wire.until_closed().await.is_empty(), "never answered");
}

#[test]
fn ends_a_statement_that_waits() {
    with_server(|address| async move {
        let mut holder = Wire::connect(address).await;
        holder
            .rows("create table t (id int primary key, n int)")
            .await;
        holder.rows("insert into t values (1, 0)").await;
        holder.rows("begin").await;
        holder.rows("update t set n = 1 where id = 1").await;
        let mut waiter = Wire::connect(address).await;
        waiter.send(&query("update t set n = 2 where id = 1")).await;
        // A wrong secret does nothing; the right one, however often, ends it.
        let mut wrong = waiter.key.clone();
        wrong[7] ^= 1;
        cancel(address, &wrong).await;
        let key = waiter.key.clone();
        let ended = Cell::new(false);
        let canceling = async {
            while !ended.get() {
                cancel(address, &key).await;
                coeval_env::yield_now().await;
            }
        };
        let waiting = async {
            let answers = waiter.until('Z').await;
            ended.set(true);
            answers
        };
        let (answers, ()) = tokio::join!(waiting, canceling);
        assert_eq!(error(&answers).sqlstate(), "57014");
        // The session goes on, and so does the holder.
        holder.rows("commit").await;
        assert_eq!(waiter.value("select n from t").await.as_deref(), Some("1"));
    });
}

#[test]
fn between_statements_it_means_nothing() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        let key = wire.key.clone();
        cancel(address, &key).await;
        assert_eq!(kinds(&wire.query("select 1").await), "TDCZ");
    });
}

#[test]
fn ends_a_copy_that_waits_for_data() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key)").await;
        wire.send(&query("copy t from stdin")).await;
        wire.until('G').await;
        let key = wire.key.clone();
        cancel(address, &key).await;
        let answers = wire.until('Z').await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        assert_eq!(
            wire.value("select count(*) from t").await.as_deref(),
            Some("0")
        );
    });
}

#[test]
fn only_the_sessions_own_key_opens_it() {
    with_server(|address| async move {
        let mut holder = Wire::connect(address).await;
        holder
            .rows("create table t (id int primary key, n int)")
            .await;
        holder.rows("insert into t values (1, 0)").await;
        holder.rows("begin; update t set n = 1 where id = 1").await;
        let mut waiter = Wire::connect(address).await;
        let mut watcher = Wire::connect(address).await;
        let number = waiter.value("select pg_backend_pid()").await.unwrap();
        waiter.send(&query("update t set n = 2 where id = 1")).await;
        let asked = format!("select wait_event_type from pg_stat_activity where pid = {number}");
        while watcher.value(&asked).await.as_deref() != Some("Lock") {}
        let (own, others) = (waiter.key.clone(), watcher.key.clone());
        let mut guessed = own.clone();
        for byte in &mut guessed[4..] {
            *byte ^= 0x10;
        }
        let mut nobody = own.clone();
        nobody[..4].copy_from_slice(&i32::MAX.to_be_bytes());
        for key in [
            guessed,
            // The right number with the secret of another session.
            [&own[..4], &others[4..]].concat(),
            nobody,
            [&own[..4], &[0; 4][..]].concat(),
            own[..6].to_vec(),
        ] {
            let mut wire = Wire::open(address).await;
            wire.send(&packet(CANCEL, &key)).await;
            wire.until_closed().await;
        }
        // Each was dealt with before its connection was closed.
        assert_eq!(watcher.value(&asked).await.as_deref(), Some("Lock"));
        holder.rows("commit").await;
        assert_eq!(waiter.until('Z').await[0].tag(), "UPDATE 1");
    });
}
