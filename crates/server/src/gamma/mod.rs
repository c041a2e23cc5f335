//! `coeval.gamma`: a live estimate of Γ, by how much reads of followers' states are too old.
//!
//! With `gamma_probe` on, the leader writes a few rows of a table of its own, as a client
//! would, and each follower reads them, as clients with `coeval.read_from = any` do: through
//! SQL, with the hold of such reads, from the tables that the node has. A follower judges what
//! it has read, and tells the leader the result, which shows that of all nodes.
//!
//! ```text
//!   leader     writes row k: value, and when each of its last writes began and ended ──┐
//!   follower   reads all rows                                    ◀── replication ──────┘
//!              its reads, and the writes that the rows tell of ─▶ judge ─▶ metrics, report
//! ```
//!
//! No message carries the writes' times: they are in the rows. So a follower knows of the
//! writes that it missed as soon as it misses them no longer.
//!
//! # One clock
//!
//! The writes are timed on the leader's monotonic clock, the reads on the follower's. A read
//! that ended at r, there, and showed a write that began at w, here, says that the leader's
//! clock was past w when the follower's showed r: their difference is at least w − r. The
//! greatest such bound ([`estimate`]) moves the start of each read to the earliest moment
//! that it can have been. Nothing is known of the latest, so a read counts as never finished.
//! Both make a score smaller, never greater: every score that is shown is one, and less by a
//! few milliseconds than it is: by the age of the youngest write that a read has shown.
//!
//! # Cost
//!
//! At an interval of 100 ms ten commits a second of a row of half a kilobyte, ten reads of
//! four rows and one judgement of some hundred values on each follower, and one short stream a
//! second from it to the leader. A cluster without clients is no longer idle, which is why it
//! is off.
//!
//! # Not here
//!
//! Staleness between the probe's own operations: a spike is seen only if a row was written
//! during a pause, and read before the node has caught up. Spikes are counted too rarely and
//! never invented. What clients read with `fresh` and `session`.

mod estimate;
mod probe;
mod row;
mod sql;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coeval_env::Instant;

pub(crate) use estimate::Summary;
pub(crate) use probe::{remove, start};

/// Name of the probe's role and of its table.
pub(crate) use coeval_sql::PROBE;

/// How long a node's report is shown.
const REPORTED: Duration = Duration::from_secs(10);

/// What is known of the estimates of the nodes.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<BTreeMap<u64, (Summary, Instant)>>);

impl Reports {
    /// Keeps a node's estimate, its own included.
    pub(crate) fn take(&self, node: u64, summary: Summary) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.insert(node, (summary, coeval_env::now()));
    }

    /// The estimates that are not too old to tell.
    pub(crate) fn all(&self) -> Vec<(u64, Summary)> {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.retain(|_, (_, taken)| taken.elapsed() < REPORTED);
        let all = reports.iter();
        all.map(|(node, (summary, _))| (*node, *summary)).collect()
    }

    /// The estimate of this node, if it makes one.
    pub(crate) fn of(&self, node: u64) -> Option<Summary> {
        let mut all = self.all().into_iter();
        all.find(|(each, _)| *each == node)
            .map(|(_, summary)| summary)
    }
}
