//! Explanations of anomalies in words.

use std::fmt::Write;

use super::anomaly::Anomaly;
use super::graph::edge;
use super::inside::state;
use super::lists::shown;
use super::versions::{Between, Versions};
use crate::history::{History, Operation, Outcome, Register, Transaction};

/// Explains how an edge of this kind leads from one transaction to another. The versions of
/// lists come before those of registers.
pub(super) fn step(
    history: &History,
    versions: [&Versions; 2],
    from: u32,
    to: u32,
    says: u8,
) -> String {
    let [before, after] = [from, to].map(|index| &history.transactions[index as usize]);
    if says & edge::REALTIME != 0 {
        let gap = before
            .finished
            .map_or(0, |finished| after.started.saturating_sub(finished));
        return format!(
            "rt: T{from} had finished {} before T{to} started",
            duration(gap)
        );
    }
    if says & edge::PROCESS != 0 {
        let process = before.process;
        return format!("process: T{from} came before T{to} in process {process}");
    }
    let kind = says & (edge::WW | edge::WR | edge::RW);
    let by_order = if says & edge::BY_ORDER == 0 {
        ""
    } else {
        " (by the order of the transactions that accessed it)"
    };
    for (versions, is_list) in versions.into_iter().zip([true, false]) {
        if let Some(between) = versions.between(from, to, kind) {
            let words = if is_list { in_list } else { in_register };
            return format!("{}{by_order}", words(from, to, kind, between));
        }
    }
    // Not reached: every edge was made from these versions.
    format!("T{from} came before T{to}")
}

fn in_list(from: u32, to: u32, kind: u8, between: Between) -> String {
    let key = between.key;
    let [was, next] = [state(between.from), state(between.to)];
    match kind {
        edge::WR => format!("wr: T{from} appended {was} to list {key}, and T{to} read it"),
        edge::WW => {
            format!("ww: T{from} appended {was} to list {key}, and T{to} appended {next} behind it")
        }
        _ if between.from == Register::Absent => {
            format!("rw: T{from} read list {key} empty, and T{to} appended {next}")
        }
        _ => format!(
            "rw: T{from} read list {key} up to {was}, and T{to} appended {next} behind that"
        ),
    }
}

fn in_register(from: u32, to: u32, kind: u8, between: Between) -> String {
    let key = between.key;
    let [was, next] = [state(between.from), state(between.to)];
    match kind {
        edge::WR => format!("wr: T{from} wrote {was} to register {key}, and T{to} read it"),
        edge::WW => {
            format!("ww: T{from} wrote {was} to register {key}, and T{to} replaced it by {next}")
        }
        _ => format!("rw: T{from} read register {key} as {was}, and T{to} replaced that by {next}"),
    }
}

/// Explains an anomaly, in several lines.
#[must_use]
pub fn story(history: &History, anomaly: &Anomaly) -> String {
    let mut text = format!("{}: {}\n", anomaly.name(), anomaly.phenomenon.meaning());
    let mut told = Vec::new();
    for index in &anomaly.transactions {
        // A long walk may visit a transaction a second time.
        if told.contains(index) {
            continue;
        }
        told.push(*index);
        let transaction = &history.transactions[*index];
        let _ = writeln!(text, "  {}", title(*index, transaction));
        let _ = writeln!(text, "      {}", operations(transaction, 12));
    }
    for (place, step) in anomaly.steps.iter().enumerate() {
        let number = place + 1;
        if anomaly.is_cycle {
            let _ = writeln!(text, "  {number}. {step}");
        } else {
            let index = anomaly.transactions[place];
            let _ = writeln!(text, "  {number}. T{index} {step}");
        }
    }
    if anomaly.is_cycle {
        let first = anomaly.transactions[0];
        let _ = writeln!(text, "  So T{first} would have to come before itself.");
    }
    text
}

/// Describes a transaction: its index in the history, its process, its times.
pub(super) fn title(index: usize, transaction: &Transaction) -> String {
    let outcome = match transaction.outcome {
        Outcome::Committed => "committed",
        Outcome::Aborted => "aborted",
        Outcome::Unknown => "never heard of, and committed",
    };
    let finished = transaction
        .finished
        .map_or_else(|| "?".to_owned(), |finished| finished.to_string());
    let read_only = if transaction.read_only {
        ", read only"
    } else {
        ""
    };
    format!(
        "T{index}: process {}, {} to {finished} ns, {outcome}{read_only}",
        transaction.process, transaction.started
    )
}

/// Describes at most `most` operations of a transaction.
pub(super) fn operations(transaction: &Transaction, most: usize) -> String {
    let mut words: Vec<String> = transaction
        .operations
        .iter()
        .take(most)
        .map(operation)
        .collect();
    let rest = transaction.operations.len().saturating_sub(most);
    if rest > 0 {
        words.push(format!("and {rest} more"));
    }
    words.join(", ")
}

/// Describes one operation.
pub(super) fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Append { key, element } => format!("append {element} to list {key}"),
        Operation::ReadList {
            key,
            elements: Some(elements),
        } => format!("read list {key}: {}", shown(elements)),
        Operation::ReadList { key, .. } => format!("read list {key}: not learnt"),
        Operation::Write { key, value } => format!("write {value} to register {key}"),
        Operation::Read { key, value } => format!(
            "read register {key}: {}",
            value.map_or_else(|| "not learnt".to_owned(), state)
        ),
    }
}

/// Formats nanoseconds in a readable unit.
pub(crate) fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{}.{} µs", nanoseconds / 1_000, nanoseconds % 1_000 / 100),
        1_000_000..1_000_000_000 => {
            let micros = nanoseconds / 1_000;
            format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)
        }
        _ => {
            let millis = nanoseconds / 1_000_000;
            format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
        }
    }
}
