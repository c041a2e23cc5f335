//! Transactions of reads and writes by key, as list-append and registers have them.

use crate::chance::Chance;
use crate::workload::Nature;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write something new: append an element, or set a value.
    Write(u64),
    /// Read.
    Read(u64),
}

/// Between one and `most` operations on keys that `key` draws. Of four transactions one
/// only reads; of the others' operations, half do.
pub(super) fn draw(chance: &mut Chance, most: u64, key: impl Fn(&mut Chance) -> u64) -> Vec<Step> {
    let count = chance.within(1..most + 1);
    let read_only = chance.once_in(4);
    let step = |_| {
        let key = key(chance);
        if read_only || chance.once_in(2) {
            Step::Read(key)
        } else {
            Step::Write(key)
        }
    };
    (0..count).map(step).collect()
}

/// The second kind of request only reads.
pub(super) fn nature(request: &[Step]) -> Nature {
    let read_only = request.iter().all(|step| matches!(step, Step::Read(_)));
    Nature {
        kind: usize::from(read_only),
        read_only,
        single: read_only && request.len() == 1,
    }
}
