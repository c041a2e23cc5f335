//! Which answers wait until it is confirmed that their engine still leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use coeval_occ::{Leadership, Settings};
use coeval_sql::{Database, Session};
use coeval_txn::{Confirmation, Error};

use crate::client::{Lines, must, query, session};

/// Counts questions.
#[derive(Debug, Default)]
struct Asked {
    count: AtomicU64,
    /// Whether another node may be about to become leader.
    is_challenged: AtomicBool,
}

impl Leadership for Asked {
    fn ask(&self) -> Option<Confirmation> {
        Some(Confirmation(1 + self.count.fetch_add(1, Ordering::Relaxed)))
    }

    fn is_unchallenged(&self) -> bool {
        !self.is_challenged.load(Ordering::Relaxed)
    }

    fn poll(&self, _: Confirmation, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

struct Leader {
    database: Arc<Database>,
    asked: Arc<Asked>,
}

async fn leader() -> Leader {
    let settings = Settings {
        sweep_interval: None,
        ..Settings::default()
    };
    let engine = coeval_occ::Engine::ephemeral(settings).expect("sound settings");
    let asked = Arc::new(Asked::default());
    engine.led_under(Arc::clone(&asked) as _);
    let database = Database::open(Arc::new(engine)).await.expect("it opens");
    must(
        &mut session(&database),
        "create table t (a int primary key, b int); insert into t values (1, 1), (2, 2)",
    )
    .await;
    Leader { database, asked }
}

impl Leader {
    /// How many questions the answer to this text makes, and whether it waits for one that
    /// was put meanwhile.
    async fn answer(&self, session: &mut Session, text: &str) -> (u64, bool) {
        let before = self.asked.count.load(Ordering::Relaxed);
        query(session, text, "").await;
        let waits_for = session.dependencies().confirmation;
        let after = self.asked.count.load(Ordering::Relaxed);
        (
            after - before,
            waits_for.is_some_and(|asked| asked.0 > before),
        )
    }

    /// Holds these answers to whether they wait.
    async fn expect(&self, session: &mut Session, answers: &[(&str, bool)]) {
        for (text, waits) in answers {
            let (asked, waited) = self.answer(session, text).await;
            assert_eq!(waited, *waits, "{text}");
            assert_eq!(asked, u64::from(*waits), "{text}");
        }
    }
}

#[tokio::test]
async fn what_depends_on_the_database_waits_and_nothing_else_does() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    let answers = [
        ("select b from t where a = 1", true),
        ("select b from t where a = 1", true),
        ("select b from t where a = 99", true),
        ("select count(*) from t", true),
        ("select relname from pg_class", true),
        ("select (select max(b) from t)", true),
        ("select 't'::regclass", true),
        ("explain select * from t", true),
        ("copy t to stdout", true),
        ("values (1), ((select 2 from t limit 1))", true),
        // An error tells as much.
        ("select * from nowhere", true),
        ("select b / 0 from t", true),
        ("create table t (x int)", true),
        ("backup to stdout", true),
        ("grant select on t to nobody", true),
        // Nothing was changed, so no commit shows anything.
        ("create table if not exists t (x int)", true),
        ("drop table if exists nowhere", true),
        ("update t set b = 0 where a = 99", true),
        ("select a from t where a = 1 for update", true),
        ("select 1", false),
        ("select 1 + 1, 'a' || 'b', upper('x')", false),
        ("select * from generate_series(1, 3)", false),
        ("values (1), (2)", false),
        ("show search_path", false),
        ("set work_mem = '4MB'", false),
        ("selec", false),
        ("begin", false),
        ("commit", false),
        ("", false),
    ];
    leader.expect(&mut session, &answers).await;
    // Once more: texts that are known go another way.
    leader.expect(&mut session, &answers).await;
}

#[tokio::test]
async fn a_commit_that_wrote_needs_no_other_confirmation() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    let answers = [
        ("update t set b = b + 1 where a = 1", false),
        ("insert into t values (3, 3) returning b", false),
        ("create table other (x int)", false),
        ("begin", false),
        ("update t set b = b + 1 where a = 1", false),
        ("select sum(b) from t", false),
        ("commit", false),
        ("begin", false),
        ("select sum(b) from t", true),
        ("update t set b = b + 1 where a = 1", false),
        ("select sum(b) from t", false),
        ("commit", false),
        (
            "select sum(b) from t; update t set b = 5 where a = 2",
            false,
        ),
    ];
    leader.expect(&mut session, &answers).await;
}

