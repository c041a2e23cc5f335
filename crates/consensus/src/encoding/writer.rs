//! The encoder's writer: encodes numbers, positions and memberships.

use bytes::{BufMut, Bytes, BytesMut};
use coeval_types::{Lsn, Term};

use crate::membership::Membership;
use crate::position::{NodeId, Position};

/// The output buffer.
pub(super) struct Writer(BytesMut);

impl Writer {
    pub(super) fn new() -> Self {
        Self(BytesMut::new())
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.freeze()
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.put_u8(byte);
    }

    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    pub(super) fn term(&mut self, term: Term) {
        self.number(term.0.into());
    }

    pub(super) fn place(&mut self, place: Lsn) {
        self.number(place.0);
    }

    pub(super) fn position(&mut self, position: Position) {
        self.term(position.term);
        self.place(position.end);
    }

    /// Writes at most eight flags into one byte, the first in the lowest bit.
    pub(super) fn flags(&mut self, flags: &[bool]) {
        let bits = flags.iter().rev();
        self.byte(bits.fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.put_slice(bytes);
    }

    pub(super) fn membership(&mut self, membership: &Membership) {
        self.nodes(membership.voters());
        self.nodes(membership.learners());
    }

    /// Writes the version of a membership, and the directories that it names.
    pub(super) fn version(&mut self, membership: &Membership) {
        self.number(membership.version().into());
        self.number(membership.directories().len() as u64);
        let mut before = 0;
        for (node, id) in membership.directories() {
            self.number(node.0 - before);
            before = node.0;
            self.0.put_u128_le(id.0);
        }
    }

    fn nodes(&mut self, nodes: impl ExactSizeIterator<Item = NodeId>) {
        self.number(nodes.len() as u64);
        let mut before = 0;
        for node in nodes {
            self.number(node.0 - before);
            before = node.0;
        }
    }
}
