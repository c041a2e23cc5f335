//! The recency judge: finds stale reads.
//!
//! Under strong snapshot isolation, a transaction sees every commit that was acknowledged
//! before it began, whichever client made it and on whatever replica the transaction reads.
//! This judge checks read-only transactions one by one:
//!
//! ```text
//! T0   append 5 to x      10 |------| 20
//! T1   read x: [3]                      25 |---| 30        misses T0
//! T2   read x: [3]                 18 |-----| 27           may miss T0: they overlap
//! ```
//!
//! [`transactions`](crate::transactions) finds the same violation as G-single-realtime,
//! among many others. This judge exists separately because recency is the first guarantee
//! expected of a replicated database, because it measures how stale a read was, and because
//! two independent ways to the same finding verify each other. [`sessions`] checks the
//! weaker guarantee that a client never goes back to a state older than what it has itself
//! seen or written.
//!
//! - A transaction is read-only if it was declared so, or if it only read.
//! - A read of a list must contain every acknowledged element, at any position; for a read
//!   of a register, there must be no acknowledged write that is known to be newer than the
//!   state it returned (`known`, `registers`). Reads of values that no commit wrote are
//!   left to the other judges.
//! - Of several commits that a read misses, the judge reports the one that was acknowledged
//!   first, which determines how stale the read was.
//! - The tests compare the judge with its definition, on thousands of small histories. Its
//!   running time is linear in the operations and in the elements that were read, plus n
//!   log n for sorting them.
//!
//! Source: Daudjee and Salem, "Lazy Database Replication with Snapshot Isolation",
//! VLDB 2006.

mod known;
mod registers;
pub mod sessions;

use std::fmt;

use crate::history::{History, Operation};
use crate::transactions::Unjudgeable;
use known::{Appends, Shown};
use registers::Registers;

/// Violation: an acknowledged commit that a later transaction did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The reading transaction, by its index in the history.
    pub reader: usize,
    /// The transaction that it should have seen; of several, the first acknowledged.
    pub writer: usize,
    /// The key of the object.
    pub key: u64,
    /// The value that the writer wrote or appended to the object.
    pub value: i64,
    /// Nanoseconds between the acknowledgement of the writer and the start of the reader.
    pub late_by: u64,
}

impl fmt::Display for Missed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reader,
            writer,
            key,
            value,
            late_by,
        } = self;
        write!(
            formatter,
            "T{reader} read key {key} without {value}, which T{writer} had committed {late_by} ns \
             before T{reader} started"
        )
    }
}

/// Result of the recency judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of reads of read-only transactions that were checked.
    pub reads: usize,
    /// The violations, at most one per read, in the order of the history.
    pub missed: Vec<Missed>,
}

