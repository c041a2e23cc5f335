//! What is on a node's disk: a log in which each entry takes one place.

use std::sync::Arc;

use coeval_consensus::{Entry, Fetch, HardState, Membership, Position, Restored, Write};
use coeval_types::Lsn;

/// A log and what was promised. A long beginning is shared by all that have it.
#[derive(Clone, Debug)]
pub struct Disk {
    hard_state: HardState,
    membership: Membership,
    beginning: Arc<Vec<Entry>>,
    behind: Vec<Entry>,
}

impl Disk {
    /// A disk with this log.
    #[must_use]
    pub const fn new(
        membership: Membership,
        beginning: Arc<Vec<Entry>>,
        hard_state: HardState,
    ) -> Self {
        Self {
            hard_state,
            membership,
            beginning,
            behind: Vec::new(),
        }
    }

    /// Where the log ends.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn((self.beginning.len() + self.behind.len()) as u64)
    }

    /// Everything before it is known here to be committed.
    #[must_use]
    pub const fn commit(&self) -> Lsn {
        self.hard_state.commit
    }

    /// As a file that does not tell the commit point: it is lost.
    pub const fn forget_commit(&mut self) {
        self.hard_state.commit = Lsn(0);
    }

    /// The entry at this place.
    #[must_use]
    pub fn entry(&self, place: u64) -> Option<&Entry> {
        let place = usize::try_from(place).ok()?;
        match place.checked_sub(self.beginning.len()) {
            None => self.beginning.get(place),
            Some(behind) => self.behind.get(behind),
        }
    }

    /// The first place in which the two logs differ, or where the shorter one ends.
    #[must_use]
    pub fn parts_from(&self, other: &Self) -> Lsn {
        let end = self.end().min(other.end()).0;
        let shares = Arc::ptr_eq(&self.beginning, &other.beginning);
        let first = if shares {
            self.beginning.len() as u64
        } else {
            0
        };
        let mut places = first.min(end)..end;
        Lsn(places
            .find(|place| self.entry(*place) != other.entry(*place))
            .unwrap_or(end))
    }

    /// What a node starts with.
    #[must_use]
    pub fn restored(&self) -> Restored {
        Restored::from_entries(
            self.hard_state,
            Position::EMPTY,
            self.membership.clone(),
            self.beginning.iter().chain(&self.behind),
        )
    }

    pub(super) fn write(&mut self, write: Write) {
        if let Some(Lsn(to)) = write.truncate {
            let to = usize::try_from(to).unwrap_or(usize::MAX);
            match to.checked_sub(self.beginning.len()) {
                Some(behind) => self.behind.truncate(behind),
                None => {
                    self.behind.clear();
                    Arc::make_mut(&mut self.beginning).truncate(to);
                }
            }
        }
        self.behind.extend(write.entries);
        self.hard_state = write.hard_state;
    }

    pub(super) fn fetch(&self, fetch: Fetch) -> Vec<Entry> {
        let end = fetch.end.0.min(fetch.from.0 + fetch.entries as u64);
        (fetch.from.0..end)
            .filter_map(|place| self.entry(place).cloned())
            .collect()
    }
}
