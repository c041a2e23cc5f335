//! The state that all sessions of a server share, for the life of the process.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coeval_leader::node::Node;
use coeval_sql::instance::{Limits, SessionsMemory};
use tokio::sync::watch;

use crate::Settings;
use crate::access::Rules;
use crate::audit::Logins;
use crate::cluster_view::Seen;
use crate::gamma::Reports;
use crate::metrics::Metrics;
use crate::reader::Reader;
use crate::registry::Registry;
use crate::serving_term::{Lead, ServingTerm};
use crate::tls::Tls;

/// The parts of a running server.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    /// The node where sessions run now. Without a cluster always this one.
    pub(crate) lead: watch::Sender<Lead>,
    /// The consensus node, if the server is part of a cluster.
    pub(crate) node: Option<Arc<Node>>,
    /// The database that this node reads for its clients while another one leads.
    pub(crate) reader: watch::Sender<Option<Arc<Reader>>>,
    /// Whether a test has given the reader, so that the node's own is not used.
    pub(crate) reader_is_given: AtomicBool,
    /// Whether every member of the cluster understands what a leader tells for reads on
    /// the clients' nodes.
    pub(crate) tells_reads: Arc<AtomicBool>,
    /// Whether every member understands what the node of a client tells a leader of blocks.
    pub(crate) carries_blocks: Arc<AtomicBool>,
    /// Whether every member understands marks of messages.
    pub(crate) marks_messages: AtomicBool,
    /// Whether each node of the cluster lets its own clients in.
    pub(crate) lets_clients_in: AtomicBool,
    /// Whether every member reads catalog rows with settings of roles.
    pub(crate) keeps_role_settings: AtomicBool,
    /// The cluster version that every member reads, as far as this node knows; the greatest
    /// number without a cluster.
    pub(crate) cluster_version: AtomicU32,
    /// The node's last polled status.
    pub(crate) cluster: Seen,
    pub(crate) registry: Arc<Registry>,
    pub(crate) metrics: Metrics,
    /// What this node keeps of sessions that run on another one.
    pub(crate) relayed: Arc<SessionsMemory>,
    /// Estimates of Γ, this node's and those that others have reported.
    pub(crate) gamma: Reports,
    /// The audit log of logins.
    pub(crate) logins: Logins,
    /// Why the engine has stopped, if it has.
    pub(crate) failure: watch::Sender<Option<String>>,
    /// The access rules and TLS configuration. A reload replaces them.
    access: Mutex<Arc<Doors>>,
}

/// The access rules and TLS configuration for new connections.
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
            logins: Logins::new(),
            relayed: Arc::default(),
            gamma: Reports::default(),
            settings,
            lead: watch::Sender::new(Lead::Nowhere),
            keeps_role_settings: AtomicBool::new(node.is_none()),
            cluster_version: AtomicU32::new(if node.is_none() { u32::MAX } else { 1 }),
            node,
            reader: watch::Sender::new(None),
            reader_is_given: AtomicBool::new(false),
            tells_reads: Arc::default(),
            carries_blocks: Arc::default(),
            marks_messages: AtomicBool::new(false),
            lets_clients_in: AtomicBool::new(false),
            cluster: Seen::default(),
            failure,
            access: Mutex::new(Arc::new(doors)),
        }
    }

    /// The current serving term, if this node serves.
    pub(crate) fn serving_term(&self) -> Option<Arc<ServingTerm>> {
        match &*self.lead.borrow() {
            Lead::Here(serving_term) => Some(Arc::clone(serving_term)),
            Lead::There(_) | Lead::Nowhere => None,
        }
    }

    /// The node where sessions run now.
    pub(crate) fn lead(&self) -> Lead {
        self.lead.borrow().clone()
    }

    /// The access rules and TLS configuration in force.
    pub(crate) fn access(&self) -> Arc<Doors> {
        Arc::clone(&self.access.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the access rules and TLS configuration for new connections.
    pub(crate) fn set_access(&self, doors: Doors) {
        *self.access.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(doors);
    }

    pub(crate) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.startup_timeout_milliseconds)
    }

    /// The limits on the size of a session's statements.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            statement_bytes: self.settings.max_statement_bytes,
            parameters: self.settings.max_parameters,
            prepared_statements: self.settings.max_prepared_statements,
            session_memory: self.settings.max_session_memory_bytes,
        }
    }

    /// Why the engine, or the node, has stopped, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        let of_server = self.failure.borrow().clone();
        of_server.or_else(|| {
            let node_status = self.node.as_ref()?.node_status();
            let reason = node_status.borrow().failure.as_ref()?.to_string();
            Some(reason)
        })
    }

    /// Records why the engine has stopped.
    pub(crate) fn engine_stopped(&self, reason: String) {
        remember(&self.failure, reason);
    }
}

/// Keeps the first reason; later ones are consequences of it.
pub(crate) fn remember(failure: &watch::Sender<Option<String>>, reason: String) {
    failure.send_if_modified(|failure| {
        let first = failure.is_none();
        failure.get_or_insert(reason);
        first
    });
}
