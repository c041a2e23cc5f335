//! A follower's engine: read-only transactions over followed tables.
//!
//! ```text
//!   ask_newest ──▶ Questions      the leader's committed offset
//!   poll_newest ◀── at            waits until the tables are visible up to it
//!   poll_begin, begin_statement   a snapshot at the visible commit, which includes it
//!   get, scan …                   by the read path that a leader's transactions use
//! ```
//!
//! Readers ask one after the other and the node once for many of them. A commit of this node's
//! clients that the leader was sent meanwhile answers as well ([`Sending`]).
//!
//! What a snapshot shows is committed, so no result waits for a disk or a confirmation. A
//! read needs no question when its caller may see an older state.
//!
//! A transaction reads in steps and keeps nothing of the tables between two of them but its
//! registered snapshot. So tables are led, or dropped, without waiting for sessions: the
//! next step of each finds that they have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker, ready};

use coeval_txn::contract::Visit;
use coeval_txn::{
    Answered, Asking, BeginOptions, Engine, Error, Question, Standing, StorageMemory, Transaction,
    UnbuiltIndexes,
};
use coeval_types::{IndexId, Rid, StorageDefinition, StorageId, Term, Timestamp, TransactionId};

use super::reader::Reader;
use super::tables::Followed;
use super::transaction::FollowerTransaction;
use super::{FollowedTables, Questions, Sending, ended};
use crate::Statistics;
use crate::memory::{self, Budget, Memory, MemoryAccounts};

/// An engine that reads the tables of a follower and writes nothing: its snapshots are at
/// the visible commit of [`FollowedTables`].
#[derive(Debug)]
pub struct FollowerEngine {
    /// `None` for tables that do not follow. Not [`FollowedTables`]: the node that owns
    /// those frees them when it drops them.
    followed: Option<Arc<Followed>>,
    questions: Arc<dyn Questions>,
    /// Transactions that have begun, which is their id.
    begun: AtomicU64,
}

impl FollowerEngine {
    /// An engine on these tables, which [follow](FollowedTables::follow) already: on others
    /// no transaction begins.
    #[must_use]
    pub fn new(tables: FollowedTables, questions: Arc<dyn Questions>) -> Arc<Self> {
        Arc::new(Self {
            followed: tables.followed().cloned(),
            questions,
            begun: AtomicU64::new(0),
        })
    }

    /// As [`FollowerEngine::new`], under a memory budget: when old versions take more than
    /// their share, or keep the process above its limit, the oldest snapshot ends and its
    /// reader fails with [`Error::SnapshotTooOld`]; replay goes on. The first budget of
    /// tables stays.
    #[must_use]
    pub fn with_budget(
        tables: FollowedTables,
        questions: Arc<dyn Questions>,
        budget: Budget,
    ) -> Arc<Self> {
        let engine = Self::new(tables, questions);
        if let Some(followed) = &engine.followed {
            followed.memory.get_or_init(|| Memory::new(budget));
        }
        engine
    }

    fn budget(&self) -> Option<&Memory> {
        self.followed.as_ref()?.memory.get()
    }

    /// Memory in use, by purpose; `None` without a budget. Adds up counters: some hundred
    /// nanoseconds for each storage.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryAccounts> {
        let followed = self.followed.as_ref()?;
        Some(followed.accounts(followed.memory.get()?))
    }

    /// Sets the memory that the process occupies, as
    /// [`Engine::set_occupied`](crate::Engine::set_occupied) does.
    pub fn set_occupied(&self, arenas: u64, program: u64) {
        if let Some(memory) = self.budget() {
            memory.set_occupied(arenas, program);
        }
    }

    /// Sets the function that returns the process's resident memory, as
    /// [`Engine::ask_resident`](crate::Engine::ask_resident) does.
    pub fn ask_resident(&self, resident: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        if let Some(memory) = self.budget() {
            memory.ask_resident(Box::new(resident));
        }
    }

    /// Counters since the tables began to follow, and gauges of their contents. A follower
    /// has no conflicts, no logical ranges and no background sweep, so those figures are 0.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let followed = self.followed.as_ref();
        followed.map_or_else(Statistics::default, |followed| followed.statistics())
    }

    /// Notes that this node sends the leader a message, before it is sent, if a reader waits
    /// whom the answer could help.
    #[must_use]
    pub fn sends_to_answer(&self) -> Option<Sending> {
        self.questions.awaits().then(|| self.sends())
    }

    /// Notes that this node sends the leader a message, before it is sent.
    #[must_use]
    pub fn sends(&self) -> Sending {
        Sending::new(Arc::clone(&self.questions))
    }

    /// Ends the engine, and every other engine on the same tables: from now on every
    /// transaction answers [`Error::Stopped`] at its next step, and none is in the middle of
    /// one. The tables can be led or dropped without waiting for the sessions that hold a
    /// transaction; replay into them goes on until then.
    pub fn retire(&self) {
        if let Some(followed) = &self.followed {
            followed.end_readers();
        }
    }

    /// The tables, while they may be read.
    fn tables(&self) -> Result<&Arc<Followed>, Error> {
        let followed = self
            .followed
            .as_ref()
            .filter(|its| !its.visibility.is_closed());
        followed.ok_or_else(ended)
    }
}

