//! Replay of what is written, on a thread of its own, ahead of what is committed.
//!
//! ```text
//!            committed        position          written
//!   ────────────┬────────────────┬─────────────────┬──── log
//!     visible   │ may be taken   │ being replayed  │
//!               │ back           │                 │
//! ```
//!
//! The thread takes orders between two steps, each of some log. It goes on as long as there
//! is log that is written and not too far from what is committed: what is replayed beyond
//! keeps what it has replaced in memory. Before the log is cut it has taken back what goes,
//! and then reads nothing until the disk has cut it.

use std::sync::Arc;

use coeval_env::JoinHandle;
use coeval_log::Replayer;
use coeval_occ::FollowedTables;
use coeval_txn::Definitions;
use coeval_types::Lsn;
use tokio::sync::{mpsc, oneshot};

use super::Error;
use super::checkpoint::{Walk, Wanted};
use super::disk::Done;
use super::reached::Replayed;

/// How much is replayed between two looks at the orders.
const STEP_BYTES: u64 = 4 << 20;

#[derive(Debug)]
enum Order {
    /// Everything before stands in the log's files.
    Written(Lsn),
    /// Everything before is committed.
    Committed(Lsn),
    /// The log is about to be cut here. Nothing is read until it is written again.
    Cut(Lsn, oneshot::Sender<Result<(), Error>>),
    /// A checkpoint of what is committed is to be taken.
    Checkpoint(Wanted),
    /// The one under way is not wanted any more.
    NoCheckpoint,
    /// Everything before is written and committed, and nothing follows.
    Finish(Lsn),
}

/// How replay goes.
#[derive(Clone, Debug)]
pub(super) struct How {
    /// So many bytes behind what is committed at most.
    pub(super) ahead: u64,
    /// With the indexes that these know of.
    pub(super) definitions: Option<Arc<dyn Definitions>>,
    /// Who wants to know how far it has come.
    pub(super) replayed: Replayed,
}

/// A replay that is under way.
#[derive(Debug)]
pub(super) struct Following {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<Result<(), Error>>,
}

impl Following {
    /// Goes on with a replayer. When it fails `done` hears of it.
    pub(super) fn start(
        replayer: Replayer,
        tables: FollowedTables,
        how: How,
        done: mpsc::UnboundedSender<Done>,
    ) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        how.replayed.set(replayer.position());
        let replaying = Replaying {
            written: replayer.position(),
            committed: replayer.position(),
            replayer,
            tables,
            how,
            is_held: false,
            last: None,
            walk: None,
        };
        let task = coeval_env::spawn_dedicated("node replay", move || async move {
            replaying.define();
            let ended = replaying.run(received).await;
            ended.map_err(|error| {
                // If nobody takes it the node has ended.
                let _ = done.send(Done::Failed(error));
                Error::Ended
            })
        });
        Self { orders, task }
    }

    fn order(&self, order: Order) {
        // If nobody takes it, it has failed and said so.
        let _ = self.orders.send(order);
    }

    /// Everything before stands in the log's files.
    pub(super) fn written(&self, end: Lsn) {
        self.order(Order::Written(end));
    }

    /// Everything before is committed.
    pub(super) fn committed(&self, end: Lsn) {
        self.order(Order::Committed(end));
    }

    /// Takes a checkpoint of what is replayed and committed, beside replay.
    pub(super) fn checkpoint(&self, wanted: Wanted) {
        self.order(Order::Checkpoint(wanted));
    }

    /// Gives up the one under way.
    pub(super) fn no_checkpoint(&self) {
        self.order(Order::NoCheckpoint);
    }

    /// Takes back what stands at `at` and behind. The log may be cut when this returns;
    /// replay goes on with the next [`Following::written`].
    pub(super) async fn cut(&self, at: Lsn) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.order(Order::Cut(at, answer));
        answered.await.map_err(|_| Error::Ended)?
    }

    /// Goes to this place, which is committed, and ends there.
    pub(super) async fn finish(self, to: Lsn) -> Result<(), Error> {
        self.order(Order::Finish(to));
        self.task.await.map_err(|_| Error::Ended)?
    }

    /// Ends soon, wherever it is.
    pub(super) async fn abandon(self) {
        drop(self.orders);
        // What it says is of no interest any more.
        let _ = self.task.await;
    }
}

