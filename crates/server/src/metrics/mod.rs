//! Metrics: the counters of a server, and the formats that show them.
//!
//! ```text
//!   worker 0 ──▶ sheet 0 ┐                      ┌▶ /metrics, in Prometheus' text
//!   worker 1 ──▶ sheet 1 ┼─▶ Reading ─▶ families┤
//!   engine, log, sessions┘   (one moment)       └▶ coeval.metrics, as rows
//! ```
//!
//! Each worker counts the events of its statements on a [`Sheet`], a set of counters of
//! its own, so counting is an addition to memory that no other core writes. The engine
//! and the log count in the same way. A [`Reading`] adds the counters up, and samples
//! gauges, only when a client asks for metrics.
//!
//! [`families`] is the list of all metrics: name, kind, unit, meaning, and where a
//! reading has the values. Tests compare `docs/operations/monitor.md` and the dashboard
//! beside it with that list.
//!
//! Invariants:
//! - No counter is written by two workers.
//! - A counter never falls while the process lives.
//! - Labels have few values, none of which a client can choose.

mod exposition;
mod families;
mod host;
mod reading;
mod sheet;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub(crate) use exposition::{MEDIA_TYPE, exposition, recovering};
pub(crate) use host::ServerHost;
pub(crate) use reading::Reading;
pub(crate) use sheet::{AtLeader, Sheet, Stamp};

/// The metrics of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    sheets: Mutex<Vec<Arc<Sheet>>>,
    started: coeval_env::Instant,
    /// Start time of the process by the wall clock, since the Unix epoch.
    started_at: Duration,
    /// Duration of the start.
    start: OnceLock<Duration>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            sheets: Mutex::default(),
            started: coeval_env::now(),
            started_at: coeval_env::wall_clock(),
            start: OnceLock::new(),
        }
    }

    /// Records that the server is ready, `start` after the process began.
    pub(crate) fn started_after(&self, start: Duration) {
        let _ = self.start.set(start);
    }

    /// Adds a set of counters for one more worker.
    pub(crate) fn sheet(&self) -> Arc<Sheet> {
        let sheet = Arc::<Sheet>::default();
        let mut sheets = self.sheets.lock().unwrap_or_else(PoisonError::into_inner);
        sheets.push(Arc::clone(&sheet));
        sheet
    }
}
