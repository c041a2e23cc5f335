//! The decoder's reader: decodes numbers, positions and entries, and refuses bytes that a
//! [`Writer`](super::Writer) would not write.

use bytes::Bytes;
use coeval_types::{DirectoryId, Lsn, Term};

use super::{DecodeError, content};
use crate::entry::{Content, Entry};
use crate::membership::{FIRST_VERSION, Membership};
use crate::position::{NodeId, Position};

/// The input, and the offset up to which it has been read.
pub(super) struct Reader<'bytes> {
    bytes: &'bytes Bytes,
    at: usize,
}

impl<'bytes> Reader<'bytes> {
    pub(super) const fn new(bytes: &'bytes Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) const fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { at: self.at, what }
    }

    /// Checks that the whole input has been read.
    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.error("more bytes than belong to it"))
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or(self.error("an early end"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return Err(self.error("a number past 64 bits"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(self.error("a number in more bytes than it needs"));
                }
                return Ok(value);
            }
        }
        Err(self.error("a number past 64 bits"))
    }

    fn limited(&mut self, limit: u64, what: &'static str) -> Result<u64, DecodeError> {
        let number = self.number()?;
        if number > limit {
            return Err(self.error(what));
        }
        Ok(number)
    }

    pub(super) fn term(&mut self) -> Result<Term, DecodeError> {
        self.term_above(Term(0))
    }

    /// Reads a term, encoded as the difference to `before`.
    pub(super) fn term_above(&mut self, before: Term) -> Result<Term, DecodeError> {
        let limit = u64::from(Term::MAX.0 - before.0);
        let above = self.limited(limit, "a term past the limit")?;
        Ok(Term(before.0 + above as u32))
    }

    pub(super) fn place(&mut self) -> Result<Lsn, DecodeError> {
        self.limited(Lsn::LIMIT.0, "a place past the last").map(Lsn)
    }

    pub(super) fn position(&mut self) -> Result<Position, DecodeError> {
        let term = self.term()?;
        let end = self.place()?;
        Ok(Position { term, end })
    }

    pub(super) fn flags<const COUNT: usize>(&mut self) -> Result<[bool; COUNT], DecodeError> {
        let byte = self.byte()?;
        if u32::from(byte) >= 1 << COUNT {
            return Err(self.error("an unknown flag"));
        }
        Ok(std::array::from_fn(|index| byte & 1 << index != 0))
    }

    fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let length = self.number()?;
        if length > (self.bytes.len() - self.at) as u64 {
            return Err(self.error("a payload longer than what is there"));
        }
        let start = self.at;
        self.at += length as usize;
        Ok(self.bytes.slice(start..self.at))
    }

    pub(super) fn membership(&mut self) -> Result<Membership, DecodeError> {
        let voters = self.nodes()?;
        let learners = self.nodes()?;
        let is_both = learners
            .iter()
            .any(|learner| voters.binary_search(learner).is_ok());
        if is_both {
            return Err(self.error("a node that is voter and learner"));
        }
        Ok(Membership::new(voters, learners))
    }

    /// Whether the whole input has been read.
    pub(super) const fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads the version of a membership, and the directories that it names.
    pub(super) fn version(&mut self, members: Membership) -> Result<Membership, DecodeError> {
        let version = self.limited(u32::MAX.into(), "a cluster version past the limit")? as u32;
        if version <= FIRST_VERSION {
            return Err(self.error("a cluster version that is not written"));
        }
        let mut directories: Vec<(NodeId, DirectoryId)> = Vec::new();
        for _ in 0..self.number()? {
            let above = self.number()?;
            let node = match directories.last() {
                Some(_) if above == 0 => None,
                Some((before, _)) => before.0.checked_add(above),
                None => Some(above),
            };
            let node = NodeId(node.ok_or(self.error("directories out of order"))?);
            let mut id = [0; 16];
            for byte in &mut id {
                *byte = self.byte()?;
            }
            if !members.is_member(node) {
                return Err(self.error("a directory of a node that is no member"));
            }
            directories.push((node, DirectoryId(u128::from_le_bytes(id))));
        }
        Ok(members.at_version(version, directories))
    }

    fn nodes(&mut self) -> Result<Vec<NodeId>, DecodeError> {
        let mut nodes: Vec<NodeId> = Vec::new();
        for _ in 0..self.number()? {
            let above = self.number()?;
            let node = match nodes.last() {
                Some(_) if above == 0 => None,
                Some(before) => before.0.checked_add(above),
                None => Some(above),
            };
            nodes.push(NodeId(node.ok_or(self.error("members out of order"))?));
        }
        Ok(nodes)
    }

    /// Reads an entry with this start and term.
    pub(super) fn entry(&mut self, start: Lsn, term: Term) -> Result<Entry, DecodeError> {
        let limit = Lsn::LIMIT.0 - start.0;
        let space = self.limited(limit, "an entry past the last place")?;
        if space == 0 {
            return Err(self.error("an entry that takes no place"));
        }
        let content = match self.byte()? {
            content::PAYLOAD => Content::Payload(self.bytes()?),
            content::MARK => Content::Mark(self.membership()?),
            content::MEMBERSHIP => Content::Membership(self.membership()?),
            content::MARK_OF_VERSION => {
                let members = self.membership()?;
                Content::Mark(self.version(members)?)
            }
            content::MEMBERSHIP_OF_VERSION => {
                let members = self.membership()?;
                Content::Membership(self.version(members)?)
            }
            _ => return Err(self.error("an entry of an unknown kind")),
        };
        Ok(Entry {
            start,
            end: Lsn(start.0 + space),
            term,
            content,
        })
    }
}
