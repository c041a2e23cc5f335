//! Notifications from a leader's log to the thread that drives consensus, limited to those
//! that it can act on.
//!
//! ```text
//!   group filled      news: it can be sent, before it is written
//!   group flushed     news, if a commit waits for this disk: other nodes have
//!                     the group already
//!                     else seen with the next event, mostly a follower's answer
//! ```
//!
//! A flush and a request for it may race: the flusher sets the flushed end and then reads
//! the wanted end; the consensus thread sets the wanted end and then reads the flushed end.
//! With a fence between the two steps on each side, at least one of them sees the other.
//!
//! Source: this project's own.

use std::sync::Arc;

use coeval_types::Lsn;

use super::window::LogProgress;
use crate::shared::Shared;

/// Notifications of a leader's log, for a single waiting thread.
#[derive(Debug)]
pub struct LogNews(Arc<Shared>);

impl LogNews {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The log's current progress.
    #[must_use]
    pub fn now(&self) -> LogProgress {
        self.0.leading().window.now()
    }

    /// Waits for a notification; returns at once if there was one since the last call.
    pub async fn next(&self) {
        self.0.leading().window.news().await;
    }

    /// Requests notifications of flushes until everything before `end` is durable on this
    /// node. The caller then reads [`LogNews::now`].
    pub fn want_flushed(&self, end: Lsn) {
        self.0.leading().window.want_flushed(end);
    }
}
