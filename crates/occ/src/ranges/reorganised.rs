//! Counters of range splits and merges, over all key spaces of an engine.

use coeval_memory::counters::Counter;

use super::replace::Replacement;

/// Counts of splits and merges. Dropping an index counts as neither.
#[derive(Debug, Default)]
pub(crate) struct Reorganised {
    /// Ranges added by splits.
    pub(crate) splits: Counter,
    /// Ranges removed by merges.
    pub(crate) merges: Counter,
}

impl Reorganised {
    /// Counts a replacement that was published. A range that only got another ring does
    /// not count.
    pub(super) fn note(&self, replacement: &Replacement) {
        for (before, after) in replacement.sizes() {
            self.splits.add(after.saturating_sub(before) as u64);
            self.merges.add(before.saturating_sub(after) as u64);
        }
    }
}
