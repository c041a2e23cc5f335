//! The resolution of orphans: transactions whose front end is gone, kept whole or dropped whole,
//! by counting (§3.5.3 of the text, at run time as well as after a loss of power).
//!
//! ```text
//!   7.0.1, a transaction of 3 keys
//!     node 1 has a, b      node 2 has a (a copy), c     a, b, c: whole. Node 3, which holds a
//!                                                       copy of c and lacks it, gets it
//!   7.1.1, of 2 keys
//!     node 1 has d         node 2 has d (a copy)        one of two: dropped everywhere
//! ```
//!
//! Different keys are counted, not messages and not copies; and only in epochs that are not
//! closed. A back end that has started again may not know that an epoch is closed, and still
//! shows its part of transactions of which the others have nothing to show any more.
//!
//! The decision is written nowhere but
//! in the logs of the back ends, with the closing record. That is enough: it takes effect when
//! all of them have written it. If the manager is lost before, its successor counts again, over
//! the same pieces or over fewer: what was dropped at one back end is never whole again, and what
//! was kept and is still whole is kept again.

use std::collections::BTreeMap;
use std::sync::Arc;

use coeval_council::NodeId;
use coeval_types::planted;

use super::close::Resolutions;
use crate::configuration::Configuration;
use crate::message::Piece;
use crate::operation::{Key, Operation, Write};
use crate::timestamp::{Epoch, EpochTimestamp};

/// What all back ends together have of one orphan.
#[derive(Debug, Default)]
struct Orphan {
    size: u32,
    operations: BTreeMap<Key, Operation>,
    /// Operations with their copies: not what counts.
    copies: u32,
}

/// Decides all orphans, and says what each back end is to do.
pub(super) fn resolve(
    configuration: &Configuration,
    closed: Epoch,
    collected: &BTreeMap<NodeId, Vec<Piece>>,
) -> Resolutions {
    let mut orphans: BTreeMap<EpochTimestamp, Orphan> = BTreeMap::new();
    let pieces = collected.values().flatten();
    for piece in pieces.filter(|piece| piece.at.epoch() > closed) {
        let orphan = orphans.entry(piece.at).or_default();
        orphan.size = piece.size;
        orphan.copies += piece.writes.len() as u32;
        for write in piece.writes.iter() {
            let operations = &mut orphan.operations;
            operations.insert(write.key.clone(), write.operation.clone());
        }
    }
    let mut resolutions = Resolutions::new();
    for node in configuration.back_ends.keys() {
        let resolution = resolutions.entry(*node).or_default();
        for (&at, orphan) in &orphans {
            let count = match planted!(CountEveryCopy) {
                true => orphan.copies,
                false => orphan.operations.len() as u32,
            };
            if count < orphan.size {
                resolution.dropped.push(at);
                continue;
            }
            let hosted = orphan.operations.iter().filter(|(key, _)| {
                let partition = configuration.partition_of(key);
                configuration.takes(*node, partition, at.epoch())
            });
            let writes = hosted.map(|(key, operation)| Write {
                key: key.clone(),
                operation: operation.clone(),
            });
            let writes: Vec<Write> = writes.collect();
            if !writes.is_empty() {
                resolution.kept.push(Piece {
                    at,
                    size: orphan.size,
                    writes: Arc::new(writes),
                });
            }
        }
    }
    resolutions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::FrontEndId;

    /// Two keys of different partitions, of which nodes 1 and 2 each hold both.
    #[test]
    fn keys_are_counted_and_copies_are_not() {
        let configuration = Configuration {
            partitions: vec![vec![NodeId(1), NodeId(2)]; 2],
            back_ends: [(NodeId(1), 1), (NodeId(2), 1)].into(),
            ..Configuration::default()
        };
        let at = |counter| EpochTimestamp::new(Epoch(7), counter, FrontEndId(1));
        let piece = |counter, keys: &[&'static str]| Piece {
            at: at(counter),
            size: 2,
            writes: Arc::new(
                keys.iter()
                    .map(|key| Write {
                        key: Key::from_static(key.as_bytes()),
                        operation: Operation::Delete,
                    })
                    .collect(),
            ),
        };
        let collected = BTreeMap::from([
            (NodeId(1), vec![piece(0, &["a"]), piece(1, &["a"])]),
            (NodeId(2), vec![piece(0, &["b"]), piece(1, &["a"])]),
        ]);
        let resolutions = resolve(&configuration, Epoch(6), &collected);
        for node in [NodeId(1), NodeId(2)] {
            let resolution = &resolutions[&node];
            assert_eq!(resolution.kept, [piece(0, &["a", "b"])]);
            assert_eq!(resolution.dropped, [at(1)]);
        }
    }
}
