//! Binary encoding of the session handover state, and its decoder.
//!
//! ```text
//!   piece      version (u8, 1), then records
//!   record     kind (u8), then by its kind:
//!     1 set        name text, value text
//!     2 reset      name text
//!     3 acts as    session role, current role
//!     4 statement  name text, text text, within (u8, 0 or 1),
//!                  parameters: count (u32), each type (u32),
//!                  columns: 0 (u8) or 1 (u8) and their fingerprint (u64)
//!     5 forget     name text
//!     6 forget all statements but the unnamed one
//!     7 login      the role's number (u32), superuser (u8, 0 or 1)
//!     8 committed  the session's newest commit (u64, as a timestamp's bits)
//!     9 block      the time it began (i64, microseconds since 2000 UTC), for how long it has
//!                  had a time limit (u64, microseconds), its modes, of which 0 (u8) is none:
//!                  isolation 1 read committed, 2 snapshot isolation, 3 serializable;
//!                  1 read write, 2 read only; 1 not deferrable, 2 deferrable;
//!                  whether it has read (u8, 0 or 1)
//!    10 mark       a number of the client's node (u64), before a message to the leader
//!    11 marked     such a number (u64), and a commit that was made after it had come (u64)
//!    12 pinned     u8: 0 no, 1 nothing is read on the client's node, 2 and the session ends with
//!                  its leader
//!    13 sequence   its OID (u32), the last number that the session was given (i64), whether it
//!                  is the sequence of the last nextval (u8, 0 or 1)
//!    14 forget all sequences
//!   role       0 (u8) or 1 (u8), number (u32), name text
//!   text       length in bytes (u32), UTF-8
//! ```
//!
//! Numbers are little-endian. A piece holds whole records and can be decoded on its own.
//! Kind 7 is for reads on the client's node, kind 8 for those and for the session's next
//! leader; they are written from cluster version 3 on. A piece goes from the node of a client
//! to the leader, and kind 9 is written, from cluster version 4 on; kind 10 from version 5 on, and
//! kind 11 to a node that has written that; kind 12 from version 6 on. Kinds 13 and 14 are written
//! of sessions that have used a sequence, which there are from version 7 on. A record that cannot
//! be decoded makes its piece [`Malformed`], and the decoder allocates no more than the piece
//! holds.

use std::fmt;

use coeval_txn::Isolation;
use coeval_types::Timestamp;

use super::{ActsAs, CarriedBlock, HandoverRole, HandoverStatement, Pinned};
use crate::sequence::Used;
use crate::session::Login;
use crate::statement::Modes;

const VERSION: u8 = 1;

const SET: u8 = 1;
const RESET: u8 = 2;
const ACTS_AS: u8 = 3;
const STATEMENT: u8 = 4;
const FORGET: u8 = 5;
const FORGET_ALL: u8 = 6;
const LOGIN: u8 = 7;
const COMMITTED: u8 = 8;
const BLOCK: u8 = 9;
const MARK: u8 = 10;
const MARKED: u8 = 11;
const PINNED: u8 = 12;
const SEQUENCE: u8 = 13;
const FORGET_SEQUENCES: u8 = 14;

/// The isolation levels, by their number less 1.
const LEVELS: [Isolation; 3] = [
    Isolation::ReadCommitted,
    Isolation::SnapshotIsolation,
    Isolation::Serializable,
];

/// Maximum size of a record, in bytes. A larger setting or statement is not handed over.
pub const MAX_RECORD: usize = 1 << 20;

/// Maximum size of a piece, in bytes.
pub const MAX_PIECE: usize = 1 + 2 * MAX_RECORD;

/// Error for bytes that are not a valid piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset of the error from the beginning of the piece, in bytes.
    at: usize,
    what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, what } = self;
        write!(
            formatter,
            "the state that a session carries makes no sense at byte {at}: {what}"
        )
    }
}

impl std::error::Error for Malformed {}

