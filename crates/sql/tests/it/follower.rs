//! Sessions on a follower: what they execute, what they leave to the leader, and that they
//! see what the leader's catalog and roles say in their snapshot.
//!
//! The follower's engine is the leader's, in a dress that refuses writes and counts what it
//! is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use coeval_sql::route::{Reason, Route};
use coeval_sql::session::{Login, Session, SessionHandover, SessionOptions};
use coeval_sql::{Database, Error, SqlState};
use coeval_txn::{BeginOptions, Engine, Question, Transaction};
use coeval_types::{IndexId, Rid, RowRef, StorageDefinition, StorageId, Term, Timestamp};

type Visit<'visitor> = dyn FnMut(Rid, RowRef<'_>) + Send + 'visitor;

use crate::client::{Lines, must, query, session};
use crate::engines::occ;

/// An engine that reads what another one writes.
struct Follower {
    leader: Arc<dyn Engine>,
    questions: AtomicU64,
    begun: AtomicU64,
}

impl Engine for Follower {
    fn name(&self) -> &'static str {
        "follower"
    }

    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, coeval_txn::Error>> {
        assert!(options.read_only, "a follower's transaction only reads");
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.leader.poll_begin(options, context)
    }

    fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), coeval_txn::Error>> {
        self.leader.poll_durable(timestamp, context)
    }

    fn ask_newest(&self) -> Option<Question> {
        Some(Question(self.questions.fetch_add(1, Ordering::Relaxed)))
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn attach_storage(&self, definition: StorageDefinition) -> Result<(), coeval_txn::Error> {
        panic!("a follower attaches {:?}", definition.id)
    }

    fn drop_storage(&self, storage: StorageId) {
        panic!("a follower drops {storage:?}")
    }

    fn storages(&self) -> Vec<StorageId> {
        self.leader.storages()
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        self.leader.estimated_rows(storage)
    }

    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp> {
        self.leader.show_row(storage, rid, visit)
    }

    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        self.leader.show_row_by_key(storage, index, key, visit)
    }

    fn term(&self) -> Term {
        self.leader.term()
    }
}

/// A leader and a follower.
struct Two {
    leader: Arc<Database>,
    follower: Arc<Database>,
    engine: Arc<Follower>,
}

impl Two {
    async fn new() -> Self {
        let leader = Database::open(occ()).await.unwrap();
        let engine = Arc::new(Follower {
            leader: Arc::clone(leader.engine()),
            questions: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        });
        let follower = Database::open_follower(Arc::clone(&engine) as _);
        assert_eq!(
            engine.begun.load(Ordering::Relaxed),
            0,
            "opening reads nothing"
        );
        Self {
            leader,
            follower,
            engine,
        }
    }
}

/// Why the leader has to execute this text; `None` if the follower has executed it.
async fn refused(session: &mut Session, text: &str) -> Option<Reason> {
    let run = async |session: &mut Session| -> Result<(), Error> {
        for statement in session.parse(text)? {
            let prepared = session.prepare(statement, &[]).await?;
            let mut portal = session.bind(&prepared, &[], &[], &[])?;
            let ran = session
                .execute(&mut portal, None, &mut Lines::default())
                .await;
            let route = prepared.route();
            match &ran {
                Ok(_) => assert_eq!(route, Route::Anywhere, "{text}"),
                Err(error) => {
                    let of_leader = error.report().of_leader.map(Route::Leader);
                    assert_eq!(Some(route), of_leader, "{text}: {error}");
                    assert_eq!(error.state(), SqlState::READ_ONLY_SQL_TRANSACTION);
                }
            }
            ran?;
        }
        Ok(())
    };
    let ran = run(session).await;
    session.finish().await.unwrap();
    match ran {
        Ok(()) => None,
        Err(error) => Some(
            error
                .report()
                .of_leader
                .unwrap_or_else(|| panic!("{error}")),
        ),
    }
}

