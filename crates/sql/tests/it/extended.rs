//! The steps of the extended protocol.

use std::num::NonZeroU32;

use coeval_sql::session::{Completion, Format, TransactionStatus};
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
