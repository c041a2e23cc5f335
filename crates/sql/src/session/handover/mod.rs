//! Session handover: the state that a session keeps when another node becomes its server,
//! namely its settings, the roles as which it acts, its prepared statements, and the numbers that
//! it was given of sequences.
//!
//! ```text
//!   leader of term 4                     node of the client               leader of term 5
//!   session ── what has changed ──────▶  SessionHandover::apply
//!           ── what has changed ──────▶  SessionHandover::apply
//!   (gone)                               SessionHandover::pieces ───────────────▶ Session::resume
//! ```
//!
//! A session records changes only if the node of its client asks for them
//! ([`Session::note_changes`]). State that belongs to a transaction is not handed over:
//! SET LOCAL, and SET in a block that has not ended. Prepared statements do not belong to
//! a transaction, as in PostgreSQL. The new leader plans a statement when it is used for
//! the first time, and reports an error then if that fails.
//!
//! - [`encoding`]: the encoding of the state.
//! - `follow`: applying the pieces to the session that reads on the client's node, and what
//!   changed there, or a block that moves, to the leader's.
//! - [`delta`]: the changes since the last message to the client's node.
//! - [`marks`]: marks of that node's messages, which are no state.
//! - [`resume`]: starting a session with that state.
//!
//! Invariant: a receiver that applies a session's pieces, in their order, to the state
//! with which the session began, reaches the session's present state, except for items
//! that are too large ([`MAX_RECORD`], [`MAX_BYTES`]), which are not handed over at
//! all.

mod delta;
mod encoding;
mod follow;
mod marks;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use coeval_types::Timestamp;
use encoding::{Record, SEQUENCE_BYTES, Writer};

pub(super) use delta::HandoverDelta;
pub use encoding::{MAX_PIECE, MAX_RECORD, Malformed};
pub use marks::{mark, mark_of, marked_commit};

use super::Login;
use super::Session;
use super::identity::Identity;
use super::prepared::Prepared;
use super::settings::Settings;
use crate::output::Column;
use crate::sequence::Used;
use crate::statement::Modes;
use crate::temporary::Temporary;

/// Maximum size of one session's handover state, in bytes. An item that does not fit is
/// not handed over, and the session lacks it on the other node.
pub const MAX_BYTES: usize = 64 << 20;

/// The state of a session that is handed over to another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionHandover {
    /// Settings that were set for the session, with their values as SHOW returns them.
    settings: BTreeMap<String, String>,
    acts: ActsAs,
    /// Prepared statements by name; the empty name is the unnamed statement's.
    statements: BTreeMap<String, HandoverStatement>,
    /// The last numbers that the session was given of sequences, by their OIDs.
    sequences: BTreeMap<u32, i64>,
    /// The sequence of its last `nextval`.
    last_sequence: Option<u32>,
    /// The role that has logged in, as the leader knows it; see [`SessionHandover::login`].
    login: Option<Login>,
    /// The session's newest commit, as far as it was told.
    committed: Option<Timestamp>,
    /// What the session has at the leader only.
    pinned: Pinned,
    /// Approximate memory this state takes, in bytes.
    bytes: usize,
}

/// How far a session is bound to the leader that runs it, by state that is not handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Pinned {
    /// It is not.
    #[default]
    No,
    /// The node of its client reads nothing for it: what it asks for may be a cursor that has
    /// outlived its transaction.
    Reads,
    /// Likewise, and it ends with its leader: it has temporary tables, and without them would
    /// reach the permanent ones that they hide.
    Session,
}

impl Pinned {
    const ALL: [Self; 3] = [Self::No, Self::Reads, Self::Session];
}

/// The roles that SET SESSION AUTHORIZATION and SET ROLE have named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActsAs {
    session: Option<HandoverRole>,
    current: Option<HandoverRole>,
}

/// A role, identified by its OID; by its name only if the role no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HandoverRole {
    number: u32,
    name: String,
}

/// A transaction block on its way from the node of its client to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CarriedBlock {
    /// What `now()` returns in it.
    pub(super) began: i64,
    /// For how long it has had a time limit, in microseconds.
    pub(super) ran: u64,
    pub(super) modes: Modes,
    /// Whether it has read, so that its modes cannot change any more.
    pub(super) has_read: bool,
}

/// The piece that carries a block.
pub(super) fn carried_block(block: CarriedBlock) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.block(&block);
    writer.finish().concat()
}

/// A prepared statement in its handover form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HandoverStatement {
    /// Text of the statement, or of the PREPARE that prepared it.
    text: String,
    /// Whether the text is a PREPARE of which this is the inner statement.
    within: bool,
    /// Types of the parameters, as reported to the client.
    parameters: Vec<u32>,
    /// Fingerprint of the columns as described to the client.
    columns: Option<u64>,
}

