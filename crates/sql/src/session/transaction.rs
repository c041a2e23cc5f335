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
//! Invariants:
//! - In `Failed` a running transaction is kept only if it has a savepoint to go
//!   back to; otherwise its locks are released at once.
//! - Settings are those of the moment the transaction began again when it is
//!   rolled back.

use std::sync::Arc;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome, Savepoint, Transaction};
use coeval_types::{Timestamp, planted};

use super::settings::Settings;
use crate::definition::{Storages, StoragesMark};
use crate::error::{Error, Result};
use crate::expression::SessionInfo;
use crate::instance::activity::Activity;
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
    /// What its changes of the schema have made and replaced.
    pub(crate) storages: Storages,
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
    storages: StoragesMark,
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
            storages: Storages::default(),
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
            storages: self.storages.mark(),
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
        self.storages.rollback_to(savepoint.storages);
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
                self.storages.committed(engine);
                // A transaction that wrote nothing reports its snapshot, which may
                // be newer than anything it was shown.
                Ok(Committed {
                    seen: if wrote { seen.max(timestamp) } else { seen },
                    own: (wrote && timestamp > before).then_some(timestamp),
                })
            }
            Outcome::Aborted(error) => {
                self.storages.rolled_back(engine);
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
        self.storages.rolled_back(engine);
        seen
    }
}
