//! The instance: the list of sessions, the outcomes of their transactions, and the
//! interface to the server process.
//!
//! SQL can query them (`pg_stat_activity`, `coeval.settings`), so every statement can
//! reach the instance. The server process supplies its data through [`Host`] once it has
//! started; without a host the results are empty.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::activity::Activities;
use super::admission::Admission;
use super::advisory::AdvisoryLocks;
use super::cluster_view::{Changing, Cluster, ClusterChange, alone};
use super::elsewhere::{Finding, Interruption, SessionElsewhere, SessionsElsewhere, Sought};
use super::memory_budget::MemoryBudget;
use super::session_memory::SessionsMemory;
use crate::error::{Error, Result, SqlState};
use crate::outcome::Outcomes;
use crate::sequence::Sequences;
use crate::statistics::StatisticsCache;

/// The server process that a database runs in.
pub trait Host: Send + Sync + fmt::Debug {
    /// Settings of the server.
    fn settings(&self) -> Vec<HostSetting>;
    /// Metrics of the server.
    fn metrics(&self) -> Vec<HostMetric>;
    /// Totals that the server has counted.
    fn totals(&self) -> Totals;
    /// When the server started, in microseconds since 2000 UTC.
    fn started(&self) -> i64;
    /// The cluster that the server is a node of.
    fn cluster(&self) -> Option<Cluster> {
        None
    }
    /// Whether every node of the cluster reads catalog rows with settings of roles.
    fn keeps_role_settings(&self) -> bool {
        true
    }
    /// Whether every node of the cluster reads this cluster version.
    fn reads_version(&self, _version: u32) -> bool {
        true
    }
    /// The estimates of Γ that nodes of the cluster have made.
    fn gamma(&self) -> Vec<NodeGamma> {
        Vec::new()
    }
    /// Performs a change of the server's cluster. The manual's page on each function says
    /// when that change counts as done.
    fn change_cluster(&self, _change: ClusterChange) -> Changing {
        Box::pin(std::future::ready(Err(alone())))
    }
    /// Asks the other nodes of the cluster for these sessions, if they are their clients'.
    fn sessions_elsewhere(&self, _sought: Sought) -> Finding {
        Box::pin(std::future::ready(SessionsElsewhere::default()))
    }
    /// Has another node interrupt a session that it has told. Does not wait for that.
    fn interrupt_elsewhere(&self, _session: SessionElsewhere, _how: Interruption) {}
}

/// A node's estimate of Γ, from reads and writes of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeGamma {
    /// The node that has read.
    pub node: u64,
    /// Reads of a register since the probe was started.
    pub reads: u64,
    /// Writes of the last minute that were judged.
    pub writes: u64,
    /// Values with a positive score since the probe was started.
    pub positive: u64,
    /// Values with a score above the threshold since then.
    pub violations: u64,
    /// The greatest score of the last minute.
    pub greatest: Duration,
}

/// One setting of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// Name of the setting.
    pub name: String,
    /// Value of the setting, without its unit.
    pub value: String,
    /// Unit of the value, if it has one.
    pub unit: Option<&'static str>,
    /// Source of the value, such as a file or a default.
    pub source: String,
    /// Description of the setting.
    pub about: String,
    /// Whether only superusers may see it, because it reveals paths on the machine.
    pub for_superusers: bool,
}

/// One metric of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMetric {
    /// Name of the metric.
    pub name: String,
    /// Labels that distinguish metrics of the same name, as `kind="select"`.
    pub labels: String,
    /// Present value of the metric.
    pub value: f64,
    /// Unit of the value, or the empty string.
    pub unit: &'static str,
    /// Description of the metric.
    pub about: &'static str,
}

/// Totals that the server has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of transactions committed.
    pub committed: u64,
    /// Number of transactions rolled back.
    pub rolled_back: u64,
    /// Number of rows that queries returned.
    pub returned: u64,
    /// Number of rows inserted.
    pub inserted: u64,
    /// Number of rows updated.
    pub updated: u64,
    /// Number of rows deleted.
    pub deleted: u64,
    /// Number of transactions rolled back by conflicts with others, except deadlocks.
    pub conflicts: u64,
    /// Number of deadlocks.
    pub deadlocks: u64,
}

/// Long texts that are parsed at once, at least; on a larger machine, one for each
/// processor.
const LEAST_PARSERS: usize = 4;

/// The state that all sessions of a database share.
#[derive(Debug)]
pub struct Instance {
    pub(crate) activities: Activities,
    pub(crate) outcomes: Arc<Outcomes>,
    pub(crate) sequences: Sequences,
    budget: MemoryBudget,
    sessions_memory: Arc<SessionsMemory>,
    /// How many long texts are parsed at once.
    pub(crate) parsers: Arc<Admission>,
    pub(crate) advisory: Arc<AdvisoryLocks>,
    host: OnceLock<Box<dyn Host>>,
    /// Statistics of tables.
    pub(crate) statistics: StatisticsCache,
}

impl Default for Instance {
    fn default() -> Self {
        let parsers = Admission::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        parsers.set_places(cores.max(LEAST_PARSERS));
        Self {
            activities: Activities::default(),
            outcomes: Arc::default(),
            sequences: Sequences::default(),
            budget: MemoryBudget::default(),
            sessions_memory: Arc::default(),
            parsers: Arc::new(parsers),
            advisory: Arc::default(),
            host: OnceLock::new(),
            statistics: StatisticsCache::default(),
        }
    }
}

impl Instance {
    /// The list of sessions.
    #[must_use]
    pub fn activities(&self) -> &Activities {
        &self.activities
    }

    /// The memory budget of statements.
    #[must_use]
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// What all sessions keep between statements.
    #[must_use]
    pub fn sessions_memory(&self) -> &Arc<SessionsMemory> {
        &self.sessions_memory
    }

    /// The server process, if it has called [`Instance::set_host`].
    #[must_use]
    pub fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// Whether every node that the database may be on reads this cluster version.
    pub(crate) fn reads_version(&self, version: u32) -> bool {
        self.host().is_none_or(|host| host.reads_version(version))
    }

    /// A setting of the server, which a session may read but not change; `unknown` if it has
    /// none of this name. Some are only for a superuser to see.
    pub(crate) fn setting(&self, name: &str, superuser: bool, unknown: Error) -> Result<String> {
        let settings = self.host().map(|host| host.settings());
        let mut settings = settings.unwrap_or_default().into_iter();
        match settings.find(|setting| setting.name == name) {
            Some(setting) if setting.for_superusers && !superuser => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!(
                    "must be superuser or have privileges of pg_read_all_settings to examine \
                     \"{name}\""
                ),
            )),
            Some(setting) => Ok(setting.value + setting.unit.unwrap_or_default()),
            None => Err(unknown),
        }
    }

    /// Registers the server process. Further calls change nothing.
    pub fn set_host(&self, host: Box<dyn Host>) {
        let _ = self.host.set(host);
    }
}
