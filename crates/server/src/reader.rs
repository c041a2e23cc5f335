//! The reader: the database of a node that follows, which sessions of the node's clients
//! read. It lasts as long as the node's replayed tables; when the node leads, or begins
//! with new tables, its transactions end with an error, and the leader answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_env::Instant;
use coeval_sql::session::Database;
use coeval_txn::Engine;

use crate::metrics::ServerHost;
use crate::settings::Settings;

/// The tables of a follower, opened as a database.
pub(crate) struct Reader {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) database: Arc<Database>,
    opened: Instant,
    /// When the last answered question was asked, in microseconds after `opened`, and 1
    /// more; 0 as long as none was answered.
    fresh: AtomicU64,
}

impl Reader {
    /// Opens the database of an engine that follows.
    pub(crate) fn open(
        engine: Arc<dyn Engine>,
        settings: &Settings,
        host: ServerHost,
    ) -> Arc<Self> {
        let database = Database::open_follower(Arc::clone(&engine));
        database
            .admission()
            .set_places(settings.running_transactions());
        database.instance().set_host(Box::new(host));
        Arc::new(Self {
            engine,
            database,
            opened: coeval_env::now(),
            fresh: AtomicU64::new(0),
        })
    }

    /// Records that snapshots include everything that was acknowledged before `asked`.
    pub(crate) fn is_fresh_since(&self, asked: Instant) {
        let since = asked.duration_since(self.opened).as_micros();
        let since = u64::try_from(since).unwrap_or(u64::MAX - 1) + 1;
        self.fresh.fetch_max(since, Ordering::Relaxed);
    }

    /// An upper bound of the age of the state that snapshots show, without asking; `None`
    /// as long as nothing is known.
    pub(crate) fn age(&self) -> Option<Duration> {
        let since = self.fresh.load(Ordering::Relaxed).checked_sub(1)?;
        let opened = self.opened.elapsed();
        Some(opened.saturating_sub(Duration::from_micros(since)))
    }
}
