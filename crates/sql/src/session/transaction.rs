//! A session's transaction: from the first statement that needs one to its end.
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
//! The engine's transaction begins late, with the first statement that reads or
//! writes: until then SET TRANSACTION may still choose its isolation.
//!
//! What a change of the schema makes in the engine (storages, indexes) is there at
//! once and no transaction takes it back. [`Physical`] lists what has to be dropped
//! at the end, by how the transaction ends.
//!
//! Invariants:
//! - In `Failed` a running transaction is kept only if it has a savepoint to go
//!   back to; otherwise its locks are released at once.
//! - Settings are those of the moment the transaction began again when it is
//!   rolled back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome, Savepoint, Transaction};
use coeval_types::{IndexId, StorageId, Timestamp};

use super::admission::Ticket;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::expression::EvaluationContext;
use crate::statement::Modes;

/// Whether statements stand in a transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Block {
    /// In none; nothing runs.
    #[default]
    Idle,
    /// In none; what runs ends when the client waits for an answer.
    Implicit,
    /// Between BEGIN and its end.
    Explicit,
    /// Between BEGIN and its end, after a failure.
    Failed,
}

/// Something in the engine that has to be dropped at some point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    /// A storage with its indexes.
    Storage(StorageId),
    /// One index of a storage that stays.
    Index(StorageId, IndexId),
}

impl Physical {
    fn drop_from(self, engine: &dyn Engine) {
        match self {
            Self::Storage(storage) => engine.drop_storage(storage),
            Self::Index(storage, index) => engine.drop_index(storage, index),
        }
    }
}

/// A transaction that runs in the engine, and what belongs to it.
pub(crate) struct Running {
    pub(crate) transaction: Box<dyn Transaction>,
    /// Whether it has changed anything.
    pub(crate) wrote: bool,
    /// Microseconds since 2000 UTC when it began: what `now()` says.
    pub(crate) began: i64,
    savepoints: Vec<NamedSavepoint>,
    /// Made by this transaction; of no use if it is rolled back.
    made: Vec<Physical>,
    /// No longer needed once it has committed.
    replaced: Vec<Physical>,
    /// Of no use however it ends.
    useless: Vec<Physical>,
}

struct NamedSavepoint {
    name: String,
    savepoint: Savepoint,
    settings: Arc<Settings>,
    made: usize,
    replaced: usize,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Running")
            .field("transaction", &self.transaction.id())
            .field("wrote", &self.wrote)
            .field("savepoints", &self.savepoints.len())
            .finish_non_exhaustive()
    }
}

impl Running {
    /// Begins a transaction.
    pub(crate) async fn begin(
        engine: &dyn Engine,
        modes: &Modes,
        settings: &Settings,
        cancel: &Arc<AtomicBool>,
        ticket: &Ticket,
    ) -> Result<Self> {
        let parsed = settings.parsed();
        let options = BeginOptions {
            isolation: modes.isolation.unwrap_or(parsed.isolation),
            read_only: modes.read_only.unwrap_or(parsed.read_only),
            minimum: None,
            cancel: Some(Arc::clone(cancel)),
            observer: Some(ticket.observer()),
        };
        let mut transaction = coeval_txn::begin(engine, &options).await?;
        transaction.set_lock_timeout(parsed.lock_timeout);
        Ok(Self {
            transaction,
            wrote: false,
            began: EvaluationContext::clock(),
            savepoints: Vec::new(),
            made: Vec::new(),
            replaced: Vec::new(),
            useless: Vec::new(),
        })
    }

    /// What it may see of others.
    pub(crate) fn isolation(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Notes something made in the engine.
    pub(crate) fn note_made(&mut self, physical: Physical) {
        self.made.push(physical);
    }

    /// Notes something in the engine that is not needed after the commit. What
    /// this transaction has made itself is not needed in either case.
    pub(crate) fn note_replaced(&mut self, physical: Physical) {
        self.replaced.push(physical);
    }

    /// Sets a savepoint.
    pub(crate) fn set_savepoint(&mut self, name: String, settings: &Arc<Settings>) {
        let savepoint = self.transaction.savepoint();
        self.savepoints.push(NamedSavepoint {
            name,
            savepoint,
            settings: Arc::clone(settings),
            made: self.made.len(),
            replaced: self.replaced.len(),
        });
    }

    /// Whether there is a savepoint to go back to.
    pub(crate) fn has_savepoint(&self) -> bool {
        !self.savepoints.is_empty()
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

    /// Goes back to a savepoint, which stays. Returns the settings of then.
    pub(crate) fn rollback_to(&mut self, name: &str, engine: &dyn Engine) -> Result<Arc<Settings>> {
        let position = self.find_savepoint(name)?;
        let savepoint = &self.savepoints[position];
        self.transaction.rollback_to(savepoint.savepoint)?;
        for physical in self.made.drain(savepoint.made..) {
            match physical {
                // Others may still be told of it by the undo itself, so it is dropped
                // when all is over.
                Physical::Storage(_) => self.useless.push(physical),
                // At once: it must not go on refusing rows.
                Physical::Index(..) => physical.drop_from(engine),
            }
        }
        self.replaced.truncate(savepoint.replaced);
        let settings = Arc::clone(&savepoint.settings);
        self.savepoints.truncate(position + 1);
        Ok(settings)
    }

    /// Forgets a savepoint and those after it.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let position = self.find_savepoint(name)?;
        self.transaction
            .release(self.savepoints[position].savepoint);
        self.savepoints.truncate(position);
        Ok(())
    }

    /// Commits. The timestamp is what must be durable before anybody is told.
    pub(crate) async fn commit(mut self, engine: &dyn Engine) -> Result<Timestamp> {
        // What was worked upon and has changed nothing has no commit to wait for.
        self.transaction.disclose_all();
        let seen = self.transaction.newest_seen();
        let outcome = coeval_txn::commit(&mut *self.transaction).await;
        match outcome {
            Outcome::Committed(timestamp) => {
                for physical in self.replaced.drain(..).chain(self.useless.drain(..)) {
                    physical.drop_from(engine);
                }
                // A transaction that wrote nothing reports its snapshot, which may
                // be newer than anything it was shown.
                Ok(if self.wrote {
                    seen.max(timestamp)
                } else {
                    seen
                })
            }
            Outcome::Aborted(error) => {
                self.drop_made(engine);
                Err(error.into())
            }
            // It may have committed, so nothing can be dropped.
            Outcome::Unknown(error) => Err(error.into()),
        }
    }

    /// Undoes everything. Returns the newest commit it was shown.
    pub(crate) fn abort(mut self, engine: &dyn Engine) -> Timestamp {
        let seen = self.transaction.newest_seen();
        // Indexes while its locks keep writers out: one that nobody knows must not
        // refuse their rows.
        self.made.retain(|physical| {
            let is_index = matches!(physical, Physical::Index(..));
            if is_index {
                physical.drop_from(engine);
            }
            !is_index
        });
        self.transaction.abort();
        self.drop_made(engine);
        seen
    }

    fn drop_made(&mut self, engine: &dyn Engine) {
        for physical in self.made.drain(..).chain(self.useless.drain(..)) {
            physical.drop_from(engine);
        }
    }
}
