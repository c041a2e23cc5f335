//! What every session of a server shares.

use std::sync::Arc;
use std::time::Duration;

use coeval_sql::session::Database;
use coeval_txn::Engine;
use tokio::sync::watch;

use crate::Settings;
use crate::registry::Registry;

/// The parts of a running server.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) database: Arc<Database>,
    pub(crate) registry: Arc<Registry>,
    /// Why the engine has stopped, if it has.
    pub(crate) failure: watch::Sender<Option<coeval_txn::Error>>,
}

impl Shared {
    pub(crate) fn startup_timeout(&self) -> Duration {
        Duration::from_millis(self.settings.startup_timeout_milliseconds)
    }

    /// Remembers the first reason why the engine has stopped.
    pub(crate) fn engine_stopped(&self, error: coeval_txn::Error) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(error);
            first
        });
    }
}
