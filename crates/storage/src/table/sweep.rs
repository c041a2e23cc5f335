//! The sweep: visits every record in RID order, a few at a time, and removes what
//! neither a writer nor a reader came across (EMS §2.3.5, third way).

use coeval_types::Rid;

use super::Table;
use crate::collector::Collector;

/// What one step of a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepProgress {
    /// Where the next step begins; `None` when the table's end is reached.
    pub next: Option<Rid>,
    /// How many versions were removed.
    pub removed: usize,
}

impl Table {
    /// Collects the next `records` records from `from` on. One step, to be kept
    /// short by a small count; with a cached [`crate::Expiry`], one for each step.
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
