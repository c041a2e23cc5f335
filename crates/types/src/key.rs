//! Index keys: byte strings that compare as the column values encoded in them do.
//!
//! An index orders plain bytes and knows nothing of columns. The catalog defines each index
//! with a [`KeyExtractor`] that takes the key out of a row, so that the engine can maintain
//! and rebuild an index without knowing a schema.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use crate::row::RowRef;
use crate::{IndexId, StorageId};

/// Whether a key extracted from a row takes part in the check for duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtractedKey {
    /// The key equals another row's key when the bytes are equal.
    Comparable,
    /// The key holds a null, which equals nothing: the row is indexed, but never a
    /// duplicate.
    HoldsNull,
}

/// Extracts the key of a row for one index.
///
/// The engine calls it for rows that come from the database itself. The extractor must give
/// the same bytes for the same row for as long as the index lives, restarts included. No
/// key of an index may be a proper prefix of another: engines append a RID to keys that
/// several rows may share, and the order has to stay that of the keys.
pub trait KeyExtractor: fmt::Debug + Send + Sync {
    /// Appends the key of `row` to `key`.
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey;

    /// Whether the row has this key, or `None` if the extractor cannot decide that without
    /// building the row's key. A read by key calls this for every row that it returns.
    fn has_key(&self, row: RowRef<'_>, key: &[u8]) -> Option<bool> {
        let _ = (row, key);
        None
    }

    /// Returns true only if both rows certainly have the same key. False means unknown: the
    /// keys may still be equal, and the caller has to build both. An update that leaves the
    /// key unchanged calls this several times.
    fn is_surely_same(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let _ = (one, other);
        false
    }
}

/// The kind of an index: its guarantee about rows that share a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// One record per key, permanently: a row deleted and inserted again under its key is a
    /// new version of the same record. A storage has at most one primary index.
    Primary,
    /// No two live rows have the same key.
    Unique,
    /// Any number of rows may have the same key.
    Secondary,
}

/// Definition of an index, as far as the engine needs it.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// The index's identifier, never reused.
    pub id: IndexId,
    /// The index's guarantee about rows that share a key.
    pub kind: IndexKind,
    /// Extracts a row's key for this index.
    pub extractor: Arc<dyn KeyExtractor>,
}

/// Definition of a table's storage and its indexes, as far as the engine needs it.
#[derive(Clone, Debug)]
pub struct StorageDefinition {
    /// The storage's identifier, never reused.
    pub id: StorageId,
    /// The version of the table's schema that a writer's plan must have been made with.
    pub schema_version: u64,
    /// The indexes over this storage; at most one is [`IndexKind::Primary`].
    pub indexes: Vec<IndexDefinition>,
}

/// The smallest key greater than every key that starts with `prefix`, or `None` when no
/// such key exists (the prefix is empty or all `0xFF`).
#[must_use]
pub fn successor_of_prefix<Key>(prefix: &[u8]) -> Option<Key>
where
    Key: for<'bytes> From<&'bytes [u8]> + DerefMut<Target = [u8]>,
{
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut successor = Key::from(&prefix[..=last]);
    successor[last] += 1;
    Some(successor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_bounds_every_extension() {
        let successor = |prefix: &[u8]| successor_of_prefix::<Vec<u8>>(prefix);
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(successor(&[0xFF]), None);
        assert_eq!(successor(&[]), None);
    }
}
