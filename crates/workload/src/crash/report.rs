//! The summary of a crash test, in numbers.

use std::fmt;
use std::time::Duration;

use coeval_check::ledger::{Ledger, Told, Verdict};

/// Totals of a crash test.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of kills under load.
    pub kills: usize,
    /// Number of kills during recovery.
    pub killed_recovering: usize,
    /// Transfers that the server acknowledged as committed.
    pub acknowledged: usize,
    /// Transfers that did not commit: the server reported a failure, or the client rolled
    /// back.
    pub failed: usize,
    /// Transfers whose clients received no answer.
    pub unknown: usize,
    /// Transfers of unknown outcome that turned out to have committed.
    pub unknown_committed: usize,
    /// Reads that returned another client's newest transfer.
    pub seen: usize,
    /// Total time under load, over all rounds.
    pub load: Duration,
    /// Total time from start to first answer, over all restarts.
    pub restart: Duration,
    /// Longest time from start to first answer.
    pub restart_longest: Duration,
    /// Number of starts.
    pub starts: u32,
    /// Number of kills after which the newest checkpoint was another than after the
    /// previous kill.
    pub checkpoints: usize,
    /// Number of kills while a checkpoint was being written.
    pub killed_in_checkpoint: usize,
    /// The last verdict. A run ends with the first that is not clean.
    pub verdict: Verdict,
    /// Name of the newest checkpoint after the last kill.
    checkpoint: Option<String>,
    last_load: Duration,
    last_restart: Duration,
    lines: usize,
    still_unknown: usize,
}

impl Summary {
    /// Whether nothing was lost, invented or torn.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.verdict.is_clean()
    }

    pub(super) fn started(&mut self, took: Duration) {
        self.starts += 1;
        self.restart += took;
        self.restart_longest = self.restart_longest.max(took);
        self.last_restart = took;
    }

    pub(super) fn judged(&mut self, verdict: &Verdict) {
        self.unknown_committed += verdict.settled_committed;
        self.lines = verdict.lines;
    }

    pub(super) fn told(&mut self, told: Told) {
        match told {
            Told::Acknowledged => self.acknowledged += 1,
            Told::Failed => self.failed += 1,
            Told::Unknown => self.unknown += 1,
        }
    }

    pub(super) fn loaded(&mut self, load: Duration, ledger: &Ledger) {
        self.kills += 1;
        self.load += load;
        self.last_load = load;
        self.still_unknown = ledger.unknown();
    }

    /// Counts the checkpoint files that a kill left.
    pub(super) fn kept(&mut self, files: Vec<String>) {
        let unfinished = |name: &String| name.ends_with(".new");
        self.killed_in_checkpoint += usize::from(files.iter().any(unfinished));
        let newest = files.into_iter().filter(|name| !unfinished(name)).max();
        if newest.is_some() && newest != self.checkpoint {
            self.checkpoints += 1;
            self.checkpoint = newest;
        }
    }

    pub(super) fn finish(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    /// Progress line for the round that has just ended.
    pub(super) fn line(&self, round: u32, rounds: u32) -> String {
        format!(
            "round {round:>4}/{rounds}: up in {:>4} ms with {:>7} lines, killed after {:>4} ms; \
             so far {:>7} acknowledged, {} unknown now",
            self.last_restart.as_millis(),
            self.lines,
            self.last_load.as_millis(),
            self.acknowledged,
            self.still_unknown,
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = self.restart.as_millis() / u128::from(self.starts.max(1));
        let rows = [
            ("kills under load", self.kills.to_string()),
            ("kills while recovering", self.killed_recovering.to_string()),
            (
                "time under load",
                format!("{:.1} s", self.load.as_secs_f64()),
            ),
            ("transfers acknowledged", self.acknowledged.to_string()),
            ("transfers failed or rolled back", self.failed.to_string()),
            (
                "transfers unknown",
                format!(
                    "{} ({} had committed)",
                    self.unknown, self.unknown_committed
                ),
            ),
            ("reads of another's transfer", self.seen.to_string()),
            (
                "restart, mean and longest",
                format!("{mean} ms, {} ms", self.restart_longest.as_millis()),
            ),
            (
                "checkpoints found by a kill",
                format!(
                    "{} ({} kills came during one)",
                    self.checkpoints, self.killed_in_checkpoint
                ),
            ),
            ("lost", self.verdict.lost.len().to_string()),
            ("invented", self.verdict.invented.len().to_string()),
            ("torn", self.verdict.torn.len().to_string()),
        ];
        for (name, value) in rows {
            writeln!(formatter, "{name:<32} {value}")?;
        }
        let Verdict {
            lost,
            invented,
            torn,
            ..
        } = &self.verdict;
        for loss in lost.iter().take(20) {
            writeln!(formatter, "lost: {loss:?}")?;
        }
        for invention in invented.iter().take(20) {
            writeln!(formatter, "invented: {invention:?}")?;
        }
        for torn in torn.iter().take(20) {
            writeln!(formatter, "torn: {torn:?}")?;
        }
        Ok(())
    }
}