/// One change of the session's state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'piece> {
    Set {
        name: &'piece str,
        value: &'piece str,
    },
    Reset {
        name: &'piece str,
    },
    ActsAs(ActsAs),
    Statement {
        name: &'piece str,
        statement: HandoverStatement,
    },
    Forget {
        name: &'piece str,
    },
    ForgetAll,
    Login(Login),
    Committed(Timestamp),
    Block(CarriedBlock),
    Mark(u64),
    Marked {
        mark: u64,
        commit: Timestamp,
    },
    Pinned(Pinned),
    Sequence(Used),
    ForgetSequences,
}

/// Memory that a sequence takes, in bytes.
pub(super) const SEQUENCE_BYTES: usize = 40;

/// Memory a setting or a statement takes in addition to its text, in bytes.
const ENTRY: usize = 100;

/// Memory a text takes, in bytes.
const fn text_size(text: &str) -> usize {
    4 + text.len()
}

impl Record<'_> {
    /// Approximate memory the record takes once applied, in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Set { name, value } => ENTRY + text_size(name) + text_size(value),
            Self::ActsAs(acts) => acts.size(),
            Self::Statement { name, statement } => statement.size(name),
            Self::Sequence(_) => SEQUENCE_BYTES,
            Self::ForgetSequences
            | Self::Reset { .. }
            | Self::Forget { .. }
            | Self::ForgetAll
            | Self::Login(_)
            | Self::Committed(_)
            | Self::Block(_)
            | Self::Mark(_)
            | Self::Marked { .. }
            | Self::Pinned(_) => 0,
        }
    }
}

impl ActsAs {
    /// Approximate memory the roles take, in bytes; 0 if none was named.
    pub(super) fn size(&self) -> usize {
        let size = |role: &Option<HandoverRole>| {
            let role = role.as_ref();
            1 + role.map_or(0, |role| 4 + text_size(&role.name))
        };
        if *self == Self::default() {
            return 0;
        }
        1 + size(&self.session) + size(&self.current)
    }
}

impl HandoverStatement {
    /// Approximate memory the statement takes under its name, in bytes.
    pub(super) fn size(&self, name: &str) -> usize {
        ENTRY + text_size(name) + text_size(&self.text) + 4 * self.parameters.len()
    }
}

/// Encoder that writes records into pieces.
#[derive(Debug, Default)]
pub(super) struct Writer {
    full: Vec<Vec<u8>>,
    piece: Vec<u8>,
    record: Vec<u8>,
}

impl Writer {
    /// Writes a setting. A setting that is too large is written as reset.
    pub(super) fn setting(&mut self, name: &str, value: &str) {
        self.record.push(SET);
        self.text(name);
        self.text(value);
        if !self.end() {
            self.reset(name);
        }
    }

    pub(super) fn reset(&mut self, name: &str) {
        self.record.push(RESET);
        self.text(name);
        self.end();
    }

    pub(super) fn acts_as(&mut self, acts: &ActsAs) {
        self.record.push(ACTS_AS);
        for role in [&acts.session, &acts.current] {
            match role {
                None => self.record.push(0),
                Some(role) => {
                    self.record.push(1);
                    self.number(role.number);
                    self.text(&role.name);
                }
            }
        }
        self.end();
    }

    /// Writes the statement of this name, or that it does not exist or cannot be handed
    /// over.
    pub(super) fn statement(&mut self, name: &str, statement: Option<&HandoverStatement>) {
        if let Some(statement) = statement {
            self.record.push(STATEMENT);
            self.text(name);
            self.text(&statement.text);
            self.record.push(u8::from(statement.within));
            self.number(u32::try_from(statement.parameters.len()).unwrap_or(u32::MAX));
            for &parameter in &statement.parameters {
                self.number(parameter);
            }
            match statement.columns {
                None => self.record.push(0),
                Some(columns) => {
                    self.record.push(1);
                    self.record.extend_from_slice(&columns.to_le_bytes());
                }
            }
            if self.end() {
                return;
            }
        }
        self.record.push(FORGET);
        self.text(name);
        self.end();
    }

