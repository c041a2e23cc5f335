//! What a leader's log has to tell whoever drives consensus, and nothing that would only
//! wake it.
//!
//! ```text
//!   group filled      news: it can be sent, before it is written
//!   group flushed     news, if a commit waits for this disk: others have the group
//!                     already, and were faster
//!                     else read with the next event, mostly another node's answer
//! ```
//!
//! A flush and the question whether one is wanted pass each other by: the flusher sets the
//! flushed end and then looks at what is wanted, whoever wants it says so and then looks at
//! the flushed end. With a fence between the two, at least one of them sees the other.
//!
//! Source: ours.

use std::sync::Arc;

use coeval_types::Lsn;

use super::window::Progress;
use crate::shared::Shared;

/// The news of a leader's log. For one who waits.
#[derive(Debug)]
pub struct LogNews(Arc<Shared>);

impl LogNews {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// How far the log has come.
    #[must_use]
    pub fn now(&self) -> Progress {
        self.0.leading().window.now()
    }

    /// Waits for news; for none, if there were some since the last time.
    pub async fn next(&self) {
        self.0.leading().window.news().await;
    }

    /// From now on flushes are news until everything before `end` is durable here. The
    /// caller then looks at [`LogNews::now`].
    pub fn want_flushed(&self, end: Lsn) {
        self.0.leading().window.want_flushed(end);
    }
}
