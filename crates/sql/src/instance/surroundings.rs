//! What is around a session: the others, what their transactions came to, and the
//! program it all runs in.
//!
//! SQL can ask about both (`pg_stat_activity`, `coeval.settings`), so every
//! statement can reach them. The program says what it has to say through
//! [`Host`], once it has started; without one the answers are empty.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::activity::Activities;
use super::cluster::{Changing, Cluster, ClusterChange, alone};
use super::room::Room;
use crate::outcome::Outcomes;

/// The program a database runs in.
pub trait Host: Send + Sync + fmt::Debug {
    /// Its settings.
    fn settings(&self) -> Vec<HostSetting>;
    /// Its metrics.
    fn metrics(&self) -> Vec<HostMetric>;
    /// What it has counted.
    fn totals(&self) -> Totals;
    /// When it started, in microseconds since 2000 UTC.
    fn started(&self) -> i64;
    /// The cluster it is a node of.
    fn cluster(&self) -> Option<Cluster> {
        None
    }
    /// Changes the cluster it is a node of. When it is done depends on what it is: see
    /// the functions in the manual.
    fn change_cluster(&self, _change: ClusterChange) -> Changing {
        Box::pin(std::future::ready(Err(alone())))
    }
}

/// One setting of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSetting {
    /// Its name.
    pub name: String,
    /// Its value, without its unit.
    pub value: String,
    /// Its unit, if it has one.
    pub unit: Option<&'static str>,
    /// Where its value came from.
    pub source: String,
    /// What it does.
    pub about: String,
    /// Whether only superusers are shown it: it says where things are on the machine.
    pub for_superusers: bool,
}

/// One number that the program shows.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMetric {
    /// Its name.
    pub name: String,
    /// What tells it apart from others of that name, as `kind="select"`.
    pub labels: String,
    /// What it is now.
    pub value: f64,
    /// Its unit, if it has one.
    pub unit: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// What the program has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transactions committed.
    pub committed: u64,
    /// Transactions undone.
    pub rolled_back: u64,
    /// Rows that queries returned.
    pub returned: u64,
    /// Rows inserted.
    pub inserted: u64,
    /// Rows updated.
    pub updated: u64,
    /// Rows deleted.
    pub deleted: u64,
    /// Transactions undone because of others, deadlocks excepted.
    pub conflicts: u64,
    /// Deadlocks.
    pub deadlocks: u64,
}

/// What is around a database.
#[derive(Debug, Default)]
pub struct Surroundings {
    pub(crate) activities: Activities,
    pub(crate) outcomes: Arc<Outcomes>,
    room: Room,
    host: OnceLock<Box<dyn Host>>,
}

impl Surroundings {
    /// The sessions there are.
    #[must_use]
    pub fn activities(&self) -> &Activities {
        &self.activities
    }

    /// What memory is left for statements.
    #[must_use]
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// The program, if it has introduced itself.
    #[must_use]
    pub fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// A setting of the program, which a session may see and not change.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        let settings = self.host()?.settings();
        let found = settings.into_iter().find(|setting| setting.name == name)?;
        Some(found.value + found.unit.unwrap_or_default())
    }

    /// The program introduces itself. A second time changes nothing.
    pub fn set_host(&self, host: Box<dyn Host>) {
        let _ = self.host.set(host);
    }
}
