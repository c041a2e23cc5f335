//! Keys: byte strings that compare as the values in them do.
//!
//! An index orders plain bytes and knows nothing of columns. Whoever defines the
//! index hands in a [`KeyExtractor`] that takes the key out of a row, so that the
//! engine can maintain and rebuild an index without knowing a schema.

use std::fmt;
use std::ops::DerefMut;
use std::sync::Arc;

use crate::row::RowRef;
use crate::{IndexId, StorageId};

/// How a key takes part in uniqueness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtractedKey {
    /// Equal to another row's key when the bytes are equal.
    Comparable,
    /// Holds a null, which equals nothing: indexed, but never a duplicate.
    HoldsNull,
}

/// Takes a row's key for one index.
///
/// Called for rows that come from the database itself. Must give the same bytes
/// for the same row for as long as the index lives, restarts included. No key of
/// an index may be a proper prefix of another: engines append a RID to keys that
/// several rows may share, and the order has to stay that of the keys.
pub trait KeyExtractor: fmt::Debug + Send + Sync {
    /// Appends the key of `row` to `key`.
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey;

    /// Whether the row has this key, if that can be told without making its key: a read by
    /// key asks for every row that it shows.
    fn has_key(&self, row: RowRef<'_>, key: &[u8]) -> Option<bool> {
        let _ = (row, key);
        None
    }

    /// Whether both rows have the same key, as far as can be told without making their
    /// keys: when this is false they may have it all the same. An update that leaves the
    /// key alone asks several times.
    fn is_surely_same(&self, one: RowRef<'_>, other: RowRef<'_>) -> bool {
        let _ = (one, other);
        false
    }
}

/// What an index promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// One record a key for ever: a row deleted and inserted again under its key
    /// is a new version of the same record. At most one for a storage.
    Primary,
    /// No two live rows with one key.
    Unique,
    /// Any number of rows with one key.
    Secondary,
}

/// An index, as the engine needs to know it.
#[derive(Clone, Debug)]
pub struct IndexDefinition {
    /// Its number, never used twice.
    pub id: IndexId,
    /// What it promises.
    pub kind: IndexKind,
    /// How to take a row's key.
    pub extractor: Arc<dyn KeyExtractor>,
}

/// A table's records and indexes, as the engine needs to know them.
#[derive(Clone, Debug)]
pub struct StorageDefinition {
    /// Its number, never used twice.
    pub id: StorageId,
    /// Which version of the table's schema writers must have planned with.
    pub schema_version: u64,
    /// Its indexes; at most one is [`IndexKind::Primary`].
    pub indexes: Vec<IndexDefinition>,
}

/// The smallest key greater than every key that starts with `prefix`, or `None`
/// when there is no such key (the prefix is all `0xFF`, or empty).
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