    pub(super) fn forget_all(&mut self) {
        self.record.push(FORGET_ALL);
        self.end();
    }

    pub(super) fn login(&mut self, login: Login) {
        self.record.push(LOGIN);
        self.number(login.role);
        self.record.push(u8::from(login.superuser));
        self.end();
    }

    pub(super) fn committed(&mut self, commit: Timestamp) {
        self.record.push(COMMITTED);
        self.record
            .extend_from_slice(&commit.to_bits().to_le_bytes());
        self.end();
    }

    pub(super) fn sequence(&mut self, used: Used) {
        self.record.push(SEQUENCE);
        self.number(used.sequence);
        self.record.extend_from_slice(&used.number.to_le_bytes());
        self.record.push(u8::from(used.is_last));
        self.end();
    }

    pub(super) fn forget_sequences(&mut self) {
        self.record.push(FORGET_SEQUENCES);
        self.end();
    }

    pub(super) fn mark(&mut self, mark: u64) {
        self.record.push(MARK);
        self.record.extend_from_slice(&mark.to_le_bytes());
        self.end();
    }

    pub(super) fn marked(&mut self, mark: u64, commit: Timestamp) {
        self.record.push(MARKED);
        self.record.extend_from_slice(&mark.to_le_bytes());
        self.record
            .extend_from_slice(&commit.to_bits().to_le_bytes());
        self.end();
    }

    pub(super) fn pinned(&mut self, pinned: Pinned) {
        self.record.push(PINNED);
        self.record.push(pinned as u8);
        self.end();
    }

    pub(super) fn block(&mut self, block: &CarriedBlock) {
        self.record.push(BLOCK);
        self.record.extend_from_slice(&block.began.to_le_bytes());
        self.record.extend_from_slice(&block.ran.to_le_bytes());
        let modes = &block.modes;
        let level = modes.isolation.and_then(|level| {
            let position = LEVELS.iter().position(|each| *each == level);
            Some(position? as u8 + 1)
        });
        let switch = |on: Option<bool>| on.map_or(0, |on| u8::from(on) + 1);
        self.record.push(level.unwrap_or(0));
        self.record.push(switch(modes.read_only));
        self.record.push(switch(modes.deferrable));
        self.record.push(u8::from(block.has_read));
        self.end();
    }

    fn number(&mut self, number: u32) {
        self.record.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        // A longer text makes the record too large anyway.
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        if text.len() <= MAX_RECORD {
            self.record.extend_from_slice(text.as_bytes());
        } else {
            self.record.resize(self.record.len() + MAX_RECORD + 1, 0);
        }
    }

    /// Ends a record. Returns false when it was too large and was left out.
    fn end(&mut self) -> bool {
        let fits = self.record.len() <= MAX_RECORD;
        if fits {
            if self.piece.len() + self.record.len() > MAX_PIECE {
                self.full.push(std::mem::take(&mut self.piece));
            }
            if self.piece.is_empty() {
                self.piece.push(VERSION);
            }
            self.piece.extend_from_slice(&self.record);
        }
        self.record.clear();
        fits
    }

    pub(super) fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.piece.is_empty() {
            self.full.push(self.piece);
        }
        self.full
    }
}

/// Decodes a piece record by record, up to the first malformed one.
pub(super) fn records(
    piece: &[u8],
) -> Result<impl Iterator<Item = Result<Record<'_>, Malformed>>, Malformed> {
    let mut reader = Reader {
        whole: piece.len(),
        rest: piece,
    };
    if reader.byte()? != VERSION {
        return Err(Malformed {
            at: 0,
            what: "it is written in a way that this version does not know",
        });
    }
    let mut broken = false;
    Ok(std::iter::from_fn(move || {
        if broken || reader.rest.is_empty() {
            return None;
        }
        let record = reader.record();
        broken = record.is_err();
        Some(record)
    }))
}

struct Reader<'piece> {
    whole: usize,
    rest: &'piece [u8],
}

impl<'piece> Reader<'piece> {
    fn wrong(&self, what: &'static str) -> Malformed {
        Malformed {
            at: self.whole - self.rest.len(),
            what,
        }
    }

