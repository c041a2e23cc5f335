//! Follower replay: applies written log to the tables on its own thread, ahead of commit.
//!
//! ```text
//!            committed        position          written
//!   ────────────┬────────────────┬─────────────────┬──── log
//!     visible   │ may be undone  │ being replayed  │
//! ```
//!
//! Between two steps, each over some log, the thread takes orders. It continues while log
//! is written and not too far beyond the commit index, because replay beyond it keeps the
//! replaced row versions in memory. Before the log is truncated the thread undoes the
//! entries that go, and then reads nothing until the disk thread has truncated the log.

use std::sync::Arc;
use std::task::Poll;

use coeval_env::JoinHandle;
use coeval_log::Replayer;
use coeval_occ::FollowedTables;
use coeval_txn::Definitions;
use coeval_types::{Lsn, planted};
use tokio::sync::{mpsc, oneshot};

use super::Error;
use super::apply_progress::Replayed;
use super::checkpoint::{Walk, Wanted};
use super::disk::Done;

/// Bytes replayed before the thread polls for orders again.
const STEP_BYTES: u64 = 4 << 20;

#[derive(Debug)]
enum Order {
    /// The log's files hold everything before this offset.
    Written(Lsn),
    /// Everything before this offset is committed.
    Committed(Lsn),
    /// The log is about to be truncated here. The thread reads nothing until the next
    /// `Written`.
    Cut(Lsn, oneshot::Sender<Result<(), Error>>),
    /// Take a checkpoint of the committed rows.
    Checkpoint(Wanted),
    /// Give up the checkpoint under way.
    NoCheckpoint,
    /// Everything before this offset is written and committed; end there.
    Finish(Lsn),
}

/// How a replay thread works and reports.
#[derive(Clone, Debug)]
pub(super) struct How {
    /// Bytes that replay may run ahead of the commit index.
    pub(super) ahead: u64,
    /// Source of the index definitions, if replay maintains indexes.
    pub(super) definitions: Option<Arc<dyn Definitions>>,
    /// Where the thread publishes its progress.
    pub(super) replayed: Replayed,
}

/// A handle to the replay thread.
#[derive(Debug)]
pub(super) struct Following {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<Result<(), Error>>,
}

impl Following {
    /// Starts the thread on a replayer. A failure is reported to `done`.
    pub(super) fn start(
        replayer: Replayer,
        tables: FollowedTables,
        how: How,
        done: mpsc::UnboundedSender<Done>,
    ) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        how.replayed.set(replayer.position(), replayer.position());
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
            replaying.make_visible();
            let ended = replaying.run(received).await;
            ended.map_err(|error| {
                // A closed channel means that the node has ended.
                let _ = done.send(Done::Failed(error));
                Error::Ended
            })
        });
        Self { orders, task }
    }

    fn order(&self, order: Order) {
        // A thread that is gone has failed, and has reported why.
        let _ = self.orders.send(order);
    }

    /// The log's files hold everything before `end`.
    pub(super) fn written(&self, end: Lsn) {
        self.order(Order::Written(end));
    }

    /// Everything before `end` is committed.
    pub(super) fn committed(&self, end: Lsn) {
        self.order(Order::Committed(end));
    }

    /// Takes a checkpoint of the replayed and committed rows, beside replay.
    pub(super) fn checkpoint(&self, wanted: Wanted) {
        self.order(Order::Checkpoint(wanted));
    }

    /// Gives up the checkpoint under way.
    pub(super) fn no_checkpoint(&self) {
        self.order(Order::NoCheckpoint);
    }

    /// Undoes the entries from `at` on. The caller may truncate the log when this returns;
    /// replay continues with the next [`Following::written`].
    pub(super) async fn cut(&self, at: Lsn) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.order(Order::Cut(at, answer));
        answered.await.map_err(|_| Error::Ended)?
    }

    /// Replays up to `to`, which is committed, and ends the thread there.
    pub(super) async fn finish(self, to: Lsn) -> Result<(), Error> {
        self.order(Order::Finish(to));
        self.task.await.map_err(|_| Error::Ended)?
    }

    /// Ends the thread soon, at any offset.
    pub(super) async fn abandon(self) {
        drop(self.orders);
        // Its result is not needed any more.
        let _ = self.task.await;
    }
}

/// State of the replay thread.
struct Replaying {
    replayer: Replayer,
    tables: FollowedTables,
    written: Lsn,
    committed: Lsn,
    how: How,
    /// Whether the log is being truncated, until the next `Written`.
    is_held: bool,
    last: Option<Lsn>,
    /// The last checkpoint begun.
    walk: Option<Walk>,
}

impl Replaying {
    async fn run(mut self, orders: mpsc::UnboundedReceiver<Order>) -> Result<(), Error> {
        let replayed = self.replay(orders).await;
        // The next owner of the tables finds no readers in them.
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
                false => match self.wait(&mut orders).await {
                    Some(order) => order.ok_or(mpsc::error::TryRecvError::Disconnected),
                    None => {
                        self.tables.work();
                        if self.tables.is_building() {
                            // A task that never waits takes so many orders from a channel,
                            // and no more until the runtime has had its turn.
                            coeval_env::yield_now().await;
                        }
                        continue;
                    }
                },
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

    /// Waits for an order; `None` when there is something to collect before one has come.
    async fn wait(&self, orders: &mut mpsc::UnboundedReceiver<Order>) -> Option<Option<Order>> {
        std::future::poll_fn(|context| match orders.poll_recv(context) {
            Poll::Ready(order) => Poll::Ready(Some(order)),
            Poll::Pending => self.tables.poll_work(context).map(|()| None),
        })
        .await
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
            // The disk thread may ask for another one later.
            return wanted.say(Err(coeval_log::Error::Stopped(
                "nothing is shown yet".into(),
            )));
        };
        let start = self.replayer.checkpoint_start(end);
        self.walk = Some(Walk::begin(wanted, start, view));
    }

    /// Whether replay may advance: log is written, and the limit beyond the commit index
    /// not reached.
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
                // A caller that waits for the answer fails with the thread.
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

    /// Makes replayed and committed rows visible; definitions among them change the
    /// indexes first.
    fn make_visible(&self) {
        let visible = match planted!(VerifiedForSettled) {
            true => self.committed,
            false => self.committed.min(self.replayer.position()),
        };
        match &self.how.definitions {
            Some(definitions) => {
                let learnt = self.tables.commit_defining(visible, &**definitions);
                learnt.unwrap_or_else(|reason| unknown(&reason));
            }
            None => drop(self.tables.commit(visible)),
        }
        self.how.replayed.set(self.replayer.position(), visible);
    }

    fn define(&self) {
        if let Some(definitions) = &self.how.definitions {
            let learnt = self.tables.define_by(&**definitions);
            learnt.unwrap_or_else(|reason| unknown(&reason));
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

    /// Replays one step's bytes of log.
    async fn step(&mut self) -> Result<(), Error> {
        self.replayer.advance_by(self.written, STEP_BYTES).await?;
        self.tables.settle();
        self.make_visible();
        Ok(())
    }
}

/// Reports definitions that cannot be read. The next leader on these tables detects the
/// missing indexes and builds them.
fn unknown(reason: &str) {
    tracing::error!(reason, "the indexes that a follower keeps are not known");
}
