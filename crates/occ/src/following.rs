//! A node of a cluster: tables that follow, an engine that leads, and back.
//!
//! ```text
//!   ReplicaLog::open, Replayer ──entries──▶ FollowedTables
//!                                              │
//!   ReplicaLog::lead ──────────▶ Log ──────────┤
//!                                              ▼
//!                                            Engine ──retire──▶ ReplicaLog, to be closed
//! ```
//!
//! # Worked example
//!
//! A node has replayed its log up to 4296, all of it committed, and is elected in term 3.
//! Its log goes on behind that with `c d` of term 2, which some other nodes have as well.
//! It writes its mark: `c d S₃`. Once `S₃` is committed `c` and `d` are; they are
//! replayed, and only then the tables are whole and [`Engine::lead`] takes them.
//!
//! Later, cut off from the others, it has `S₃ e f` and tables that show `f`, of which
//! nobody has been told, and node 2 leads term 4 with `S₃ e S₄`. There is no way to take
//! `f` out of tables and indexes. So the engine is given up whole: [`Engine::retire`]
//! leaves a log, and the tables are filled anew from checkpoint and log, up to what is
//! known to be committed.
//!
//! # Invariants
//!
//! 1. *Followed tables hold only what is committed*, so nothing is ever taken back from
//!    them.
//! 2. *An engine leads once, in one term.* What it shows ahead of the commit point goes
//!    with it.
//! 3. *Nothing leaves before it is committed.* New snapshots show what is installed, as
//!    on one node; what a transaction saw or did is told when
//!    [`poll_durable`](coeval_txn::Engine::poll_durable) says so, and in a cluster that
//!    follows the committed end, not what this disk has.
//! 4. *A retired engine begins nothing*, not even to read: another node may have gone on.
//!
//! 5. *A checkpoint covers what is committed.* A leader's waits until its snapshot is, and
//!    until it is on this disk; it ends with the engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coeval_log::{Log, Replay, ReplicaLog};
use coeval_txn::Error;

use crate::Settings;
use crate::checkpointer::Checkpointer;
use crate::engine::{Engine, Shared};
use crate::recovery::Recovery;

/// The tables of a node that follows. See the module.
pub struct FollowedTables(Arc<Recovery>);

impl std::fmt::Debug for FollowedTables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FollowedTables")
            .finish_non_exhaustive()
    }
}

impl Default for FollowedTables {
    fn default() -> Self {
        Self::new()
    }
}

impl FollowedTables {
    /// Empty ones.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// What fills them: for [`ReplicaLog::open`], then for its
    /// [`Replayer`](coeval_log::Replayer).
    #[must_use]
    pub fn replay(&self) -> Arc<dyn Replay> {
        Arc::clone(&self.0) as Arc<dyn Replay>
    }
}

impl Engine {
    /// Leads a cluster with the log that [`ReplicaLog::lead`] has opened, on tables that
    /// hold everything before that log's mark. Nobody may replay into them any more.
    /// Nothing happens in the background before [`Engine::tend`], but for checkpoints.
    ///
    /// Transactions that write are refused until
    /// [the mark is committed](Log::set_committed).
    pub fn lead(
        tables: FollowedTables,
        log: Log,
        settings: Settings,
    ) -> Result<Self, coeval_log::Error> {
        settings.check()?;
        let shared = Shared::new(settings, log, tables.0.finish());
        let checkpointer = Checkpointer::start(&shared);
        Ok(Self {
            shared,
            checkpointer,
        })
    }

    /// Ends to lead: nothing begins or commits here any more, and whoever waits for a
    /// commit hears that its outcome is not known. The log has everything that had its
    /// place in it.
    ///
    /// # Errors
    /// When this engine does not lead, or its log has failed.
    pub async fn retire(&self) -> Result<ReplicaLog, coeval_log::Error> {
        self.shared.deposed.store(true, Ordering::Release);
        self.checkpointer.end(&self.shared).await;
        self.shared.log.retire().await
    }
}

impl Shared {
    /// Whether transactions may begin.
    pub(crate) fn check_not_deposed(&self) -> Result<(), Error> {
        if self.deposed.load(Ordering::Acquire) {
            let reason = "this node does not lead the cluster any more; ask the one that does";
            return Err(Error::Stopped(reason.to_owned()));
        }
        Ok(())
    }
}
