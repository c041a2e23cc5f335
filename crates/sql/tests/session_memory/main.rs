//! What prepared statements and portals are charged to their session is what they take.
//!
//! A separate program, because its allocator counts.

use std::alloc::System;
use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_memory::heap::{self, Counting};
use coeval_sql::output::{Column, Format, Notice, OutputRow, Sink};
use coeval_sql::{Database, Error, Session, SessionOptions};
use coeval_txn::ResponseDependencies;
use coeval_txn::serial::Serial;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// How many statements of a shape are kept at once.
const COPIES: usize = 16;

const TABLES: [&str; 3] = [
    "create table t (id int primary key, v text, n numeric, at timestamptz, f float8)",
    "create table u (id int primary key, t int not null, v text)",
    "create index on u (t, v)",
];

/// The shapes of statements: one of each kind that programs prepare, short and long.
fn shapes() -> Vec<String> {
    let repeated = |text: &str, times: usize| vec![text; times].join(", ");
    let any_of = |times: usize| (1..=times).map(|n| format!("${n}")).collect::<Vec<_>>();
    let mut shapes = [
        "select 1",
        "select v from t where id = $1",
        "select * from t where id between $1 and $2 order by v desc limit 10",
        "select t.v, u.v from t join u on u.t = t.id where t.id = $1",
        "select v, count(*), sum(n), max(at) from t group by v having count(*) > 1 order by 2",
        "select (select max(u.id) from u where u.t = t.id) from t where exists (select 1 from u where u.t = t.id and u.v = $1)",
        "with a as (select id, v from t where n > 1), b as (select t, count(*) c from u group by t) select a.v, b.c from a join b on b.t = a.id",
        "select id from t union all select id from u union select t from u",
        "select case when n > 10 then 'much' when n > 5 then 'some' else 'little' end, coalesce(v, '-') || upper(v) from t",
        "select v from t where v like 'a%' and n in (1, 2, 3) and at > now() - interval '1 day' or f is null",
        "insert into t (id, v, n, at, f) values ($1, $2, $3, $4, $5) on conflict (id) do update set v = excluded.v returning id",
        "update t set v = $2, n = n + 1, at = now() where id = $1 and v <> $2",
        "delete from u where t = $1 returning id, v",
        "select distinct v from u where t = any($1)",
        "copy t from stdin",
        "begin",
    ]
    .map(str::to_owned)
    .to_vec();
    // A type that this version does not take is left out of the list.
    shapes.retain(|shape| !shape.contains("interval"));
    let wide = repeated("coalesce(v, 'x0') || 'y'", 300);
    shapes.push(format!("select {wide} from t where id = $1"));
    let list = any_of(500).join(", ");
    shapes.push(format!("select v from t where id in ({list})"));
    let rows = repeated("(1, 'a text', 1.5, null, 2.5)", 300);
    shapes.push(format!("insert into t values {rows}"));
    shapes.push(format!(
        "select {} from t",
        repeated("n * 2 + f::numeric", 200)
    ));
    let ors = vec!["id = 1 and v = 'x'"; 200].join(" or ");
    shapes.push(format!("select v from t where {ors}"));
    shapes
}

async fn session() -> Session {
    let database = Database::open(Arc::new(Serial::default())).await.unwrap();
    let options = SessionOptions {
        limits: coeval_sql::instance::Limits {
            session_memory: u64::MAX,
            ..Default::default()
        },
        ..SessionOptions::default()
    };
    let mut session = Session::new(database, options).unwrap();
    for text in TABLES {
        let statement = session.parse(text).unwrap().remove(0);
        let prepared = session.prepare(statement, &[]).await.unwrap();
        let mut portal = session.bind(&prepared, &[], &[], &[]).unwrap();
        let mut lines = Discard;
        session
            .execute(&mut portal, None, &mut lines)
            .await
            .unwrap();
        session.finish().await.unwrap();
    }
    session
}

/// Takes no answers.
struct Discard;

