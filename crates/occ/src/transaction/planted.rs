//! Planted bugs of transactions that take more than a line where they stand.

use std::task::{Context, Poll};
use std::time::Duration;

use coeval_log::Copied;
use coeval_txn::{BeginOptions, Outcome};
use coeval_types::{Timestamp, planted};

use super::Run;

/// What bugs keep in a transaction's state.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Visible at this timestamp, and not there yet.
    published: Option<Timestamp>,
    /// The snapshot of the last transaction that began here.
    last_snapshot: Option<Timestamp>,
}

impl Left {
    /// The snapshot of an earlier transaction, for one that only reads.
    pub(super) fn stale_snapshot(&self, options: &BeginOptions) -> Option<Timestamp> {
        let last = self.last_snapshot?;
        (planted!(StaleSnapshot) && options.read_only).then_some(last)
    }

    /// A transaction has begun with this snapshot.
    pub(super) fn began(&mut self, snapshot: Timestamp) {
        self.last_snapshot = Some(snapshot);
    }

    /// The transaction has ended.
    pub(super) fn clear(&mut self) {
        self.published = None;
    }
}

impl Run<'_> {
    /// Makes a commit part of new snapshots, and has it polled again later.
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

    /// Installs what was published before.
    pub(super) fn install_late(&mut self) -> Option<Outcome> {
        let timestamp = self.state.planted.published.take()?;
        self.install(timestamp);
        Some(self.finish(timestamp))
    }
}
