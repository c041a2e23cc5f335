//! The fuzz target `sql`: arbitrary text as SQL, on the serial engine.
//!
//! The input is a query string, then, each behind a zero byte, texts for the
//! parameters of its statements. It is run as one session would run it: parsed,
//! and each statement prepared, bound and executed. A statement that takes too long
//! is canceled, and then ends. Whatever it was, the same session can go on
//! afterwards, and no error says that this program is at fault (XX000).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use coeval_env::sim::World;
use coeval_sql::output::{Column, Completion, Format, Notice, OutputRow, Sink, TransactionStatus};
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::{Database, Error, SqlState};
use coeval_txn::ResponseDependencies;
use coeval_txn::serial::Serial;

/// What there is to ask for.
const SCHEMA: &str = "
    CREATE TABLE a (id int PRIMARY KEY, b bigint NOT NULL DEFAULT 7, t text, u varchar(5),
        n numeric(10, 3), f boolean, d date, s timestamptz);
    CREATE UNIQUE INDEX a_t ON a (t);
    CREATE INDEX a_bd ON a (b, d DESC);
    CREATE TABLE e (x int, y double precision, z bytea);
    INSERT INTO a VALUES (1, 10, 'one', 'eins', 1.5, true, '2020-02-29', '2020-01-01 12:00+02'),
        (2, 10, NULL, '', -0.001, false, 'infinity', NULL),
        (3, -9223372036854775808, 'drei', NULL, 'NaN', NULL, NULL, '-infinity');
    INSERT INTO e VALUES (1, 'NaN', '\\x00ff'), (NULL, -0.0, NULL), (1, 'Infinity', '');";

/// Polls that a statement may take before it is canceled.
const PATIENCE: u32 = 50;
/// Polls that it may take after that.
const GRACE: u32 = 50;
/// Longest input, in bytes. What long texts find, short ones find sooner.
const LONGEST: usize = 4096;

/// Writes out what it is given, and forgets it.
#[derive(Debug, Default)]
struct Nowhere {
    bytes: Vec<u8>,
}

impl Sink for Nowhere {
    fn columns(&mut self, _columns: &[Column], _formats: &[Format]) {}

    fn row(&mut self, row: OutputRow<'_>) {
        self.bytes.clear();
        for column in 0..row.len() {
            row.write(column, &mut self.bytes);
        }
    }

    fn restart(&mut self) {}

    fn notice(&mut self, _notice: Notice) {}

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, _data: &[u8]) {}

    fn poll_drain(
        &mut self,
        _: ResponseDependencies,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

/// Waits for `work`, and cancels it when it takes too long.
async fn within<T>(cancel: &AtomicBool, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut polls = 0;
    poll_fn(|context| {
        polls += 1;
        if polls > PATIENCE {
            cancel.store(true, Ordering::Relaxed);
        }
        assert!(polls <= PATIENCE + GRACE, "a canceled statement goes on");
        work.as_mut().poll(context)
    })
    .await
}

/// An error that a client may be given.
fn look_at(error: &Error) {
    let report = error.report();
    assert_ne!(report.state, SqlState::INTERNAL_ERROR, "{error}");
    assert!(!report.message.is_empty());
}

async fn statements(
    session: &mut Session,
    cancel: &AtomicBool,
    text: &str,
    parameters: &[&str],
) -> Result<(), Error> {
    for statement in session.parse(text)? {
        let prepared = within(cancel, session.prepare(statement, &[])).await?;
        let values: Vec<Option<&[u8]>> = (0..prepared.parameter_types().len())
            .map(|position| Some(parameters.get(position)?.as_bytes()))
            .collect();
        let mut portal = session.bind(&prepared, &values, &[], &[])?;
        let mut sink = Nowhere::default();
        let completion = within(cancel, session.execute(&mut portal, None, &mut sink)).await?;
        if let Completion::CopyIn { .. } = completion {
            for text in parameters {
                within(cancel, session.copy_data(text.as_bytes())).await?;
            }
            within(cancel, session.copy_done()).await?;
        }
    }
    Ok(())
}

async fn query(session: &mut Session, cancel: &AtomicBool, text: &str, parameters: &[&str]) {
    if let Err(error) = statements(session, cancel, text, parameters).await {
        look_at(&error);
        session.fail();
    }
    if let Err(error) = within(cancel, session.finish()).await {
        look_at(&error);
    }
}

/// One input.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(&input[..input.len().min(LONGEST)]) else {
        return;
    };
    let text = text.to_owned();
    let world = World::new(1);
    let node = world.node();
    let done = world.run(node, async move {
        let database = Database::open(Arc::new(Serial::default()))
            .await
            .expect("an empty database opens");
        let cancel = Arc::new(AtomicBool::new(false));
        let options = SessionOptions {
            user: "tester".to_owned(),
            database: "test".to_owned(),
            process_id: 7,
            cancel: Arc::clone(&cancel),
            ..SessionOptions::default()
        };
        let mut session = Session::new(database, options).expect("sound options");
        query(&mut session, &cancel, SCHEMA, &[]).await;
        let mut parts = text.split('\0');
        let text = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        query(&mut session, &cancel, text, &parameters).await;

        query(&mut session, &cancel, "ROLLBACK", &[]).await;
        assert_eq!(session.transaction_status(), TransactionStatus::Idle);
        let one = session.parse("SELECT 1").expect("it is SQL").remove(0);
        let prepared = session
            .prepare(one, &[])
            .await
            .expect("the session goes on");
        assert_eq!(prepared.columns().map(<[Column]>::len), Some(1));
    });
    done.expect("no panic");
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[cfg(test)]
#[test]
fn the_corpus_leaves_a_session_that_goes_on() {
    replay::replay("sql", run);
}