impl Engine for FollowerEngine {
    fn name(&self) -> &'static str {
        "follower"
    }

    fn poll_begin(
        &self,
        options: &BeginOptions,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<dyn Transaction>, Error>> {
        if let Some(cancel) = &options.cancel
            && cancel.load(Ordering::Acquire)
        {
            return Poll::Ready(Err(Error::Canceled));
        }
        let followed = self.tables()?;
        if let Some(minimum) = options.minimum {
            ready!(followed.visibility.poll_commit(minimum, context))?;
        }
        let id = TransactionId(self.begun.fetch_add(1, Ordering::Relaxed) + 1);
        let reader = Reader::new(Arc::clone(followed));
        let transaction = FollowerTransaction::begin(id, reader, options);
        Poll::Ready(Ok(Box::new(transaction)))
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
        let followed = self.tables()?;
        let at = ready!(self.questions.poll(question, context))?;
        followed.visibility.poll(at, context)
    }

    fn stop_waiting(&self, waker: &Waker) {
        if let Some(followed) = &self.followed {
            followed.visibility.stop_waiting(waker);
        }
    }

    fn answered(&self, question: Question) -> Option<Answered> {
        self.questions.answered(question)
    }

    fn ask_as(&self, way: Asking) -> Option<Question> {
        Some(self.questions.ask_as(way))
    }

    fn insist(&self, question: Question) {
        self.questions.insist(question);
    }

    fn poll_standing(
        &self,
        question: Question,
        context: &mut Context<'_>,
    ) -> Poll<Result<Standing, Error>> {
        let followed = self.tables()?;
        let reached = ready!(self.questions.poll_reached(question, context))?;
        let never = &mut Context::from_waker(Waker::noop());
        let shown = followed.visibility.poll(reached.at, never);
        Poll::Ready(Ok(match shown? {
            _ if reached.flushed < reached.at => Standing::LacksLog,
            _ if reached.committed < reached.at => Standing::Uncommitted,
            Poll::Pending => Standing::Replays,
            Poll::Ready(()) => Standing::Shows,
        }))
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
        self.tables()
            .map_or(Vec::new(), |followed| followed.undropped())
    }

    fn estimated_rows(&self, storage: StorageId) -> u64 {
        let storage = self.tables().ok().and_then(|its| its.storage(storage));
        storage.map_or(0, |storage| storage.records.estimated_rows())
    }

    fn storage_memory(&self, storage: StorageId) -> Option<StorageMemory> {
        let storage = self.tables().ok().and_then(|its| its.storage(storage));
        storage.map(|storage| storage.memory())
    }

    fn unbuilt_indexes(&self) -> Option<Arc<UnbuiltIndexes>> {
        self.followed.as_ref()?.unbuilt()
    }

    fn spare_memory(&self) -> u64 {
        self.budget().map_or(u64::MAX, memory::spare)
    }

    /// `None`: there are no locks and no conflicts here to describe.
    fn show_row(&self, _: StorageId, _: Rid, _: &mut Visit<'_>) -> Option<Timestamp> {
        None
    }

    /// `None`: which transactions have ended is known to the leader.
    fn show_row_by_key(
        &self,
        _: StorageId,
        _: IndexId,
        _: &[u8],
        _: &mut Visit<'_>,
    ) -> Option<Timestamp> {
        None
    }

    /// The term of the newest visible commit.
    fn term(&self) -> Term {
        let followed = self.followed.as_ref();
        followed.map_or(Term(0), |followed| followed.visible().term())
    }
}
