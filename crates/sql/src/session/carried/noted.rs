//! What has changed in a session since somebody was told.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ActsAs, Session, Settings, Writer};

/// When more statements than this have come and gone between two tellings, all that
/// there are are told again.
const MOST_NAMES: usize = 1000;

/// What the session remembers to tell.
#[derive(Debug)]
pub(in crate::session) struct Noted {
    /// The settings as they were told last.
    settings: Arc<Settings>,
    /// Statements that are not what they were, by name.
    names: BTreeSet<String>,
    /// Whether that may be any of them.
    any: bool,
}

impl Noted {
    /// The statement of this name is another now, or gone.
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

    /// All statements but the unnamed one may be others now, or gone.
    pub(in crate::session) fn all_statements(&mut self) {
        self.any = true;
        self.names.retain(String::is_empty);
    }
}

impl Session {
    /// From now on the session remembers what changes of what it carries, for
    /// [`Session::take_carried_changes`]. To be called when it has just begun.
    pub fn note_changes(&mut self) {
        self.noted = Some(Box::new(Noted {
            settings: Arc::clone(self.lasting_settings()),
            names: BTreeSet::new(),
            any: false,
        }));
    }

    /// What has changed since the last call of what the session carries, in pieces for
    /// [`Carried::apply`](super::Carried::apply); none if nothing has. To be called after
    /// [`Session::finish`]: what an open transaction has set is not among it.
    pub fn take_carried_changes(&mut self) -> Vec<Vec<u8>> {
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
            writer.statement(&name, self.carried_statement(&name).as_ref());
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
