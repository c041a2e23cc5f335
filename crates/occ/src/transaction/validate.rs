//! Validation at commit: whether everything the transaction read is still current. The
//! read set is checked here, scans by the engine's [validator](crate::validation).

use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_txn::{Cause, ConflictLocation, Error};
use coeval_types::{Timestamp, TransactionId, planted};

use super::TransactionContext;
use super::state::{Read, State};
use crate::active_transactions::CommitPhase;
use crate::ranges::committer::Committer;
use crate::ranges::map::Space;
use crate::shared::Shared;
use crate::storage::find;
use crate::validation::{Others, VisitRanges};

impl TransactionContext<'_> {
    /// Checks that nothing the transaction read has changed between its snapshot and
    /// `own`.
    pub(super) fn validate(&self, own: Timestamp) -> Result<(), Error> {
        let (shared, state) = (self.shared, &*self.state);
        let counts = shared.counters.validation();
        if !state.reads.is_empty() && !planted!(SkipRead) {
            counts.read_again(state.reads.len());
            let guard = shared.domain.pin();
            for read in &state.reads {
                validate_read(shared, state, read, own, &guard)?;
            }
        }
        if !state.notes.has_scans() || shared.skips_predicates() {
            return Ok(());
        }
        let mut others = Others::default();
        let committer = self.committer(own);
        let valid =
            shared
                .validation
                .validate(&state.notes, committer, &self.with_ranges(), &mut others);
        counts.scanned(&others);
        valid
    }

    /// Counts the cause of a refused commit, once no other transaction waits for it any
    /// more.
    #[cold]
    pub(super) fn count_refusal(&self, why: Cause, own: Timestamp) {
        if why == Cause::RangeChanged {
            let validation = &self.shared.validation;
            let (notes, committer) = (&self.state.notes, self.committer(own));
            let certain = validation.is_certain(notes, committer, &self.with_ranges());
            self.shared.counters.validation().refused(certain);
        }
    }

    /// Finds the range maps of the spaces that the transaction has scanned.
    fn with_ranges(&self) -> impl Fn(Space, &mut VisitRanges<'_>) -> Result<(), Error> {
        let storages = &self.state.storages;
        |space, visit| {
            let mut storages = storages.iter();
            let table = storages
                .find(|table| table.id == space.storage)
                .expect("it was scanned");
            match space.index {
                None => visit(table.rows_by_rid().expect("it was scanned")),
                Some(id) => match find(&table.indexes(), id) {
                    Ok(index) => visit(&index.ranges),
                    // The index was dropped, and its registrations with it.
                    Err(_) => Err(Error::SchemaChanged(table.id)),
                },
            }
        }
    }

    fn committer(&self, own: Timestamp) -> Committer {
        Committer {
            id: self.state.id,
            snapshot: self.state.snapshot(),
            own,
        }
    }
}

/// Checks a point read: the version that was read must still be the newest below `own`,
/// and no other transaction may be about to install a newer one below `own`.
fn validate_read(
    shared: &Shared,
    state: &State,
    read: &Read,
    own: Timestamp,
    guard: &Guard<'_>,
) -> Result<(), Error> {
    let table = &state.storages[read.storage];
    let conflict = |other| {
        let place = ConflictLocation::Row {
            storage: table.id,
            rid: read.rid,
        };
        Err(Error::conflict(Cause::ReadChanged, place, other))
    };
    let Some(record) = table.records.record(read.rid) else {
        return conflict(None);
    };
    let mut backoff = Backoff::default();
    // The holder is read before the version: a transaction that is no longer the holder
    // has installed its version.
    while let Some(holder) = record.holder().filter(|holder| *holder != state.id) {
        match shared.active.ask(holder) {
            CommitPhase::NotStarted => break,
            CommitPhase::Assigned(theirs) if theirs < own => return conflict(Some(holder)),
            CommitPhase::Assigned(_) => break,
            CommitPhase::Reserving | CommitPhase::Ended => backoff.wait(),
        }
    }
    let mut newest = record.newest_committed(guard);
    if newest.is_some_and(|version| version.cts() > own) {
        // Another transaction has installed a version after `own`. The version below it
        // is kept: it is newer than every snapshot, or is the one that was read.
        newest = record.read(own, TransactionId(0), guard);
    }
    match newest {
        Some(version) if version.cts() == read.cts => Ok(()),
        version => {
            let committed = version.map(|version| version.cts());
            let other = committed.and_then(|at| shared.committers.at(at));
            conflict(other.map(|party| party.transaction))
                .map_err(|error| error.with_commit(committed))
        }
    }
}
