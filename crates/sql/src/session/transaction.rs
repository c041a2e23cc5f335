//! A session's transaction, from the first statement that needs one to its end.
//!
//! ```text
//!             BEGIN                 a failure
//!   Idle ───────────────▶ Explicit ──────────▶ Failed
//!     │ a statement        │    ▲                │
//!     ▼                    │    └────────────────┤ ROLLBACK TO
//!   Implicit ─────────▶ ended ◀──────────────────┘ COMMIT, ROLLBACK
//!             finish
//! ```
//!
//! The engine's transaction begins lazily, with the first statement that reads or writes:
//! until then SET TRANSACTION may still choose the isolation level.
//!
//! Invariants:
//! - In `Failed` the session keeps a running transaction only if it has a savepoint to
//!   roll back to, and has rolled it back to the last one; otherwise it releases all of
//!   the transaction's locks at once.
//! - A rollback restores the settings as they were when the transaction began.

use std::sync::Arc;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome, Savepoint, Transaction};
use coeval_types::{Timestamp, planted};

use super::settings::Settings;
use crate::definition::{Storages, StoragesMark};
use crate::error::{Error, Result};
use crate::expression::SessionInfo;
use crate::instance::activity::Activity;
use crate::instance::advisory::SessionLocks;
use crate::outcome::{self, Open};
use crate::statement::Modes;
use crate::temporary::{Temporary, WithTemporary};

/// Whether the session is in a transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Block {
    /// Outside of a block; no transaction runs.
    #[default]
    Idle,
    /// Outside of a block; the running transaction ends when the client waits for an
    /// answer.
    Implicit,
    /// In a block, between BEGIN and its end.
    Explicit,
    /// In a block, between BEGIN and its end, after a failure.
    Failed,
}

/// A transaction that runs in the engine, and the state that belongs to it.
pub(crate) struct Running {
    pub(crate) transaction: Box<dyn Transaction>,
    savepoints: Vec<NamedSavepoint>,
    /// Storages that the transaction's schema changes have created and replaced.
    pub(crate) storages: Storages,
    /// The transaction's entry among the open ones, for the functions that look up its
    /// number. Dropped after the transaction.
    open: Open,
    /// Dropped when the rows' locks are free.
    advisory: OfTransaction,
}

/// The session state that a rollback to a savepoint restores.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) settings: Arc<Settings>,
    pub(crate) modes: Modes,
    /// Portals with numbers from this one on were bound after the savepoint.
    pub(crate) portals: u64,
}

/// Result of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// The newest commit that must be durable before the client receives an answer.
    pub(crate) seen: Timestamp,
    /// The transaction's commit timestamp, if it changed something. A transaction that
    /// found no rows to change has none.
    pub(crate) own: Option<Timestamp>,
}

struct NamedSavepoint {
    name: String,
    savepoint: Savepoint,
    kept: Kept,
    storages: StoragesMark,
    /// Number of advisory locks that the transaction had taken.
    advisory: usize,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Running")
            .field("transaction", &self.transaction.id())
            .field("wrote", &self.open.wrote())
            .field("savepoints", &self.savepoints.len())
            .finish_non_exhaustive()
    }
}

/// The session's advisory locks, of which the transaction's end with this value.
struct OfTransaction(Option<Arc<SessionLocks>>);

impl OfTransaction {
    fn mark(&self) -> usize {
        self.0.as_ref().map_or(0, |locks| locks.mark())
    }

    fn roll_back_to(&self, mark: usize) {
        if let Some(locks) = &self.0 {
            locks.roll_back_to(mark);
        }
    }
}

impl Drop for OfTransaction {
    fn drop(&mut self) {
        self.roll_back_to(0);
    }
}

impl Running {
    /// Begins a transaction, whose snapshot includes the commit `minimum`.
    pub(crate) async fn begin(
        engine: &dyn Engine,
        modes: &Modes,
        settings: &Settings,
        info: &SessionInfo,
        activity: &Arc<Activity>,
        minimum: Option<Timestamp>,
    ) -> Result<Self> {
        let parsed = settings.parsed();
        let options = BeginOptions {
            isolation: modes.isolation.unwrap_or(parsed.isolation),
            read_only: engine.is_read_only() || modes.read_only.unwrap_or(parsed.read_only),
            minimum,
            cancel: Some(Arc::clone(&info.cancel)),
            observer: Some(Arc::clone(activity) as _),
            session: info.process_id,
        };
        let mut transaction = coeval_txn::begin(engine, &options).await?;
        transaction.set_lock_timeout(parsed.lock_timeout);
        Ok(Self {
            transaction,
            savepoints: Vec::new(),
            storages: Storages::default(),
            open: info.numbered.open(),
            advisory: OfTransaction(info.advisory.clone()),
        })
    }

    /// Has the transaction reach the session's temporary tables.
    pub(crate) fn reach(self, temporary: &Temporary) -> Result<Self> {
        Ok(Self {
            transaction: WithTemporary::over(self.transaction, temporary)?,
            ..self
        })
    }

