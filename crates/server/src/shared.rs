//! What every session of a server shares.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_sql::session::{Database, Limits};
use coeval_txn::Engine;
use tokio::sync::watch;

use crate::Settings;
use crate::access::Rules;
use crate::memory::{self, Watch};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::tls::Tls;

/// The parts of a running server.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) database: Arc<Database>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
    /// What tells the engine how much the process occupies.
    pub(crate) memory: Watch,
    /// The engine again, as what it is, to close it.
    pub(crate) closing: Arc<coeval_occ::Engine>,
    /// Why the engine has stopped, if it has.
    pub(crate) failure: watch::Sender<Option<String>>,
    /// Who may come in, and how. Another one after a reload.
    access: Mutex<Arc<Doors>>,
}

/// Who may come in, and how.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) rules: Rules,
    pub(crate) tls: Option<Tls>,
}

impl Shared {
    pub(crate) fn new(
        settings: Settings,
        opened: Arc<coeval_occ::Engine>,
        database: Arc<Database>,
        failure: watch::Sender<Option<String>>,
        doors: Doors,
    ) -> Self {
        Self {
            registry: Registry::new(
                settings.max_connections,
                settings.superuser_reserved_connections,
            ),
            metrics: Metrics::new(),
            settings,
            engine: opened.clone(),
            memory: memory::watch(&opened),
            closing: opened,
            database,
            failure,
            access: Mutex::new(Arc::new(doors)),
        }
    }

    /// Who may come in, and how, as it is now.
    pub(crate) fn access(&self) -> Arc<Doors> {
        Arc::clone(&self.access.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on these rules hold for those who come.
    pub(crate) fn set_access(&self, doors: Doors) {
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(doors);
    }

    pub(crate) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.startup_timeout_milliseconds)
    }

    /// How large the statements of a session may be.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            statement_bytes: self.settings.max_statement_bytes,
            parameters: self.settings.max_parameters,
            prepared_statements: self.settings.max_prepared_statements,
        }
    }

    /// Remembers why the engine has stopped.
    pub(crate) fn engine_stopped(&self, reason: String) {
        remember(&self.failure, reason);
    }
}

/// Keeps the first reason; later ones follow from it.
pub(crate) fn remember(failure: &watch::Sender<Option<String>>, reason: String) {
    failure.send_if_modified(|failure| {
        let first = failure.is_none();
        failure.get_or_insert(reason);
        first
    });
}
