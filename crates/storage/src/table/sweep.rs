//! The garbage collector's sweep: visits every record in RID order, a few at a time, and
//! removes versions that neither a writer nor a reader has collected (EMS §2.3.5, third
//! way).

use coeval_types::Rid;

use super::Table;
use crate::collector::Collector;

/// Result of one step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepProgress {
    /// RID at which the next step begins; `None` at the table's end.
    pub next: Option<Rid>,
    /// Number of versions that the step has removed.
    pub removed: usize,
}

impl Table {
    /// Collects the `records` records from `from` on. The caller keeps a step short by a
    /// small count; if it uses a cached [`crate::Expiry`], it makes one for each step.
    pub fn sweep(&self, from: Rid, records: usize, collector: &Collector<'_>) -> SweepProgress {
        let end = self.high_water().0;
        let stop = end.min(from.0.saturating_add(records as u64));
        let removed = (from.0..stop)
            .filter_map(|rid| self.record(Rid(rid)))
            .map(|record| record.collect(collector))
            .sum();
        SweepProgress {
            next: (stop < end).then_some(Rid(stop)),
            removed,
        }
    }
}
