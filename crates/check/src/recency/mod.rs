//! The judge of recency: nobody reads the past.
//!
//! Under strong snapshot isolation, a transaction sees every commit that was
//! acknowledged before it began, whoever made it and on whatever replica it reads. This
//! judge looks at read-only transactions one by one:
//!
//! ```text
//! T0   append 5 to x      10 |------| 20
//! T1   read x: [3]                      25 |---| 30        misses T0
//! T2   read x: [3]                 18 |-----| 27           may miss T0: they overlap
//! ```
//!
//! [`transactions`](crate::transactions) finds the same as G-single-realtime, among
//! much else. This judge is told apart because it is the first promise of a database
//! with replicas, because it says by how much a read was late, and because two ways to
//! the same finding keep each other honest. [`sessions`] asks the weaker question:
//! whether a client ever went back behind what it had itself seen or done.
//!
//! - Read-only is who was declared so, and who only read.
//! - Only what is certainly missed counts: of registers, the order of versions has to
//!   be known (`known`). A read that no commit explains is left to the other judges.
//!
//! Source: Daudjee and Salem, "Lazy Database Replication with Snapshot Isolation",
//! VLDB 2006.

mod known;
pub mod sessions;

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{History, Operation, Register};
use crate::transactions::Unjudgeable;
use known::{Known, Object, Write};

/// A commit that a later transaction did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The reader, by its place in the history.
    pub reader: usize,
    /// The transaction it should have seen.
    pub writer: usize,
    /// The object.
    pub key: u64,
    /// What the writer wrote or appended there.
    pub value: i64,
    /// How long before the reader's start it had been acknowledged, in nanoseconds.
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

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many reads of read-only transactions were looked at.
    pub reads: usize,
    /// At most one for each read, in the order of the history.
    pub missed: Vec<Missed>,
}

/// The acknowledged writes of one object, in the order of acknowledgement, each with
/// the furthest so far.
#[derive(Default)]
struct Acknowledged {
    /// When, and then: how far (the place in a list, the start of a write), who, what.
    steps: Vec<(u64, u64, usize, i64)>,
}

impl Acknowledged {
    /// The furthest of those before a moment.
    fn furthest_before(&self, moment: u64) -> Option<(u64, usize, i64)> {
        let count = self.steps.partition_point(|(at, ..)| *at < moment);
        let (_, far, writer, value) = self.steps.get(count.checked_sub(1)?)?;
        Some((*far, *writer, *value))
    }
}

/// Judges every read-only transaction.
///
/// # Errors
/// When a value was written twice.
pub fn judge(history: &History) -> Result<Report, Unjudgeable> {
    let known = Known::new(history)?;
    let acknowledged = acknowledged(&known);
    let replaced = known.replaced();
    let mut report = Report::default();
    for (reader, transaction) in history.transactions.iter().enumerate() {
        let only_reads = transaction.read_only || !transaction.writes();
        if !transaction.is_committed() || !only_reads {
            continue;
        }
        for operation in &transaction.operations {
            let furthest = |object: Object| {
                let object = acknowledged.get(&object)?;
                object.furthest_before(transaction.started)
            };
            let missed = match operation {
                Operation::ReadList {
                    key,
                    elements: Some(elements),
                } => {
                    report.reads += 1;
                    let furthest = furthest(Object::List(*key));
                    furthest
                        .filter(|(_, _, element)| !known.shows(*key, elements, *element))
                        .map(|(_, writer, element)| (writer, element))
                }
                Operation::Read {
                    key,
                    value: Some(value),
                } => {
                    report.reads += 1;
                    let newest = furthest(Object::Register(*key));
                    let newest = newest.filter(|(_, _, newest)| {
                        known.is_older(*key, *value, Register::Value(*newest))
                    });
                    let replaced = || {
                        let write = replaced.get(&(*key, *value))?;
                        let at = known.of(write).acknowledged_at()?;
                        (at < transaction.started)
                            .then(|| (write.transaction, written(&known, *key, write)))
                    };
                    newest
                        .map(|(_, writer, value)| (writer, value))
                        .or_else(replaced)
                }
                _ => continue,
            };
            if let Some((writer, value)) = missed {
                let at = history.transactions[writer].acknowledged_at();
                report.missed.push(Missed {
                    reader,
                    writer,
                    key: operation.key(),
                    value,
                    late_by: transaction.started - at.unwrap_or(transaction.started),
                });
            }
        }
    }
    Ok(report)
}

/// What a transaction wrote to a register in the end.
fn written(known: &Known<'_>, key: u64, write: &Write) -> i64 {
    let operations = known.of(write).operations.iter().rev();
    let values = operations.filter_map(|operation| match operation {
        Operation::Write { key: other, value } if *other == key => Some(*value),
        _ => None,
    });
    values.into_iter().next().unwrap_or_default()
}

fn acknowledged(known: &Known<'_>) -> BTreeMap<Object, Acknowledged> {
    let mut objects: BTreeMap<Object, Acknowledged> = BTreeMap::new();
    for ((key, value), write) in &known.appends {
        if let Some(at) = known.of(write).acknowledged_at() {
            // As far as there are places.
            let place = u64::try_from(known.place(*key, *value)).unwrap_or(u64::MAX);
            let object = objects.entry(Object::List(*key)).or_default();
            object.steps.push((at, place, write.transaction, *value));
        }
    }
    for ((key, value), write) in &known.writes {
        if let Some(at) = known.of(write).acknowledged_at() {
            let start = known.of(write).started;
            let object = objects.entry(Object::Register(*key)).or_default();
            object.steps.push((at, start, write.transaction, *value));
        }
    }
    for object in objects.values_mut() {
        object.steps.sort_unstable();
        let mut furthest: Option<(u64, usize, i64)> = None;
        for (_, far, writer, value) in &mut object.steps {
            match furthest {
                Some(known) if known.0 > *far => (*far, *writer, *value) = known,
                _ => furthest = Some((*far, *writer, *value)),
            }
        }
    }
    objects
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
        // The writes of 6 and 7 overlap; that 7 replaced 6 is known by its read.
        assert_eq!(with("6", 50), [(3, 2, 6)]);
        assert_eq!(with("5", 50), [(3, 2, 6)]);
        assert_eq!(with("5", 42), [(3, 1, 2)]);
        assert_eq!(with("null", 25), [(3, 0, 5)]);
        assert_eq!(with("7", 50), []);
        assert_eq!(with("6", 43), []);
        assert_eq!(with("null", 15), []);
    }
}
