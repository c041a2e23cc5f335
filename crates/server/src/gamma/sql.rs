//! A session of the probe: statements of this process, through the same SQL executor as those
//! of clients.

use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_sql::output::{Column, Format, Notice, OutputRow, Sink};
use coeval_sql::session::{Database, Login, Session, SessionOptions};
use coeval_sql::{Error, Value};
use coeval_txn::ResponseDependencies;

/// The rows of a statement.
#[derive(Debug, Default)]
struct Rows(Vec<Vec<Value>>);

impl Sink for Rows {
    fn columns(&mut self, _: &[Column], _: &[Format]) {}

    fn row(&mut self, row: OutputRow<'_>) {
        self.0.push(row.values().to_vec());
    }

    fn restart(&mut self) {
        self.0.clear();
    }

    fn notice(&mut self, _: Notice) {}

    fn copy_out(&mut self, _: usize) {}

    fn copy_data(&mut self, _: &[u8]) {}

    /// Ready: no row leaves before [`ProbeSession::run`] has waited for what it depends on.
    fn poll_drain(
        &mut self,
        _: ResponseDependencies,
        _: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

/// A session without a client.
pub(super) struct ProbeSession {
    database: Arc<Database>,
    session: Session,
}

impl ProbeSession {
    /// A session of the first role, if no other is given.
    pub(super) fn open(database: &Arc<Database>, role: Option<Login>) -> Result<Self, Error> {
        let options = SessionOptions {
            user: super::PROBE.to_owned(),
            role,
            database: super::PROBE.to_owned(),
            application_name: super::PROBE.to_owned(),
            ..SessionOptions::default()
        };
        Ok(Self {
            database: Arc::clone(database),
            session: Session::new(Arc::clone(database), options)?,
        })
    }

    /// Runs statements, and waits until their effects are durable and what they have read
    /// is confirmed. Returns the rows.
    pub(super) async fn run(&mut self, text: &str) -> Result<Vec<Vec<Value>>, Error> {
        let ran = self.execute(text).await;
        if ran.is_err() {
            self.session.fail();
        }
        self.session.rest();
        let rows = ran?;
        let engine = &**self.database.engine();
        let newest = self.session.newest_seen().max(self.session.newest_commit());
        coeval_txn::durable(engine, newest).await?;
        coeval_txn::confirmed(engine).await?;
        Ok(rows)
    }

    async fn execute(&mut self, text: &str) -> Result<Vec<Vec<Value>>, Error> {
        let mut rows = Rows::default();
        let session = &mut self.session;
        let mut statements = session.read_sequence(text).await?;
        while let Some(statement) = session.next_of(&mut statements).await {
            let prepared = session.prepare(statement?, &[]).await?;
            let mut portal = session.bind(&prepared, &[], &[], &[])?;
            session.execute(&mut portal, None, &mut rows).await?;
        }
        session.finish().await?;
        Ok(rows.0)
    }
}
