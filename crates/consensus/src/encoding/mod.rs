//! Bytes.

use crate::membership::Membership;
use crate::varint;

/// How many bytes a membership takes.
pub(crate) fn membership_bytes(membership: &Membership) -> u64 {
    let numbers = membership.members().map(|node| varint::bytes(node.0));
    varint::bytes(membership.voters().len() as u64)
        + varint::bytes(membership.learners().len() as u64)
        + numbers.sum::<u64>()
}
