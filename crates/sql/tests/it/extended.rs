//! The steps of the extended protocol.

use std::num::NonZeroU32;

use coeval_sql::output::{Completion, Format, TransactionStatus};
use coeval_sql::session::Portal;
use coeval_sql::{Session, SqlState};

use crate::client::{Lines, must, session, tag};
use crate::engines::{database, occ, serial};

async fn table(session: &mut Session) {
    must(
        session,
        "create table t (a int primary key, b text); insert into t values (1, 'one'), (2, 'two'), (3, 'three')",
    )
    .await;
}

#[tokio::test]
async fn parameters_get_their_types_from_their_place() {
    for engine in [serial(), occ()] {
        let mut session = session(&database(engine).await);
        table(&mut session).await;
        let statement = session.parse("update t set b = $2 where a = $1").unwrap();
        let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
        assert_eq!(prepared.parameter_types(), [23, 25]);
        assert_eq!(prepared.columns(), None);
        session.finish().await.unwrap();
        for (key, text) in [("1", "eins"), ("2", "zwei")] {
            let mut portal = session
                .bind(
                    &prepared,
                    &[Some(key.as_bytes()), Some(text.as_bytes())],
                    &[],
                    &[],
                )
                .unwrap();
            let mut lines = Lines::default();
            let done = session
                .execute(&mut portal, None, &mut lines)
                .await
                .unwrap();
            assert_eq!(tag(&done).unwrap().to_string(), "UPDATE 1");
            session.finish().await.unwrap();
        }
        let rows = must(&mut session, "select b from t order by a").await;
        assert_eq!(rows, ["  b", "  eins", "  zwei", "  three", "  SELECT 3"]);
    }
}

#[tokio::test]
async fn a_portal_goes_on_where_it_stopped() {
    let mut session = session(&database(occ()).await);
    table(&mut session).await;
    let statement = session.parse("select a from t order by a").unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let mut portal = session
        .bind(&prepared, &[], &[], &[Format::Binary])
        .unwrap();
    let two = NonZeroU32::new(2);
    let mut lines = Lines::default();
    let first = session.execute(&mut portal, two, &mut lines).await.unwrap();
    assert_eq!(first, Completion::Suspended);
    assert_eq!(lines.lines.len(), 3, "a head and two rows");
    let second = session.execute(&mut portal, two, &mut lines).await.unwrap();
    assert_eq!(tag(&second).unwrap().to_string(), "SELECT 1");
    assert_eq!(lines.lines.len(), 4);
    session.finish().await.unwrap();
}

#[tokio::test]
async fn a_portal_ends_with_its_transaction() {
    let mut session = session(&database(occ()).await);
    table(&mut session).await;
    let statement = session.parse("select a from t").unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
    let mut lines = Lines::default();
    let one = NonZeroU32::new(1);
    session.execute(&mut portal, one, &mut lines).await.unwrap();
    session.finish().await.unwrap();
    let error = session
        .execute(&mut portal, one, &mut lines)
        .await
        .unwrap_err();
    assert_eq!(error.state(), SqlState::INVALID_CURSOR_NAME);
}

/// Opens a portal over a query and takes its first row.
async fn suspended(session: &mut Session, text: &str, lines: &mut Lines) -> Portal {
    let statement = session.parse(text).unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
    let one = NonZeroU32::new(1);
    let first = session.execute(&mut portal, one, lines).await.unwrap();
    assert_eq!(first, Completion::Suspended);
    portal
}

/// READ COMMITTED gives each statement a snapshot, and a suspended one keeps its own
/// while others run.
#[tokio::test]
async fn a_suspended_portal_goes_on_by_its_own_snapshot() {
    let database = database(occ()).await;
    let (mut reader, mut writer) = (session(&database), session(&database));
    // More rows than a scan reads ahead, so that most are read when it goes on.
    must(
        &mut writer,
        "create table n (a int primary key, b int);
         insert into n select i, 0 from generate_series(1, 1000) i",
    )
    .await;
    must(&mut reader, "begin").await;
    let mut lines = Lines::default();
    let mut early = suspended(&mut reader, "select a, b from n order by a", &mut lines).await;
    must(
        &mut writer,
        "update n set b = 1; delete from n where a > 990; insert into n values (2000, 1)",
    )
    .await;
    assert_eq!(
        must(&mut reader, "select min(b), count(*) from n").await[1],
        "  1 | 991"
    );
    let mut middle = suspended(&mut reader, "select a, b from n order by a", &mut lines).await;
    must(&mut writer, "update n set b = 2").await;
    for (portal, b, last) in [(&mut early, 0, 1000), (&mut middle, 1, 2000)] {
        assert_eq!(
            must(&mut reader, "select min(b), count(*) from n").await[1],
            "  2 | 991"
        );
        let mut lines = Lines::default();
        let rest = reader.execute(portal, None, &mut lines).await.unwrap();
        let rows = if b == 0 { 999 } else { 990 };
        assert_eq!(tag(&rest).unwrap().to_string(), format!("SELECT {rows}"));
        assert_eq!(*lines.lines.last().unwrap(), format!("  {last} | {b}"));
        assert!(
            lines
                .lines
                .iter()
                .all(|line| line.ends_with(&format!("| {b}"))),
            "{:?}",
            lines.lines
        );
    }
    must(&mut reader, "commit").await;
}