#[tokio::test]
async fn a_follower_executes_what_only_reads() {
    let two = Two::new().await;
    let mut writer = session(&two.leader);
    must(
        &mut writer,
        "create table t (a int primary key, b int); insert into t values (1, 10)",
    )
    .await;
    let mut reader = session(&two.follower);
    for text in [
        "select b from t where a = 1",
        "values (1), (2)",
        "with w as (select * from t) select count(*) from w",
        "copy t to stdout",
        "copy (select 1) to stdout",
        "explain select * from t",
        "explain insert into t values (2, 2)",
        "explain analyze select * from t",
        "select now(), random(), current_user, pg_backend_pid()",
        "select relname from pg_class",
        "select pid from pg_stat_activity",
        "select has_table_privilege('t', 'select')",
        "select coeval.wait_for('0/0')",
        "",
    ] {
        assert_eq!(refused(&mut reader, text).await, None, "{text}");
    }
    for (text, reason) in [
        ("insert into t values (2, 2)", Reason::Writes),
        ("update t set b = 1", Reason::Writes),
        ("delete from t", Reason::Writes),
        ("copy t from stdin", Reason::Writes),
        ("explain analyze delete from t", Reason::Writes),
        ("select * from t for update", Reason::LocksRows),
        (
            "select * from t where a = 1 for key share",
            Reason::LocksRows,
        ),
        (
            "select * from (select * from t for share) x",
            Reason::LocksRows,
        ),
        ("select txid_current()", Reason::Function),
        ("select pg_current_xact_id()", Reason::Function),
        ("select txid_current_if_assigned()", Reason::Function),
        ("select txid_status(1)", Reason::Function),
        ("select b from t where b = txid_current()", Reason::Function),
        ("select (select txid_current())", Reason::Function),
        (
            "with w as (select txid_current() as x) select * from w",
            Reason::Function,
        ),
        ("select count(txid_current()) from t", Reason::Function),
        ("select 1 from t order by txid_current()", Reason::Function),
        ("select set_config('a.b', 'c', false)", Reason::Setting),
        ("select current_setting('work_mem')", Reason::Setting),
        (
            "select current_setting('work_mem'), txid_current()",
            Reason::Function,
        ),
        (
            "select txid_current(), current_setting('work_mem')",
            Reason::Function,
        ),
        (
            "select current_setting('work_mem') from coeval.locks",
            Reason::SystemTable,
        ),
        (
            "select current_setting('work_mem') from t for share",
            Reason::LocksRows,
        ),
        ("select pg_cancel_backend(1)", Reason::Interrupts),
        ("select pg_terminate_backend(1)", Reason::Interrupts),
        ("select pg_advisory_unlock_all()", Reason::Function),
        ("select coeval.cluster_remove(3)", Reason::Function),
        ("select coeval.last_commit()", Reason::Function),
        ("copy (select txid_current()) to stdout", Reason::Function),
        ("select * from coeval.cluster_status", Reason::SystemTable),
        ("select * from coeval.locks", Reason::SystemTable),
        ("select * from pg_settings", Reason::SystemTable),
        (
            "select 1 where exists (select 1 from coeval.metrics)",
            Reason::SystemTable,
        ),
        ("set work_mem = '1MB'", Reason::Command),
        ("show work_mem", Reason::Command),
        ("prepare p as select 1", Reason::Command),
        ("begin", Reason::Command),
        ("commit", Reason::Command),
        ("create table u (a int)", Reason::Command),
        ("drop table t", Reason::Command),
        ("truncate t", Reason::Command),
        ("lock table t", Reason::Command),
        ("vacuum", Reason::Command),
        ("grant select on t to public", Reason::Command),
    ] {
        assert_eq!(refused(&mut reader, text).await, Some(reason), "{text}");
    }
    assert_eq!(
        must(&mut session(&two.leader), "select b from t").await,
        ["  b", "  10", "  SELECT 1"]
    );
}

#[tokio::test]
async fn plans_follow_definitions_and_privileges() {
    let two = Two::new().await;
    let mut writer = session(&two.leader);
    must(
        &mut writer,
        "create table t (a int primary key); insert into t values (7)",
    )
    .await;
    must(
        &mut writer,
        "create role bob login; grant select on t to bob",
    )
    .await;
    let account = two.leader.login("bob").await.unwrap();
    let role = account.role.unwrap().oid;
    let options = SessionOptions {
        user: "bob".to_owned(),
        role: Some(Login {
            role,
            superuser: false,
        }),
        ..SessionOptions::default()
    };
    let mut reader = Session::new(Arc::clone(&two.follower), options).unwrap();
    let mut root = session(&two.follower);
    let select = "select a from t";
    for session in [&mut reader, &mut root] {
        assert_eq!(must(session, select).await, ["  a", "  7", "  SELECT 1"]);
    }
    must(&mut writer, "create table late (a int)").await;
    must(&mut root, "select * from late").await;
    must(&mut writer, "alter table t add column b int default 5").await;
    let said = must(&mut root, "select * from t").await;
    assert_eq!(said, ["  a | b", "  7 | 5", "  SELECT 1"]);
    must(&mut writer, "revoke select on t from bob").await;
    // The columns of a plan that was made before are told first, as on a leader.
    let said = query(&mut reader, select, "").await;
    let refused = said.iter().any(|line| line.starts_with("  ERROR 42501"));
    assert!(
        refused && !said.iter().any(|line| line == "  7"),
        "{said:?}"
    );
    must(&mut writer, "grant select on t to bob").await;
    must(&mut reader, select).await;
    must(&mut writer, "drop table t").await;
    let said = query(&mut root, select, "").await;
    assert!(said[0].starts_with("  ERROR 42P01"), "{said:?}");
    // A login looks at the newest state, which it asks for.
    let before = two.engine.questions.load(Ordering::Relaxed);
    assert!(two.follower.login("bob").await.unwrap().role.is_some());
    assert_eq!(two.engine.questions.load(Ordering::Relaxed), before + 1);
}