/// The thread's own.
struct Replaying {
    replayer: Replayer,
    tables: FollowedTables,
    written: Lsn,
    committed: Lsn,
    how: How,
    /// Between the word that the log is cut and the next that it is written.
    is_held: bool,
    last: Option<Lsn>,
    /// The last checkpoint that was begun.
    walk: Option<Walk>,
}

impl Replaying {
    async fn run(mut self, orders: mpsc::UnboundedReceiver<Order>) -> Result<(), Error> {
        let replayed = self.replay(orders).await;
        // Whoever takes the tables next finds nobody who reads them.
        self.end_walk().await;
        replayed?;
        Ok(self.replayer.close().await?)
    }

    async fn replay(&mut self, mut orders: mpsc::UnboundedReceiver<Order>) -> Result<(), Error> {
        loop {
            if self
                .last
                .is_some_and(|last| self.replayer.position() >= last)
            {
                return Ok(());
            }
            let order = match self.may_go_on() {
                false => orders
                    .recv()
                    .await
                    .ok_or(mpsc::error::TryRecvError::Disconnected),
                true => orders.try_recv(),
            };
            match order {
                Ok(Order::NoCheckpoint) => self.end_walk().await,
                Ok(Order::Checkpoint(wanted)) => {
                    self.end_walk().await;
                    self.checkpoint(wanted);
                }
                Ok(order) => self.take(order)?,
                Err(mpsc::error::TryRecvError::Disconnected) if self.last.is_none() => {
                    return Ok(());
                }
                Err(_) => self.step().await?,
            }
        }
    }

    async fn end_walk(&mut self) {
        if let Some(walk) = self.walk.take() {
            walk.end().await;
        }
    }

    /// Begins a checkpoint of everything that is replayed and committed.
    fn checkpoint(&mut self, wanted: Wanted) {
        let end = self.committed.min(self.replayer.position());
        let Some(view) = self.tables.view() else {
            // Whoever wanted it may want another.
            return wanted.say(Err(coeval_log::Error::Stopped(
                "nothing is shown yet".into(),
            )));
        };
        let start = self.replayer.checkpoint_start(end);
        self.walk = Some(Walk::begin(wanted, start, view));
    }

    /// Where it may go to now is behind where it is.
    fn may_go_on(&self) -> bool {
        let position = self.replayer.position();
        let furthest = self.committed.0.saturating_add(self.how.ahead);
        !self.is_held && position < self.written && position.0 < furthest
    }

    fn take(&mut self, order: Order) -> Result<(), Error> {
        match order {
            Order::Written(end) => {
                self.written = end;
                self.is_held = false;
            }
            Order::Committed(end) => self.commit(end),
            Order::Checkpoint(_) | Order::NoCheckpoint => unreachable!("taken before"),
            Order::Cut(at, answer) => {
                let taken = self.cut(at);
                let failed = taken.is_err();
                // Whoever waits for it fails with it.
                let _ = answer.send(taken);
                if failed {
                    return Err(Error::Ended);
                }
            }
            Order::Finish(end) => {
                self.written = self.written.max(end);
                self.is_held = false;
                self.last = Some(end);
                self.commit(end);
            }
        }
        Ok(())
    }

    fn commit(&mut self, end: Lsn) {
        self.committed = self.committed.max(end);
        self.make_visible();
    }

    /// What is replayed and committed is visible; if it says so, there are other indexes.
    fn make_visible(&self) {
        let changed = self.tables.commit(self.committed);
        let visible = self.committed.min(self.replayer.position());
        self.how.replayed.set(visible);
        let definitions = self.how.definitions.as_ref();
        if definitions.is_some_and(|definitions| {
            let mut sources = definitions.sources().into_iter();
            sources.any(|source| changed.contains(&source))
        }) {
            self.define();
        }
    }

    fn define(&self) {
        if let Some(definitions) = &self.how.definitions
            && let Err(reason) = self.tables.define_by(&**definitions)
        {
            // Whoever leads with them will find out, and builds what is missing.
            tracing::error!(reason, "the indexes that a follower keeps are not known");
        }
    }

    fn cut(&mut self, at: Lsn) -> Result<(), Error> {
        if at < self.replayer.position() {
            self.tables.take_back(at)?;
        }
        self.replayer.cut(at);
        self.written = self.written.min(at);
        self.is_held = true;
        Ok(())
    }

    /// Replays some log.
    async fn step(&mut self) -> Result<(), Error> {
        self.replayer.advance_by(self.written, STEP_BYTES).await?;
        self.tables.settle();
        self.make_visible();
        Ok(())
    }
}
