//! Sessions that go on at another leader: the same database, another session, and what
//! was carried from one to the other.

use std::sync::Arc;

use coeval_sql::output::TransactionStatus;
use coeval_sql::session::{Login, Session, SessionHandover, SessionOptions};
use coeval_sql::{Database, Error, SqlState, Statement};

use crate::client::{Lines, must, query, session};
use crate::engines::{database, occ};

fn options() -> SessionOptions {
    SessionOptions {
        user: "tester".to_owned(),
        database: "test".to_owned(),
        process_id: 8,
        ..SessionOptions::default()
    }
}

/// A node that a client is connected to, and its session at the leader.
struct Relayed {
    database: Arc<Database>,
    session: Session,
    handover: SessionHandover,
}

impl Relayed {
    async fn new() -> Self {
        let database = database(occ()).await;
        let mut session = session(&database);
        session.note_changes();
        Self {
            database,
            session,
            handover: SessionHandover::default(),
        }
    }

    /// What the leader tells after an answer.
    fn hear(&mut self) -> usize {
        let pieces = self.session.take_handover_changes();
        for piece in &pieces {
            self.handover.apply(piece).unwrap();
        }
        assert_eq!(self.handover, self.session.handover());
        pieces.len()
    }

    async fn must(&mut self, text: &str) -> Vec<String> {
        let said = must(&mut self.session, text).await;
        self.hear();
        said
    }

    async fn says(&mut self, text: &str) -> Vec<String> {
        let said = query(&mut self.session, text, "").await;
        self.hear();
        said
    }

    /// The leader changes. What could not be taken over is returned, in words.
    async fn change_leader(&mut self) -> Vec<String> {
        self.handover.forget_cursors();
        let (session, refused) = self.elsewhere().await;
        self.session = session;
        self.session.note_changes();
        if refused.is_empty() {
            assert_eq!(self.handover, self.session.handover());
        }
        refused.iter().map(ToString::to_string).collect()
    }

    /// The session as it goes on at another leader.
    async fn elsewhere(&self) -> (Session, Vec<Error>) {
        let lost = self.session.transaction_status() != TransactionStatus::Idle;
        let handover = self.handover.clone();
        let database = Arc::clone(&self.database);
        let resumed = Session::resume(database, options(), handover, lost).await;
        resumed.unwrap()
    }

    async fn parse(&mut self, name: &str, text: &str, types: &[u32]) {
        let mut statements = self.session.parse(text).unwrap();
        let statement = statements.pop().unwrap_or_else(Statement::empty);
        let prepared = self.session.prepare(statement, types).await.unwrap();
        self.session.name(name, prepared).unwrap();
        self.session.finish().await.unwrap();
        self.hear();
    }

    /// Bind, Execute and Sync.
    async fn run(&mut self, name: &str, parameters: &[&str]) -> Result<Vec<String>, SqlState> {
        let lines = self.try_run(name, parameters).await;
        let lines = lines.map_err(|error| {
            self.session.fail();
            error.state()
        });
        self.session.finish().await.unwrap();
        self.hear();
        lines
    }

    async fn try_run(&mut self, name: &str, parameters: &[&str]) -> Result<Vec<String>, Error> {
        self.session.wake(name).await?;
        let prepared = Arc::clone(self.session.named(name)?);
        let values: Vec<Option<&[u8]>> = parameters.iter().map(|v| Some(v.as_bytes())).collect();
        let mut portal = self.session.bind(&prepared, &values, &[], &[])?;
        let mut lines = Lines::default();
        self.session.execute(&mut portal, None, &mut lines).await?;
        Ok(lines.lines)
    }
}

