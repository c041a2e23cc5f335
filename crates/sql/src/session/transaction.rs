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
//! A storage that a change of the schema makes is there at once and no transaction
//! takes it back. [`Running`] lists those that have to be dropped at the end, by how
//! the transaction ends. Indexes need no such list: they come and go with the
//! engine's transaction.
//!
//! Invariants:
//! - In `Failed` a running transaction is kept only if it has a savepoint to go
//!   back to; otherwise its locks are released at once.
//! - Settings are those of the moment the transaction began again when it is
//!   rolled back.

use std::sync::Arc;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome, Savepoint, Transaction};
use coeval_types::{StorageId, Timestamp, planted};

use super::activity::Activity;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::expression::SessionInfo;
use crate::outcome::{self, Open};
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

/// A transaction that runs in the engine, and what belongs to it.
pub(crate) struct Running {
    pub(crate) transaction: Box<dyn Transaction>,
    savepoints: Vec<NamedSavepoint>,
    /// Storages made by this transaction; of no use if it is rolled back.
    made: Vec<StorageId>,
    /// Storages no longer needed once it has committed.
    replaced: Vec<StorageId>,
    /// Storages of no use however it ends.
    useless: Vec<StorageId>,
    /// That it runs, for who asks by its number. Dropped last.
    open: Open,
}

/// What the session goes back to with a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) settings: Arc<Settings>,
    /// Portals with numbers from here on were bound later.
    pub(crate) portals: u64,
}

/// What came of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    /// What must be durable before anybody is told.
    pub(crate) seen: Timestamp,
    /// Its own place among commits, if it changed something: one that looked for rows to
    /// change and found none has none.
    pub(crate) own: Option<Timestamp>,
}

struct NamedSavepoint {
    name: String,
    savepoint: Savepoint,
    kept: Kept,
    made: usize,
    replaced: usize,
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

impl Running {
    /// Begins a transaction.
    pub(crate) async fn begin(
        engine: &dyn Engine,
        modes: &Modes,
        settings: &Settings,
        info: &SessionInfo,
        activity: &Arc<Activity>,
    ) -> Result<Self> {
        let parsed = settings.parsed();
        let options = BeginOptions {
            isolation: modes.isolation.unwrap_or(parsed.isolation),
            read_only: modes.read_only.unwrap_or(parsed.read_only),
            minimum: None,
            cancel: Some(Arc::clone(&info.cancel)),
            observer: Some(Arc::clone(activity) as _),
            session: info.process_id,
        };
        let mut transaction = coeval_txn::begin(engine, &options).await?;
        transaction.set_lock_timeout(parsed.lock_timeout);
        Ok(Self {
            transaction,
            savepoints: Vec::new(),
            made: Vec::new(),
            replaced: Vec::new(),
            useless: Vec::new(),
            open: info.numbered.open(),
        })
    }

    /// It is about to change something.
    pub(crate) fn note_write(&self) {
        self.open.note_write();
    }

    /// Whether it has changed anything, or was about to.
    pub(crate) fn wrote(&self) -> bool {
        self.open.wrote()
    }

    /// What it may see of others.
    pub(crate) fn isolation(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Notes a storage made in the engine.
    pub(crate) fn note_made(&mut self, storage: StorageId) {
        self.made.push(storage);
    }

    /// Notes a storage that is not needed after the commit. One that this
    /// transaction has made itself is not needed in either case.
    pub(crate) fn note_replaced(&mut self, storage: StorageId) {
        self.replaced.push(storage);
    }

    /// Sets a savepoint.
    pub(crate) fn set_savepoint(&mut self, name: String, settings: &Arc<Settings>, portals: u64) {
        let savepoint = self.transaction.savepoint();
        self.savepoints.push(NamedSavepoint {
            name,
            savepoint,
            kept: Kept {
                settings: Arc::clone(settings),
                portals,
            },
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

    /// Goes back to a savepoint, which stays. Returns what the session has to go back
    /// to.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<Kept> {
        let position = self.find_savepoint(name)?;
        let savepoint = &self.savepoints[position];
        self.transaction.rollback_to(savepoint.savepoint)?;
        // Others may still be told of them by the undo itself, so they are dropped
        // when all is over.
        self.useless.extend(self.made.drain(savepoint.made..));
        self.replaced.truncate(savepoint.replaced);
        let kept = savepoint.kept.clone();
        self.savepoints.truncate(position + 1);
        Ok(kept)
    }

    /// Forgets a savepoint and those after it.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let position = self.find_savepoint(name)?;
        self.transaction
            .release(self.savepoints[position].savepoint);
        self.savepoints.truncate(position);
        Ok(())
    }

    /// Commits.
    pub(crate) async fn commit(mut self, engine: &dyn Engine) -> Result<Committed> {
        // What was worked upon and has changed nothing has no commit to wait for.
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
                // What has changed nothing need not be one with its outcome, and so is
                // not made a writer by having asked for a number.
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
                for storage in self.replaced.drain(..).chain(self.useless.drain(..)) {
                    engine.drop_storage(storage);
                }
                // A transaction that wrote nothing reports its snapshot, which may
                // be newer than anything it was shown.
                Ok(Committed {
                    seen: if wrote { seen.max(timestamp) } else { seen },
                    own: (wrote && timestamp > before).then_some(timestamp),
                })
            }
            Outcome::Aborted(error) => {
                self.drop_made(engine);
                Err(error.into())
            }
            // It may have committed, so nothing can be dropped.
            Outcome::Unknown(error) => {
                self.open.lose_sight();
                Err(error.into())
            }
        }
    }

    /// Undoes everything. Returns the newest commit it was shown.
    pub(crate) fn abort(mut self, engine: &dyn Engine) -> Timestamp {
        let seen = self.transaction.newest_seen();
        self.transaction.abort();
        self.drop_made(engine);
        seen
    }

    fn drop_made(&mut self, engine: &dyn Engine) {
        for storage in self.made.drain(..).chain(self.useless.drain(..)) {
            engine.drop_storage(storage);
        }
    }
}
