//! Reads on the client's node: which cycles the session beside the relay executes, that the
//! two are one session, and what happens when this node cannot answer.
//!
//! Two servers of one cluster run in the test's process. The follower's clients read tables
//! of another database, with the same definitions and other rows, so that each answer shows
//! who has given it.

mod comparators;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_server::RunningServer;
use coeval_sql::output::{Column, Format, Notice, OutputRow, Sink};
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Database, Error};
use coeval_testkit::wire::{
    Answer, Wire, bind, describe, error, execute, flush, kinds, packet, parse, query, sync,
};
use coeval_txn::{
    Asking, BeginOptions, Engine, Question, ResponseDependencies, Standing, Transaction,
};
use coeval_types::{IndexId, Rid, RowRef, StorageDefinition, StorageId, Term, Timestamp};

use crate::two_nodes;

const CANCEL: u32 = 80_877_102;

type Visit<'visitor> = dyn FnMut(Rid, RowRef<'_>) + Send + 'visitor;

/// An engine that only reads, and can be told to fail.
pub(crate) struct Follower {
    tables: Arc<coeval_occ::Engine>,
    pub(crate) questions: AtomicU64,
    begun: AtomicU64,
    /// Questions are lost.
    pub(crate) loses: AtomicBool,
    /// Questions are not answered.
    pub(crate) hangs: AtomicBool,
    /// The tables are gone.
    pub(crate) is_retired: AtomicBool,
    /// Questions that are not shared, and whether the last one was silent.
    alone: AtomicU64,
    is_silent: AtomicBool,
    /// What such a question finds.
    standing: Mutex<Standing>,
    /// Questions to be asked later, those that were, and whether the last one was not yet.
    later: AtomicU64,
    insisted: AtomicU64,
    is_late: AtomicBool,
    /// Something else answers them.
    spares: AtomicBool,
}

