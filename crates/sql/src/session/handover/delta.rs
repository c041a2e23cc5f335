//! Handover delta: the changes of a session since the last message to its client's node.

use std::collections::BTreeSet;
use std::sync::Arc;

use coeval_txn::MarkedMessages;
use coeval_types::Timestamp;

use super::{ActsAs, Login, Pinned, Session, Settings, Writer};
use crate::catalog::SQL_OBJECTS;

/// Maximum number of changed statements in one delta; beyond it the delta contains all
/// prepared statements.
const MAX_NAMES: usize = 1000;

/// The changes that the next delta will contain.
#[derive(Debug)]
pub(in crate::session) struct HandoverDelta {
    /// The settings as of the last delta.
    settings: Arc<Settings>,
    /// Names of the statements that have changed since the last delta.
    names: BTreeSet<String>,
    /// Whether any statement with a name may have changed.
    any: bool,
    /// Whether the unnamed statement is left out.
    named_only: bool,
    /// What the client's node needs for reads, and has been told; `None` if it does not ask.
    reads: Option<ToldForReads>,
    /// The last mark of the client's node.
    marked: MarkedMessages,
    /// How far the session was bound to the leader when the client's node was told last.
    pinned: Pinned,
}

/// What the client's node has been told for reads that it executes itself.
#[derive(Clone, Copy, Debug, Default)]
struct ToldForReads {
    login: bool,
    committed: Option<Timestamp>,
}

impl HandoverDelta {
    /// Records that the statement of this name was replaced or dropped.
    pub(in crate::session) fn statement(&mut self, name: &str) {
        if self.any && !name.is_empty() || self.named_only && name.is_empty() {
            return;
        }
        if self.names.len() >= MAX_NAMES {
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
        self.delta = Some(Box::new(HandoverDelta {
            settings: Arc::clone(self.lasting_settings()),
            names: BTreeSet::new(),
            any: false,
            named_only: false,
            reads: None,
            marked: MarkedMessages::default(),
            pinned: Pinned::No,
        }));
    }

    /// [`Session::note_changes`] for a session on a follower, without the unnamed statement,
    /// of which its caller takes care. Called again, it forgets what it has recorded.
    pub fn note_changes_here(&mut self) {
        self.note_changes();
        if let Some(delta) = &mut self.delta {
            delta.named_only = true;
        }
    }

    /// Whether something has changed since the last [`Session::take_handover_changes`].
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.delta.as_ref().is_some_and(|delta| {
            let lasting = self.lasting_settings();
            !Arc::ptr_eq(&delta.settings, lasting)
                || !delta.names.is_empty()
                || delta.any
                || self.info.sequences.has_news()
        })
    }

    /// Makes the session also tell its client's node, from now on, who has logged in and
    /// what the session has committed, for reads there. The caller has made sure that the
    /// node understands that.
    pub fn note_reads(&mut self) {
        if let Some(delta) = &mut self.delta {
            delta.reads.get_or_insert_default();
        }
    }

    /// Takes a mark of the client's node, before its next message: the next commit is told with
    /// it.
    pub fn mark(&mut self, mark: u64) {
        let newest = self.newest_commit();
        if let Some(delta) = &mut self.delta {
            delta.marked.mark(mark, newest);
        }
    }

    /// The changes of the session's state since the last call, in pieces for
    /// [`SessionHandover::apply`](super::SessionHandover::apply); none if nothing has changed. Must be
    /// called after [`Session::finish`]: the result leaves out the settings of an open
    /// transaction.
    pub fn take_handover_changes(&mut self) -> Vec<Vec<u8>> {
        let Some(mut delta) = self.delta.take() else {
            return Vec::new();
        };
        let unchanged = Arc::ptr_eq(&delta.settings, self.lasting_settings());
        let told = delta.reads;
        let told =
            told.is_none_or(|told| told.login && told.committed == Some(self.newest_commit()));
        let is_marked = delta.marked.has_news(self.newest_commit());
        let stays = delta.pinned == self.pinned_as_told();
        let unchanged = unchanged && stays;
        let is_told = told && !is_marked && !self.info.sequences.has_news();
        let pieces = if unchanged && is_told && delta.names.is_empty() && !delta.any {
            Vec::new()
        } else {
            self.write_changes(&mut delta)
        };
        self.delta = Some(delta);
        pieces
    }

    fn write_changes(&self, delta: &mut HandoverDelta) -> Vec<Vec<u8>> {
        let mut writer = Writer::default();
        let settings = self.lasting_settings();
        if !Arc::ptr_eq(&delta.settings, settings) {
            write_settings(&mut writer, &delta.settings, settings);
            delta.settings = Arc::clone(settings);
        }
        if std::mem::take(&mut delta.any) {
            writer.forget_all();
            let all = self.named.keys().chain(self.asleep.keys());
            delta.names.extend(all.cloned());
        }
        for name in std::mem::take(&mut delta.names) {
            writer.statement(&name, self.handover_statement(&name).as_ref());
        }
        if self.info.sequences.has_news() {
            let (forget, used) = self.info.sequences.take_news();
            if forget {
                writer.forget_sequences();
            }
            for each in used {
                writer.sequence(each);
            }
        }
        if let Some(told) = &mut delta.reads {
            if !std::mem::replace(&mut told.login, true) {
                let login = &settings.lasting_identity().login;
                writer.login(Login {
                    role: login.role,
                    superuser: login.superuser,
                });
            }
            let committed = self.newest_commit();
            if told.committed.replace(committed) != Some(committed) {
                writer.committed(committed);
            }
        }
        let newest = self.newest_commit();
        if let Some(mark) = delta.marked.take(newest) {
            writer.marked(mark, newest);
        }
        let pinned = self.pinned_as_told();
        if std::mem::replace(&mut delta.pinned, pinned) != pinned {
            writer.pinned(pinned);
        }
        writer.finish()
    }

    /// [`Session::pinned`], if every node understands it.
    fn pinned_as_told(&self) -> Pinned {
        match self.info.around.reads_version(SQL_OBJECTS) {
            true => self.pinned(),
            false => Pinned::No,
        }
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
