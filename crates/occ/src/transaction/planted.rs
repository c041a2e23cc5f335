//! Injected known bugs of transactions that take more than one line at their place of
//! effect.

use std::task::{Context, Poll};
use std::time::Duration;

use coeval_log::Copied;
use coeval_txn::{BeginOptions, Outcome};
use coeval_types::{Timestamp, planted};

use super::TransactionContext;

/// Fields that injected bugs keep in a transaction's state.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Timestamp of a commit that snapshots include although its versions are not
    /// installed yet.
    published: Option<Timestamp>,
    /// The snapshot of the last transaction that used this state.
    last_snapshot: Option<Timestamp>,
}

impl Left {
    /// The snapshot of an earlier transaction, for a read-only transaction.
    pub(super) fn stale_snapshot(&self, options: &BeginOptions) -> Option<Timestamp> {
        let last = self.last_snapshot?;
        (planted!(StaleSnapshot) && options.read_only).then_some(last)
    }

    /// Notes that a transaction has begun with this snapshot.
    pub(super) fn began(&mut self, snapshot: Timestamp) {
        self.last_snapshot = Some(snapshot);
    }

    /// Clears the fields at the end of a transaction.
    pub(super) fn clear(&mut self) {
        self.published = None;
    }
}

impl TransactionContext<'_> {
    /// Makes new snapshots include the commit before its versions are installed, and
    /// requests a later poll.
    pub(super) fn publish_before_install(
        &mut self,
        copied: Copied<'_>,
        timestamp: Timestamp,
        context: &Context<'_>,
    ) -> Poll<Outcome> {
        copied.installed();
        self.state.planted.published = Some(timestamp);
        let waker = context.waker().clone();
        coeval_env::spawn("late installation", async move {
            coeval_env::sleep(Duration::from_millis(1)).await;
            waker.wake();
        });
        Poll::Pending
    }

    /// Installs the versions of a commit that was published before.
    pub(super) fn install_late(&mut self) -> Option<Outcome> {
        let timestamp = self.state.planted.published.take()?;
        self.install(timestamp);
        Some(self.finish(timestamp))
    }
}
