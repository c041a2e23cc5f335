//! Internal consistency: a transaction must see its own writes at once, and one state of
//! everything else.
//!
//! ```text
//! append 7, read [1 2]         internal: its own 7 is missing
//! read [1 7], append 7         future read: 7 was not appended yet
//! read [1], read [1 2]         non-repeatable: another transaction's 2 came between
//! read [1], append 7, read [1 2 7]   the same; read committed allows it
//! ```
//! Source: internal consistency is the axiom INT of Cerone, Bernardi and Gotsman, "A
//! Framework for Transactional Consistency Models with Atomic Visibility", 2015. The part
//! of it about other transactions' writes is reported separately here, because read
//! committed does not guarantee it.

use super::accesses::Access;
use super::anomaly::{Order, Phenomenon};
use super::findings::Findings;
use super::lists::shown;
use crate::history::{History, Operation, Register};

/// Checks one transaction's accesses to one list.
pub(super) fn list(history: &History, of_transaction: &[Access], findings: &mut Findings) {
    if of_transaction.len() < 2 {
        return;
    }
    let (key, by) = (of_transaction[0].key, of_transaction[0].transaction);
    let mut later: Vec<i64> = of_transaction
        .iter()
        .filter_map(|access| match access.operation(history) {
            Operation::Append { element, .. } => Some(*element),
            _ => None,
        })
        .collect();
    let appended = later.clone();
    let mut own = 0;
    // The last read, and the number of own appends before it.
    let mut known: Option<(&[i64], usize)> = None;
    for access in of_transaction {
        match access.operation(history) {
            Operation::Append { .. } => {
                own += 1;
                later.remove(0);
            }
            Operation::ReadList {
                elements: Some(elements),
                ..
            } => {
                let mut note = |phenomenon, problem: String| {
                    findings.add(phenomenon, Order::Values, || {
                        let step = format!("read list {key} as {}, {problem}", shown(elements));
                        vec![(by, step)]
                    });
                };
                if let Some(early) = elements.iter().find(|element| later.contains(element)) {
                    note(
                        Phenomenon::FutureRead,
                        format!("and appended {early} only later"),
                    );
                }
                if !elements.ends_with(&appended[..own]) {
                    let own = shown(&appended[..own]);
                    note(Phenomenon::Internal, format!("after it had appended {own}"));
                } else if let Some((before, then)) = known {
                    let since = &appended[then..own];
                    let is_same = elements.len() == before.len() + since.len()
                        && elements.starts_with(before)
                        && elements.ends_with(since);
                    if !is_same {
                        let before = shown(before);
                        note(
                            Phenomenon::NonRepeatableRead,
                            format!("after it had read it as {before}"),
                        );
                    }
                }
                known = Some((elements, own));
            }
            _ => {}
        }
    }
}

/// Checks one transaction's accesses to one register.
pub(super) fn register(history: &History, of_transaction: &[Access], findings: &mut Findings) {
    if of_transaction.len() < 2 {
        return;
    }
    let (key, by) = (of_transaction[0].key, of_transaction[0].transaction);
    let mut own = None;
    let mut known = None;
    for (place, access) in of_transaction.iter().enumerate() {
        match access.operation(history) {
            Operation::Write { value, .. } => {
                own = Some(*value);
                known = Some(Register::Value(*value));
            }
            Operation::Read {
                value: Some(read), ..
            } => {
                let mut note = |phenomenon, problem: String| {
                    findings.add(phenomenon, Order::Values, || {
                        let step = format!("read register {key} as {}, {problem}", state(*read));
                        vec![(by, step)]
                    });
                };
                let writes_later = |access: &Access| match access.operation(history) {
                    Operation::Write { value, .. } => Register::Value(*value) == *read,
                    _ => false,
                };
                if of_transaction[place..].iter().any(writes_later) {
                    note(
                        Phenomenon::FutureRead,
                        "and wrote that only later".to_owned(),
                    );
                } else if known.is_some_and(|known| known != *read) {
                    match own {
                        Some(own) => {
                            note(Phenomenon::Internal, format!("after it had written {own}"))
                        }
                        None => note(
                            Phenomenon::NonRepeatableRead,
                            "after it had read something else".to_owned(),
                        ),
                    }
                }
                known = Some(*read);
            }
            _ => {}
        }
    }
}

/// Describes a register's state.
pub(super) fn state(register: Register) -> String {
    match register {
        Register::Absent => "absent".to_owned(),
        Register::Value(value) => value.to_string(),
    }
}