#[tokio::test]
async fn settings_go_on_and_those_of_transactions_do_not() {
    let mut client = Relayed::new().await;
    client.must("set timezone = 'Europe/Berlin'").await;
    client.must("set search_path = public, pg_catalog").await;
    client.must("set my.own = 'a, b'").await;
    client
        .must("set lock_timeout = '90s'; reset lock_timeout")
        .await;
    client
        .must("select set_config('work_mem', '1MB', false)")
        .await;
    client
        .must("begin; set local datestyle = 'DMY'; set extra_float_digits = 0")
        .await;
    // Nothing of it is said before it is committed.
    assert_eq!(client.handover, client.session.handover());
    assert_eq!(client.change_leader().await, [""; 0]);
    let shown = [
        ("timezone", "Europe/Berlin"),
        ("search_path", "public, pg_catalog"),
        ("my.own", "a, b"),
        ("lock_timeout", "0"),
        ("work_mem", "1MB"),
        ("datestyle", "ISO, MDY"),
        ("extra_float_digits", "1"),
    ];
    must(&mut client.session, "rollback").await;
    for (name, value) in shown {
        let said = client.must(&format!("show {name}")).await;
        assert_eq!(said[1], format!("  {value}"), "{name}");
    }
    client
        .must("begin; set extra_float_digits = 0; commit")
        .await;
    client.must("reset my.own; reset timezone").await;
    client.change_leader().await;
    assert_eq!(client.must("show extra_float_digits").await[1], "  0");
    assert_eq!(client.must("show timezone").await[1], "  Etc/UTC");
    let gone = client.says("show my.own").await;
    assert!(gone[1].contains("42704"), "{gone:?}");
    client.must("discard all").await;
    assert!(client.handover.is_empty(), "{:?}", client.handover);
}

#[tokio::test]
async fn nothing_is_told_when_nothing_has_changed_or_nobody_asks() {
    let mut client = Relayed::new().await;
    assert_eq!(client.hear(), 0);
    must(&mut client.session, "create table t (a int primary key)").await;
    must(&mut client.session, "begin; insert into t values (1)").await;
    assert_eq!(client.hear(), 0);
    must(&mut client.session, "set local work_mem = '2MB'; commit").await;
    assert_eq!(client.hear(), 0);
    must(&mut client.session, "set work_mem = '2MB'").await;
    assert_eq!(client.hear(), 1);
    assert_eq!(client.hear(), 0);
    let mut alone = session(&client.database);
    must(&mut alone, "set work_mem = '2MB'; prepare p as select 1").await;
    assert!(alone.take_handover_changes().is_empty());
    assert!(!alone.handover().is_empty(), "but it can be asked");
}

#[tokio::test]
async fn who_the_session_acts_as_goes_on() {
    let mut client = Relayed::new().await;
    client
        .must("create role ada login; create role readers; grant readers to ada")
        .await;
    client.must("set log_min_duration_statement = '5s'").await;
    client
        .must("set session authorization ada; set role readers")
        .await;
    client.must("begin; set local role ada").await;
    client.change_leader().await;
    client.must("rollback").await;
    let asked = "select current_user, session_user, current_setting('is_superuser')";
    assert_eq!(client.must(asked).await[1], "  readers | ada | off");
    // A superuser was allowed to set it, and acts as another role by now.
    assert_eq!(
        client.must("show log_min_duration_statement").await[1],
        "  5s"
    );
    // Roles are known by their numbers.
    let mut other = session(&client.database);
    must(&mut other, "alter role readers rename to lovers").await;
    let (mut resumed, _) = client.elsewhere().await;
    assert_eq!(must(&mut resumed, asked).await[1], "  lovers | ada | off");
    must(&mut other, "alter role lovers rename to readers").await;
    // And one that is dropped may do nothing.
    must(
        &mut other,
        "create table t (a int); grant select on t to readers",
    )
    .await;
    client.must("select * from t").await;
    must(
        &mut other,
        "revoke all on t from readers; drop role readers",
    )
    .await;
    client.change_leader().await;
    let said = client.says("select * from t").await;
    assert!(said[1].contains("was dropped"), "{said:?}");
    client.must("reset session authorization").await;
    client.change_leader().await;
    assert_eq!(client.must(asked).await[1], "  tester | tester | on");
}