#[tokio::test]
async fn a_portal_ends_with_the_savepoint_before_it() {
    for engine in [serial(), occ()] {
        let mut session = session(&database(engine).await);
        table(&mut session).await;
        must(&mut session, "begin; savepoint s").await;
        let mut lines = Lines::default();
        let mut before = suspended(&mut session, "select a from t", &mut lines).await;
        must(&mut session, "savepoint s; create index on t (b)").await;
        let mut after = suspended(
            &mut session,
            "select a from t where b > 'a' order by b",
            &mut lines,
        )
        .await;
        must(&mut session, "savepoint u; release u; rollback to s").await;
        let rest = session
            .execute(&mut before, None, &mut lines)
            .await
            .unwrap();
        assert_eq!(tag(&rest).unwrap().to_string(), "SELECT 2");
        let error = session
            .execute(&mut after, None, &mut lines)
            .await
            .unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_CURSOR_NAME);
        must(&mut session, "rollback").await;
    }
}

#[tokio::test]
async fn a_statement_outlives_changes_of_the_schema_but_not_of_its_result() {
    let mut session = session(&database(occ()).await);
    table(&mut session).await;
    let statement = session.parse("select b from t where a = $1").unwrap();
    let narrow = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let statement = session.parse("select * from t").unwrap();
    let wide = session.prepare(statement[0].clone(), &[]).await.unwrap();
    session.finish().await.unwrap();
    must(&mut session, "alter table t add column c int").await;
    let mut lines = Lines::default();
    let mut portal = session.bind(&narrow, &[Some(b"2")], &[], &[]).unwrap();
    session
        .execute(&mut portal, None, &mut lines)
        .await
        .unwrap();
    assert_eq!(lines.lines, ["  b", "  two"]);
    session.finish().await.unwrap();
    let mut portal = session.bind(&wide, &[], &[], &[]).unwrap();
    let error = session
        .execute(&mut portal, None, &mut lines)
        .await
        .unwrap_err();
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
    session.finish().await.unwrap();
}

#[tokio::test]
async fn what_fails_between_the_steps_fails_the_block() {
    let mut session = session(&database(occ()).await);
    table(&mut session).await;
    must(&mut session, "begin").await;
    session.fail();
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    let statement = session.parse("select 1").unwrap();
    let error = session
        .prepare(statement[0].clone(), &[])
        .await
        .unwrap_err();
    assert_eq!(error.state(), SqlState::IN_FAILED_SQL_TRANSACTION);
    assert_eq!(must(&mut session, "commit").await, ["  ROLLBACK"]);
    assert_eq!(session.transaction_status(), TransactionStatus::Idle);
}

