//! A serving term: the time that one engine serves on this node. On a single server it
//! lasts as long as the process, on a node of a cluster as long as a term in which the
//! node leads.
//!
//! ```text
//!   process   settings, registry of sessions, listeners, metrics ───────────────────▶
//!   terms     │ engine, database, memory watch │        │ another engine, … │
//!   sessions      run here                          elsewhere  run here
//! ```
//!
//! A session holds references to the parts of its serving term. When the term ends, the
//! registry notifies its sessions
//! ([`Registry::depose`](crate::registry::Registry::depose)), and they continue on the
//! new leader.

use std::sync::Arc;

use coeval_env::JoinHandle;
use coeval_peers::NodeId;
use coeval_sql::session::Database;
use coeval_txn::Engine;

use crate::memory::{self, Watch};
use crate::metrics::ServerHost;
use crate::settings::Settings;
use crate::{forgetting, gamma};

/// The part of the memory limit that all sessions may keep between statements: a quarter.
pub(crate) const SESSIONS_SHARE: u64 = 4;

/// An engine, and the parts that live as long as it serves.
pub(crate) struct ServingTerm {
    pub(crate) engine: Arc<dyn Engine>,
    /// The same engine with its concrete type.
    pub(crate) own: Arc<coeval_occ::Engine>,
    pub(crate) database: Arc<Database>,
    /// The thread that reports the process's memory use to the engine.
    pub(crate) memory: Watch,
    forgetting: JoinHandle<()>,
}

/// The location where sessions run.
#[derive(Clone)]
pub(crate) enum Lead {
    /// On this node.
    Here(Arc<ServingTerm>),
    /// On the given node, which leads.
    There(NodeId),
    /// On no node that this one knows of.
    Nowhere,
}

impl ServingTerm {
    /// Opens the database that the engine holds.
    pub(crate) async fn open(
        engine: Arc<coeval_occ::Engine>,
        settings: &Settings,
        host: ServerHost,
    ) -> Result<Arc<Self>, coeval_sql::Error> {
        let own = Arc::clone(&engine);
        let engine: Arc<dyn Engine> = engine;
        let database = Database::open(Arc::clone(&engine)).await?;
        let admission = database.admission();
        admission.set_places(settings.running_transactions());
        database.instance().set_host(Box::new(host));
        if database.has_probe() && !settings.gamma_probe {
            coeval_env::spawn("gamma", gamma::remove(Arc::clone(&database)));
        }
        let sessions = own.memory().limit / SESSIONS_SHARE;
        if sessions > 0 {
            database.instance().sessions_memory().set_limit(sessions);
        }
        Ok(Arc::new(Self {
            memory: memory::watch(&own),
            forgetting: forgetting::start(&database, settings),
            engine,
            own,
            database,
        }))
    }
}

impl Drop for ServingTerm {
    fn drop(&mut self) {
        self.forgetting.abort();
    }
}