#[tokio::test]
async fn a_session_follows_the_leaders() {
    let two = Two::new().await;
    let mut root = session(&two.leader);
    must(
        &mut root,
        "create table t (a int primary key); insert into t values (1), (2)",
    )
    .await;
    must(
        &mut root,
        "create role readers; grant select on t to readers",
    )
    .await;
    let mut leaders = session(&two.leader);
    leaders.note_changes();
    leaders.note_reads();
    let mut handover = SessionHandover::default();
    assert_eq!((handover.login(), handover.newest_commit()), (None, None));
    let mut own = session(&two.follower);
    let mut hear = async |leaders: &mut Session, own: &mut Session| {
        let pieces = leaders.take_handover_changes();
        for piece in &pieces {
            handover.apply(piece).unwrap();
        }
        own.follow(&pieces).await.unwrap();
        (
            handover.login(),
            handover.newest_commit(),
            own.handover() == handover.without_reads(),
        )
    };
    let (login, commit, same) = hear(&mut leaders, &mut own).await;
    assert_eq!(commit, Some(Timestamp::ZERO));
    assert!(same && login.is_some_and(|login| login.superuser));
    for text in [
        "set extra_float_digits = -15",
        "prepare p as select count(*) from t where a > $1",
        "set role readers",
        "set my.own = 'x'",
        "deallocate p",
        "prepare q as select 1",
        "reset extra_float_digits",
        "reset my.own",
        "set search_path = pg_catalog",
        "insert into t values (3)",
        "begin",
        "set local work_mem = '1MB'",
        "select 1",
        "commit",
        "reset role",
        "discard all",
        "set time zone 'Asia/Tokyo'",
    ] {
        query(&mut leaders, text, "").await;
        let (_, commit, same) = hear(&mut leaders, &mut own).await;
        assert!(same, "{text}");
        assert_eq!(commit, Some(leaders.newest_commit()), "{text}");
        let who =
            "select current_user, session_user, 1.5::float8, '2020-01-01 00:00Z'::timestamptz";
        let both = [
            query(&mut leaders, who, "").await,
            query(&mut own, who, "").await,
        ];
        assert_eq!(both[0], both[1], "{text}");
    }
}

#[tokio::test]
async fn a_follower_reads_views_as_they_are_by_now() {
    let two = Two::new().await;
    let mut writer = session(&two.leader);
    must(
        &mut writer,
        "create table t (a int primary key, b int); insert into t values (1, 10), (2, 20); \
         create view v as select b from t where a > 1",
    )
    .await;
    let mut reader = session(&two.follower);
    assert_eq!(refused(&mut reader, "select * from v").await, None);
    let read = "select * from v";
    let said = query(&mut reader, read, "").await;
    assert_eq!(said, ["  b", "  20", "  SELECT 1"]);
    must(
        &mut writer,
        "create or replace view v as select b + 1 as b from t",
    )
    .await;
    let said = query(&mut reader, read, "").await;
    assert_eq!(said, ["  b", "  11", "  21", "  SELECT 2"]);
    must(
        &mut writer,
        "alter table t rename to tt; alter table tt rename column b to c",
    )
    .await;
    let said = query(&mut reader, read, "").await;
    assert_eq!(said, ["  b", "  11", "  21", "  SELECT 2"]);
    for text in [
        "delete from v",
        "select 1 as x into y",
        "create table y as select 1",
        "create view w as select 1",
        "comment on view v is 'x'",
    ] {
        assert!(refused(&mut reader, text).await.is_some(), "{text}");
    }
}