fn stopped<T>() -> Poll<Result<T, coeval_txn::Error>> {
    let reason = "the node no longer follows".to_owned();
    Poll::Ready(Err(coeval_txn::Error::Stopped(reason)))
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
        match self.is_retired.load(Ordering::Relaxed) {
            true => stopped(),
            false => self.tables.poll_begin(options, context),
        }
    }

    fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), coeval_txn::Error>> {
        self.tables.poll_durable(timestamp, context)
    }

    fn ask_newest(&self) -> Option<Question> {
        Some(Question(self.questions.fetch_add(1, Ordering::Relaxed)))
    }

    fn poll_newest(
        &self,
        _question: Question,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), coeval_txn::Error>> {
        match (
            self.hangs.load(Ordering::Relaxed),
            self.loses.load(Ordering::Relaxed),
        ) {
            (true, _) => Poll::Pending,
            (_, true) => stopped(),
            _ if self.is_late.load(Ordering::Relaxed) && !self.spares.load(Ordering::Relaxed) => {
                Poll::Pending
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    fn ask_as(&self, way: Asking) -> Option<Question> {
        if way == Asking::Later {
            self.is_late.store(true, Ordering::Relaxed);
            return Some(Question(self.later.fetch_add(1, Ordering::Relaxed)));
        }
        self.is_silent
            .store(way == Asking::Silent, Ordering::Relaxed);
        Some(Question(self.alone.fetch_add(1, Ordering::Relaxed)))
    }

    fn insist(&self, _question: Question) {
        self.is_late.store(false, Ordering::Relaxed);
        self.insisted.fetch_add(1, Ordering::Relaxed);
    }

    fn poll_standing(
        &self,
        _question: Question,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Standing, coeval_txn::Error>> {
        match self.loses.load(Ordering::Relaxed) {
            true => stopped(),
            false => Poll::Ready(Ok(*self.standing.lock().unwrap())),
        }
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
        self.tables.storages()
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        self.tables.estimated_rows(storage)
    }

    fn show_row(&self, storage: StorageId, rid: Rid, visit: &mut Visit<'_>) -> Option<Timestamp> {
        self.tables.show_row(storage, rid, visit)
    }

    fn show_row_by_key(
        &self,
        storage: StorageId,
        index: IndexId,
        key: &[u8],
        visit: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        self.tables.show_row_by_key(storage, index, key, visit)
    }

    fn term(&self) -> Term {
        self.tables.term()
    }
}

/// A sink of results that the test does not read.
struct Unread;

impl Sink for Unread {
    fn columns(&mut self, _: &[Column], _: &[Format]) {}
    fn row(&mut self, _: OutputRow<'_>) {}
    fn restart(&mut self) {}
    fn notice(&mut self, _: Notice) {}
    fn copy_out(&mut self, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn poll_drain(
        &mut self,
        _: ResponseDependencies,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

/// Two nodes of a cluster, and the tables that the follower's clients read.
pub(crate) struct Two {
    pub(crate) leader: RunningServer,
    pub(crate) follower: RunningServer,
    pub(crate) tables: Arc<Follower>,
    own: Arc<Database>,
    _directories: [tempfile::TempDir; 2],
}

/// The definitions and rows that both databases have.
const BOTH: [&str; 4] = [
    "create table t (a int primary key, b text)",
    "create role bob login",
    "create role readers",
    "grant select on t to readers",
];

impl Two {
    async fn start() -> Self {
        let (leader, follower, directories) = two_nodes::start(|settings| settings).await;
        let engine = coeval_occ::Engine::ephemeral(coeval_occ::Settings::default()).unwrap();
        let engine = Arc::new(engine);
        let own = Database::open(Arc::clone(&engine) as _).await.unwrap();
        let tables = Arc::new(Follower {
            tables: engine,
            questions: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            loses: AtomicBool::new(false),
            hangs: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            alone: AtomicU64::new(0),
            is_silent: AtomicBool::new(false),
            standing: Mutex::new(Standing::Shows),
            later: AtomicU64::new(0),
            insisted: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            spares: AtomicBool::new(false),
        });
        leader.read_from(None);
        follower.read_from(Some(Arc::clone(&tables) as _));
        let two = Self {
            leader,
            follower,
            tables,
            own,
            _directories: directories,
        };
        let mut wire = Wire::connect(two.leader.address()).await;
        for text in BOTH {
            wire.rows(text).await;
            two.put(text).await;
        }
        wire.rows("insert into t values (1, 'leader')").await;
        two.put("insert into t values (1, 'home')").await;
        two
    }

    /// Changes the tables that the follower reads.
    pub(crate) async fn put(&self, text: &str) {
        let mut session = Session::new(Arc::clone(&self.own), SessionOptions::default()).unwrap();
        for statement in session.parse(text).unwrap() {
            let prepared = session.prepare(statement, &[]).await.unwrap();
            let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
            session
                .execute(&mut portal, None, &mut Unread)
                .await
                .unwrap();
        }
        session.finish().await.unwrap();
    }

    /// A client of the follower that reads there.
    pub(crate) async fn client(&self) -> Wire {
        self.client_as("ada").await
    }

    async fn client_as(&self, user: &str) -> Wire {
        let mut wire = Wire::connect_as(self.follower.address(), user).await;
        wire.rows("set coeval.read_from = fresh").await;
        wire
    }

    pub(crate) fn begun(&self) -> u64 {
        self.tables.begun.load(Ordering::Relaxed)
    }

    async fn stop(self) {
        self.follower.stop().await;
        self.leader.stop().await;
    }
}

pub(crate) fn run(test: impl AsyncFnOnce(&Two)) {
    two_nodes::in_runtime(async {
        let two = Two::start().await;
        test(&two).await;
        two.stop().await;
    });
}

pub(crate) const WHO: &str = "select b from t where a = 1";

/// Who has answered the only row among these answers.
pub(crate) fn who(answers: &[Answer]) -> String {
    let mut rows = answers.iter().filter(|answer| answer.kind == 'D');
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no row in {answers:?}"));
    row.values().swap_remove(0).unwrap()
}

#[test]
fn what_only_reads_is_executed_at_home() {
    run(async |two| {
        let mut wire = two.client().await;
        let unnamed = [parse("", WHO, &[]), bind("", "", &[]), execute("", 0)].concat();
        let one = [unnamed.clone(), sync()];
        let answers = wire.ask(&one).await;
        assert_eq!((&*kinds(&answers), &*who(&answers)), ("12DCZ", "home"));
        for (text, expected) in [
            (WHO, "home"),
            ("-- a comment\nselect b from t", "home"),
            ("(select b from t)", "home"),
            ("with w as (select b from t) select b from w", "home"),
            ("select b from t where a = 1 for update", "leader"),
            ("select b from t where txid_current() > 0", "leader"),
            ("select b from t; select txid_current()", "leader"),
            ("select b from t; select 1", "home"),
            ("select b from t; update t set a = a; select 1", "leader"),
            ("begin; select b from t; commit", "home"),
            ("begin read only; select b from t; commit", "home"),
            (
                "begin; select b from t; update t set a = a; commit",
                "leader",
            ),
            ("begin; select b from t; savepoint a; commit", "leader"),
            (
                "begin isolation level serializable; select b from t; commit",
                "leader",
            ),
        ] {
            assert_eq!(who(&wire.query(text).await), expected, "{text}");
        }
        let copied = wire.query("copy t to stdout").await;
        assert_eq!(kinds(&copied), "HdcCZ");
        assert_eq!(copied[1].contents, b"1\thome\n");
        // Statements that have names are prepared on the leader, and come home.
        wire.ask(&[parse("s", WHO, &[]), sync()]).await;
        let named = [
            bind("", "s", &[]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&named).await;
        assert_eq!((&*kinds(&answers), &*who(&answers)), ("2TDCZ", "home"));
        // Several cycles at once.
        wire.send(&[query(WHO), query("select 1"), one.concat(), query(WHO)].concat())
            .await;
        for _ in 0..4 {
            let answers = wire.until('Z').await;
            let row = who(&answers);
            assert!(row == "home" || row == "1", "{row}");
        }
        wire.send(&[query(WHO), query("update t set a = a"), query(WHO)].concat())
            .await;
        assert_eq!(who(&wire.until('Z').await), "home");
        assert_eq!(kinds(&wire.until('Z').await), "CZ");
        who(&wire.until('Z').await);
        // Of a cycle that writes, the leader executes what only reads, too.
        let update = [
            parse("", "update t set a = a", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        let both = [unnamed.clone(), update.concat(), sync()];
        let answers = wire.ask(&both).await;
        assert_eq!((&*kinds(&answers), &*who(&answers)), ("12DC12CZ", "leader"));
        // The client asks for answers before this node knows what follows.
        wire.send(&[unnamed, flush()].concat()).await;
        assert_eq!(who(&wire.until('C').await), "leader");
        assert_eq!(kinds(&wire.ask(&[sync()]).await), "Z");
        // In pieces.
        for byte in one.concat() {
            wire.send(&[byte]).await;
        }
        assert_eq!(who(&wire.until('Z').await), "home");
        let begun = two.begun();
        wire.rows("set coeval.read_from = leader").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        assert_eq!(two.begun(), begun);
        let mut wire = Wire::open(two.follower.address()).await;
        let asked = [("user", "ada"), ("options", "-c coeval.read_from=any")];
        wire.send(&coeval_testkit::wire::start(&asked)).await;
        wire.until('Z').await;
        let questions = two.tables.questions.load(Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(two.tables.questions.load(Ordering::Relaxed), questions);
        wire.rows("set coeval.read_max_lag = '1ms'").await;
        coeval_env::sleep(Duration::from_millis(2)).await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(two.tables.questions.load(Ordering::Relaxed), questions + 1);
    });
}

#[test]
fn an_unnamed_statement_is_the_same_one_on_both_nodes() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows("select 1").await;
        let run = [bind("", "", &[]), execute("", 0), sync()];
        let missing = |answers: &[Answer]| error(answers).sqlstate() == "26000";
        assert!(missing(&wire.ask(&run).await));
        // Prepared at home, executed at home and on the leader.
        assert_eq!(kinds(&wire.ask(&[parse("", WHO, &[]), sync()]).await), "1Z");
        assert_eq!(who(&wire.ask(&run).await), "home");
        wire.rows("begin").await;
        // A simple query ends it.
        assert!(missing(&wire.ask(&run).await));
        wire.rows("rollback").await;
        wire.ask(&[parse("", WHO, &[]), sync()]).await;
        let begin = [
            parse("b", "begin", &[]),
            bind("", "b", &[]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(kinds(&wire.ask(&begin).await), "12CZ");
        assert_eq!(who(&wire.ask(&run).await), "leader");
        let described = [
            describe(b'S', ""),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        assert_eq!(kinds(&wire.ask(&described).await), "tT2DCZ");
        wire.rows("commit").await;
        // Prepared on the leader, with a flush, and executed at home.
        wire.send(&[parse("", WHO, &[]), flush()].concat()).await;
        assert_eq!(kinds(&wire.until('1').await), "1");
        wire.ask(&[sync()]).await;
        assert_eq!(who(&wire.ask(&run).await), "home");
        // A query at home ends the leader's.
        wire.send(&[parse("", WHO, &[]), flush()].concat()).await;
        wire.until('1').await;
        wire.ask(&[sync()]).await;
        wire.rows("select 1").await;
        let named = [
            parse("n", "select 1", &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&named).await;
        assert_eq!(kinds(&answers), "1EZ");
        assert!(missing(&answers));
    });
}

#[test]
fn an_unnamed_statement_that_the_leader_cannot_plan_fails_where_it_is_used() {
    run(async |two| {
        let mut leader = Wire::connect(two.leader.address()).await;
        two.put("create table gone (a int)").await;
        let mut wire = two.client().await;
        wire.rows("select 1").await;
        wire.ask(&[parse("w", "update t set a = a", &[]), sync()])
            .await;
        let once = |name: &str| [bind("", name, &[]), execute("", 0)].concat();
        let gone = [parse("", "select a from gone", &[]), sync()];
        for round in 0..2 {
            assert_eq!(kinds(&wire.ask(&gone).await), "1Z");
            // No cycle of the leader has to do with it that does not use it.
            let named = format!("n{round}");
            let prepares = [parse(&named, "select 1", &[]), once("w"), sync()];
            assert_eq!(kinds(&wire.ask(&prepares).await), "12CZ");
            assert_eq!(kinds(&wire.ask(&[once("w"), sync()]).await), "2CZ");
            // Its use fails, each time, after what is before it, and takes that along.
            for _ in 0..2 {
                let used = wire.ask(&[once("w"), once(""), once("w"), sync()]).await;
                assert_eq!(kinds(&used), "2CEZ");
                assert_eq!(error(&used).sqlstate(), "42P01");
                let used = wire.ask(&[once("w"), describe(b'S', ""), sync()]).await;
                assert_eq!(kinds(&used), "2CEZ");
                assert_eq!(error(&used).sqlstate(), "42P01");
                assert_eq!(kinds(&wire.ask(&[once("w"), sync()]).await), "2CZ");
            }
            // Several cycles at once: the error is the second one's.
            wire.send(
                &[
                    once("w"),
                    sync(),
                    once("w"),
                    once(""),
                    sync(),
                    once("w"),
                    sync(),
                ]
                .concat(),
            )
            .await;
            for expected in ["2CZ", "2CEZ", "2CZ"] {
                assert_eq!(kinds(&wire.until('Z').await), expected);
            }
            // At home there is the table; and the leader gets it in the end.
            assert_eq!(kinds(&wire.ask(&[once(""), sync()]).await), "2CZ");
            leader.rows("create table gone (a int)").await;
            let used = wire.ask(&[once("w"), once(""), sync()]).await;
            assert_eq!(kinds(&used), "2C2CZ");
            leader.rows("drop table gone").await;
            // A statement in its place has nothing of it.
            let other = [parse("", "update t set a = a", &[]), once(""), sync()];
            assert_eq!(kinds(&wire.ask(&other).await), "12CZ");
            assert_eq!(kinds(&wire.ask(&[once(""), sync()]).await), "2CZ");
        }
    });
}

#[test]
fn settings_and_roles_are_the_leaders() {
    run(async |two| {
        let mut wire = two.client().await;
        let moment = "select '2020-01-01 00:00Z'::timestamptz";
        let shown = Some("2020-01-01 00:00:00+00");
        assert_eq!(wire.value(moment).await.as_deref(), shown);
        let begun = two.begun();
        wire.rows("set timezone = 'Asia/Tokyo'").await;
        let here = wire.value(moment).await;
        assert_eq!(here.as_deref(), Some("2020-01-01 09:00:00+09"));
        assert!(two.begun() > begun, "read at home");
        wire.rows("reset timezone").await;
        assert_eq!(wire.value(moment).await.as_deref(), shown);
        // A role that may not read, and one that may.
        wire.rows("set role bob").await;
        let begun = two.begun();
        assert_eq!(error(&wire.query(WHO).await).sqlstate(), "42501");
        assert!(two.begun() > begun, "refused at home");
        wire.rows("set role readers").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        wire.rows("reset role").await;
        assert_eq!(
            wire.value("select current_user::text").await.as_deref(),
            Some("ada")
        );

        // Who has logged in is told by number: the leader has another role of that name.
        let mut bob = two.client_as("bob").await;
        assert_eq!(error(&bob.query(WHO).await).sqlstate(), "42501");
        two.put("drop role bob").await;
        two.put("create role bob superuser login").await;
        let begun = two.begun();
        let refused = bob.query(WHO).await;
        assert_eq!(error(&refused).sqlstate(), "42704", "{refused:?}");
        assert!(two.begun() > begun);

        // A privilege that is taken away.
        let mut reader = two.client().await;
        reader.rows("set role readers").await;
        assert_eq!(who(&reader.query(WHO).await), "home");
        two.put("revoke select on t from readers").await;
        assert_eq!(error(&reader.query(WHO).await).sqlstate(), "42501");
    });
}

#[test]
fn what_this_node_cannot_answer_the_leader_does() {
    run(async |two| {
        let mut wire = two.client().await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        two.tables.loses.store(true, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "leader");
        two.tables.loses.store(false, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        two.tables.is_retired.store(true, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "leader");
        let unnamed = [
            parse("", WHO, &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&unnamed).await;
        assert_eq!((&*kinds(&answers), &*who(&answers)), ("12DCZ", "leader"));
        two.tables.is_retired.store(false, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        // What is not there, or not understood, the leader says.
        for (text, state) in [("select * from nothing", "42P01"), ("selec", "42601")] {
            assert_eq!(error(&wire.query(text).await).sqlstate(), state);
        }
        wire.rows("create table late (a int)").await;
        assert_eq!(
            wire.value("select count(*) from late").await.as_deref(),
            Some("0")
        );
        // An error of a statement that is executed here is the answer.
        let begun = two.begun();
        assert_eq!(
            error(&wire.query("select 1 / (a - 1) from t").await).sqlstate(),
            "22012"
        );
        let fails = [
            parse("", "select 1 / (a - 1) from t", &[]),
            bind("", "", &[]),
            execute("", 0),
            bind("", "", &[]),
            sync(),
        ];
        let answers = wire.ask(&fails).await;
        assert_eq!(
            (&*kinds(&answers), error(&answers).sqlstate()),
            ("12EZ", "22012")
        );
        assert_eq!(two.begun(), begun + 2);
        assert_eq!(who(&wire.query(WHO).await), "home");
        // In an old state it is not: the leader's row is another one.
        wire.rows("set coeval.read_from = any").await;
        two.put("insert into t values (2, 'x')").await;
        assert_eq!(
            wire.value("select 1 / (a - 2) from t where a <> 3")
                .await
                .as_deref(),
            Some("-1")
        );
        two.follower.read_from(None);
        assert_eq!(who(&wire.query(WHO).await), "leader");
    });
}

#[test]
fn what_runs_at_home_ends_as_elsewhere() {
    run(async |two| {
        let endless = "select count(*) from generate_series(1, 1000000000)";
        let mut wire = two.client().await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        for server in [&two.follower, &two.leader] {
            let begun = two.begun();
            wire.send(&query(endless)).await;
            while two.begun() == begun {
                coeval_env::sleep(Duration::from_millis(5)).await;
            }
            let mut watcher = two.client().await;
            watcher.rows("select 1").await;
            let shown = "select query from pg_stat_activity where state = 'active' and query like '%generate_series(1, 1000%' and query not like '%pg_stat_activity%'";
            assert_eq!(watcher.value(shown).await.as_deref(), Some(endless));
            let mut canceler = Wire::open(server.address()).await;
            canceler.send(&packet(CANCEL, &wire.key)).await;
            let answers = wire.until('Z').await;
            assert_eq!(error(&answers).sqlstate(), "57014");
            assert_eq!(who(&wire.query(WHO).await), "home");
        }
        wire.rows("set statement_timeout = '50ms'").await;
        assert_eq!(error(&wire.query(endless).await).sqlstate(), "57014");
        // The wait for the newest commit counts.
        two.tables.hangs.store(true, Ordering::Relaxed);
        let unnamed = [
            parse("", WHO, &[]),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&unnamed).await;
        assert_eq!(
            (&*kinds(&answers), error(&answers).sqlstate()),
            ("EZ", "57014")
        );
        // Without a limit, the leader answers after a while.
        wire.rows("set statement_timeout = 0").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        wire.send(&query(WHO)).await;
        coeval_env::sleep(Duration::from_millis(50)).await;
        let mut canceler = Wire::open(two.leader.address()).await;
        canceler.send(&packet(CANCEL, &wire.key)).await;
        assert_eq!(error(&wire.until('Z').await).sqlstate(), "57014");
        two.tables.hangs.store(false, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        // A long result leaves while it is computed, and one that breaks off is an error.
        let long = "select b, repeat('x', 1000) from t, generate_series(1, 20000)";
        let answers = wire.query(long).await;
        assert_eq!(answers.len(), 20_003);
        assert_eq!(who(&answers), "home");
        // Before the last statement nothing leaves.
        let large = format!("{long}; {WHO}");
        assert_eq!(who(&wire.query(&large).await), "leader");
        // A client that leaves takes its statement along.
        wire.send(&query(endless)).await;
        drop(wire);
        let mut watcher = two.client().await;
        watcher.rows("select 1").await;
        while watcher
            .value("select count(*) from pg_stat_activity")
            .await
            .as_deref()
            != Some("1")
        {
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Waits until the follower's tables are read once more.
async fn is_begun(two: &Two, before: u64) {
    while two.begun() == before {
        coeval_env::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_session_is_canceled_and_ended_from_the_leader_wherever_its_statement_runs() {
    run(async |two| {
        let mut root = Wire::connect(two.leader.address()).await;
        let mut wire = two.client().await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let number = i32::from_be_bytes(wire.key[..4].try_into().unwrap());
        for endless in [
            "select count(*) from generate_series(1, 1000000000)",
            "select count(*), max(txid_current()) from generate_series(1, 1000000000)",
        ] {
            let begun = two.begun();
            wire.send(&query(endless)).await;
            if !endless.contains("txid") {
                is_begun(two, begun).await;
            }
            coeval_env::sleep(Duration::from_millis(50)).await;
            let cancel = format!("select pg_cancel_backend({number})");
            assert_eq!(root.value(&cancel).await.as_deref(), Some("t"));
            let answers = wire.until('Z').await;
            assert_eq!(error(&answers).sqlstate(), "57014", "{endless}");
            // Nothing of it is left for the next statement.
            for _ in 0..20 {
                assert_eq!(who(&wire.query(WHO).await), "home");
            }
        }
        let begun = two.begun();
        let endless = "select count(*) from generate_series(1, 1000000000)";
        wire.send(&query(endless)).await;
        is_begun(two, begun).await;
        let terminate = format!("select pg_terminate_backend({number})");
        assert_eq!(root.value(&terminate).await.as_deref(), Some("t"));
        let answers = wire.until_closed().await;
        let errors = answers.iter().filter(|answer| answer.kind == 'E');
        let states: Vec<_> = errors.map(|answer| answer.sqlstate()).collect();
        assert_eq!(states.last(), Some(&"57P01"), "{answers:?}");
    });
}

#[test]
fn a_read_that_waits_for_the_leaders_answer_is_seen_to() {
    run(async |two| {
        let mut wire = two.client().await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let mut watcher = two.client().await;
        watcher.rows("set coeval.read_from = any").await;
        watcher.rows("select 1").await;
        let shown = format!(
            "select state || ' ' || wait_event_type || ' ' || wait_event \
             from pg_stat_activity where query = '{WHO}'"
        );
        // After a second without an answer the leader executes the read: on a busy machine it
        // is tried again.
        let mut tries = 0..50;
        loop {
            assert!(tries.next().is_some(), "it is not shown while it waits");
            two.tables.hangs.store(true, Ordering::Relaxed);
            wire.send(&query(WHO)).await;
            let seen = watcher.value(&shown).await;
            two.tables.hangs.store(false, Ordering::Relaxed);
            let is_home = who(&wire.until('Z').await) == "home";
            if is_home && seen.as_deref() == Some("active IPC ReadIndex") {
                break;
            }
        }
        // Its answer has left before it waits for the client again.
        let mut looks = 0..1000;
        while watcher.value(&shown).await.as_deref() != Some("idle Client ClientRead") {
            assert!(looks.next().is_some(), "it is not shown as idle");
        }
    });
}