impl ActsAs {
    fn of(identity: &Identity) -> Self {
        let handover = |who: &super::identity::Who| HandoverRole {
            number: who.role,
            name: who.name.to_string(),
        };
        Self {
            session: identity.session.as_ref().map(handover),
            current: identity.current.as_ref().map(handover),
        }
    }
}

impl HandoverStatement {
    /// Memory that the statement takes under this name, in bytes.
    pub(super) fn bytes(&self, name: &str) -> u64 {
        let parameters = size_of_val(&self.parameters[..]);
        (size_of::<(String, Self)>() + name.len() + self.text.len() + parameters) as u64
    }

    /// `None` when the text was redacted because it contained a password.
    pub(super) fn of(prepared: &Prepared) -> Option<Self> {
        let statement = &prepared.statement;
        statement.is_whole().then(|| Self {
            text: statement.text().to_owned(),
            within: statement.is_within_prepare(),
            parameters: prepared.parameter_types().to_vec(),
            columns: prepared.columns().map(fingerprint),
        })
    }
}

/// Fingerprint of a result's column names and types, which must not change for a client
/// that has seen them. Equal on every node (FNV-1a).
fn fingerprint(columns: &[Column]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for column in columns {
        add(&(column.name.len() as u64).to_le_bytes());
        add(column.name.as_bytes());
        add(&column.column_type.data_type.oid().to_le_bytes());
        add(&column.column_type.modifier.to_le_bytes());
    }
    hash
}

impl SessionHandover {
    /// Memory that the state takes, in bytes, approximately.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether the state is empty, but for commits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0 && self.pinned == Pinned::No
    }

    /// Text of the prepared statement of this name, if it is part of the state: for a
    /// statement prepared by PREPARE, the text of that PREPARE.
    #[must_use]
    pub fn prepared(&self, name: &str) -> Option<&str> {
        let statement = self.statements.get(name)?;
        Some(&statement.text)
    }

    /// The value of this setting, if the session has set it.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The role that the leader has let in, which the client's node needs to execute reads:
    /// a role of the same name may be another one by now. `None` as long as neither the leader
    /// has told it nor the client's node has let the client in. Not part of
    /// [`SessionHandover::pieces`]: each leader tells its own.
    #[must_use]
    pub fn login(&self) -> Option<Login> {
        self.login
    }

    /// The same state without what only the client's node needs.
    #[must_use]
    pub fn without_reads(&self) -> Self {
        Self {
            login: None,
            committed: self.committed.filter(|commit| *commit != Timestamp::ZERO),
            ..self.clone()
        }
    }

    /// Whether the node of the client executes no reads for the session.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pinned != Pinned::No
    }

    /// Forgets the unnamed statement.
    pub fn forget_unnamed(&mut self) {
        self.forget_statement("");
    }

    /// Begins the state of a session that its client's node has let in: no leader has it, and
    /// it has committed nothing.
    pub fn begin(&mut self, login: Login) {
        self.login = Some(login);
        self.keep_commit(Timestamp::ZERO);
    }

    /// Keeps a commit of the session that is durable, for the next leader and for reads on the
    /// client's node. The caller has made sure that every node understands that.
    pub fn keep_commit(&mut self, commit: Timestamp) {
        self.committed = self.committed.max(Some(commit));
    }

    /// Forgets the role that has logged in, because another leader will tell its own.
    pub fn forget_login(&mut self) {
        self.login = None;
    }

    /// Forgets the cursors that the last leader had: another one has none.
    pub fn forget_cursors(&mut self) {
        if self.pinned == Pinned::Reads {
            self.pinned = Pinned::No;
        }
    }

    /// The newest commit of the session, as its present leader has told it, zero if it has
    /// made none; `None` if the leader has told nothing.
    #[must_use]
    pub fn newest_commit(&self) -> Option<Timestamp> {
        self.committed
    }

    /// Applies one piece. If the piece is malformed, the records before the error have
    /// been applied.
    pub fn apply(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        for record in encoding::records(piece)? {
            self.take(record?);
        }
        Ok(())
    }

    fn take(&mut self, record: Record<'_>) {
        let size = record.size();
        let fits = |bytes: usize| bytes + size <= MAX_BYTES;
        match record {
            Record::Set { name, value } => {
                self.forget_setting(name);
                if fits(self.bytes) {
                    self.bytes += size;
                    self.settings.insert(name.to_owned(), value.to_owned());
                }
            }
            Record::Reset { name } => self.forget_setting(name),
            Record::ActsAs(acts) => {
                self.bytes -= self.acts.size();
                self.acts = acts;
                self.bytes += self.acts.size();
            }
            Record::Statement { name, statement } => {
                self.forget_statement(name);
                if fits(self.bytes) {
                    self.bytes += size;
                    self.statements.insert(name.to_owned(), statement);
                }
            }
            Record::Login(login) => self.login = Some(login),
            Record::Committed(commit) => self.keep_commit(commit),
            Record::Pinned(pinned) => self.pinned = pinned,
            Record::Sequence(used) => {
                let known = self.sequences.contains_key(&used.sequence);
                if known || fits(self.bytes) {
                    self.bytes += if known { 0 } else { size };
                    self.sequences.insert(used.sequence, used.number);
                    if used.is_last {
                        self.last_sequence = Some(used.sequence);
                    }
                }
            }
            Record::ForgetSequences => {
                let gone = std::mem::take(&mut self.sequences);
                self.bytes -= gone.len() * SEQUENCE_BYTES;
                self.last_sequence = None;
            }
            // A block is no state that outlives its transaction, and marks are no state.
            Record::Block(_) | Record::Mark(_) | Record::Marked { .. } => {}
            Record::Forget { name } => self.forget_statement(name),
            Record::ForgetAll => {
                let unnamed = self.statements.remove_entry("");
                for (name, statement) in std::mem::take(&mut self.statements) {
                    self.bytes -= statement.size(&name);
                }
                self.statements.extend(unnamed);
            }
        }
    }

    /// The last numbers that the session was given of sequences.
    fn used(&self) -> impl Iterator<Item = Used> {
        self.sequences.iter().map(|(sequence, number)| Used {
            sequence: *sequence,
            number: *number,
            is_last: self.last_sequence == Some(*sequence),
        })
    }

    fn forget_setting(&mut self, name: &str) {
        if let Some(value) = self.settings.remove(name) {
            self.bytes -= Record::Set {
                name,
                value: &value,
            }
            .size();
        }
    }

    fn forget_statement(&mut self, name: &str) {
        if let Some(statement) = self.statements.remove(name) {
            self.bytes -= statement.size(name);
        }
    }

    /// The whole state, in pieces of at most [`MAX_PIECE`] bytes: applied in their order
    /// to an empty state, they reproduce this one. An empty state has no pieces.
    #[must_use]
    pub fn pieces(&self) -> Vec<Vec<u8>> {
        let mut writer = Writer::default();
        for (name, value) in &self.settings {
            writer.setting(name, value);
        }
        if self.acts != ActsAs::default() {
            writer.acts_as(&self.acts);
        }
        for (name, statement) in &self.statements {
            writer.statement(name, Some(statement));
        }
        for used in self.used() {
            writer.sequence(used);
        }
        // Some only if the leader has told it: by then every node understands it.
        if let Some(commit) = self.committed.filter(|commit| *commit != Timestamp::ZERO) {
            writer.committed(commit);
        }
        if self.pinned != Pinned::No {
            writer.pinned(self.pinned);
        }
        writer.finish()
    }
}