#[tokio::test]
async fn what_a_transaction_was_shown_that_is_undone_is_confirmed_at_its_end() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    let answers = [
        ("begin", false),
        ("update t set b = b + 1 where a = 1", false),
        ("select sum(b) from t", false),
        ("rollback", true),
        ("rollback", false),
        ("begin", false),
        ("update t set b = b + 1 where a = 1", false),
        ("select 1 / (b - b) from t", true),
        ("rollback", false),
    ];
    leader.expect(&mut session, &answers).await;
}

#[tokio::test]
async fn what_a_block_shows_is_confirmed_at_its_beginning_and_its_end() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    for end in ["commit", "rollback", "select 1 / (b - b) from t"] {
        let answers = [
            ("begin", false),
            ("select 1", false),
            ("select sum(b) from t", true),
            ("select sum(b) from t", false),
            ("select max(b) from t", false),
            ("explain select * from t", false),
            ("select 1", false),
            (end, true),
            ("rollback", false),
            // Nothing was read since.
            ("begin", false),
            ("select sum(b) from t", true),
            ("commit", false),
        ];
        leader.expect(&mut session, &answers).await;
    }
    // The block before has answers that leave with this one's.
    let text = "select sum(b) from t; select max(b) from t; commit; begin; select min(b) from t";
    let (_, waited) = leader.answer(&mut session, text).await;
    assert!(waited);
    leader.expect(&mut session, &[("select 1", false)]).await;
    query(&mut session, "rollback", "").await;
}

/// Drivers prepare a statement and wait for that before they execute it.
#[tokio::test]
async fn what_is_prepared_in_a_block_is_not_its_first_answer() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    leader.expect(&mut session, &[("begin", false)]).await;
    let statement = session.parse("select sum(b) from t").unwrap();
    let prepared = session.prepare(statement[0].clone(), &[]).await.unwrap();
    session.finish().await.unwrap();
    session.dependencies();
    let asked = || leader.asked.count.load(Ordering::Relaxed);
    assert_eq!(asked(), 1, "whether the table is there");
    for expected in [2, 2] {
        let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
        let mut lines = Lines::default();
        session
            .execute(&mut portal, None, &mut lines)
            .await
            .unwrap();
        session.finish().await.unwrap();
        session.dependencies();
        assert_eq!(asked(), expected, "the first of its answers is asked for");
    }
    leader.expect(&mut session, &[("commit", true)]).await;
}

#[tokio::test]
async fn while_somebody_else_may_be_about_to_lead_each_answer_waits() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    leader.asked.is_challenged.store(true, Ordering::Relaxed);
    let answers = [
        ("begin", false),
        ("select sum(b) from t", true),
        ("select sum(b) from t", true),
        ("select 1", false),
        ("commit", false),
    ];
    leader.expect(&mut session, &answers).await;
}

#[tokio::test]
async fn each_snapshot_is_confirmed_once() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    let answers = [
        ("begin isolation level repeatable read", false),
        ("select 1", false),
        ("select sum(b) from t", true),
        ("select sum(b) from t", false),
        ("select max(b) from t", false),
        ("commit", false),
        ("begin isolation level serializable read only", false),
        ("select sum(b) from t", true),
        ("select sum(b) from t", false),
        ("rollback", false),
    ];
    leader.expect(&mut session, &answers).await;
    let together = "select sum(b) from t; select max(b) from t; select min(b) from t";
    assert_eq!(leader.answer(&mut session, together).await, (1, true));
}

/// Answers of several transactions may leave together.
#[tokio::test]
async fn a_transaction_that_writes_does_not_answer_for_those_before_it() {
    let leader = leader().await;
    let mut session = session(&leader.database);
    let write = "update t set b = b + 1 where a = 1";
    for (before, ends) in [
        ("select sum(b) from t; commit; begin", "commit"),
        ("begin; select sum(b) from t; commit and chain", "rollback"),
        ("begin; select sum(b) from t; rollback; begin", "commit"),
        // Asked for on its way, and not waited for.
        (
            "copy (select a from t, generate_series(1, 100)) to stdout; commit; begin",
            "rollback",
        ),
    ] {
        let text = format!("{before}; {write}; select sum(b) from t");
        let (_, waited) = leader.answer(&mut session, &text).await;
        assert!(waited, "{text}");
        leader.answer(&mut session, ends).await;
    }
    // A commit answers for all of them.
    let answers = [
        ("select sum(b) from t; commit; begin", true),
        (write, false),
        ("commit", false),
    ];
    leader.expect(&mut session, &answers).await;
    let text = format!("select sum(b) from t; commit; begin; {write}; commit");
    let (_, waited) = leader.answer(&mut session, &text).await;
    assert!(!waited, "{text}");
}