#[tokio::test]
async fn settings_are_told_when_they_change() {
    let mut session = session(&database(occ()).await);
    let first = session.take_parameter_changes();
    assert!(first.iter().any(|(name, _)| name == "server_version"));
    assert!(session.take_parameter_changes().is_empty());
    must(&mut session, "set application_name = 'me'").await;
    assert_eq!(
        session.take_parameter_changes(),
        [("application_name".to_owned(), "me".to_owned())]
    );
    must(
        &mut session,
        "begin; set application_name = 'you'; rollback",
    )
    .await;
    assert!(session.take_parameter_changes().is_empty());
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended() {
    let database = database(occ()).await;
    let (mut one, mut other) = (session(&database), session(&database));
    table(&mut one).await;
    must(&mut one, "begin; update t set b = 'x' where a = 1").await;
    must(&mut other, "set statement_timeout = '20ms'").await;
    let said = crate::client::query(&mut other, "update t set b = 'y' where a = 1", "").await;
    assert_eq!(
        said,
        [
            "  ERROR 57014: canceling statement due to statement timeout",
            "  HINT: The limit is the setting statement_timeout.",
        ]
    );
    must(
        &mut other,
        "set statement_timeout = 0; set lock_timeout = '20ms'",
    )
    .await;
    let said = crate::client::query(&mut other, "update t set b = 'y' where a = 1", "").await;
    assert_eq!(
        said,
        [
            "  ERROR 55P03: canceling statement due to lock timeout",
            "  DETAIL: It waited for row (a)=(1) of table \"t\".",
        ]
    );
    must(&mut one, "commit").await;
    must(&mut other, "update t set b = 'y' where a = 1").await;
}

#[tokio::test]
async fn a_large_result_asks_for_room_on_its_way() {
    let mut session = session(&database(occ()).await);
    must(&mut session, "create table n (a int primary key)").await;
    must(
        &mut session,
        "insert into n select * from generate_series(1, 5000)",
    )
    .await;
    let statement = session.parse("select a from n").unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
    let mut lines = Lines::default();
    session
        .execute(&mut portal, None, &mut lines)
        .await
        .unwrap();
    assert_eq!(lines.lines.len(), 5001);
    assert!(lines.drains > 10, "{} times", lines.drains);
    session.finish().await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_undoes_what_it_did() {
    let database = database(occ()).await;
    let mut one = session(&database);
    table(&mut one).await;
    let mut other = session(&database);
    must(
        &mut other,
        "begin; create table gone (a int); delete from t",
    )
    .await;
    drop(other);
    let rows = must(&mut one, "select count(*) from t").await;
    assert_eq!(rows, ["  count", "  3", "  SELECT 1"]);
    must(&mut one, "create table gone (a int)").await;
}

#[tokio::test]
async fn a_session_can_move_between_threads() {
    fn movable<T: Send>(value: T) -> T {
        value
    }
    let mut session = session(&database(occ()).await);
    let text =
        "create table t (a int); insert into t values (1); copy t from stdin; select * from t";
    let work = movable(crate::client::query(&mut session, text, "7\n"));
    assert_eq!(work.await.last().map(String::as_str), Some("  SELECT 2"));
}

#[tokio::test]
async fn now_as_a_parameter_is_the_present() {
    let mut session = session(&database(occ()).await);
    let before = must(&mut session, "select now()").await.swap_remove(1);
    let text = "select $1::timestamptz > $2::timestamptz";
    let statement = session.parse(text).unwrap().swap_remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    session.finish().await.unwrap();
    coeval_env::sleep(std::time::Duration::from_millis(2)).await;
    let parameters = [Some(&b"now"[..]), Some(before.trim().as_bytes())];
    let mut portal = session.bind(&prepared, &parameters, &[], &[]).unwrap();
    let mut lines = Lines::default();
    let executed = session.execute(&mut portal, None, &mut lines).await;
    assert_eq!(tag(&executed.unwrap()).unwrap().to_string(), "SELECT 1");
    assert_eq!(lines.lines[1].trim(), "t");
    session.finish().await.unwrap();
}

#[tokio::test]
async fn documents_bytes_and_identifiers_are_binary_parameters() {
    let mut session = session(&database(occ()).await);
    let text = "select encode($1, 'hex'), $2 ->> 'a', $3, $4 -> 0, $5[2], $6[1] -> 'x'";
    let statement = session.parse(text).unwrap();
    let types = [17, 3802, 2950, 114, 2951, 3807];
    let prepared = session.prepare(statement[0].clone(), &types).await.unwrap();
    assert_eq!(prepared.parameter_types(), types);
    let uuid: Vec<u8> = (0..16).collect();
    let array = |element: u32, items: &[&[u8]]| {
        let mut out = Vec::new();
        for word in [1, 0, element, items.len() as u32, 1] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for item in items {
            out.extend_from_slice(&(item.len() as u32).to_be_bytes());
            out.extend_from_slice(item);
        }
        out
    };
    let uuids = array(2950, &[&[0; 16], &uuid]);
    let documents = array(3802, &[b"\x01{\"x\": [1]}"]);
    let values: [Option<&[u8]>; 6] = [
        Some(&[0, 255, 10]),
        Some(b"\x01{\"a\": \"b\"}"),
        Some(&uuid),
        Some(b"[ {} ]"),
        Some(&uuids),
        Some(&documents),
    ];
    let mut portal = session
        .bind(&prepared, &values, &[Format::Binary], &[])
        .unwrap();
    let mut lines = Lines::default();
    session
        .execute(&mut portal, None, &mut lines)
        .await
        .unwrap();
    let shown = "00010203-0405-0607-0809-0a0b0c0d0e0f";
    assert_eq!(
        lines.lines[1],
        format!("  00ff0a | b | {shown} | {{}} | {shown} | [1]")
    );
    session.finish().await.unwrap();
    for (at, bad) in [
        (1, &b"\x02{}"[..]),
        (1, b"{}"),
        (2, b"short"),
        (3, b"{"),
        (4, b"x"),
    ] {
        let mut wrong = values;
        wrong[at] = Some(bad);
        let error = session.bind(&prepared, &wrong, &[Format::Binary], &[]);
        assert!(error.is_err(), "{at} {bad:?}");
    }
}
