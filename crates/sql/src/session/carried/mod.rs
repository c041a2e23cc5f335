//! What of a session goes on when another node serves it: the settings that were set
//! for it, as whom it acts, and the statements it has prepared.
//!
//! ```text
//!   leader of term 4                     node of the client               leader of term 5
//!   session ── what has changed ──────▶  Carried::apply
//!           ── what has changed ──────▶  Carried::apply
//!   (gone)                               Carried::pieces ───────────────▶ Session::resume
//! ```
//!
//! A session that nobody listens to keeps nothing ([`Session::note_changes`]). What
//! belongs to a transaction is not carried: SET LOCAL, and SET in a block that has not
//! ended. Prepared statements do not belong to one, as ever. A statement is planned
//! again when it is used for the first time, and fails then if it cannot be.
//!
//! - [`encoding`]: how it is written.
//! - [`noted`]: what has changed in a session since somebody was told.
//! - [`resume`]: a session that begins with it.
//!
//! Invariant: applying the pieces that a session hands out, in their order, to what was
//! carried when it began, makes what it carries now; but for what is too large
//! ([`MOST_RECORD`], [`MOST_BYTES`]), which is not carried at all.

mod encoding;
mod noted;
mod resume;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use encoding::{Record, Writer};

pub use encoding::{MOST_PIECE, MOST_RECORD, Malformed};
pub(super) use noted::Noted;

use super::Session;
use super::identity::Identity;
use super::prepared::Prepared;
use super::settings::Settings;
use crate::output::Column;

/// The most that is carried for one session, in bytes. What does not fit is not carried,
/// and does not exist for the session when it goes on elsewhere.
pub const MOST_BYTES: usize = 64 << 20;

/// What of a session goes on when another node serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Settings that were set for the session, as SHOW shows them.
    settings: BTreeMap<String, String>,
    acts: ActsAs,
    /// Prepared statements; the empty name is the unnamed one's.
    statements: BTreeMap<String, CarriedStatement>,
    /// About what all of it takes.
    bytes: usize,
}

/// Whom SET SESSION AUTHORIZATION and SET ROLE have named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ActsAs {
    session: Option<CarriedRole>,
    current: Option<CarriedRole>,
}

/// A role, by its number; by its name only if it exists no more.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CarriedRole {
    number: u32,
    name: String,
}

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CarriedStatement {
    /// Its text. If it was prepared by PREPARE, that statement's.
    text: String,
    /// Whether it is the statement within that PREPARE, not the PREPARE itself.
    within: bool,
    /// The types of its parameters, as the client knows them.
    parameters: Vec<u32>,
    /// What its columns looked like when the client was told of them.
    columns: Option<u64>,
}

impl ActsAs {
    fn of(identity: &Identity) -> Self {
        let carried = |who: &super::identity::Who| CarriedRole {
            number: who.role,
            name: who.name.to_string(),
        };
        Self {
            session: identity.session.as_ref().map(carried),
            current: identity.current.as_ref().map(carried),
        }
    }
}

impl CarriedStatement {
    /// `None` when its text is not all there: it had a password in it.
    fn of(prepared: &Prepared) -> Option<Self> {
        let statement = &prepared.statement;
        statement.is_whole().then(|| Self {
            text: statement.text().to_owned(),
            within: statement.is_within_prepare(),
            parameters: prepared.parameter_types().to_vec(),
            columns: prepared.columns().map(fingerprint),
        })
    }
}

/// What tells results apart that clients must not be given instead of each other: the
/// names and types of the columns. The same on every node (FNV-1a).
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

impl Carried {
    /// Whether there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The text of the prepared statement of this name, if that is carried: of one that
    /// was prepared by PREPARE, that statement's.
    #[must_use]
    pub fn prepared(&self, name: &str) -> Option<&str> {
        let statement = self.statements.get(name)?;
        Some(&statement.text)
    }

    /// Takes over what has changed. When it fails, what came before the mistake has been
    /// taken over.
    pub fn apply(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        for record in encoding::records(piece)? {
            self.take(record?);
        }
        Ok(())
    }

    fn take(&mut self, record: Record<'_>) {
        let size = record.size();
        let fits = |bytes: usize| bytes + size <= MOST_BYTES;
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

    /// All of it, in pieces of at most [`MOST_PIECE`] bytes: applied to nothing, in their
    /// order, they make this again. None if there is nothing to carry.
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
        writer.finish()
    }
}

impl Session {
    /// What goes on of this session when another node serves it: all of it. A
    /// transaction that is open is none of it.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let mut carried = Carried::default();
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
        for piece in writer.finish() {
            // It was written here and now.
            let _ = carried.apply(&piece);
        }
        carried
    }

    /// The settings as they are if the transaction that is open comes to nothing.
    fn lasting_settings(&self) -> &std::sync::Arc<Settings> {
        self.settings_at_begin.as_ref().unwrap_or(&self.settings)
    }

    /// The statement of this name as it is carried, if there is one that can be.
    fn carried_statement(&self, name: &str) -> Option<CarriedStatement> {
        if let Some(asleep) = self.asleep.get(name) {
            return Some(asleep.clone());
        }
        let prepared = if name.is_empty() {
            self.unnamed.as_ref()
        } else {
            self.named.get(name)
        };
        CarriedStatement::of(prepared?)
    }

    fn write_statements(&self, writer: &mut Writer) {
        let unnamed = self.unnamed.iter().map(|_| "");
        let named = self.named.keys().chain(self.asleep.keys());
        for name in unnamed.chain(named.map(String::as_str)) {
            writer.statement(name, self.carried_statement(name).as_ref());
        }
    }
}
