//! `coeval.last_commit()` and `coeval.wait_for()`: a session waits for a commit of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_sql::session::{Session, SessionOptions};
use coeval_types::{Term, Timestamp};

use crate::client::{must, query, session};
use crate::engines::{database, occ};

/// The only value of a query's result; `None` if it is null.
async fn value(session: &mut Session, text: &str) -> Option<String> {
    let said = must(session, text).await;
    let value = said[1].trim().to_owned();
    Some(value).filter(|value| value != "∅")
}

async fn last_commit(session: &mut Session) -> Option<String> {
    value(session, "select coeval.last_commit()").await
}

#[tokio::test]
async fn a_session_knows_its_newest_commit() {
    let database = database(occ()).await;
    let mut writer = session(&database);
    assert_eq!(last_commit(&mut writer).await, None);
    must(&mut writer, "create table t (a int primary key)").await;
    let created = last_commit(&mut writer).await.unwrap();
    assert_eq!(
        Timestamp::parse(&created),
        Some(writer.newest_commit()),
        "{created}"
    );
    must(&mut writer, "insert into t values (1)").await;
    let inserted = last_commit(&mut writer).await.unwrap();
    let number = |text: &str| Timestamp::parse(text).unwrap();
    assert!(number(&inserted) > number(&created));
    // What only reads, and what is rolled back or not committed yet, is no commit.
    must(&mut writer, "select * from t").await;
    must(
        &mut writer,
        "begin; insert into t values (2); rollback; begin",
    )
    .await;
    must(&mut writer, "insert into t values (2)").await;
    assert_eq!(last_commit(&mut writer).await.as_ref(), Some(&inserted));
    must(&mut writer, "commit").await;
    assert_ne!(last_commit(&mut writer).await.unwrap(), inserted);
    let mut other = session(&database);
    assert_eq!(last_commit(&mut other).await, None);

    // It stays the session's newest when another node serves the session.
    let newest = writer.newest_commit();
    let mut handover = writer.handover();
    handover.keep_commit(newest);
    let mut received = coeval_sql::session::SessionHandover::default();
    for piece in handover.pieces() {
        received.apply(&piece).unwrap();
    }
    let options = SessionOptions::default();
    let resumed = Session::resume(Arc::clone(&database), options, received, false);
    let (mut resumed, refused) = resumed.await.unwrap();
    assert_eq!(refused.len(), 0);
    assert_eq!(
        last_commit(&mut resumed).await,
        Some(newest.to_string()),
        "handed over"
    );
    must(&mut resumed, "insert into t values (3)").await;
    assert_eq!(
        last_commit(&mut resumed).await,
        Some(resumed.newest_commit().to_string())
    );
}

#[tokio::test]
async fn a_session_waits_for_a_commit_of_another() {
    let database = database(occ()).await;
    let mut writer = session(&database);
    must(&mut writer, "create table t (a int primary key)").await;
    let commit = last_commit(&mut writer).await.unwrap();
    let mut reader = session(&database);
    for wait in [
        format!("select coeval.wait_for('{commit}')"),
        format!("select coeval.wait_for('{commit}', '1s')"),
        format!("select coeval.wait_for('{commit}', '0')"),
        format!("begin; select coeval.wait_for('{commit}')"),
    ] {
        let said = must(&mut reader, &wait).await;
        assert!(said.contains(&"  t".to_owned()), "{said:?}");
    }
    must(&mut reader, "commit").await;
    assert_eq!(
        value(&mut reader, "select coeval.wait_for(null)").await,
        None
    );

    // A commit that comes later ends the wait; another one, before it, does not.
    let later = Timestamp::new(Term(writer.newest_commit().term().0), {
        let mut lsn = writer.newest_commit().lsn();
        lsn.0 += 4000;
        lsn
    });
    let arrived = Arc::new(AtomicBool::new(false));
    let wait = format!("select coeval.wait_for('{later}')");
    let waiting = {
        let arrived = Arc::clone(&arrived);
        async move {
            let said = must(&mut reader, &wait).await;
            assert!(arrived.load(Ordering::SeqCst), "{said:?}");
            reader
        }
    };
    let writing = async {
        let mut number = 0;
        loop {
            coeval_env::sleep(Duration::from_millis(5)).await;
            number += 1;
            // The wait may see the commit before this task does, whose frame is shorter than that.
            let next = writer.newest_commit();
            if next.lsn().0 + 400 >= later.lsn().0 {
                arrived.store(true, Ordering::SeqCst);
            }
            must(&mut writer, &format!("insert into t values ({number})")).await;
            if writer.newest_commit() >= later {
                return;
            }
        }
    };
    let (mut reader, ()) = tokio::join!(waiting, writing);

    // One that does not come is an error after the time, and after statement_timeout.
    let never = format!("{}/0", later.term().0 + 7);
    let late = query(
        &mut reader,
        &format!("select coeval.wait_for('{never}', '30ms')"),
        "",
    )
    .await;
    let error = format!("  ERROR 57014: this node did not show the commit {never} in time");
    assert!(late.contains(&error), "{late:?}");
    must(&mut reader, "set statement_timeout = '30ms'").await;
    let late = query(
        &mut reader,
        &format!("select coeval.wait_for('{never}')"),
        "",
    )
    .await;
    let error = "  ERROR 57014: canceling statement due to statement timeout";
    assert!(late.iter().any(|line| line == error), "{late:?}");
    must(&mut reader, "reset statement_timeout").await;
    for (call, error) in [
        (
            "coeval.wait_for('yesterday')",
            "  ERROR 22023: \"yesterday\" is no commit",
        ),
        (
            "coeval.wait_for('1/8', 'soon')",
            "  ERROR 22023: \"soon\" is no time",
        ),
    ] {
        let refused = query(&mut reader, &format!("select {call}"), "").await;
        assert!(refused.iter().any(|line| line == error), "{refused:?}");
    }
    let copied = format!("copy (select coeval.wait_for('{never}')) to stdout");
    let refused = query(&mut reader, &copied, "").await;
    assert!(refused[0].contains("0A000"), "{refused:?}");
}
