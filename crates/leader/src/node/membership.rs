//! Who takes part, as bytes in marks and messages.
//!
//! How many voters, how many learners, then their ids in order; numbers of seven bits a
//! byte, the lowest first. As many bytes as consensus reckons for it.

use bytes::{Buf, BufMut, BytesMut};
use coeval_consensus::{Membership, NodeId};

fn put(bytes: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        bytes.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.put_u8(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        let bits = u64::from(byte & 0x7F);
        value |= bits
            .checked_shl(shift)
            .filter(|shifted| shifted >> shift == bits)?;
        if byte < 0x80 {
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

pub(super) fn encode(membership: &Membership) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    put(&mut bytes, membership.voters().len() as u64);
    put(&mut bytes, membership.learners().len() as u64);
    for node in membership.members() {
        put(&mut bytes, node.0);
    }
    bytes.to_vec()
}

pub(super) fn decode(mut bytes: &[u8]) -> Option<Membership> {
    let (voters, learners) = (take(&mut bytes)?, take(&mut bytes)?);
    // Each takes a byte at least.
    if voters.checked_add(learners)? > bytes.len() as u64 {
        return None;
    }
    let mut nodes = |count: u64| (0..count).map(|_| take(&mut bytes).map(NodeId)).collect();
    let voters: Option<Vec<NodeId>> = nodes(voters);
    let learners: Option<Vec<NodeId>> = nodes(learners);
    let membership = Membership::new(voters?, learners?);
    bytes.is_empty().then_some(membership)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_membership_comes_back_and_nothing_else_is_taken_for_one() {
        let nodes = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
        for (voters, learners) in [
            (nodes(&[]), nodes(&[])),
            (nodes(&[1, 2, 3]), nodes(&[])),
            (nodes(&[1, 127, 128, u64::MAX]), nodes(&[0, 9])),
        ] {
            let membership = Membership::new(voters, learners);
            let bytes = encode(&membership);
            assert_eq!(decode(&bytes), Some(membership));
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), None, "cut at {end}");
            }
        }
        for wrong in [
            &[1, 0, 0x80, 0][..],
            &[0, 0, 0],
            &[255; 12],
            &[0x7F, 0x7F, 1],
        ] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
