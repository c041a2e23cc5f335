//! A follower's engine: read-only transactions over followed tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use coeval_txn::contract::Visit;
use coeval_txn::{BeginOptions, Engine, Error, Question, Transaction};
use coeval_types::{IndexId, Lsn, Rid, StorageDefinition, StorageId, Term, Timestamp};

use super::{FollowedTables, Questions, ended};

/// An engine that reads the tables of a follower and writes nothing: its snapshots are at
/// the visible commit of [`FollowedTables`].
#[derive(Debug)]
pub struct FollowerEngine {
    tables: FollowedTables,
    questions: Arc<dyn Questions>,
    retired: AtomicBool,
}

impl FollowerEngine {
    /// An engine on these tables, which [follow](FollowedTables::follow) already.
    #[must_use]
    pub fn new(tables: FollowedTables, questions: Arc<dyn Questions>) -> Arc<Self> {
        Arc::new(Self {
            tables,
            questions,
            retired: AtomicBool::new(false),
        })
    }

    /// Ends the engine: from now on every transaction answers [`Error::Stopped`] at its next
    /// step. The tables can be led or dropped, without waiting for those who hold one.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.tables.close();
    }

    fn check(&self) -> Result<(), Error> {
        match self.retired.load(Ordering::Acquire) {
            true => Err(ended()),
            false => Ok(()),
        }
    }
}

impl Engine for FollowerEngine {
    fn name(&self) -> &'static str {
        "follower"
    }

    /// No transaction begins before the read path is shared with the leader's engine.
    fn poll_begin(
        &self,
        _options: &BeginOptions,
        _context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>> {
        Poll::Ready(Err(ended()))
    }

    /// Ready at once: what is visible is committed.
    fn poll_durable(&self, _: Timestamp, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn ask_newest(&self) -> Option<Question> {
        Some(self.questions.ask())
    }

    fn poll_newest(
        &self,
        question: Question,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.check()?;
        let at: Lsn = ready!(self.questions.poll(question, context))?;
        self.tables.poll_visible(at, context)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn attach_storage(&self, _: StorageDefinition) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    /// Does nothing: a follower drops storages as the catalog's rows say.
    fn drop_storage(&self, _: StorageId) {}

    fn storages(&self) -> Vec<StorageId> {
        let view = self.tables.view();
        view.map_or(Vec::new(), |view| view.storages().collect())
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        self.tables.estimated_rows(storage)
    }

    fn show_row(&self, _: StorageId, _: Rid, _: &mut Visit<'_>) -> Option<Timestamp> {
        None
    }

    fn show_row_by_key(
        &self,
        _: StorageId,
        _: IndexId,
        _: &[u8],
        _: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        None
    }

    fn term(&self) -> Term {
        self.tables.visible().term()
    }
}
