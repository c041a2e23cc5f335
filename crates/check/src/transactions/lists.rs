//! Lists: reads show the order of versions directly.
//!
//! An append is one step of the database, so a list only grows at its end, and every state
//! of it is a prefix of every later one. The longest read of a list is then its history:
//!
//! ```text
//! T4 read [1 2 4]      the versions are [], [1], [1 2], [1 2 4], in this order;
//! T2 read [1 2]        a reader of [1 2] read it after 2 and before 4
//! T7 appended 9        no transaction saw 9, so 9 came after 4: had it come before,
//!                      T4 would have seen it
//! ```
//!
//! That last inference finds acknowledged appends that are lost.
//!
//! A read that is not a prefix of the longest, or contains an element twice, is an anomaly
//! by itself and is not used further. Elements that an aborted transaction or none appended
//! keep their position in the order; dependencies skip them.
//!
//! Source: Elle, §4.2 (traceability of lists).

use super::Unjudgeable;
use super::accesses::{Access, CollectionKind, Written, accesses, find, written};
use super::anomaly::{Order, Phenomenon};
use super::findings::Findings;
use super::inside;
use super::versions::{NOBODY, Version, Versions};
use crate::history::{History, Operation, Outcome, Register};

/// A read of a list before its transaction appended to it.
struct Read<'history> {
    transaction: u32,
    elements: &'history [i64],
    /// Whether this is the last read before the transaction's own first append.
    before_append: bool,
}

/// Infers the versions of all lists. Adds the anomalies other than cycles to `findings`.
pub(super) fn versions(
    history: &History,
    takes_part: &[bool],
    findings: &mut Findings,
) -> Result<Versions, Unjudgeable> {
    let all = accesses(history, takes_part, CollectionKind::List);
    let mut versions = Versions::default();
    let mut appended = Vec::new();
    for of_key in all.chunk_by(|a, b| a.key == b.key) {
        written(history, of_key, &mut appended)?;
        let mut reads = Vec::new();
        let mut anywhere = Vec::new();
        for of_transaction in of_key.chunk_by(|a, b| a.transaction == b.transaction) {
            collect(history, of_transaction, &mut reads, &mut anywhere);
            inside::list(history, of_transaction, findings);
        }
        let list = List {
            history,
            key: of_key[0].key,
            appended: &appended,
        };
        list.infer(takes_part, &reads, &anywhere, &mut versions, findings);
    }
    versions.seal();
    Ok(versions)
}

/// Collects a transaction's reads of a list: those before its own appends, and all reads
/// with their readers.
fn collect<'history>(
    history: &'history History,
    of_transaction: &[Access],
    reads: &mut Vec<Read<'history>>,
    anywhere: &mut Vec<(u32, &'history [i64])>,
) {
    let first = reads.len();
    let mut has_appended = false;
    for access in of_transaction {
        match access.operation(history) {
            Operation::Append { .. } => {
                if !has_appended
                    && let Some(read) = reads.get_mut(first..).and_then(<[_]>::last_mut)
                {
                    read.before_append = true;
                }
                has_appended = true;
            }
            Operation::ReadList {
                elements: Some(elements),
                ..
            } => {
                anywhere.push((access.transaction, elements));
                if !has_appended {
                    reads.push(Read {
                        transaction: access.transaction,
                        elements,
                        before_append: false,
                    });
                }
            }
            _ => {}
        }
    }
}

/// One list, with its appends.
struct List<'run> {
    history: &'run History,
    key: u64,
    appended: &'run [Written],
}

