//! Waits for commits of other sessions: `coeval.wait_for`.
//!
//! A pool gives a client's next statement to another session, perhaps on another node. The
//! client, or its pool, keeps what `coeval.last_commit()` has returned on the first session,
//! and has the second one wait until its node shows that commit.
//!
//! A function cannot wait. It records the commit, and the session waits when the query has
//! ended, before the client gets its result: what comes next sees the commit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_env::Instant;
use coeval_txn::{BeginOptions, Isolation};
use coeval_types::Timestamp;

use super::Session;
use super::set::AwaitedCommit;
use crate::error::{Error, Result, SqlState};

/// Interval at which the session checks whether the statement was canceled.
const LOOK: Duration = Duration::from_millis(20);

impl Session {
    /// Waits until snapshots of this node's tables include these commits.
    pub(super) async fn wait_for_commits(&mut self, awaited: &[AwaitedCommit]) -> Result<()> {
        for AwaitedCommit { commit, limit } in awaited {
            let running = self.running.as_ref();
            if running.is_some_and(|running| running.transaction.snapshot() >= *commit) {
                continue;
            }
            // Not a transaction that runs: others may have its place meanwhile.
            self.ticket.rest();
            let end = limit.map(|limit| coeval_env::now() + limit);
            let shown = self.wait_for_commit(*commit, end).await;
            self.ticket.resume();
            shown?;
            self.asks_anew();
        }
        Ok(())
    }

    async fn wait_for_commit(&mut self, commit: Timestamp, end: Option<Instant>) -> Result<()> {
        let options = BeginOptions {
            isolation: Isolation::ReadCommitted,
            read_only: true,
            minimum: Some(commit),
            ..BeginOptions::default()
        };
        let mut beginning = std::pin::pin!(coeval_txn::begin(&*self.database.engine, &options));
        loop {
            let rest = end.map(|end| end.duration_since(coeval_env::now()));
            let look = rest.map_or(LOOK, |rest| rest.min(LOOK));
            match coeval_env::timeout(look, &mut beginning).await {
                Ok(begun) => {
                    begun?.abort();
                    return Ok(());
                }
                Err(coeval_env::Elapsed) if self.info.cancel.load(Ordering::Relaxed) => {
                    return Err(Error::canceled());
                }
                Err(coeval_env::Elapsed) if rest.is_some_and(|rest| rest <= LOOK) => {
                    return Err(Error::new(
                        SqlState::QUERY_CANCELED,
                        format!("this node did not show the commit {commit} in time"),
                    )
                    .with_hint(
                        "Wait longer, read with coeval.read_from = fresh, or look at \
                         coeval.replicas for the node's lag.",
                    ));
                }
                Err(coeval_env::Elapsed) => {}
            }
        }
    }
}
