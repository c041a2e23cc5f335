//! The judge of registers: linearizability of each key, and Γ, how far from it.
//!
//! A register is *linearizable* if every operation can be given one moment between its
//! start and its finish so that, in the order of these moments, each read shows the
//! last write before it. Γ (gamma) says by how much that fails: it is the smallest
//! time such that the history becomes linearizable when every operation is stretched
//! by half of it at both ends. 0 is linearizable; 5 ms is a client that read, 5 ms too
//! late, what had been replaced.
//!
//! ```text
//! w 1 |--|
//! w 2        |--|
//! r 2               |--|
//! r 1                      |--|        the write of 2 had finished before it was read,
//!            l₂     h₂     h₁          and 1 was read after that:
//!      l₁                              zones 1 = [l₁, h₁] and 2 = [l₂, h₂] overlap
//! ```
//!
//! # Zones
//!
//! Values are written once, so the operations on a register fall into clusters, a
//! write and the reads that show it. Of a cluster, l is the least finish and h the
//! greatest start. If l < h its zone is *forward*: throughout [l, h] the register must
//! have held this value. Else it is *backward*: some moment of [h, l] is enough. A
//! register is linearizable exactly if no two forward zones overlap, no backward zone
//! lies inside a forward one, and no read finishes before its write starts.
//!
//! How far two clusters are from that is χ:
//!
//! | of | χ |
//! | --- | --- |
//! | two forward zones | min(h₁ − l₂, h₂ − l₁) |
//! | forward F, backward B | min(h_B − l_F, h_F − l_B) |
//! | within one cluster | start of the write − finish of a read |
//!
//! The score of a value is its greatest positive χ, and Γ is the greatest score. Both
//! formulas for zones are the same, and the smaller side is the one of the zone with
//! the smaller l + h. So with zones sorted by l + h, a zone's greatest χ is found from
//! the greatest h before it and the least l behind it ([`zones`]): n log n a register.
//!
//! - The initial state was written before everything else.
//! - A write of unknown outcome finishes at infinity; unread, it constrains nothing. What
//!   an unknown or aborted transaction *read* is not used.
//! - Of a transaction with several operations, each is taken to have happened at some
//!   moment of the whole transaction: its writes, and of its reads of a register the
//!   first that stands before them. That is what concerns others.
//! - A read of what nobody wrote, or an aborted transaction, is no matter of time: it
//!   is [`Impossible`].
//!
//! Sources: Herlihy and Wing, "Linearizability", 1990; Gibbons and Korach, "Testing
//! Shared Memories", 1997 (zones, for values that are written once); Golab, Rahman,
//! AuYoung, Keeton and Gupta, "Client-Centric Benchmarking of Eventual Consistency for
//! Cloud Storage Systems", 2014 (Γ); Fan's thesis, §2.3.3 and ch. 5. The closed form of
//! χ is derived here, and held against the definition of Γ on thousands of small
//! random histories by the tests.

mod zones;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, Operation, Outcome, Register};
use crate::transactions::Unjudgeable;

pub use zones::Because;
use zones::{Cluster, Interval};

/// What was found of all registers of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many registers there are.
    pub keys: usize,
    /// How many operations were looked at.
    pub operations: usize,
    /// Γ in nanoseconds.
    pub gamma: u64,
    /// Every value with a positive score, in the order of their times.
    pub scores: Vec<Score>,
    /// Reads that no time explains.
    pub impossible: Vec<Impossible>,
}

/// How far one value is from being linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// The register.
    pub key: u64,
    /// The value.
    pub value: Register,
    /// Its greatest χ, in nanoseconds; positive.
    pub gamma: u64,
    /// About when that came to be, on the clock of the history.
    pub time: u64,
    /// With what it collides.
    pub because: Because,
}

/// A read of what was never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The register.
    pub key: u64,
    /// What was read.
    pub value: i64,
    /// By which transaction, by its place in the history.
    pub reader: usize,
    /// The aborted transaction that wrote it; `None`: nobody did.
    pub writer: Option<usize>,
}

