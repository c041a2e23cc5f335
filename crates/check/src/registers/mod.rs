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
//! # Memory
//!
//! A zone is two numbers however many operations its cluster has, and none depends on the
//! order in which they come. So [`Judge`] takes the transactions of a history one by one,
//! in any order, and keeps a few numbers for each value and nothing for each operation.
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

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{History, Operation, Outcome, Register, Transaction};
use crate::transactions::Unjudgeable;

pub use zones::Because;
use zones::{Cluster, Interval};

/// Result of the register judge for all registers of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of registers in the history.
    pub keys: usize,
    /// Number of values that were written, aborted writes left out, and of initial states
    /// that were read.
    pub values: usize,
    /// Number of operations that were checked.
    pub operations: usize,
    /// Γ of the history, in nanoseconds.
    pub gamma: u64,
    /// All values with a positive score, in the order of their times.
    pub scores: Vec<Score>,
    /// Values that were read but never written, at whatever time.
    pub impossible: Vec<Impossible>,
    /// The least start and the greatest known time of the operations that were checked.
    pub span: Option<(u64, u64)>,
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
    /// Approximate time of the violation, on the clock of the history: the middle of
    /// `begins` and `ends`.
    pub time: u64,
    /// When it began: of a stale read, when the write of the newer value was first known to
    /// have taken effect.
    pub begins: u64,
    /// When it ended: of a stale read, when the last read that was stale started.
    pub ends: u64,
    /// The reason for the score.
    pub because: Because,
}

/// Violation: reads of a value that was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The key of the register.
    pub key: u64,
    /// The value that was read.
    pub value: i64,
    /// The first transaction that read it, by its index in the history.
    pub reader: usize,
    /// Number of transactions that read it.
    pub readers: usize,
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
        }?;
        match self.readers {
            0 | 1 => Ok(()),
            2 => write!(formatter, "; so did another"),
            readers => write!(formatter, "; so did {} others", readers - 1),
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
    let mut judge = Judge::default();
    for transaction in &history.transactions {
        judge.take(transaction)?;
    }
    Ok(judge.finish())
}

/// The register judge of a history that is read piece by piece.
#[derive(Debug, Default)]
pub struct Judge {
    registers: BTreeMap<u64, BTreeMap<Register, Value>>,
    /// Number of transactions taken, which is the index of the next.
    transactions: usize,
    /// Number of entries in `registers`, the initial states included.
    entries: usize,
    span: Option<(u64, u64)>,
}

/// What is known of one value: its write and the extremes of its reads.
#[derive(Clone, Copy, Debug, Default)]
struct Value {
    write: Option<Write>,
    reads: usize,
    /// The first transaction that read it, by its index.
    reader: usize,
    /// The least finish and the greatest start of its reads.
    read_finish: u64,
    read_start: u64,
}

#[derive(Clone, Copy, Debug)]
struct Write {
    /// The writing transaction, by its index.
    by: usize,
    started: u64,
    finished: Option<u64>,
    is_aborted: bool,
}

impl Judge {
    /// Takes the next transaction, in any order of time.
    ///
    /// # Errors
    /// When it writes a value that was written before.
    pub fn take(&mut self, transaction: &Transaction) -> Result<(), Unjudgeable> {
        let index = self.transactions;
        self.transactions += 1;
        let mut concerns = false;
        // The registers that this transaction has written, and those it has read.
        let mut own = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for operation in &transaction.operations {
            match operation {
                Operation::Write { key, value } => {
                    let write = Write {
                        by: index,
                        started: transaction.started,
                        finished: transaction.acknowledged_at(),
                        is_aborted: transaction.outcome == Outcome::Aborted,
                    };
                    let its = self.value(*key, Register::Value(*value));
                    if let Some(first) = its.write.replace(write) {
                        return Err(Unjudgeable::WrittenTwice {
                            key: *key,
                            value: *value,
                            by: [first.by, index],
                        });
                    }
                    own.insert(*key);
                    concerns = true;
                }
                Operation::Read {
                    key,
                    value: Some(value),
                } if !own.contains(key) => {
                    let Some(finished) = transaction.acknowledged_at() else {
                        continue;
                    };
                    if seen.insert(*key) {
                        self.value(*key, *value)
                            .read(index, transaction.started, finished);
                        concerns = true;
                    }
                }
                _ => {}
            }
        }
        if concerns {
            let last = transaction.finished.unwrap_or(transaction.started);
            let (from, to) = self.span.unwrap_or((transaction.started, last));
            self.span = Some((from.min(transaction.started), to.max(last)));
        }
        Ok(())
    }

    /// Number of values that it keeps, each in about two hundred bytes.
    #[must_use]
    pub fn values(&self) -> usize {
        self.entries
    }

    /// The judgement on everything that was taken.
    #[must_use]
    pub fn finish(self) -> Report {
        let mut report = Report {
            span: self.span,
            ..Report::default()
        };
        for (key, values) in self.registers {
            report.keys += 1;
            let clusters = clusters(key, values, &mut report);
            for (cluster, found) in clusters.iter().zip(zones::scores(&clusters)) {
                if let Some(found) = found {
                    report.gamma = report.gamma.max(found.gamma);
                    report.scores.push(Score {
                        key,
                        value: cluster.value,
                        gamma: found.gamma,
                        time: found.time,
                        begins: found.begins,
                        ends: found.ends,
                        because: found.because,
                    });
                }
            }
        }
        report
            .scores
            .sort_by_key(|score| (score.time, score.key, score.value));
        report
    }

    fn value(&mut self, key: u64, value: Register) -> &mut Value {
        let values = self.registers.entry(key).or_default();
        let entries = &mut self.entries;
        values.entry(value).or_insert_with(|| {
            *entries += 1;
            Value::default()
        })
    }
}

impl Value {
    fn read(&mut self, by: usize, started: u64, finished: u64) {
        if self.reads == 0 {
            (self.reader, self.read_finish, self.read_start) = (by, finished, started);
        }
        self.reads += 1;
        self.read_finish = self.read_finish.min(finished);
        self.read_start = self.read_start.max(started);
    }
}

/// The clusters of all values of a register that constrain the order. Counts values and
/// operations, and notes what was never written.
fn clusters(key: u64, values: BTreeMap<Register, Value>, report: &mut Report) -> Vec<Cluster> {
    let mut clusters = Vec::new();
    if !values.contains_key(&Register::Absent) {
        clusters.push(Cluster::new(Register::Absent, Interval::BEFORE_ALL));
    }
    for (value, its) in values {
        report.operations += its.reads;
        let written = its.write.filter(|write| !write.is_aborted);
        let interval = match (value, written) {
            (Register::Absent, _) => {
                report.values += 1;
                Interval::BEFORE_ALL
            }
            (_, Some(write)) => {
                report.values += 1;
                report.operations += 1;
                Interval::new(write.started, write.finished)
            }
            (Register::Value(value), None) => {
                if its.reads > 0 {
                    report.impossible.push(Impossible {
                        key,
                        value,
                        reader: its.reader,
                        readers: its.reads,
                        writer: its.write.map(|write| write.by),
                    });
                }
                continue;
            }
        };
        let mut cluster = Cluster::new(value, interval);
        if its.reads > 0 {
            cluster.read(its.read_start, its.read_finish);
        }
        clusters.push(cluster);
    }
    clusters.retain(Cluster::constrains);
    clusters
}