impl List<'_> {
    fn infer(
        &self,
        takes_part: &[bool],
        reads: &[Read<'_>],
        anywhere: &[(u32, &[i64])],
        versions: &mut Versions,
        findings: &mut Findings,
    ) {
        let (longest_by, order) = longest(anywhere);
        let writers: Vec<Option<&Written>> = order
            .iter()
            .map(|element| find(self.appended, *element))
            .collect();
        let is_aborted = |write: &Written| {
            self.history.transactions[write.transaction as usize].outcome == Outcome::Aborted
        };
        let first_aborted = writers
            .iter()
            .position(|writer| writer.is_none_or(is_aborted))
            .unwrap_or(usize::MAX);
        for (reader, elements) in anywhere {
            if !order.starts_with(elements) {
                self.off(*reader, elements, longest_by, order, findings);
            } else if elements.len() > first_aborted {
                self.unsound(*reader, elements, findings);
            }
        }
        self.dirty_updates(&writers, is_aborted, findings);

        // Version 0 is the empty list, version n the one that ends with element n.
        let empty = versions.add(self.key, Register::Absent, NOBODY);
        for (element, writer) in order.iter().zip(&writers) {
            let writer = writer.filter(|write| takes_part[write.transaction as usize]);
            let writer = writer.map_or(NOBODY, |write| write.transaction);
            versions.add(self.key, Register::Value(*element), writer);
        }
        let last = empty + u32::try_from(order.len()).expect("as many as 32 bits number");
        let mut next = None;
        for version in (empty..=last).rev() {
            if let Some(next) = next {
                versions.order(version, next, false);
            }
            if versions.writer(version) != NOBODY {
                next = Some(version);
            }
        }
        let mut seen: Vec<i64> = order.to_vec();
        seen.sort_unstable();
        for write in self.appended {
            if takes_part[write.transaction as usize] && seen.binary_search(&write.value).is_err() {
                let unseen =
                    versions.add(self.key, Register::Value(write.value), write.transaction);
                // The order of unseen elements among each other is unknown.
                let mut before = last;
                while versions.writer(before) == NOBODY && before > empty {
                    versions.order(before, unseen, false);
                    before -= 1;
                }
                versions.order(before, unseen, false);
            }
        }
        let mut updates = Vec::new();
        for read in reads.iter().filter(|read| order.starts_with(read.elements)) {
            let length = u32::try_from(read.elements.len()).expect("no longer than the order");
            let version = empty + length;
            versions.read(version, read.transaction);
            if read.before_append {
                updates.push((version, read.transaction));
            }
            let writer = read
                .elements
                .len()
                .checked_sub(1)
                .and_then(|last| writers[last]);
            if let Some(write) = writer
                && !write.is_last
                && !is_aborted(write)
                && write.transaction != read.transaction
            {
                findings.add(Phenomenon::G1b, Order::Values, || {
                    let saw = format!("read list {} up to that element", self.key);
                    vec![
                        (
                            write.transaction,
                            format!(
                                "appended {} to list {}, and more to it later",
                                write.value, self.key
                            ),
                        ),
                        (read.transaction, saw),
                    ]
                });
            }
        }
        lost_updates(versions, updates, "list", findings);
    }

    /// Reports a read that is not a prefix of the longest.
    fn off(
        &self,
        reader: u32,
        elements: &[i64],
        longest_by: u32,
        order: &[i64],
        findings: &mut Findings,
    ) {
        if let Some(twice) = duplicate(elements) {
            findings.add(Phenomenon::DuplicateElements, Order::Values, || {
                let step = format!(
                    "read {twice} twice in list {}: {}",
                    self.key,
                    shown(elements)
                );
                vec![(reader, step)]
            });
        } else {
            findings.add(Phenomenon::IncompatibleOrder, Order::Values, || {
                let read = |elements| format!("read list {} as {}", self.key, shown(elements));
                vec![(longest_by, read(order)), (reader, read(elements))]
            });
        }
        self.unsound(reader, elements, findings);
    }

    /// Reports elements that no committed transaction appended.
    fn unsound(&self, reader: u32, elements: &[i64], findings: &mut Findings) {
        for element in elements {
            let key = self.key;
            match find(self.appended, *element) {
                None => findings.add(Phenomenon::GarbageRead, Order::Values, || {
                    let step =
                        format!("read {element} in list {key}, which no transaction appended");
                    vec![(reader, step)]
                }),
                Some(write) => {
                    let writer = write.transaction;
                    let outcome = self.history.transactions[writer as usize].outcome;
                    if outcome == Outcome::Aborted {
                        findings.add(Phenomenon::G1a, Order::Values, || {
                            vec![
                                (
                                    writer,
                                    format!("appended {element} to list {key}, and aborted"),
                                ),
                                (reader, "read it".to_owned()),
                            ]
                        });
                    }
                }
            }
        }
    }

    fn dirty_updates(
        &self,
        writers: &[Option<&Written>],
        is_aborted: impl Fn(&Written) -> bool,
        findings: &mut Findings,
    ) {
        let mut committed: Option<&Written> = None;
        for writer in writers.iter().rev().flatten() {
            if !is_aborted(writer) {
                committed = Some(writer);
            } else if let Some(on_top) = committed {
                findings.add(Phenomenon::DirtyUpdate, Order::Values, || {
                    let appended =
                        |write: &Written| format!("appended {} to list {}", write.value, self.key);
                    vec![
                        (
                            writer.transaction,
                            format!("{}, and aborted", appended(writer)),
                        ),
                        (
                            on_top.transaction,
                            format!("{} behind it", appended(on_top)),
                        ),
                    ]
                });
            }
        }
    }
}

/// The longest read without duplicate elements, and its reader.
fn longest<'history>(reads: &[(u32, &'history [i64])]) -> (u32, &'history [i64]) {
    let mut best: (u32, &[i64]) = (NOBODY, &[]);
    for (reader, elements) in reads {
        let is_longer = best.0 == NOBODY || elements.len() > best.1.len();
        // A longer read is checked as a whole even if it extends one without duplicates: it
        // may repeat elements.
        if is_longer && duplicate(elements).is_none() {
            best = (*reader, elements);
        }
    }
    best
}

/// An element that occurs twice.
fn duplicate(elements: &[i64]) -> Option<i64> {
    if elements.is_sorted_by(|a, b| a < b) {
        return None;
    }
    let mut sorted = elements.to_vec();
    sorted.sort_unstable();
    sorted
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
}

/// Reports transactions that read the same version and replaced it.
pub(super) fn lost_updates(
    versions: &Versions,
    mut updates: Vec<(Version, u32)>,
    kind: &str,
    findings: &mut Findings,
) {
    updates.sort_unstable();
    updates.dedup();
    for of_version in updates.chunk_by(|a, b| a.0 == b.0) {
        if of_version.len() > 1 {
            let version = of_version[0].0;
            findings.add(Phenomenon::LostUpdate, Order::Values, || {
                let key = versions.key(version);
                let read = match versions.label(version) {
                    Register::Absent => format!("found {kind} {key} in its first state"),
                    Register::Value(value) if kind == "list" => {
                        format!("read list {key} up to {value}")
                    }
                    Register::Value(value) => format!("read {value} in {kind} {key}"),
                };
                let step = format!("{read}, and wrote to it");
                let updaters = of_version.iter().take(20);
                updaters
                    .map(|(_, updater)| (*updater, step.clone()))
                    .collect()
            });
        }
    }
}

/// Formats a list, shortened if it is long.
pub(super) fn shown(elements: &[i64]) -> String {
    let words = |part: &[i64]| {
        part.iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    if elements.len() <= 12 {
        format!("[{}]", words(elements))
    } else {
        let last = &elements[elements.len() - 6..];
        format!("[{} … {}]", words(&elements[..5]), words(last))
    }
}