impl Session {
    /// How far the session is bound to its leader.
    fn pinned(&self) -> Pinned {
        if self.temporary.as_ref().is_some_and(Temporary::is_used) {
            Pinned::Session
        } else if self.cursors.are_held() {
            Pinned::Reads
        } else {
            Pinned::No
        }
    }

    /// The whole state of this session that another node needs, without the open
    /// transaction.
    #[must_use]
    pub fn handover(&self) -> SessionHandover {
        let mut handover = SessionHandover::default();
        let mut writer = Writer::default();
        let settings = self.lasting_settings();
        for (name, value) in settings.set_for_session() {
            writer.setting(name, value);
        }
        let acts = ActsAs::of(settings.lasting_identity());
        if acts != ActsAs::default() {
            writer.acts_as(&acts);
        }
        self.write_statements(&mut writer);
        if self.pinned() != Pinned::No {
            writer.pinned(self.pinned());
        }
        for used in self.info.sequences.all() {
            writer.sequence(used);
        }
        for piece in writer.finish() {
            // This process has just encoded the piece, so applying it does not fail.
            let _ = handover.apply(&piece);
        }
        handover
    }

    /// The unnamed statement, or that there is none, in pieces for
    /// [`SessionHandover::apply`].
    #[must_use]
    pub fn unnamed_statement(&self) -> Vec<Vec<u8>> {
        let mut writer = Writer::default();
        writer.statement("", self.handover_statement("").as_ref());
        writer.finish()
    }

    /// The settings as they will be if the open transaction rolls back.
    fn lasting_settings(&self) -> &std::sync::Arc<Settings> {
        self.settings_at_begin.as_ref().unwrap_or(&self.settings)
    }

    /// The statement of this name in its handover form, if it exists and has one.
    fn handover_statement(&self, name: &str) -> Option<HandoverStatement> {
        if let Some(asleep) = self.asleep.get(name) {
            return Some(asleep.clone());
        }
        let prepared = if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named.get(name)
        };
        HandoverStatement::of(prepared?)
    }

    fn write_statements(&self, writer: &mut Writer) {
        let unnamed = self.unnamed.iter().map(|_| "");
        let named = self.named.keys().chain(self.asleep.keys());
        for name in unnamed.chain(named.map(String::as_str)) {
            writer.statement(name, self.handover_statement(name).as_ref());
        }
    }
}
