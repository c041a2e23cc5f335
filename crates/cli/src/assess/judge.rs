//! The judge of statements: runs each on the server's own code, over an engine in memory.
//!
//! Definitions and settings stay, so that later statements find the tables they need.
//! Rows do not stay, unless `--keep-rows` is given: each change of rows is executed in
//! full and rolled back. A failed statement undoes nothing before it, even in a
//! transaction of the script: each statement has a savepoint of its own, whose name no
//! script uses by accident.

use std::sync::Arc;
use std::task::{Context, Poll};

use coeval_sql::output::{Column, Completion, Format, Notice, OutputRow, Sink, TransactionStatus};
use coeval_sql::session::{Session, SessionOptions};
use coeval_sql::statement::StatementKind;
use coeval_sql::{Database, Error, SqlState};
use coeval_txn::ResponseDependencies;

const SAVEPOINT: &str = "SAVEPOINT \"coeval assess\"";
const BACK: &str = "ROLLBACK TO SAVEPOINT \"coeval assess\"";
const RELEASE: &str = "RELEASE SAVEPOINT \"coeval assess\"";

/// The result of a statement that would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// The statement has run.
    Done,
    /// The statement is a COPY whose data follows; it has been rolled back: see
    /// [`Judge::data`].
    WantsData,
}

/// Runs statements and keeps only their definitions.
pub(super) struct Judge {
    database: Arc<Database>,
    session: Session,
    /// Whether changes of rows are kept.
    keep_rows: bool,
}

fn session(database: &Arc<Database>) -> Result<Session, Error> {
    let options = SessionOptions {
        user: "coeval".to_owned(),
        database: "coeval".to_owned(),
        application_name: "coeval assess".to_owned(),
        privileged: true,
        ..SessionOptions::default()
    };
    Session::new(Arc::clone(database), options)
}

impl Judge {
    /// A judge over an empty database.
    pub(super) fn new(database: Arc<Database>, keep_rows: bool) -> Result<Self, Error> {
        Ok(Self {
            session: session(&database)?,
            database,
            keep_rows,
        })
    }

    /// Opens a new session, as when the script reconnects: settings are reset, and an
    /// open transaction is rolled back.
    pub(super) fn reconnect(&mut self) -> Result<(), Error> {
        self.session = session(&self.database)?;
        Ok(())
    }

    /// Runs a statement, and returns whether it would run on a server.
    pub(super) async fn statement(&mut self, text: &str) -> Result<Ran, Error> {
        let kind = match &self.session.parse(text)?[..] {
            [] => return Ok(Ran::Done),
            [first, ..] => first.kind(),
        };
        let block = self.session.transaction_status() == TransactionStatus::InTransaction;
        if kind == StatementKind::Transaction {
            return self.control(text, block).await;
        }
        let undone = match kind {
            StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
                !self.keep_rows
            }
            // The data comes later, in batches that each run this COPY.
            StatementKind::Copy => true,
            _ => false,
        };
        let begun = self.begin(block || undone).await?;
        let ran = self.run(text).await;
        self.end(begun, ran.is_err() || undone).await?;
        ran
    }

    /// Whether a COPY would accept this data, which is whole lines; returns the number of
    /// rows.
    pub(super) async fn data(&mut self, copy: &str, data: &[u8]) -> Result<u64, Error> {
        let begun = self.begin(true).await?;
        let copied = self.copy(copy, data).await;
        self.end(begun, copied.is_err() || !self.keep_rows).await?;
        copied
    }

    async fn copy(&mut self, copy: &str, data: &[u8]) -> Result<u64, Error> {
        if self.run_on(copy).await? != Ran::WantsData {
            return Err(Error::internal("a COPY that wants no data any more"));
        }
        self.session.copy_data(data).await?;
        match self.session.copy_done().await? {
            Completion::Complete(tag) => Ok(tag.rows.unwrap_or(0)),
            _ => Ok(0),
        }
    }

    /// Runs BEGIN, COMMIT and similar statements as the script has them.
    async fn control(&mut self, text: &str, block: bool) -> Result<Ran, Error> {
        // SET TRANSACTION must be the first statement of its transaction.
        let savepoint = block && !text.as_bytes()[..3.min(text.len())].eq_ignore_ascii_case(b"set");
        if savepoint {
            self.run(SAVEPOINT).await?;
        }
        let ran = self.run(text).await;
        if ran.is_err() && self.session.transaction_status() == TransactionStatus::Failed {
            if savepoint {
                self.run(BACK).await?;
            } else {
                self.run("ROLLBACK").await?;
                self.run("BEGIN").await?;
            }
        }
        ran
    }

    /// Opens a transaction or savepoint to roll back to; returns which of them.
    async fn begin(&mut self, undoable: bool) -> Result<Begun, Error> {
        if !undoable {
            return Ok(Begun::Nothing);
        }
        if self.session.transaction_status() == TransactionStatus::Idle {
            self.run("BEGIN").await?;
            return Ok(Begun::Transaction);
        }
        self.run(SAVEPOINT).await?;
        Ok(Begun::Savepoint)
    }

    async fn end(&mut self, begun: Begun, back: bool) -> Result<(), Error> {
        match (begun, back) {
            (Begun::Nothing, _) => {}
            (Begun::Transaction, true) => {
                self.run("ROLLBACK").await?;
            }
            (Begun::Transaction, false) => {
                self.run("COMMIT").await?;
            }
            (Begun::Savepoint, back) => {
                if back {
                    self.run(BACK).await?;
                }
                self.run(RELEASE).await?;
            }
        }
        Ok(())
    }

    /// Runs the text as a simple query. A COPY that waits for data is aborted.
    async fn run(&mut self, text: &str) -> Result<Ran, Error> {
        let ran = self.run_on(text).await;
        match ran {
            Ok(Ran::WantsData) => {
                let _ = self.session.copy_fail("its data comes later");
            }
            Ok(Ran::Done) => self.session.finish().await?,
            Err(_) => {
                // The error has been returned; the implicit transaction is rolled back.
                let _ = self.session.finish().await;
            }
        }
        ran
    }

    async fn run_on(&mut self, text: &str) -> Result<Ran, Error> {
        let mut statements = self.session.parse_sequence(text)?;
        while let Some(statement) = statements.next(self.session.budget()) {
            let statement = statement.inspect_err(|_| self.session.fail())?;
            let prepared = self.session.prepare(statement, &[]).await?;
            if !prepared.parameter_types().is_empty() {
                self.session.fail();
                let message = "there is no parameter $1";
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, message));
            }
            let portal = self.session.bind(&prepared, &[], &[], &[]);
            let mut portal = portal.inspect_err(|_| self.session.fail())?;
            if statements.is_empty() {
                self.session.expect_finish();
            }
            let ran = self.session.execute(&mut portal, None, &mut Nowhere).await;
            if matches!(ran?, Completion::CopyIn { .. }) {
                return Ok(Ran::WantsData);
            }
        }
        Ok(Ran::Done)
    }
}

/// How a statement can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    Nothing,
    Transaction,
    Savepoint,
}

/// A sink that discards results.
#[derive(Debug)]
struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _columns: &[Column], _formats: &[Format]) {}
    fn row(&mut self, _row: OutputRow<'_>) {}
    fn restart(&mut self) {}
    fn notice(&mut self, _notice: Notice) {}
    fn copy_out(&mut self, _columns: usize) {}
    fn copy_data(&mut self, _data: &[u8]) {}
    fn poll_drain(
        &mut self,
        _dependencies: ResponseDependencies,
        _context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}
