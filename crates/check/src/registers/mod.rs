//! The register judge: checks linearizability of each key, and measures Γ, the distance
//! from it.
//!
//! A register is *linearizable* if every operation can be assigned one moment between its
//! start and its finish so that, in the order of these moments, each read returns the last
//! write before it. Γ (gamma) measures by how much that fails: it is the smallest time such
//! that the history becomes linearizable when every operation is extended by half of it at
//! both ends. 0 means linearizable; 5 ms means, for example, that a client read a value 5
//! ms after it had been replaced.
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
//! Values are written once, so the operations on a register form clusters: a write and the
//! reads that return it. For a cluster, l is the least finish and h the greatest start. If
//! l < h its zone is *forward*: throughout [l, h] the register must have held this value.
//! Else it is *backward*: holding it at some moment of [h, l] is enough. A register is
//! linearizable exactly if no two forward zones overlap, no backward zone is inside a
//! forward one, and no read finishes before its write starts.
//!
//! χ measures how far two clusters violate that:
//!
//! | of | χ |
//! | --- | --- |
//! | two forward zones | min(h₁ − l₂, h₂ − l₁) |
//! | forward F, backward B | min(h_B − l_F, h_F − l_B) |
//! | within one cluster | start of the write − finish of a read |
//!
//! The score of a value is its greatest positive χ, and Γ is the greatest score. Both
//! formulas for zones are the same, and the smaller term is the one whose zone has the
//! smaller l + h. So with zones sorted by l + h, a zone's greatest χ is computed from the
//! greatest h before it and the least l after it ([`zones`]): n log n per register.
//!
//! - The initial state was written before everything else.
//! - A write of unknown outcome finishes at infinity; if unread, it constrains nothing. The
//!   judge ignores *reads* of unknown or aborted transactions.
//! - Each operation of a transaction is assumed to happen at some moment of the whole
//!   transaction. The judge uses all its writes, and its first read of a register if that
//!   precedes its writes: other clients can observe only these.
//! - A read of a value that no transaction wrote, or an aborted one, does not depend on
//!   time: it is [`Impossible`].
//!
//! Sources: Herlihy and Wing, "Linearizability", 1990; Gibbons and Korach, "Testing Shared
//! Memories", 1997 (zones, for values that are written once); Golab, Rahman, AuYoung,
//! Keeton and Gupta, "Client-Centric Benchmarking of Eventual Consistency for Cloud Storage
//! Systems", 2014 (Γ); Fan's thesis, §2.3.3 and ch. 5. The closed form of χ is derived
//! here; the tests compare it with the definition of Γ on thousands of small random
//! histories.

mod zones;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, Operation, Outcome, Register};
use crate::transactions::Unjudgeable;

pub use zones::Because;
use zones::{Cluster, Interval};

/// Result of the register judge for all registers of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of registers in the history.
    pub keys: usize,
    /// Number of operations that were checked.
    pub operations: usize,
    /// Γ of the history, in nanoseconds.
    pub gamma: u64,
    /// All values with a positive score, in the order of their times.
    pub scores: Vec<Score>,
    /// Reads of values that were never written, at whatever time.
    pub impossible: Vec<Impossible>,
}

/// Violation: how far one value is from being linearizable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// The key of the register.
    pub key: u64,
    /// The value, or the initial state.
    pub value: Register,
    /// The value's greatest χ, in nanoseconds; positive.
    pub gamma: u64,
    /// Approximate time of the violation, on the clock of the history.
    pub time: u64,
    /// The reason for the score.
    pub because: Because,
}

/// Violation: a read of a value that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The key of the register.
    pub key: u64,
    /// The value that was read.
    pub value: i64,
    /// The reading transaction, by its index in the history.
    pub reader: usize,
    /// The aborted transaction that wrote the value; `None` if no transaction did.
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
            None => write!(formatter, "no transaction wrote"),
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

/// Checks every register of a history.
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
    /// The writing transaction and its interval, by the value written.
    writes: BTreeMap<i64, (usize, Interval)>,
    reads: Vec<(Register, usize, Interval)>,
}

fn collect(history: &History) -> Result<BTreeMap<u64, Operations>, Unjudgeable> {
    let mut registers: BTreeMap<u64, Operations> = BTreeMap::new();
    for (index, transaction) in history.transactions.iter().enumerate() {
        let interval = Interval::new(transaction.started, transaction.acknowledged_at());
        // The values that this transaction has written, by register.
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
    /// The clusters of all values that constrain the order, and the number of operations in
    /// them.
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