#[tokio::test]
async fn statements_go_on_however_they_were_prepared() {
    let mut client = Relayed::new().await;
    client
        .must("create table t (a int primary key, b text)")
        .await;
    client
        .must("prepare put (int) as insert into t values ($1, $2)")
        .await;
    client
        .must("prepare one as select b from t where a = $1")
        .await;
    client
        .parse("get", "select b, $2 from t where a = $1", &[0, 20])
        .await;
    client.parse("", "select 'unnamed'", &[]).await;
    client.parse("show", "show timezone", &[]).await;
    client.parse("exe", "execute one (1)", &[]).await;
    client.parse("none", "", &[]).await;
    client.parse("gone", "select 1", &[]).await;
    client
        .must("deallocate gone; prepare gone as select 2; deallocate gone")
        .await;
    for _ in 0..2 {
        client.change_leader().await;
        assert!(client.session.is_asleep("one"));
        // A name is taken although its statement has not been used.
        let said = client.says("prepare one as select 1").await;
        assert!(said[0].contains("42P05"), "{said:?}");
    }
    client.must("execute put (1, 'eins')").await;
    let rows = ["  b | ?column?", "  eins | 7"];
    assert_eq!(client.run("get", &["1", "7"]).await.unwrap(), rows);
    let prepared = client.session.named("get").unwrap();
    assert_eq!(prepared.parameter_types(), [23, 20]);
    let rows = ["  ?column?", "  unnamed"];
    assert_eq!(client.run("", &[]).await.unwrap(), rows);
    assert_eq!(
        client.run("show", &[]).await.unwrap(),
        ["  TimeZone", "  Etc/UTC"]
    );
    assert_eq!(client.run("none", &[]).await.unwrap(), [""; 0]);
    // What it executes wakes with it.
    assert_eq!(client.run("exe", &[]).await.unwrap(), ["  b", "  eins"]);
    assert!(!client.session.is_asleep("one"));
    client.change_leader().await;
    let said = client.must("explain (costs off) execute one (1)").await;
    assert!(said.len() > 2, "{said:?}");
    let gone = client.run("gone", &[]).await;
    assert_eq!(gone, Err(SqlState::INVALID_SQL_STATEMENT_NAME));
    client.must("deallocate show").await;
    client.must("deallocate all").await;
    client.change_leader().await;
    assert_eq!(client.run("", &[]).await.unwrap(), rows, "it has no name");
    client.session.forget("");
    client.hear();
    assert!(client.handover.is_empty());
}

#[tokio::test]
async fn a_statement_that_cannot_be_planned_any_more_fails_when_it_is_used() {
    let mut client = Relayed::new().await;
    client
        .must("create table t (a int primary key, b text)")
        .await;
    client.parse("all", "select * from t", &[]).await;
    client.parse("b", "select b from t", &[]).await;
    client.must("alter table t drop column b").await;
    client.change_leader().await;
    for _ in 0..2 {
        let failed = client.run("b", &[]).await;
        assert_eq!(failed, Err(SqlState::UNDEFINED_COLUMN));
        // Rows of another shape than the client was told of.
        let failed = client.run("all", &[]).await;
        assert_eq!(failed, Err(SqlState::FEATURE_NOT_SUPPORTED));
    }
    client.must("alter table t add column b text").await;
    assert_eq!(client.run("b", &[]).await.unwrap(), ["  b"]);
    assert_eq!(client.run("all", &[]).await.unwrap(), ["  a | b"]);
}

#[tokio::test]
async fn what_has_a_password_in_it_is_not_carried() {
    let mut client = Relayed::new().await;
    client.parse("safe", "create role safe", &[]).await;
    client
        .parse("secret", "create role ada password 'x'", &[])
        .await;
    client.change_leader().await;
    assert_eq!(client.run("safe", &[]).await.unwrap(), [""; 0]);
    let unknown = client.run("secret", &[]).await;
    assert_eq!(unknown, Err(SqlState::INVALID_SQL_STATEMENT_NAME));
}

