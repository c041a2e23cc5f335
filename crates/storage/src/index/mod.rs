//! The ordered index: byte strings in order, each with a RID.
//!
//! Three uses, by the caller's convention:
//!
//! | index | entry | RID |
//! | --- | --- | --- |
//! | primary | the key | the record that has the key for ever |
//! | unique, secondary | the key, then the RID, 8 bytes big endian | the same RID |
//!
//! In the second form the same key may stand for several records: versions of
//! different rows may have it at different times. [`append_rid`] and [`split_rid`]
//! make and take apart such entries. The RID has a fixed length, but two keys may
//! differ in length: entries then compare as the keys do only if no key is a
//! prefix of another, which the key encoding provides for.
//!
//! Below is a B+tree whose readers lock nothing and write nothing ([`tree`]); what its
//! scans see of concurrent writes stands at the head of its `scan.rs`. Nothing outside
//! this folder knows of a node. Whoever uses an index is pinned in its domain, as he is
//! for the records that it leads to, and passes the guard.

pub mod tree;

use coeval_types::Rid;

/// An ordered map from byte strings to RIDs, shared between threads.
pub type OrderedIndex = tree::Tree;

/// Bytes of a RID at the end of an entry.
pub const RID_BYTES: usize = 8;

/// Turns a key into an entry of a unique or secondary index.
pub fn append_rid(key: &mut Vec<u8>, rid: Rid) {
    key.extend_from_slice(&rid.0.to_be_bytes());
}

/// Takes an entry of a unique or secondary index apart.
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
