//! Random transactions of reads and writes by key, for the list-append and register
//! workloads.

use crate::chance::Chance;
use crate::workload::Nature;

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOperation {
    /// A write of a new value to this key: appends an element, or sets a register.
    Write(u64),
    /// A read of this key.
    Read(u64),
}

/// Draws between one and `most` operations on random keys from `key`. One of four
/// transactions is read-only; in the others, half of the operations are reads.
pub(super) fn draw(
    chance: &mut Chance,
    most: u64,
    key: impl Fn(&mut Chance) -> u64,
) -> Vec<KeyOperation> {
    let count = chance.within(1..most + 1);
    let read_only = chance.once_in(4);
    let step = |_| {
        let key = key(chance);
        if read_only || chance.once_in(2) {
            KeyOperation::Read(key)
        } else {
            KeyOperation::Write(key)
        }
    };
    (0..count).map(step).collect()
}

/// Kind 1 is the read-only transactions, kind 0 the others.
pub(super) fn nature(request: &[KeyOperation]) -> Nature {
    let read_only = request
        .iter()
        .all(|step| matches!(step, KeyOperation::Read(_)));
    Nature {
        kind: usize::from(read_only),
        read_only,
        single: read_only && request.len() == 1,
    }
}
