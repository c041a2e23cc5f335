//! Collects anomalies: counts all of them, and keeps some of each name.

use std::collections::BTreeMap;

use super::anomaly::{Anomaly, Order, Phenomenon};

/// Number of anomalies of each name that are kept with their explanation.
pub const KEPT: usize = 10;

/// The anomalies found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    counts: BTreeMap<(Phenomenon, Order), usize>,
    kept: Vec<Anomaly>,
}

impl Findings {
    /// Counts an anomaly, and calls `story` if it is to be kept: for the transactions
    /// involved, and a line for each.
    pub(super) fn add(
        &mut self,
        phenomenon: Phenomenon,
        seen_in: Order,
        story: impl FnOnce() -> Vec<(u32, String)>,
    ) {
        let count = self.counts.entry((phenomenon, seen_in)).or_default();
        *count += 1;
        if *count <= KEPT {
            let (transactions, steps) = story()
                .into_iter()
                .map(|(transaction, step)| (transaction as usize, step))
                .unzip();
            self.kept.push(Anomaly {
                phenomenon,
                seen_in,
                transactions,
                steps,
                is_cycle: false,
            });
        }
    }

    /// Keeps and counts a cycle, unless it is already known or enough are kept.
    pub(super) fn add_cycle(
        &mut self,
        phenomenon: Phenomenon,
        seen_in: Order,
        transactions: Vec<usize>,
        steps: impl FnOnce(&[usize]) -> Vec<String>,
    ) {
        // A cycle has no beginning; starting at the earliest in the history makes it
        // comparable.
        let mut transactions = transactions;
        let least = (0..transactions.len()).min_by_key(|place| transactions[*place]);
        transactions.rotate_left(least.unwrap_or(0));
        let is_known = |known: &Anomaly| {
            known.is_cycle
                && known.phenomenon == phenomenon
                && known.seen_in == seen_in
                && known.transactions == transactions
        };
        if self.kept.iter().any(is_known) {
            return;
        }
        let count = self.counts.entry((phenomenon, seen_in)).or_default();
        if *count < KEPT {
            *count += 1;
            let steps = steps(&transactions);
            self.kept.push(Anomaly {
                phenomenon,
                seen_in,
                transactions,
                steps,
                is_cycle: true,
            });
        }
    }

    /// Whether an anomaly of this name was found, in whatever order it is observed.
    pub(super) fn has(&self, phenomenon: Phenomenon) -> bool {
        self.counts.keys().any(|(known, _)| *known == phenomenon)
    }

    /// The anomalies kept, the most severe first, and the counts of all.
    pub(super) fn into_parts(mut self) -> (Vec<Anomaly>, BTreeMap<(Phenomenon, Order), usize>) {
        self.kept.sort_by_key(|anomaly| {
            (
                anomaly.phenomenon,
                anomaly.seen_in,
                anomaly.transactions.len(),
            )
        });
        (self.kept, self.counts)
    }
}
