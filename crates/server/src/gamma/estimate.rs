//! The estimate of a node: its reads, and the writes that they have told of, judged.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use coeval_check::history::{Operation, Outcome, Register, Transaction};
use coeval_check::registers::Judge;

use super::row::Write;

/// How long a value is judged after its write.
const WINDOW: u64 = 60_000_000_000;
/// How long a bound of the clocks' difference is used.
const BOUND: u64 = 10_000_000_000;
/// By how much the clocks of two machines may drift apart: two parts in ten thousand.
const DRIFT: u64 = 5_000;

/// What a node's estimate says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Reads of a register since the probe was started.
    pub(crate) reads: u64,
    /// Values with a positive score since then.
    pub(crate) positive: u64,
    /// Values with a score above the threshold since then.
    pub(crate) violations: u64,
    /// Values whose write began within the last minute.
    pub(crate) values: u64,
    /// The greatest score of those, in nanoseconds.
    pub(crate) greatest: u64,
}

/// One value of a register.
#[derive(Clone, Copy, Debug)]
struct Seen {
    write: Write,
    /// The greatest start of a read that has returned it, on this node's clock.
    read: Option<u64>,
    is_positive: bool,
    is_violation: bool,
}

/// The reads of one node of what one writer writes.
#[derive(Debug)]
pub(super) struct Estimate {
    threshold: u64,
    /// The number that the writer has drawn; another one has another clock.
    writer: Option<i64>,
    values: BTreeMap<(u64, u64), Seen>,
    /// When reads ended, on this node's clock, and by how much the writer's is ahead of it
    /// at least.
    bounds: VecDeque<(u64, i128)>,
    summary: Summary,
}

impl Estimate {
    pub(super) fn new(threshold: Duration) -> Self {
        Self {
            threshold: u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX),
            writer: None,
            values: BTreeMap::new(),
            bounds: VecDeque::new(),
            summary: Summary::default(),
        }
    }

    /// Takes a read of a register: on this node's clock it began and ended then, and it has
    /// shown these writes, oldest first.
    pub(super) fn take(
        &mut self,
        key: u64,
        writer: i64,
        (started, finished): (u64, u64),
        writes: &[Write],
    ) {
        if self.writer != Some(writer) {
            self.writer = Some(writer);
            self.values.clear();
            self.bounds.clear();
        }
        let Some(newest) = writes.last() else {
            return;
        };
        self.summary.reads += 1;
        for write in writes {
            let seen = self.values.entry((key, write.value)).or_insert(Seen {
                write: *write,
                read: None,
                is_positive: false,
                is_violation: false,
            });
            seen.write.finished = seen.write.finished.or(write.finished);
        }
        if let Some(seen) = self.values.get_mut(&(key, newest.value)) {
            seen.read = seen.read.max(Some(started));
        }
        let ahead = i128::from(newest.started) - i128::from(finished);
        self.bounds.push_back((finished, ahead));
    }

    /// Judges the values of the window.
    pub(super) fn judge(&mut self, now: u64) -> Summary {
        while let Some((at, _)) = self.bounds.front()
            && now.saturating_sub(*at) > BOUND
        {
            self.bounds.pop_front();
        }
        let bounds = self.bounds.iter();
        let bounds = bounds.map(|(at, ahead)| ahead - i128::from(now.saturating_sub(*at) / DRIFT));
        let Some(ahead) = bounds.max() else {
            self.values.clear();
            (self.summary.values, self.summary.greatest) = (0, 0);
            return self.summary;
        };
        let writers = |own: u64| u64::try_from(i128::from(own) + ahead).unwrap_or(0);
        let now = writers(now);
        self.values
            .retain(|_, seen| now.saturating_sub(seen.write.started) < WINDOW);
        let mut judge = Judge::default();
        for ((key, value), seen) in &self.values {
            let (key, value) = (*key, value.cast_signed());
            // No value is written twice, so that no transaction is refused.
            let _ = judge.take(&transaction(
                (seen.write.started, seen.write.finished),
                Operation::Write { key, value },
            ));
            if let Some(started) = seen.read {
                let value = Some(Register::Value(value));
                let read = (writers(started), Some(u64::MAX));
                let _ = judge.take(&transaction(read, Operation::Read { key, value }));
            }
        }
        self.summary.values = self.values.len() as u64;
        self.summary.greatest = 0;
        for score in judge.finish().scores {
            let Register::Value(value) = score.value else {
                continue;
            };
            let Some(seen) = self.values.get_mut(&(score.key, value.cast_unsigned())) else {
                continue;
            };
            self.summary.greatest = self.summary.greatest.max(score.gamma);
            if !std::mem::replace(&mut seen.is_positive, true) {
                self.summary.positive += 1;
            }
            if score.gamma > self.threshold && !std::mem::replace(&mut seen.is_violation, true) {
                self.summary.violations += 1;
            }
        }
        self.summary
    }
}

