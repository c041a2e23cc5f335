//! Temporary tables and cursors of a client of a node that follows: what the leader keeps for
//! a session is read there, and what a READ ONLY block declares is where the block is.

use std::time::Duration;

use coeval_testkit::wire::{Wire, error};

use crate::follower;
use crate::home::{Two, WHO, run, who};

async fn asks(wire: &mut Wire, expected: &str, why: &str) {
    assert_eq!(who(&wire.query(WHO).await), expected, "{why}");
}

async fn at_home(two: &Two) -> Wire {
    let mut wire = two.client().await;
    wire.rows("select 1").await;
    asks(&mut wire, "home", "before").await;
    wire
}

#[test]
fn a_session_with_temporary_tables_reads_at_the_leader() {
    run(async |two| {
        let mut wire = at_home(two).await;
        wire.rows("create temp table u (a int)").await;
        asks(&mut wire, "leader", "it has a temporary table").await;
        wire.rows("insert into u values (1)").await;
        assert_eq!(
            wire.value("select count(*) from u").await.as_deref(),
            Some("1")
        );
        wire.rows("begin").await;
        asks(&mut wire, "leader", "in a block").await;
        wire.rows("drop table u").await;
        asks(&mut wire, "leader", "the drop may roll back").await;
        wire.rows("commit").await;
        asks(&mut wire, "home", "it is dropped").await;
        // One that hides the table which the node has.
        wire.rows("create temp table t (a int, b text)").await;
        wire.rows("insert into t values (1, 'temporary')").await;
        asks(&mut wire, "temporary", "it hides the permanent one").await;
        wire.rows("discard temp").await;
        asks(&mut wire, "home", "it is discarded").await;
        // One that a block drops as it ends, or that was rolled back.
        wire.rows("begin").await;
        wire.rows("create temp table u (a int) on commit drop")
            .await;
        wire.rows("commit").await;
        asks(&mut wire, "home", "it is gone").await;
        wire.rows("begin").await;
        wire.rows("create temp table u (a int)").await;
        wire.rows("rollback").await;
        asks(&mut wire, "home", "it was never there").await;
    });
}

#[test]
fn a_cursor_that_outlives_its_block_is_the_leaders() {
    run(async |two| {
        let mut wire = at_home(two).await;
        wire.rows("declare c cursor with hold for select b from t")
            .await;
        asks(&mut wire, "leader", "it has a cursor there").await;
        assert_eq!(
            wire.value("select count(*) from pg_cursors")
                .await
                .as_deref(),
            Some("1")
        );
        assert_eq!(wire.value("fetch c").await.as_deref(), Some("leader"));
        wire.rows("close c").await;
        asks(&mut wire, "home", "it has none").await;
        // A block that may write moves there with its first cursor.
        wire.rows("begin").await;
        asks(&mut wire, "home", "the block is new").await;
        wire.rows("declare c cursor for select b from t").await;
        asks(&mut wire, "leader", "the block has moved").await;
        assert_eq!(wire.value("fetch c").await.as_deref(), Some("leader"));
        wire.rows("commit").await;
        asks(&mut wire, "home", "the cursor has ended").await;
    });
}

#[test]
fn a_cursor_of_a_read_only_block_is_where_the_block_is() {
    run(async |two| {
        let mut wire = at_home(two).await;
        for begin in [
            "begin read only",
            "begin isolation level repeatable read read only",
        ] {
            wire.rows(begin).await;
            wire.rows("declare c scroll cursor for select b from t")
                .await;
            assert_eq!(wire.value("fetch c").await.as_deref(), Some("home"));
            assert_eq!(
                wire.value("select count(*) from pg_cursors")
                    .await
                    .as_deref(),
                Some("1")
            );
            assert_eq!(
                wire.value("fetch first from c").await.as_deref(),
                Some("home")
            );
            // The block cannot move any more.
            wire.rows("savepoint s").await;
            let answers = wire.query("select txid_current()").await;
            assert_eq!(error(&answers).sqlstate(), "0A000", "{begin}");
            wire.rows("rollback to s").await;
            let answers = wire.query("declare h cursor with hold for select 1").await;
            assert_eq!(error(&answers).sqlstate(), "0A000", "{begin}");
            wire.rows("rollback to s").await;
            wire.rows("close c").await;
            wire.rows("commit").await;
            asks(&mut wire, "home", "after the block").await;
        }
    });
}

#[test]
fn a_session_with_temporary_tables_ends_when_the_leader_changes() {
    let change = |settings| settings;
    follower::run(change, async |pair| {
        let mut far = pair.reader().await;
        far.rows("create table p (a int)").await;
        far.rows("insert into p values (1)").await;
        far.rows("create temp table p (a int)").await;
        let mut near = pair.writer().await;
        near.rows("create temp table p (a int)").await;
        let mut holds = pair.reader().await;
        holds
            .rows("declare c cursor with hold for select a from p")
            .await;
        let mut plain = pair.reader().await;
        plain.rows("set work_mem = '5MB'").await;
        let leader = plain
            .value("select leader from coeval.cluster_status")
            .await;
        let next = if leader.as_deref() == Some("1") { 2 } else { 1 };
        while !pair.follower.leads() {
            plain
                .query(&format!("select coeval.cluster_transfer({next})"))
                .await;
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
        for wire in [&mut far, &mut near] {
            wire.send(&coeval_testkit::wire::query("select count(*) from p"))
                .await;
            let answers = wire.until_closed().await;
            assert_eq!(error(&answers).sqlstate(), "57P01");
        }
        let answers = holds.query("fetch c").await;
        assert_eq!(error(&answers).sqlstate(), "34000");
        for wire in [&mut holds, &mut plain] {
            assert_eq!(
                wire.value("select count(*) from p").await.as_deref(),
                Some("1")
            );
        }
        let shown = plain.value("show work_mem").await;
        assert_eq!(shown.as_deref(), Some("5MB"));
    });
}
