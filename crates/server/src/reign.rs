//! The time that one engine runs here: on a single server as long as the process, on a
//! node of a cluster a term in which it leads.
//!
//! ```text
//!   process   settings, registry of sessions, doors, metrics ───────────────────────▶
//!   reigns        │ engine, database, memory watch │        │ another engine, … │
//!   sessions      run here                          elsewhere  run here
//! ```
//!
//! A session holds what it needs of the reign in which it runs. When the reign ends its
//! sessions are told so ([`Registry::depose`](crate::registry::Registry::depose)), and go
//! on elsewhere.

use std::sync::Arc;

use coeval_env::JoinHandle;
use coeval_peers::NodeId;
use coeval_sql::session::Database;
use coeval_txn::Engine;

use crate::forgetting;
use crate::memory::{self, Watch};
use crate::metrics::ServerHost;
use crate::settings::Settings;

/// An engine, and what belongs to it.
pub(crate) struct Reign {
    pub(crate) engine: Arc<dyn Engine>,
    /// The engine again, as what it is.
    pub(crate) own: Arc<coeval_occ::Engine>,
    pub(crate) database: Arc<Database>,
    /// What tells the engine how much the process occupies.
    pub(crate) memory: Watch,
    forgetting: JoinHandle<()>,
}

/// Where sessions run.
#[derive(Clone)]
pub(crate) enum Lead {
    /// Here.
    Here(Arc<Reign>),
    /// On that node.
    There(NodeId),
    /// Nowhere, as far as is known.
    Nowhere,
}

impl Reign {
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
        database.surroundings().set_host(Box::new(host));
        Ok(Arc::new(Self {
            memory: memory::watch(&own),
            forgetting: forgetting::start(&database, settings),
            engine,
            own,
            database,
        }))
    }
}

impl Drop for Reign {
    fn drop(&mut self) {
        self.forgetting.abort();
    }
}