#[tokio::test]
async fn very_many_statements_between_two_answers() {
    let mut client = Relayed::new().await;
    client.must("prepare kept as select 1").await;
    let mut text = String::new();
    for number in 0..1500 {
        text.push_str(&format!("prepare s{number} as select {number};"));
        if number % 3 > 0 {
            text.push_str(&format!("deallocate s{number};"));
        }
    }
    client.must(&text).await;
    client.change_leader().await;
    let rows = ["  ?column?", "  1497", "  SELECT 1"];
    assert_eq!(client.must("execute s1497").await, rows);
    assert!(client.says("execute s1498").await[0].contains("26000"));
    client.must("execute kept").await;
}

#[tokio::test]
async fn a_lost_transaction_is_said_to_be_lost_once() {
    let lost = "  ERROR 40001: the transaction was rolled back because the leader of the \
                cluster has changed";
    let mut client = Relayed::new().await;
    client
        .must("create table t (a int primary key); prepare put as insert into t values (1)")
        .await;
    client.must("begin; insert into t values (7)").await;
    client.change_leader().await;
    assert_eq!(
        client.session.transaction_status(),
        TransactionStatus::Failed
    );
    let said = client.says("select * from t").await;
    assert_eq!(said[0], lost);
    assert!(said[1].starts_with("  HINT: "), "{said:?}");
    assert!(client.says("select * from t").await[0].contains("25P02"));
    assert_eq!(client.must("commit").await, ["  ROLLBACK"]);
    assert_eq!(client.must("select * from t").await, ["  a", "  SELECT 0"]);

    // A statement that was prepared, by message; and a mistake does not hide it.
    client.must("begin").await;
    client.change_leader().await;
    assert!(client.says("selec").await[0].contains("42601"));
    assert_eq!(
        client.run("put", &[]).await,
        Err(SqlState::SERIALIZATION_FAILURE)
    );
    assert_eq!(
        client.run("put", &[]).await,
        Err(SqlState::IN_FAILED_SQL_TRANSACTION)
    );
    assert_eq!(client.must("rollback").await, ["  ROLLBACK"]);
    client.must("execute put").await;

    // A portal or cursor of the block may have been there.
    client.must("begin").await;
    client.change_leader().await;
    let error = client.session.check_portals_kept().unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    assert!(error.report().hint.is_some());
    let error = client.session.check_portals_kept().unwrap_err();
    assert_eq!(error.state(), SqlState::IN_FAILED_SQL_TRANSACTION);
    client.must("rollback").await;
    client.session.check_portals_kept().unwrap();
    client.must("begin").await;
    assert!(client.says("selec").await[0].contains("42601"));
    client.session.check_portals_kept().unwrap();
    client.must("rollback").await;

    // The client must not take the transaction for committed.
    client.must("begin; insert into t values (2)").await;
    client.change_leader().await;
    assert_eq!(client.says("commit").await[0], lost);
    assert_eq!(client.session.transaction_status(), TransactionStatus::Idle);
    assert_eq!(
        client.must("select * from t").await,
        ["  a", "  1", "  SELECT 1"]
    );

    client.must("begin; savepoint s").await;
    client.change_leader().await;
    assert_eq!(client.says("rollback to s").await[0], lost);
    assert!(client.says("rollback to s").await[0].contains("3B001"));
    client.must("rollback").await;

    // A client that wanted to roll back receives no error.
    client.must("begin; insert into t values (3)").await;
    client.change_leader().await;
    assert_eq!(client.must("rollback").await, ["  ROLLBACK"]);
    client.must("begin; select 1; commit").await;
}

