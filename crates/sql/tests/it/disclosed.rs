//! What must be durable before a statement's answer leaves: of a row that is changed
//! by its primary key, only that it was there.

use coeval_types::Timestamp;

use crate::client::{query, session};
use crate::engines::{database, occ};

/// What the answer to the last statement waits for, in a block of its own; and the
/// two newest changes of the row, the older one first.
async fn after(statement: &str) -> (Timestamp, [Timestamp; 2]) {
    let database = database(occ()).await;
    let mut writer = session(&database);
    query(
        &mut writer,
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "",
    )
    .await;
    query(&mut writer, "INSERT INTO t VALUES (1, 10)", "").await;
    let mut changes = [Timestamp::ZERO; 2];
    for change in &mut changes {
        query(&mut writer, "UPDATE t SET v = v + 1 WHERE id = 1", "").await;
        *change = writer.newest_seen();
    }
    let mut reader = session(&database);
    query(&mut reader, "BEGIN", "").await;
    for part in statement.split(';') {
        query(&mut reader, part, "").await;
    }
    (reader.newest_seen(), changes)
}

#[tokio::test]
async fn a_change_by_primary_key_waits_for_the_row_and_not_for_its_value() {
    for statement in [
        "UPDATE t SET v = v * 2 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
    ] {
        let (seen, [before, _]) = after(statement).await;
        assert!(seen <= before, "{statement}: {seen} and {before}");
    }
}

#[tokio::test]
async fn what_tells_more_waits_for_all_of_it() {
    for statement in [
        "SELECT v FROM t WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "UPDATE t SET v = v * 2 WHERE id = 1 RETURNING v",
        "DELETE FROM t WHERE id = 1 RETURNING v",
        "UPDATE t SET v = v * 2 WHERE id = 1 AND v = 12",
        "UPDATE t SET v = v * 2 WHERE v = 12",
        "UPDATE t SET v = v * 2 WHERE id = (SELECT v - 11 FROM t WHERE id = 1)",
        "UPDATE t SET v = 1 / (v - 12) WHERE id = 1",
        "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = t.v",
        "UPDATE t SET v = v * 2 WHERE id = 1; SELECT v FROM t WHERE id = 1",
        "UPDATE t SET v = v * 2 WHERE id = 1; SELECT count(*) FROM t",
        "UPDATE t SET v = v * 2 WHERE id = 1; SELECT v FROM t WHERE id = 1 FOR UPDATE",
    ] {
        let (seen, [_, newest]) = after(statement).await;
        assert_eq!(seen, newest, "{statement}");
    }
}
