//! The database: one engine, one catalog, all sessions.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome};

use crate::access::Role;
use crate::catalog::{CATALOG_STORAGES, Catalog, Store};
use crate::error::Result;
use crate::expression::EvaluationContext;
use crate::instance::{Admission, Surroundings};
use crate::outcome::{self, OUTCOME_STORAGE};

/// A role that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its number.
    pub role: u32,
    /// Whether it may do everything.
    pub superuser: bool,
}

/// What is known of a name under which somebody wants to log in.
#[derive(Clone, Debug)]
pub struct Account {
    /// The role of that name, if there is one.
    pub role: Option<Arc<Role>>,
    /// The names of the roles it belongs to, itself included.
    pub groups: Vec<String>,
    /// Whether no superuser has a password.
    pub open: bool,
    /// What answers to users that do not exist are made from. Nobody outside the
    /// server may learn it.
    pub secret: [u8; 32],
}

/// The database: the catalog over an engine, shared by all sessions.
pub struct Database {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Store,
    pub(crate) admission: Arc<Admission>,
    pub(crate) around: Arc<Surroundings>,
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
        engine.attach_storage(outcome::definition())?;
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
        let outcomes = outcome::load(&mut *transaction)?;
        match coeval_txn::commit(&mut *transaction).await {
            Outcome::Committed(timestamp) => coeval_txn::durable(&*engine, timestamp).await?,
            Outcome::Aborted(error) | Outcome::Unknown(error) => return Err(error.into()),
        }
        drop(transaction);
        let mut known = CATALOG_STORAGES.to_vec();
        known.push(OUTCOME_STORAGE);
        for table in catalog.tables() {
            engine.attach_storage(table.definition())?;
            known.push(table.storage);
        }
        for storage in engine.storages() {
            if !known.contains(&storage) {
                engine.drop_storage(storage);
            }
        }
        let around = Arc::<Surroundings>::default();
        around.outcomes.start(engine.term(), outcomes);
        let asked = Arc::clone(&engine);
        around.room().ask(Box::new(move || asked.spare_memory()));
        Ok(Arc::new(Self {
            engine,
            store,
            admission: Arc::default(),
            around,
        }))
    }

    /// How many transactions work at once. Without a limit until one is set.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The sessions it has, and the program it runs in.
    #[must_use]
    pub fn surroundings(&self) -> &Arc<Surroundings> {
        &self.around
    }

    /// The newest catalog, once it cannot be lost any more and is known to be the newest:
    /// nobody is let in, or kept out, by what may yet be, or is no more.
    pub(crate) async fn newest_catalog(&self) -> Result<Arc<Catalog>> {
        let options = BeginOptions {
            isolation: Isolation::ReadCommitted,
            read_only: true,
            ..BeginOptions::default()
        };
        let mut transaction = coeval_txn::begin(&*self.engine, &options).await?;
        let catalog = self.store.catalog(&mut *transaction, None)?;
        let seen = transaction.newest_seen();
        transaction.abort();
        coeval_txn::durable(&*self.engine, seen).await?;
        coeval_txn::confirmed(&*self.engine).await?;
        Ok(catalog)
    }

    /// What is known of who wants to log in under this name, by the newest catalog.
    pub async fn login(&self, name: &str) -> Result<Account> {
        let catalog = self.newest_catalog().await?;
        let access = catalog.access();
        let role = access.role_by_name(name).cloned();
        let groups = role.as_ref().map_or_else(Vec::new, |role| {
            let mut groups: Vec<String> = access
                .roles()
                .filter(|group| access.belongs(role.oid, group.oid))
                .map(|group| group.name.clone())
                .collect();
            groups.sort_unstable();
            groups
        });
        Ok(Account {
            role,
            groups,
            open: access.is_open(),
            secret: access.secret,
        })
    }

    /// Forgets what transactions came to that ended longer than `retention` ago. To be
    /// called now and then, by one at a time: about 24 times in the time of retention, or
    /// more often. Does nothing where no transaction asks for its number.
    ///
    /// # Errors
    /// When the engine takes no writes. The next call goes on where this one stopped.
    pub async fn forget_outcomes(&self, retention: Duration) -> Result<()> {
        self.forget_outcomes_at(retention, EvaluationContext::clock())
            .await
    }

    /// [`Database::forget_outcomes`], as if it were `now`, in microseconds since 2000
    /// UTC.
    #[doc(hidden)]
    pub async fn forget_outcomes_at(&self, retention: Duration, now: i64) -> Result<()> {
        outcome::forget(&*self.engine, &self.around.outcomes, retention, now).await
    }

    /// The engine underneath.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}
