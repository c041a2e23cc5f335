//! The ordered index: a concurrent map from byte strings to RIDs, in key order.
//!
//! The caller chooses between two forms of entries:
//!
//! | index | entry | RID |
//! | --- | --- | --- |
//! | primary | the key | the record that permanently has the key |
//! | unique, secondary | the key, then the RID, 8 bytes big endian | the same RID |
//!
//! In the second form several records may have the same key: versions of different rows may
//! have it at different times. [`append_rid`] and [`split_rid`] encode and decode such
//! entries. The RID has a fixed length, but keys may differ in length: entries then compare
//! as the keys do only if no key is a prefix of another, which the key encoding guarantees.
//! prefix of another, which the key encoding provides for.
//!
//! The implementation is a B+tree whose readers take no locks and write nothing ([`tree`]);
//! its `scan.rs` documents what scans see of concurrent writes. No code outside this folder
//! knows of nodes. A caller of the index is pinned in its domain, as it is for the records
//! that the index leads to, and passes its guard.

pub mod tree;

use coeval_types::Rid;

/// An ordered map from byte strings to RIDs, shared between threads.
pub type OrderedIndex = tree::Tree;

/// Number of bytes of the RID at the end of an entry.
pub const RID_BYTES: usize = 8;

/// Appends a RID to a key, which makes it an entry of a unique or secondary index.
pub fn append_rid(key: &mut Vec<u8>, rid: Rid) {
    key.extend_from_slice(&rid.0.to_be_bytes());
}

/// Splits an entry of a unique or secondary index into its key and its RID.
///
/// # Panics
/// When the entry is shorter than a RID, so was not made by [`append_rid`].
#[must_use]
pub fn split_rid(entry: &[u8]) -> (&[u8], Rid) {
    let (key, rid) = entry.split_at(entry.len() - RID_BYTES);
    (
        key,
        Rid(u64::from_be_bytes(rid.try_into().expect("eight bytes"))),
    )
}