/// Checks every read-only transaction.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let appends = Appends::new(history)?;
    let registers = Registers::new(history)?;
    let mut shown = Shown::default();
    let mut report = Report::default();
    for (reader, transaction) in history.transactions.iter().enumerate() {
        let only_reads = transaction.read_only || !transaction.writes();
        if !transaction.is_committed() || !only_reads {
            continue;
        }
        let moment = transaction.started;
        for operation in &transaction.operations {
            let missed = match operation {
                Operation::ReadList {
                    key,
                    elements: Some(elements),
                } => {
                    shown.set(elements);
                    let missed = appends.missing(*key, moment, &shown);
                    missed.map(|(at, write)| (at, write.transaction, write.value))
                }
                Operation::Read {
                    key,
                    value: Some(value),
                } => registers.find(*key, *value).and_then(|state| {
                    let (at, state) = registers.missing(state, moment)?;
                    let (writer, value) = registers.write(state)?;
                    Some((at, writer, value))
                }),
                _ => continue,
            };
            report.reads += 1;
            report
                .missed
                .extend(missed.map(|(at, writer, value)| Missed {
                    reader,
                    writer,
                    key: operation.key(),
                    value,
                    late_by: moment - at,
                }));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Format, read};

    fn lines(text: &str) -> History {
        read(text.as_bytes(), Format::JsonLines).unwrap()
    }

    fn missed(text: &str) -> Vec<(usize, usize, u64)> {
        let report = judge(&lines(text)).unwrap();
        let missed = report.missed.iter();
        missed
            .map(|one| (one.reader, one.writer, one.late_by))
            .collect()
    }

    const APPENDED: &str = r#"
{"process":0,"started":10,"finished":20,"outcome":"committed","operations":[["append",1,5]]}
{"process":1,"started":30,"finished":40,"outcome":"committed","operations":[["append",1,6]]}
"#;

    #[test]
    fn a_list_without_an_acknowledged_append_is_seen() {
        let with = |last: &str| format!("{APPENDED}{last}");
        let late = r#"{"process":2,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[5]]]}"#;
        assert_eq!(missed(&with(late)), [(2, 1, 10)]);
        let lost = r#"{"process":2,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[6]]]}"#;
        assert_eq!(missed(&with(lost)), [(2, 0, 30)]);
        let between = r#"{"process":2,"started":45,"finished":48,"outcome":"committed","operations":[["read_list",1,[5,6]]]}
{"process":3,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[6]]]}"#;
        assert_eq!(missed(&with(between)), [(3, 0, 30)], "others have seen it");
        let overlapping = r#"{"process":2,"started":40,"finished":60,"outcome":"committed","operations":[["read_list",1,[5]]]}"#;
        assert_eq!(missed(&with(overlapping)), []);
        let fresh = r#"{"process":2,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[5,6]]]}"#;
        assert_eq!(missed(&with(fresh)), []);
        let writer = r#"{"process":2,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[5]],["append",2,1]]}"#;
        assert_eq!(missed(&with(writer)), [], "it is not read only");
    }

    #[test]
    fn what_was_not_acknowledged_may_be_missed() {
        let text = r#"
{"process":0,"started":10,"outcome":"unknown","operations":[["append",1,5]]}
{"process":1,"started":10,"finished":12,"outcome":"aborted","operations":[["append",1,6]]}
{"process":2,"started":50,"finished":60,"outcome":"committed","operations":[["read_list",1,[]]]}"#;
        assert_eq!(missed(text), []);
    }

    const WRITTEN: &str = r#"
{"process":0,"started":10,"finished":20,"outcome":"committed","operations":[["write",1,5]]}
{"process":1,"started":30,"finished":40,"outcome":"committed","operations":[["write",1,6]]}
{"process":2,"started":32,"finished":44,"outcome":"committed","operations":[["read",1,6],["write",1,7]]}
"#;

    #[test]
    fn a_register_that_was_replaced_is_seen() {
        let with = |value: &str, start: u64| {
            missed(&format!(
                "{WRITTEN}{{\"process\":3,\"started\":{start},\"finished\":90,\"outcome\":\"committed\",\
                 \"operations\":[[\"read\",1,{value}]]}}"
            ))
        };
        // The writes of 6 and 7 overlap; that 7 replaced 6 is known from the read of T2.
        assert_eq!(with("6", 50), [(3, 2, 6)]);
        assert_eq!(with("5", 50), [(3, 1, 10)]);
        assert_eq!(with("5", 42), [(3, 1, 2)]);
        assert_eq!(with("null", 25), [(3, 0, 5)]);
        assert_eq!(with("7", 50), []);
        assert_eq!(with("6", 43), []);
        assert_eq!(with("null", 15), []);
    }

    #[test]
    fn what_replaced_an_unacknowledged_write_is_seen() {
        // 6 came after 5 in time, and 7 after 6, which T2 had read; but T2 had started
        // before 5 was acknowledged, and the time at which 6 took effect is unknown.
        let text = r#"
{"process":0,"started":10,"finished":20,"outcome":"committed","operations":[["write",1,5]]}
{"process":1,"started":30,"outcome":"unknown","operations":[["write",1,6]]}
{"process":2,"started":15,"finished":44,"outcome":"committed","operations":[["read",1,6],["write",1,7]]}
{"process":3,"started":50,"finished":60,"outcome":"committed","operations":[["read",1,5]]}
{"process":3,"started":70,"finished":80,"outcome":"committed","operations":[["read",1,7]]}"#;
        assert_eq!(missed(text), [(3, 2, 6)]);
    }
}