    /// Records that the transaction is about to lock rows, which is written with the first
    /// change.
    pub(crate) fn note_lock(&self) {
        self.open.note_write();
    }

    /// Records that the transaction is about to change something; `only_frees` says that the
    /// statement deletes rows, or drops or empties tables.
    pub(crate) fn note_write(&mut self, only_frees: bool) {
        self.open.note_write();
        self.transaction.note_write(only_frees);
    }

    /// Whether the transaction has changed something, or was about to.
    pub(crate) fn wrote(&self) -> bool {
        self.open.wrote()
    }

    /// The transaction's isolation level.
    pub(crate) fn isolation(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Whether the transaction has a savepoint.
    pub(crate) fn has_savepoints(&self) -> bool {
        !self.savepoints.is_empty()
    }

    /// Sets a savepoint.
    pub(crate) fn set_savepoint(&mut self, name: String, kept: Kept) {
        let savepoint = self.transaction.savepoint();
        self.savepoints.push(NamedSavepoint {
            name,
            savepoint,
            kept,
            storages: self.storages.mark(),
            advisory: self.advisory.mark(),
        });
    }

    /// After a failure: undoes what came after the last savepoint, and frees what was
    /// locked since. Returns false if the transaction has none to roll back to.
    pub(crate) fn undo_to_last(&mut self) -> bool {
        let Some(last) = self.savepoints.last() else {
            return false;
        };
        let undone = self.transaction.rollback_to(last.savepoint);
        self.storages.rollback_to(last.storages);
        self.advisory.roll_back_to(last.advisory);
        undone.is_ok()
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints
            .iter()
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| {
                Error::new(
                    crate::SqlState::INVALID_SAVEPOINT_SPECIFICATION,
                    format!("savepoint \"{name}\" does not exist"),
                )
            })
    }

    /// Rolls back to a savepoint, which stays. Returns the state that the session has to
    /// restore.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<Kept> {
        let position = self.find_savepoint(name)?;
        let savepoint = &self.savepoints[position];
        self.transaction.rollback_to(savepoint.savepoint)?;
        self.storages.rollback_to(savepoint.storages);
        self.advisory.roll_back_to(savepoint.advisory);
        let kept = savepoint.kept.clone();
        self.savepoints.truncate(position + 1);
        Ok(kept)
    }

    /// Releases a savepoint and those set after it. Returns the state that the session
    /// had when the savepoint was set.
    pub(crate) fn release(&mut self, name: &str) -> Result<Kept> {
        let position = self.find_savepoint(name)?;
        let kept = self.savepoints[position].kept.clone();
        self.transaction
            .release(self.savepoints[position].savepoint);
        self.savepoints.truncate(position);
        Ok(kept)
    }

    /// Commits the transaction.
    pub(crate) async fn commit(mut self, engine: &dyn Engine) -> Result<Committed> {
        // A transaction that locked rows but changed nothing has no commit to wait for.
        self.transaction.disclose_all();
        let seen = self.transaction.newest_seen();
        let before = seen.max(self.transaction.snapshot());
        let wrote = self.open.wrote();
        if let Some(number) = self.open.number()
            && wrote
            && !planted!(RecordApart)
            && let Err(error) = outcome::insert(&mut *self.transaction, number).await
        {
            self.abort(engine);
            return Err(error);
        }
        let outcome = coeval_txn::commit(&mut *self.transaction).await;
        match outcome {
            Outcome::Committed(timestamp) => {
                // A transaction that changed nothing need not record its outcome
                // atomically, so asking for its number does not turn it into a writer.
                if let Some(number) = self.open.number()
                    && (!wrote || planted!(RecordApart))
                {
                    if wrote {
                        coeval_txn::durable(engine, timestamp).await?;
                    }
                    let recorded = outcome::record_alone(engine, number).await?;
                    return Ok(Committed {
                        seen: seen.max(recorded),
                        own: None,
                    });
                }
                self.storages.committed(engine);
                // A transaction that wrote nothing reports its snapshot, which may be
                // newer than any commit that it has read.
                Ok(Committed {
                    seen: if wrote { seen.max(timestamp) } else { seen },
                    own: (wrote && timestamp > before).then_some(timestamp),
                })
            }
            Outcome::Aborted(error) => {
                self.storages.rolled_back(engine);
                Err(error.into())
            }
            // The transaction may have committed, so the session must not drop any
            // storage.
            Outcome::Unknown(error) => {
                self.open.lose_sight();
                Err(error.into())
            }
        }
    }

    /// Rolls back the transaction. Returns the newest commit it has read.
    pub(crate) fn abort(mut self, engine: &dyn Engine) -> Timestamp {
        let seen = self.transaction.newest_seen();
        self.transaction.abort();
        self.storages.rolled_back(engine);
        seen
    }
}
