//! Handover delta: the changes of a session since the last message to its client's node.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ActsAs, Session, Settings, Writer};

/// Maximum number of changed statements in one delta; beyond it the delta contains all
/// prepared statements.
const MOST_NAMES: usize = 1000;

/// The changes that the next delta will contain.
#[derive(Debug)]
pub(in crate::session) struct Noted {
    /// The settings as of the last delta.
    settings: Arc<Settings>,
    /// Names of the statements that have changed since the last delta.
    names: BTreeSet<String>,
    /// Whether any statement with a name may have changed.
    any: bool,
}

impl Noted {
    /// Records that the statement of this name was replaced or dropped.
    pub(in crate::session) fn statement(&mut self, name: &str) {
        if self.any && !name.is_empty() {
            return;
        }
        if self.names.len() >= MOST_NAMES {
            self.all_statements();
        }
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    /// Records that any statement but the unnamed one may have been replaced or dropped.
    pub(in crate::session) fn all_statements(&mut self) {
        self.any = true;
        self.names.retain(String::is_empty);
    }
}

impl Session {
    /// Makes the session record its changes from now on, for
    /// [`Session::take_handover_changes`]. Must be called right after the session has
    /// begun.
    pub fn note_changes(&mut self) {
        self.noted = Some(Box::new(Noted {
            settings: Arc::clone(self.lasting_settings()),
            names: BTreeSet::new(),
            any: false,
        }));
    }

    /// The changes of the session's state since the last call, in pieces for
    /// [`SessionHandover::apply`](super::Carried::apply); none if nothing has changed. Must be
    /// called after [`Session::finish`]: the result leaves out the settings of an open
    /// transaction.
    pub fn take_handover_changes(&mut self) -> Vec<Vec<u8>> {
        let Some(mut noted) = self.noted.take() else {
            return Vec::new();
        };
        let unchanged = Arc::ptr_eq(&noted.settings, self.lasting_settings());
        let pieces = if unchanged && noted.names.is_empty() && !noted.any {
            Vec::new()
        } else {
            self.write_changes(&mut noted)
        };
        self.noted = Some(noted);
        pieces
    }

    fn write_changes(&self, noted: &mut Noted) -> Vec<Vec<u8>> {
        let mut writer = Writer::default();
        let settings = self.lasting_settings();
        if !Arc::ptr_eq(&noted.settings, settings) {
            write_settings(&mut writer, &noted.settings, settings);
            noted.settings = Arc::clone(settings);
        }
        if std::mem::take(&mut noted.any) {
            writer.forget_all();
            let all = self.named.keys().chain(self.asleep.keys());
            noted.names.extend(all.cloned());
        }
        for name in std::mem::take(&mut noted.names) {
            writer.statement(&name, self.handover_statement(&name).as_ref());
        }
        writer.finish()
    }
}

fn write_settings(writer: &mut Writer, before: &Settings, now: &Settings) {
    for (name, value) in now.set_for_session() {
        if before.value_for_session(name) != Some(value) {
            writer.setting(name, value);
        }
    }
    for (name, _) in before.set_for_session() {
        if now.value_for_session(name).is_none() {
            writer.reset(name);
        }
    }
    let acts = ActsAs::of(now.lasting_identity());
    if acts != ActsAs::of(before.lasting_identity()) {
        writer.acts_as(&acts);
    }
}