fn transaction((started, finished): (u64, Option<u64>), operation: Operation) -> Transaction {
    Transaction {
        process: 0,
        started,
        finished,
        outcome: match finished {
            Some(_) => Outcome::Committed,
            None => Outcome::Unknown,
        },
        read_only: !operation.is_write(),
        operations: vec![operation],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// By how much the writer's clock is ahead of the reader's, for better or worse.
    const AHEAD: [i64; 3] = [-7_000_000_000, 0, 40_000_000_000];

    /// A writer that writes one register every 100 ms, in 2 ms each, and a reader that sees
    /// each write a millisecond after it was acknowledged, and reads every 10 ms.
    struct World {
        estimate: Estimate,
        ahead: i64,
        writes: Vec<Write>,
        now: u64,
    }

    impl World {
        fn new(ahead: i64) -> Self {
            Self {
                estimate: Estimate::new(Duration::from_millis(5)),
                ahead,
                writes: Vec::new(),
                now: 100_000 * MS,
            }
        }

        /// Passes this much time, in which the reader shows what it had `behind` ago.
        fn pass(&mut self, milliseconds: u64, behind: u64) -> Summary {
            for _ in 0..milliseconds {
                self.now += MS;
                let writers = self.now.checked_add_signed(self.ahead).unwrap();
                if self.now.is_multiple_of(100 * MS) {
                    self.writes.push(Write {
                        value: self.writes.len() as u64,
                        started: writers,
                        finished: Some(writers + 2 * MS),
                    });
                }
                if self.now.is_multiple_of(10 * MS) {
                    self.read(writers - behind * MS);
                }
            }
            self.estimate.judge(self.now)
        }

        fn read(&mut self, shown: u64) {
            let there = self.writes.iter();
            let mut there: Vec<_> = there
                .filter(|write| write.finished.unwrap() + MS <= shown)
                .copied()
                .collect();
            if let Some(last) = there.last_mut() {
                last.finished = None;
                let from = there.len().saturating_sub(super::super::row::KEPT);
                let read = (self.now, self.now + MS / 2);
                self.estimate.take(1, 7, read, &there[from..]);
            }
        }
    }

    #[test]
    fn a_node_that_follows_closely_has_no_score_above_the_threshold() {
        for ahead in AHEAD {
            let mut world = World::new(ahead);
            let summary = world.pass(5_000, 0);
            assert_eq!(summary.violations, 0, "{summary:?}");
            assert!(summary.values > 40, "{summary:?}");
            assert!(summary.reads > 400, "{summary:?}");
        }
    }

    #[test]
    fn a_spike_is_seen_whatever_the_clocks_and_never_made_greater() {
        for ahead in AHEAD {
            let mut world = World::new(ahead);
            world.pass(2_000, 0);
            // At the end of a pause of 250 ms reads show the state before it.
            world.now += 250 * MS;
            let early = world.writes.last().unwrap().started;
            for at in 1..=2 {
                world.writes.push(Write {
                    value: world.writes.len() as u64,
                    started: early + at * 100 * MS,
                    finished: Some(early + at * 100 * MS + 2 * MS),
                });
            }
            let writers = world.now.checked_add_signed(ahead).unwrap();
            world.read(writers - 250 * MS);
            let missed = early + 102 * MS;
            let summary = world.pass(1_000, 0);
            assert!(summary.violations >= 1, "{summary:?}");
            let real = writers - missed;
            assert!(summary.greatest <= real, "{summary:?}, {real}");
            assert!(summary.greatest + 11 * MS > real, "{summary:?}, {real}");
            // It is told for a minute, and counted once.
            let later = world.pass(30_000, 0);
            assert_eq!(later.violations, summary.violations);
            assert_eq!(later.greatest, summary.greatest);
            let later = world.pass(31_000, 0);
            assert_eq!(later.violations, summary.violations);
            assert!(later.greatest < 5 * MS, "{later:?}");
        }
    }

    #[test]
    fn another_writer_begins_anew() {
        let mut world = World::new(0);
        world.pass(2_000, 0);
        let write = Write {
            value: 3,
            started: 5,
            finished: None,
        };
        let now = world.now;
        world.estimate.take(1, 8, (now, now + 1), &[write]);
        let summary = world.estimate.judge(now + 2);
        assert_eq!((summary.values, summary.violations), (1, 0));
    }
}
