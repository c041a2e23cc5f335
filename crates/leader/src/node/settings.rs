//! A node's settings, as plain data.

use std::sync::Arc;
use std::time::Duration;

use coeval_txn::Definitions;

use super::{Error, NEWEST_VERSION, Observer};

/// A node's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Duration of a consensus tick. With an election timeout of ten ticks, a lost leader
    /// is replaced after ten to twenty of them and one round trip.
    pub tick_milliseconds: u64,
    /// How long a node that is being added may make no progress before the request fails.
    pub catch_up_milliseconds: u64,
    /// A non-quorum follower, on whose answer no commit waits, is sent the log at most once
    /// in this interval, in larger pieces; with 0 it is sent each group of commits at once,
    /// as the other followers are.
    pub batch_interval_milliseconds: u64,
    /// The highest cluster version that this node says it reads, and raises its cluster to;
    /// at most [`NEWEST_VERSION`](super::NEWEST_VERSION). With the first, the directory has
    /// no identity.
    pub cluster_version: u32,
    /// Settings of consensus. Its spacing must be that of the log; the interval above
    /// determines whether it batches.
    pub consensus: coeval_consensus::Settings,
    /// Settings of the engine and its log.
    pub engine: coeval_occ::Settings,
    /// Bytes that a follower replays beyond the commit index it knows. The row versions
    /// that this replay has replaced stay in memory until the entries are committed. Replay
    /// uses as many threads as the log's
    /// [recovery](coeval_log::Settings::recovery_threads).
    pub replay_ahead_bytes: u64,
    /// Bytes of log that a connected follower may lack before the leader removes that log
    /// after a checkpoint; the follower is then sent the checkpoint.
    pub follower_log_bytes: u64,
    /// How late the node's driver may be before the node was away, and reads that take a
    /// follower's state as it is are held; 0 to notice nothing.
    pub away_milliseconds: u64,
    /// How long such reads are held at most.
    pub hold_milliseconds: u64,
    /// Reads the index definitions from rows: a follower maintains the indexes as it
    /// replays, and need not build them when it is elected.
    pub definitions: Option<Arc<dyn Definitions>>,
    /// Settings of the connections.
    pub peers: coeval_peers::Settings,
    /// Observes every step of consensus, in tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick_milliseconds: 50,
            catch_up_milliseconds: 30_000,
            batch_interval_milliseconds: 4,
            cluster_version: NEWEST_VERSION,
            consensus: coeval_consensus::Settings::default(),
            engine: coeval_occ::Settings::default(),
            replay_ahead_bytes: 64 << 20,
            follower_log_bytes: 1 << 30,
            away_milliseconds: 0,
            hold_milliseconds: 200,
            definitions: None,
            peers: coeval_peers::Settings::default(),
            observer: None,
        }
    }
}

impl Settings {
    /// Validates the settings; the parts validate their own.
    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = if !(1..=10_000).contains(&self.tick_milliseconds) {
            "tick_milliseconds must be from 1 to 10000"
        } else if self.batch_interval_milliseconds > 100 {
            "batch_interval_milliseconds must be from 0 to 100"
        } else if !(1..=NEWEST_VERSION).contains(&self.cluster_version) {
            "cluster_version must be one that this build reads"
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

    /// How long non-quorum followers wait for the log; `None` if they do not.
    pub(super) fn batch_interval(&self) -> Option<Duration> {
        let interval = Duration::from_millis(self.batch_interval_milliseconds);
        Some(interval).filter(|interval| !interval.is_zero())
    }

    pub(super) fn away(&self) -> Duration {
        Duration::from_millis(self.away_milliseconds)
    }

    pub(super) fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_milliseconds)
    }

    pub(super) fn tick(&self) -> Duration {
        Duration::from_millis(self.tick_milliseconds)
    }
}
