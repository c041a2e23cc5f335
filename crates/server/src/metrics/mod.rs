//! Metrics: what a server counts, and how it shows the numbers.
//!
//! ```text
//!   worker 0 ──▶ sheet 0 ┐                      ┌▶ /metrics, in Prometheus' text
//!   worker 1 ──▶ sheet 1 ┼─▶ Reading ─▶ families┤
//!   engine, log, sessions┘   (one moment)       └▶ coeval.metrics, as rows
//! ```
//!
//! What happens for every statement is counted on a [`Sheet`]: each worker has its
//! own, so counting is an addition to memory that no other core touches. What the
//! engine and the log count, they count likewise. Adding up, and looking at what
//! can be looked at, happens when somebody asks, in a [`Reading`].
//!
//! [`families`] is the list of all metrics: name, kind, unit, meaning, and where its
//! values are in a reading. `docs/operations/monitor.md` and the dashboard beside it
//! are held to that list by tests.
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
pub(crate) use sheet::Sheet;

/// What a server counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    sheets: Mutex<Vec<Arc<Sheet>>>,
    started: coeval_env::Instant,
    /// By the wall clock, since the Unix epoch.
    started_at: Duration,
    /// How long the start took.
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

    /// The server is ready, so long after it began to start.
    pub(crate) fn started_after(&self, start: Duration) {
        let _ = self.start.set(start);
    }

    /// A sheet for one more worker.
    pub(crate) fn sheet(&self) -> Arc<Sheet> {
        let sheet = Arc::<Sheet>::default();
        let mut sheets = self.sheets.lock().unwrap_or_else(PoisonError::into_inner);
        sheets.push(Arc::clone(&sheet));
        sheet
    }
}
