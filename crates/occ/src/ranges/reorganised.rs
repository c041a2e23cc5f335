//! How often ranges were split and merged, in all spaces of an engine.

use coeval_memory::counters::Counter;

use super::replace::Replacement;

/// What has become of ranges. Those of an index that is dropped go without being counted.
#[derive(Debug, Default)]
pub(crate) struct Reorganised {
    /// Ranges that have come by splits.
    pub(crate) splits: Counter,
    /// Ranges that have gone by merges.
    pub(crate) merges: Counter,
}

impl Reorganised {
    /// These stand in the map now. One that only has another ring counts as nothing.
    pub(super) fn note(&self, replacement: &Replacement) {
        for (before, after) in replacement.sizes() {
            self.splits.add(after.saturating_sub(before) as u64);
            self.merges.add(before.saturating_sub(after) as u64);
        }
    }
}