impl Report {
    /// Whether every register is linearizable.
    #[must_use]
    pub fn is_linearizable(&self) -> bool {
        self.scores.is_empty() && self.impossible.is_empty()
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key, value, reader, ..
        } = self;
        write!(
            formatter,
            "T{reader} read {value} in register {key}, which "
        )?;
        match self.writer {
            Some(writer) => write!(formatter, "T{writer} wrote, and aborted"),
            None => write!(formatter, "nobody wrote"),
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |register| match register {
            Register::Absent => "the initial state".to_owned(),
            Register::Value(value) => value.to_string(),
        };
        let (key, value) = (self.key, state(self.value));
        match self.because {
            Because::ReadBeforeWrite => {
                write!(
                    formatter,
                    "register {key}: {value} was read before it was written"
                )
            }
            Because::Other(other) => {
                let other = state(other);
                write!(
                    formatter,
                    "register {key}: {value} and {other} each had to last beyond the other"
                )
            }
        }?;
        let (gamma, time) = (self.gamma, self.time);
        write!(formatter, ", by {gamma} ns, about {time} ns")
    }
}

/// Judges every register of a history.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let mut report = Report::default();
    for (key, register) in collect(history)? {
        report.keys += 1;
        let (clusters, operations) = register.clusters(history, key, &mut report.impossible);
        report.operations += operations;
        for (cluster, found) in clusters.iter().zip(zones::scores(&clusters)) {
            if let Some(found) = found {
                report.gamma = report.gamma.max(found.gamma);
                report.scores.push(Score {
                    key,
                    value: cluster.value,
                    gamma: found.gamma,
                    time: found.time,
                    because: found.because,
                });
            }
        }
    }
    report
        .scores
        .sort_by_key(|score| (score.time, score.key, score.value));
    Ok(report)
}

/// The operations on one register.
#[derive(Default)]
struct Operations {
    /// By value: whose, and when.
    writes: BTreeMap<i64, (usize, Interval)>,
    reads: Vec<(Register, usize, Interval)>,
}

fn collect(history: &History) -> Result<BTreeMap<u64, Operations>, Unjudgeable> {
    let mut registers: BTreeMap<u64, Operations> = BTreeMap::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        let interval = Interval::new(transaction.started, transaction.acknowledged_at());
        // What this transaction has written, and to which registers.
        let mut own: BTreeMap<u64, i64> = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Write { key, value } => {
                    let writes = &mut registers.entry(*key).or_default().writes;
                    if let Some((first, _)) = writes.insert(*value, (index, interval)) {
                        return Err(Unjudgeable::WrittenTwice {
                            key: *key,
                            value: *value,
                            by: [first, index],
                        });
                    }
                    own.insert(*key, *value);
                }
                Operation::Read {
                    key,
                    value: Some(value),
                } if transaction.is_committed() && !own.contains_key(key) && seen.insert(*key) => {
                    let reads = &mut registers.entry(*key).or_default().reads;
                    reads.push((*value, index, interval));
                }
                _ => {}
            }
        }
    }
    Ok(registers)
}

impl Operations {
    /// A cluster for each value that constrains anything, and how many operations that
    /// took.
    fn clusters(
        self,
        history: &History,
        key: u64,
        impossible: &mut Vec<Impossible>,
    ) -> (Vec<Cluster>, usize) {
        let mut clusters: BTreeMap<Register, Cluster> = BTreeMap::new();
        let initial = Cluster::new(Register::Absent, Interval::BEFORE_ALL);
        clusters.insert(Register::Absent, initial);
        let mut operations = self.reads.len();
        for (value, (writer, interval)) in &self.writes {
            if history.transactions[*writer].outcome != Outcome::Aborted {
                operations += 1;
                let value = Register::Value(*value);
                clusters.insert(value, Cluster::new(value, *interval));
            }
        }
        for (value, reader, interval) in &self.reads {
            match (clusters.get_mut(value), value) {
                (Some(cluster), _) => cluster.read(*interval),
                (None, Register::Absent) => {}
                (None, Register::Value(value)) => impossible.push(Impossible {
                    key,
                    value: *value,
                    reader: *reader,
                    writer: self.writes.get(value).map(|(writer, _)| *writer),
                }),
            }
        }
        let constrains = |cluster: &Cluster| cluster.constrains();
        (
            clusters.into_values().filter(constrains).collect(),
            operations,
        )
    }
}