#[tokio::test]
async fn what_cannot_be_set_any_more_is_reported_and_the_session_goes_on() {
    let mut client = Relayed::new().await;
    client.must("create role ada login").await;
    client.must("set timezone = 'Asia/Tokyo'").await;
    let mut foreign = vec![1];
    for (name, value) in [("no_such_thing", "1"), ("work_mem", "plenty")] {
        foreign.push(1);
        for text in [name, value] {
            foreign.extend_from_slice(&(text.len() as u32).to_le_bytes());
            foreign.extend_from_slice(text.as_bytes());
        }
    }
    client.handover.apply(&foreign).unwrap();
    let refused = client.change_leader().await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].contains("no_such_thing"), "{refused:?}");
    assert!(refused[1].contains("work_mem"), "{refused:?}");
    let said = must(&mut client.session, "show timezone").await;
    assert_eq!(said[1], "  Asia/Tokyo");

    // What the client sent when it connected may be refused by now as well.
    let account = client.database.login("ada").await.unwrap().role.unwrap();
    let ada = SessionOptions {
        role: Some(Login {
            role: account.oid,
            superuser: false,
        }),
        parameters: vec![("log_statement".to_owned(), "all".to_owned())],
        ..options()
    };
    assert!(Session::new(Arc::clone(&client.database), ada.clone()).is_err());
    let database = Arc::clone(&client.database);
    let resumed = Session::resume(database, ada, SessionHandover::default(), false).await;
    let (mut session, refused) = resumed.unwrap();
    assert_eq!(refused[0].state(), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(must(&mut session, "show log_statement").await[1], "  none");
}

#[tokio::test]
async fn a_session_with_temporary_tables_ends_with_its_leader() {
    let mut relayed = Relayed::new().await;
    assert!(!relayed.handover.is_pinned());
    relayed.must("create temp table u (a int)").await;
    assert!(relayed.handover.is_pinned());
    let resume = |relayed: &Relayed| {
        let database = Arc::clone(&relayed.database);
        Session::resume(database, options(), relayed.handover.clone(), false)
    };
    let error = resume(&relayed).await.map(drop).unwrap_err();
    assert_eq!(error.state(), SqlState("57P01"));
    assert!(error.report().hint.is_some());
    // What is carried whole says so as well.
    let mut carried = SessionHandover::default();
    for piece in relayed.session.handover().pieces() {
        carried.apply(&piece).unwrap();
    }
    assert!(carried.is_pinned());
    relayed.must("begin").await;
    relayed.must("drop table u").await;
    assert!(relayed.handover.is_pinned(), "the drop may roll back");
    relayed.must("commit").await;
    assert!(!relayed.handover.is_pinned());
    relayed.change_leader().await;
    relayed
        .must("create temp table u (a int) on commit drop")
        .await;
    assert!(!relayed.handover.is_pinned());
    relayed.change_leader().await;
}

#[tokio::test]
async fn a_cursor_that_outlives_its_transaction_is_lost_with_its_leader() {
    let mut relayed = Relayed::new().await;
    relayed
        .must("declare c cursor with hold for values (1), (2)")
        .await;
    assert!(relayed.handover.is_pinned());
    assert_eq!(relayed.must("fetch c").await[1], "  1");
    relayed.change_leader().await;
    let said = relayed.says("fetch c").await;
    assert_eq!(said, ["  ERROR 34000: cursor \"c\" does not exist"]);
    assert!(!relayed.handover.is_pinned());
}

#[tokio::test]
async fn numbers_that_a_session_was_given_go_along() {
    let mut client = Relayed::new().await;
    client.must("create sequence s; create sequence t").await;
    client.must("select nextval('s'), nextval('s')").await;
    client.must("select nextval('t')").await;
    client.must("select setval('s', 7)").await;
    client.change_leader().await;
    let said = client
        .must("select currval('s'), currval('t'), lastval()")
        .await;
    assert_eq!(said[1], "  7 | 1 | 1");
    client.must("select nextval('s')").await;
    client.change_leader().await;
    assert_eq!(client.must("select lastval()").await[1], "  8");
    client.must("discard sequences").await;
    client.change_leader().await;
    let said = client.says("select lastval()").await;
    assert!(said[1].contains("55000"), "{said:?}");
}
