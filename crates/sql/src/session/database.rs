//! The database: one engine, one catalog, all sessions.

use std::sync::Arc;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome};

use super::admission::Admission;
use crate::catalog::{CATALOG_STORAGES, Store};
use crate::error::Result;

/// The database: the catalog over an engine, shared by all sessions.
pub struct Database {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Store,
    pub(crate) admission: Arc<Admission>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Database")
            .field("engine", &self.engine.name())
            .field("store", &self.store)
            .finish()
    }
}

impl Database {
    /// Opens the database that the engine holds: makes the catalog in an empty
    /// one, makes the storages of its tables known to the engine, and drops what
    /// transactions that never committed have left behind.
    pub async fn open(engine: Arc<dyn Engine>) -> Result<Arc<Self>> {
        for definition in Store::definitions() {
            engine.attach_storage(definition)?;
        }
        let store = Store::new();
        let mut transaction = coeval_txn::begin(
            &*engine,
            &BeginOptions {
                isolation: Isolation::ReadCommitted,
                ..BeginOptions::default()
            },
        )
        .await?;
        store
            .bootstrap(&mut *transaction, &engine.storages())
            .await?;
        let catalog = store.catalog(&mut *transaction, None)?;
        match coeval_txn::commit(&mut *transaction).await {
            Outcome::Committed(timestamp) => coeval_txn::durable(&*engine, timestamp).await?,
            Outcome::Aborted(error) | Outcome::Unknown(error) => return Err(error.into()),
        }
        drop(transaction);
        let mut known = CATALOG_STORAGES.to_vec();
        for table in catalog.tables() {
            engine.attach_storage(table.definition())?;
            known.push(table.storage);
        }
        for storage in engine.storages() {
            if !known.contains(&storage) {
                engine.drop_storage(storage);
            }
        }
        Ok(Arc::new(Self {
            engine,
            store,
            admission: Arc::default(),
        }))
    }

    /// How many transactions work at once. Without a limit until one is set.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The engine underneath.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}
