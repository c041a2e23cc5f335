//! The reader: the database of a node that follows, which sessions of the node's clients
//! read. It lasts as long as the node's replayed tables; when the node leads, or begins
//! with new tables, its transactions end with an error, and the leader answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coeval_env::Instant;
use coeval_leader::node::PauseDetector;
use coeval_occ::{FollowerEngine, MemoryAccounts, Sending, Statistics};
use coeval_sql::session::Database;
use coeval_txn::Engine;
use coeval_types::planted;

use crate::memory::{self, Watch};
use crate::metrics::ServerHost;
use crate::serving_term::SESSIONS_SHARE;
use crate::settings::Settings;

/// Interval between two questions of a node that knows no leader to ask.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(5);

/// The tables of a follower, opened as a database.
pub(crate) struct Reader {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) database: Arc<Database>,
    /// The same engine with its concrete type, and the thread that reports the process's
    /// memory use to it; `None` for an engine that a test has given.
    pub(crate) own: Option<(Arc<FollowerEngine>, Watch)>,
    opened: Instant,
    /// When the last answered question was asked, in microseconds after `opened`, and 1
    /// more; 0 as long as none was answered.
    fresh: AtomicU64,
}

impl Reader {
    /// Opens the database of this node's tables.
    pub(crate) fn open(
        own: Arc<FollowerEngine>,
        settings: &Settings,
        host: ServerHost,
    ) -> Arc<Self> {
        let engine = Arc::clone(&own) as _;
        let watch = memory::watch(&own);
        Self::opened(engine, Some((own, watch)), settings, host)
    }

    /// Opens the database of an engine that follows, which this node does not own.
    pub(crate) fn of(engine: Arc<dyn Engine>, settings: &Settings, host: ServerHost) -> Arc<Self> {
        Self::opened(engine, None, settings, host)
    }

    fn opened(
        engine: Arc<dyn Engine>,
        own: Option<(Arc<FollowerEngine>, Watch)>,
        settings: &Settings,
        host: ServerHost,
    ) -> Arc<Self> {
        let database = Database::open_follower(Arc::clone(&engine));
        database
            .admission()
            .set_places(settings.running_transactions());
        database.instance().set_host(Box::new(host));
        let memory = own.as_ref().and_then(|(own, _)| own.memory());
        let sessions = memory.map_or(0, |memory| memory.limit / SESSIONS_SHARE);
        if sessions > 0 {
            database.instance().sessions_memory().set_limit(sessions);
        }
        Arc::new(Self {
            engine,
            database,
            own,
            opened: coeval_env::now(),
            fresh: AtomicU64::new(0),
        })
    }

    /// The accounts of the memory budget.
    pub(crate) fn memory(&self) -> MemoryAccounts {
        let own = self.own.as_ref().and_then(|(own, _)| own.memory());
        own.unwrap_or_default()
    }

    /// The engine's metrics, after a look at the process's memory.
    pub(crate) fn statistics(&self) -> Statistics {
        let own = self.own.as_ref();
        own.map_or_else(Statistics::default, |(own, watch)| {
            watch.look(&**own);
            own.statistics()
        })
    }

    /// Notes that this node sends the leader a message, before it is sent, if a reader waits
    /// whom the answer could help.
    pub(crate) fn sends(&self) -> Option<Sending> {
        self.own.as_ref()?.0.sends_to_answer()
    }

    /// Records that snapshots include everything that was acknowledged before `asked`.
    pub(crate) fn is_fresh_since(&self, asked: Instant) {
        let since = asked.duration_since(self.opened).as_micros();
        let since = u64::try_from(since).unwrap_or(u64::MAX - 1) + 1;
        self.fresh.fetch_max(since, Ordering::Relaxed);
    }

    /// Waits while this node holds reads of its state, because it was away: until it shows
    /// what the leader has answered to a question that was asked since, or for the bound of a
    /// hold.
    pub(crate) async fn hold(&self, pauses: &PauseDetector) {
        let began = coeval_env::now();
        if planted!(EndHoldByOldAnswer) {
            pauses.caught_up(began);
            return;
        }
        let last = began + pauses.longest();
        let mut asked = began;
        while let Some(until) = pauses.look(asked).filter(|_| asked < last) {
            let left = until.min(last).duration_since(asked);
            let newest = coeval_env::timeout(left, coeval_txn::newest(&*self.engine));
            match newest.await {
                Ok(Ok(())) => {
                    pauses.caught_up(asked);
                    self.is_fresh_since(asked);
                }
                // No leader is known, to be asked.
                Ok(Err(_)) => coeval_env::sleep(left.min(BETWEEN_QUESTIONS)).await,
                Err(coeval_env::Elapsed) => {}
            }
            asked = coeval_env::now();
        }
    }

    /// An upper bound of the age of the state that snapshots show, without asking; `None`
    /// as long as nothing is known.
    pub(crate) fn age(&self) -> Option<Duration> {
        let since = self.fresh.load(Ordering::Relaxed).checked_sub(1)?;
        let opened = self.opened.elapsed();
        Some(opened.saturating_sub(Duration::from_micros(since)))
    }
}