    fn take(&mut self, length: usize) -> Result<&'piece [u8], Malformed> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.wrong("it ends too early")),
        }
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], Malformed> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.wrong("it ends too early")),
        }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.rest.first() {
            Some(0 | 1) => Ok(self.byte()? == 1),
            Some(_) => Err(self.wrong("neither yes nor no")),
            None => Err(self.wrong("it ends too early")),
        }
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<&'piece str, Malformed> {
        let length = self.number()? as usize;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.wrong("a text that is not UTF-8"))
    }

    fn role(&mut self) -> Result<Option<HandoverRole>, Malformed> {
        if !self.flag()? {
            return Ok(None);
        }
        Ok(Some(HandoverRole {
            number: self.number()?,
            name: self.text()?.to_owned(),
        }))
    }

    fn statement(&mut self) -> Result<HandoverStatement, Malformed> {
        Ok(HandoverStatement {
            text: self.text()?.to_owned(),
            within: self.flag()?,
            parameters: {
                let count = self.number()? as usize;
                let bytes = self.take(count.saturating_mul(4))?;
                let numbers = bytes.chunks_exact(4);
                numbers
                    .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
                    .collect()
            },
            columns: if self.flag()? {
                Some(self.long()?)
            } else {
                None
            },
        })
    }

    /// A number from 0 to `most`.
    fn choice(&mut self, most: u8) -> Result<u8, Malformed> {
        match self.rest.first() {
            Some(choice) if *choice > most => Err(self.wrong("a mode that there is not")),
            _ => self.byte(),
        }
    }

    fn switch(&mut self) -> Result<Option<bool>, Malformed> {
        Ok(match self.choice(2)? {
            0 => None,
            on => Some(on == 2),
        })
    }

    fn block(&mut self) -> Result<CarriedBlock, Malformed> {
        Ok(CarriedBlock {
            began: i64::from_le_bytes(self.array()?),
            ran: self.long()?,
            modes: Modes {
                isolation: match self.choice(LEVELS.len() as u8)? {
                    0 => None,
                    level => Some(LEVELS[usize::from(level) - 1]),
                },
                // A block that moves is shown as what it is.
                uncommitted: false,
                read_only: self.switch()?,
                deferrable: self.switch()?,
            },
            has_read: self.flag()?,
        })
    }

    fn record(&mut self) -> Result<Record<'piece>, Malformed> {
        let unknown = self.wrong("a record of a kind that there is not");
        let large = self.wrong("a record that is larger than any");
        let before = self.rest.len();
        let record = match self.byte()? {
            SET => Record::Set {
                name: self.text()?,
                value: self.text()?,
            },
            RESET => Record::Reset { name: self.text()? },
            ACTS_AS => Record::ActsAs(ActsAs {
                session: self.role()?,
                current: self.role()?,
            }),
            STATEMENT => Record::Statement {
                name: self.text()?,
                statement: self.statement()?,
            },
            FORGET => Record::Forget { name: self.text()? },
            FORGET_ALL => Record::ForgetAll,
            LOGIN => Record::Login(Login {
                role: self.number()?,
                superuser: self.flag()?,
            }),
            COMMITTED => Record::Committed(Timestamp::from_bits(self.long()?)),
            BLOCK => Record::Block(self.block()?),
            SEQUENCE => Record::Sequence(Used {
                sequence: self.number()?,
                number: i64::from_le_bytes(self.array()?),
                is_last: self.flag()?,
            }),
            FORGET_SEQUENCES => Record::ForgetSequences,
            MARK => Record::Mark(self.long()?),
            MARKED => Record::Marked {
                mark: self.long()?,
                commit: Timestamp::from_bits(self.long()?),
            },
            PINNED => Record::Pinned(Pinned::ALL[usize::from(self.choice(2)?)]),
            _ => return Err(unknown),
        };
        if before - self.rest.len() > MAX_RECORD {
            return Err(large);
        }
        Ok(record)
    }
}
