//! The database: one engine and one catalog, shared by all sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coeval_txn::{BeginOptions, Engine, Isolation, Outcome};

use crate::access::{FIRST_ROLE, LoginSetting, Role};
use crate::catalog::statistics_storage::{self, STATISTICS_STORAGE};
use crate::catalog::{CATALOG_STORAGES, Catalog, SQL_OBJECTS, Store};
use crate::error::Result;
use crate::expression::EvaluationContext;
use crate::instance::{Admission, Instance};
use crate::outcome::{self, OUTCOME_STORAGE};
use crate::sequence::{self, SEQUENCE_STORAGE};
use crate::statistics;
use crate::system::PROBE;

/// A role that has passed authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// OID of the role.
    pub role: u32,
    /// Whether the role is a superuser.
    pub superuser: bool,
}

/// The login data of a user name, which authentication checks a client against.
#[derive(Clone, Debug)]
pub struct Account {
    /// The role of that name, if it exists.
    pub role: Option<Arc<Role>>,
    /// Names of the roles the role is a member of, itself included.
    pub groups: Vec<String>,
    /// Whether no superuser has a password.
    pub open: bool,
    /// Secret from which authentication derives its answers for users that do not exist,
    /// the same on all nodes of a cluster. Only nodes may know it.
    pub secret: [u8; 32],
    /// The settings with which a session begins, in rising order of precedence.
    pub settings: Arc<[LoginSetting]>,
}

impl Account {
    fn new(catalog: &Catalog, role: Option<Arc<Role>>) -> Self {
        let access = catalog.access();
        // A client without a role is let in as the first one, if at all.
        let session = role.as_ref().map_or(FIRST_ROLE, |role| role.oid);
        let groups = role.as_ref().map_or_else(Vec::new, |role| {
            let mut groups: Vec<String> = access
                .roles()
                .filter(|group| access.belongs(role.oid, group.oid))
                .map(|group| group.name.clone())
                .collect();
            groups.sort_unstable();
            groups
        });
        Self {
            role,
            groups,
            open: access.is_open(),
            secret: access.secret,
            settings: access.login_settings(session),
        }
    }
}

/// The database: the catalog over an engine, shared by all sessions.
pub struct Database {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Store,
    pub(crate) admission: Arc<Admission>,
    pub(crate) around: Arc<Instance>,
    /// Whether the engine follows another, so that statements only read.
    follows: bool,
    /// Whether the probe's role was there when the database was opened.
    has_probe: bool,
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
    /// Opens the database that the engine holds: creates the catalog in an empty one,
    /// registers the storages of its tables with the engine, and drops the storages of
    /// schema changes that never committed.
    pub async fn open(engine: Arc<dyn Engine>) -> Result<Arc<Self>> {
        for definition in Store::definitions() {
            engine.attach_storage(definition)?;
        }
        engine.attach_storage(outcome::definition())?;
        engine.attach_storage(statistics_storage::definition())?;
        engine.attach_storage(sequence::definition())?;
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
            .bootstrap(&mut *transaction, &engine.storages(), engine.term())
            .await?;
        let catalog = store.catalog(&mut *transaction, None)?;
        let outcomes = outcome::load(&mut *transaction)?;
        let states: BTreeSet<u64> = catalog.sequences().map(|(_, each)| each.state).collect();
        sequence::clean(&mut *transaction, &|state| states.contains(&state)).await?;
        match coeval_txn::commit(&mut *transaction).await {
            Outcome::Committed(timestamp) => coeval_txn::durable(&*engine, timestamp).await?,
            Outcome::Aborted(error) | Outcome::Unknown(error) => return Err(error.into()),
        }
        drop(transaction);
        let has_probe = catalog.access().role_by_name(PROBE).is_some();
        let mut known = CATALOG_STORAGES.to_vec();
        known.extend([OUTCOME_STORAGE, STATISTICS_STORAGE, SEQUENCE_STORAGE]);
        for (_, sequence) in catalog.sequences() {
            engine.attach_storage(sequence.definition())?;
            known.push(sequence.storage);
        }
        for table in catalog.tables() {
            engine.attach_storage(table.definition())?;
            known.push(table.storage);
        }
        for storage in engine.storages() {
            if !known.contains(&storage) {
                engine.drop_storage(storage);
            }
        }
        let around = Arc::<Instance>::default();
        around.outcomes.start(engine.term(), outcomes);
        let asked = Arc::clone(&engine);
        around.budget().ask(Box::new(move || asked.spare_memory()));
        Ok(Arc::new(Self {
            engine,
            store,
            admission: Arc::default(),
            around,
            follows: false,
            has_probe,
        }))
    }

