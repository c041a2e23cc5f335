//! A node's settings, as data.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::Definitions;

use super::{Error, Observer};
/// How a node works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a tick of consensus takes. With ten ticks to an election a leader that
    /// has gone is replaced after ten to twenty of them, and a round trip.
    pub tick_milliseconds: u64,
    /// How long a node that is being added may come no further before it is said so.
    pub catch_up_milliseconds: u64,
    /// A follower on whose answer no commit waits is sent the log at most this often, in
    /// larger pieces; with 0 each group of commits at once, as the others are.
    pub batch_interval_milliseconds: u64,
    /// Of consensus. Its spacing is that of the log; whether it batches says the interval.
    pub consensus: coeval_consensus::Settings,
    /// Of the engine, and of the log.
    pub engine: coeval_occ::Settings,
    /// How far a follower replays log that it does not know to be committed. What that has
    /// replaced stays in memory until then. Replay has as many threads as the log's
    /// [recovery](coeval_log::Settings::recovery_threads).
    pub replay_ahead_bytes: u64,
    /// How far a follower that is connected may be behind before the log that it lacks is
    /// removed behind a checkpoint; then it is sent that.
    pub follower_log_bytes: u64,
    /// Knows from rows which indexes there are: a follower keeps them as it replays, and
    /// need not build them when it is elected.
    pub definitions: Option<Arc<dyn Definitions>>,
    /// Of connections.
    pub peers: coeval_peers::Settings,
    /// Sees every step, in tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick_milliseconds: 50,
            catch_up_milliseconds: 30_000,
            batch_interval_milliseconds: 4,
            consensus: coeval_consensus::Settings::default(),
            engine: coeval_occ::Settings::default(),
            replay_ahead_bytes: 64 << 20,
            follower_log_bytes: 1 << 30,
            definitions: None,
            peers: coeval_peers::Settings::default(),
            observer: None,
        }
    }
}

impl Settings {
    /// Whether they can be meant; what its parts are given they check themselves.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = if !(1..=10_000).contains(&self.tick_milliseconds) {
            "tick_milliseconds must be from 1 to 10000"
        } else if self.batch_interval_milliseconds > 100 {
            "batch_interval_milliseconds must be from 0 to 100"
        } else if self.consensus.spacing != coeval_consensus::Spacing::REDO_LOG {
            "entries of a node's consensus are frames of the redo log: leave its spacing"
        } else if self.consensus.recovery == coeval_consensus::Recovery::Checking {
            "a node does not keep where entries end, so it cannot walk back over them; recover \
             by marks"
        } else {
            return Ok(());
        };
        Err(Error::Setting(wrong.to_owned()))
    }

    /// How long those wait for the log whom no commit waits for; `None` if they do not.
    pub(super) fn batch_interval(&self) -> Option<Duration> {
        let interval = Duration::from_millis(self.batch_interval_milliseconds);
        Some(interval).filter(|interval| !interval.is_zero())
    }

    pub(super) fn tick(&self) -> Duration {
        Duration::from_millis(self.tick_milliseconds)
    }
}