impl Sink for Discard {
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

async fn prepare(session: &mut Session, name: &str, text: &str) {
    let statement = session.parse(text).unwrap().remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    session.finish().await.unwrap();
    session.name(name, prepared).unwrap();
}

/// Whether `charged` is within 30 per cent of `measured`.
fn is_near(charged: u64, measured: u64) -> bool {
    charged * 10 >= measured * 7 && charged * 10 <= measured * 13
}

fn allocated() -> u64 {
    u64::try_from(heap::of_this_thread()).unwrap()
}

#[tokio::test]
async fn statements_are_charged_what_they_take() {
    let mut wrong = Vec::new();
    let shapes = shapes();
    assert!(shapes.len() >= 20, "{}", shapes.len());
    for shape in shapes {
        let mut session = session().await;
        prepare(&mut session, "first", &shape).await;
        let (before, charged) = (allocated(), session.memory().used());
        for copy in 0..COPIES {
            // A text of its own, which no cache knows.
            prepare(
                &mut session,
                &format!("s{copy}"),
                &format!("{shape} /* {copy} */"),
            )
            .await;
        }
        let copies = COPIES as u64;
        let measured = (allocated() - before) / copies;
        let charged = (session.memory().used() - charged) / copies;
        println!(
            "{measured:8} {charged:8} {:5.2} {:6.1} of the text  {shape:.60}",
            charged as f64 / measured as f64,
            measured as f64 / shape.len() as f64
        );
        if !is_near(charged, measured) {
            wrong.push(format!("{charged} for {measured}: {shape:.60}"));
        }
        assert!(session.forget("s0"));
        for copy in 1..COPIES {
            session.forget(&format!("s{copy}"));
        }
        session.forget("first");
        assert_eq!(session.memory().used(), 0, "{shape:.60}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn portals_are_charged_what_they_take() {
    let mut session = session().await;
    let statement = session
        .parse("select $1::text, $2::text")
        .unwrap()
        .remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    for length in [10, 1000, 100_000] {
        let value = vec![b'x'; length];
        let values = [Some(&value[..]), Some(&value[..])];
        let mut portals = Vec::with_capacity(COPIES);
        let before = allocated();
        for _ in 0..COPIES {
            let mut portal = session.bind(&prepared, &values, &[], &[]).unwrap();
            session.charge_portal(&mut portal).unwrap();
            portals.push(portal);
        }
        // The list of portals is of their size too, and was made before.
        let list = (COPIES * size_of::<coeval_sql::session::Portal>()) as u64;
        let measured = allocated() - before + list;
        let charged = session.memory().used();
        assert!(is_near(charged, measured), "{charged} for {measured}");
        drop(portals);
        assert_eq!(session.memory().used(), 0);
    }
}

#[tokio::test]
async fn a_large_unnamed_statement_is_kept_as_its_text() {
    let mut session = session().await;
    let wide = vec!["coalesce(v, 'x0') || 'y'"; 6000].join(", ");
    let text = format!("select {wide} from t where id = $1");
    prepare(&mut session, "", &text).await;
    let before = allocated();
    session.rest();
    assert!(session.is_asleep(""));
    let freed = before.saturating_sub(allocated());
    assert!(freed > 1 << 20, "{freed} bytes were given back");
    let charged = session.memory().used();
    assert!(is_near(charged, text.len() as u64), "{charged} bytes");
    session.wake("").await.unwrap();
    assert_eq!(session.memory().used(), 0);
    session.finish().await.unwrap();
    let prepared = Arc::clone(session.named("").unwrap());
    assert_eq!(prepared.text(), text);
    session.bind(&prepared, &[Some(b"1")], &[], &[]).unwrap();
    // A small one stays as it is.
    prepare(&mut session, "", "select v from t where id = $1").await;
    session.rest();
    assert!(!session.is_asleep(""));
}

#[tokio::test]
async fn sleeping_statements_of_a_moved_session_are_charged_too() {
    let mut session = session().await;
    for number in 0..COPIES {
        let text = format!(
            "select {} from t where id = $1",
            vec!["v"; 1000 + number].join(", ")
        );
        prepare(&mut session, &format!("s{number}"), &text).await;
    }
    let handover = session.handover();
    let database = Database::open(Arc::new(Serial::default())).await.unwrap();
    let before = allocated();
    let (resumed, refused) = Session::resume(
        Arc::clone(&database),
        SessionOptions::default(),
        handover.clone(),
        false,
    )
    .await
    .unwrap();
    assert!(refused.is_empty());
    let measured = allocated() - before;
    let charged = resumed.memory().used();
    assert!(
        charged > 4000 * COPIES as u64 * 7 / 10,
        "{charged} for {measured}"
    );
    drop(resumed);
    assert_eq!(database.instance().sessions_memory().used(), 0);
}
