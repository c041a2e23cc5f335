//! The simulated disk of a node: a log in which each entry takes one position.

use std::sync::Arc;

use coeval_consensus::{Entry, Fetch, HardState, Membership, Position, Restored, Write};
use coeval_types::Lsn;

/// The log and the durable state of consensus. Nodes share a long common prefix.
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

    /// End of the log.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn((self.beginning.len() + self.behind.len()) as u64)
    }

    /// Commit point stored on this disk.
    #[must_use]
    pub const fn commit(&self) -> Lsn {
        self.hard_state.commit
    }

    /// Loses the commit point, as if it had not been stored.
    pub const fn forget_commit(&mut self) {
        self.hard_state.commit = Lsn(0);
    }

    /// The entry at this position.
    #[must_use]
    pub fn entry(&self, place: u64) -> Option<&Entry> {
        let place = usize::try_from(place).ok()?;
        match place.checked_sub(self.beginning.len()) {
            None => self.beginning.get(place),
            Some(behind) => self.behind.get(behind),
        }
    }

    /// The first position at which the two logs differ, or the end of the shorter one.
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

    /// State from which a node starts.
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
