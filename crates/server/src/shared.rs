//! What every session of a server shares, as long as the process lives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_leader::node::Node;
use coeval_sql::instance::Limits;
use tokio::sync::watch;

use crate::Settings;
use crate::access::Rules;
use crate::cluster::Seen;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::reign::{Lead, Reign};
use crate::tls::Tls;

/// The parts of a running server.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// Where sessions run now. Without a cluster always here.
    pub(crate) lead: watch::Sender<Lead>,
    /// What takes part in the cluster, if there is one.
    pub(crate) node: Option<Arc<Node>>,
    /// How that stood when it was asked last.
    pub(crate) cluster: Seen,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
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
        node: Option<Arc<Node>>,
        failure: watch::Sender<Option<String>>,
        doors: Doors,
    ) -> Self {
        Self {
            registry: Registry::new(
                settings.max_connections,
                settings.superuser_reserved_connections,
                settings.cluster_node,
            ),
            metrics: Metrics::new(),
            settings,
            lead: watch::Sender::new(Lead::Nowhere),
            node,
            cluster: Seen::default(),
            failure,
            access: Mutex::new(Arc::new(doors)),
        }
    }

    /// The engine that runs here and what belongs to it, if one does.
    pub(crate) fn reign(&self) -> Option<Arc<Reign>> {
        match &*self.lead.borrow() {
            Lead::Here(reign) => Some(Arc::clone(reign)),
            Lead::There(_) | Lead::Nowhere => None,
        }
    }

    /// Where sessions run now.
    pub(crate) fn lead(&self) -> Lead {
        self.lead.borrow().clone()
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