    /// Opens the database over an engine that follows: one whose tables are replayed from
    /// the leader's log, with their definitions. Writes nothing and reads nothing yet. Each
    /// statement reads the catalog in its snapshot, whose version says whether a plan is
    /// still valid; a version names one state of the catalog, on whichever node. Outcomes
    /// of transactions are asked of the leader only.
    #[must_use]
    pub fn open_follower(engine: Arc<dyn Engine>) -> Arc<Self> {
        let around = Arc::<Instance>::default();
        let asked = Arc::clone(&engine);
        around.budget().ask(Box::new(move || asked.spare_memory()));
        Arc::new(Self {
            engine,
            store: Store::new(),
            admission: Arc::default(),
            around,
            follows: true,
            has_probe: false,
        })
    }

    /// Whether the database is that of a follower: its sessions only read, and leave every
    /// other statement to the leader.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Whether a probe of `coeval.gamma` has left its role, as the database was when it was
    /// opened.
    #[must_use]
    pub fn has_probe(&self) -> bool {
        self.has_probe
    }

    /// Admission control: limits how many transactions run at once, once a limit is set.
    #[must_use]
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// The instance: the list of sessions, and the server process they run in.
    #[must_use]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.around
    }

    /// The newest catalog, once it is durable and confirmed to be the newest: a login
    /// must not be accepted or refused by a change that may yet be lost, or by one that
    /// is already superseded.
    pub(crate) async fn newest_catalog(&self) -> Result<Arc<Catalog>> {
        coeval_txn::newest(&*self.engine).await?;
        self.shown_catalog().await
    }

    /// The newest catalog that this engine shows. On a follower it is committed, and may be
    /// superseded.
    async fn shown_catalog(&self) -> Result<Arc<Catalog>> {
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

    /// Looks up the login data of this user name in the newest catalog.
    pub async fn login(&self, name: &str) -> Result<Account> {
        let catalog = self.newest_catalog().await?;
        let role = catalog.access().role_by_name(name).cloned();
        Ok(Account::new(&catalog, role))
    }

    /// Looks up the login data of this user name in the newest catalog that a follower
    /// shows, which may be superseded: for logins while no leader can be asked.
    pub async fn login_as_shown(&self, name: &str) -> Result<Account> {
        let catalog = self.shown_catalog().await?;
        let role = catalog.access().role_by_name(name).cloned();
        Ok(Account::new(&catalog, role))
    }

    /// Looks up the login data of the role with this OID in the newest catalog.
    pub async fn login_of_role(&self, role: u32) -> Result<Account> {
        let catalog = self.newest_catalog().await?;
        let role = catalog.access().role(role).cloned();
        Ok(Account::new(&catalog, role))
    }

    /// Deletes the outcomes of transactions that ended more than `retention` ago. The
    /// server calls this periodically, one call at a time, about 24 times per retention
    /// period or more often. Does nothing in a database in which no transaction has asked
    /// for its number.
    ///
    /// # Errors
    /// When the engine refuses writes. The next call continues where this one stopped.
    pub async fn forget_outcomes(&self, retention: Duration) -> Result<()> {
        self.forget_outcomes_at(retention, EvaluationContext::clock())
            .await
    }

    /// [`Database::forget_outcomes`] with the current time given as `now`, in
    /// microseconds since 2000 UTC.
    #[doc(hidden)]
    pub async fn forget_outcomes_at(&self, retention: Duration, now: i64) -> Result<()> {
        outcome::forget(&*self.engine, &self.around.outcomes, retention, now).await
    }

    /// Takes statistics of the tables that have grown or shrunk since theirs were taken, in a
    /// transaction for each. The server calls this periodically, one call at a time. Does
    /// nothing on a follower, and before every node of the cluster reads statistics.
    ///
    /// # Errors
    /// When the engine refuses reads or writes. The next call continues where this one stopped.
    pub async fn analyze_changed(&self) -> Result<()> {
        if self.follows || !self.keeps_statistics() {
            return Ok(());
        }
        let catalog = self.shown_catalog().await?;
        for table in catalog.tables() {
            let rows = self.engine.estimated_rows(table.storage);
            let known = self.around.statistics.of(&*self.engine, table.oid);
            if statistics::are_outdated(known.map(|known| known.rows), rows) {
                statistics::analyze_alone(&*self.engine, table).await?;
            }
        }
        // Those of a table that is created meanwhile may go along; they are taken again.
        let newest = self.shown_catalog().await?;
        let exists = |oid| newest.table_by_oid(oid).is_some();
        statistics::forget_dropped(&*self.engine, &exists).await
    }

    /// Whether every node of the cluster reads the storage of statistics.
    pub(crate) fn keeps_statistics(&self) -> bool {
        self.around.reads_version(SQL_OBJECTS)
    }

    /// The storage engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }
}
