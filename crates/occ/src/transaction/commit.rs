//! The commit: collects log entries, gets log space, registers keys, is assigned its
//! timestamp, validates and installs.
//!
//! ```text
//!   may wait                        one step that cannot be interrupted
//!  ┌───────────────────────────┐   ┌──────────────────────────────────────────────┐
//!   entries ── log space ──────▶    register ─ reserve ─ validate ─ install
//!                                                              └─ skip, undo
//! ```
//!
//! From the reservation on, every later commit waits for this one, so no code in the
//! second box waits for a transaction that could be ordered after this one, makes an
//! allocation that may fail, or panics; a panic there ends the process (the log ensures
//! that).
//!
//! The commit encodes its log entries in the first box, since log space is requested by
//! their length. In the second box it copies into the log these entries and, directly
//! from the private versions, rows that are logged as a whole. Those rows still have the
//! measured lengths: only a statement of the same transaction changes a private version,
//! and none runs any more.
//!
//! Locks are freed once the versions are installed, before they are durable: a
//! transaction that reads such a version waits for its durability before it answers its
//! client.
//!
//! The next holder of a lock on a row that was not written cannot see from the row that
//! this transaction committed. Such a lock is freed only when snapshots include the
//! commit, so that a transaction that waited for it sees the commit in its next
//! statement. That can mean waiting for earlier commits to be installed; they never wait
//! for this one.

use std::cell::OnceCell;
use std::sync::atomic::{Ordering, fence};
use std::task::{Context, Poll, ready};

use coeval_log::{Copied, Credit, EntryBuilder, Reservation};
use coeval_memory::epoch::Guard;
use coeval_memory::sync::Backoff;
use coeval_storage::RecordRef;
use coeval_txn::{Error, GaveWay, Outcome};
use coeval_types::{RowRef, StorageId, Timestamp, TransactionId, planted};

use super::TransactionContext;
use super::registration_keys::RegistrationKeys;
use super::state::{Held, State, StorageHandle};
use crate::memory;
use crate::ranges::map::RangeMap;
use crate::shared::Shared;
use crate::storage::find;

/// Bytes of buffers, for entries and keys to register, after which the commit checks the
/// memory budget again.
const BYTES_BETWEEN_LOOKS: usize = 16 << 20;

/// Most rows that a commit writes on an executor's thread; a larger commit would delay
/// the thread's other tasks.
const ROWS_IN_A_STEP: usize = 2048;

impl<'run> TransactionContext<'run> {
    pub(super) fn poll_commit(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        // A commit of very many rows must not block an executor's thread.
        if self.state.held.len() > ROWS_IN_A_STEP {
            return coeval_env::block_in_place(|| self.poll_commit_here(context));
        }
        self.poll_commit_here(context)
    }

    fn poll_commit_here(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        #[cfg(feature = "planted")]
        if let Some(outcome) = self.install_late() {
            return Poll::Ready(outcome);
        }
        if !self.state.prepared {
            self.stop_waiting(false);
            if let Err(error) = self.check_read() {
                self.undo_all();
                return Poll::Ready(Outcome::Aborted(error));
            }
            self.drop_entries_of_written();
            let writes = match self.prepare() {
                Ok(writes) => writes,
                Err(error) => {
                    self.undo_all();
                    return Poll::Ready(Outcome::Aborted(error));
                }
            };
            if !writes {
                let snapshot = self.state.snapshot();
                self.finish_schema();
                self.drop_replaced_entries();
                self.release_rows();
                self.free_other_locks();
                return Poll::Ready(Outcome::Committed(snapshot.max(self.state.newest_seen)));
            }
            self.state.prepared = true;
        } else if let Err(error) = self.check_read() {
            self.undo_all();
            return Poll::Ready(Outcome::Aborted(error));
        }
        let shared = self.shared;
        let credit = match ready!(self.poll_credit(context)) {
            Ok(credit) => credit,
            Err(error) => {
                self.undo_all();
                return Poll::Ready(Outcome::Aborted(log_error(error)));
            }
        };
        self.no_writer();
        self.register();
        shared.active.reserving(&self.state.place);
        // One fence between the registrations and the reservation; another between the
        // reservation and the validation of other transactions' registrations.
        fence(Ordering::SeqCst);
        let reservation = shared.log.reserve(credit);
        let timestamp = reservation.timestamp();
        fence(Ordering::SeqCst);
        shared.active.assigned(&self.state.place, timestamp);
        shared.validation.assigned(&self.state.notes, timestamp);
        if self.state.is_serializable()
            && let Err(error) = self.validate(timestamp)
        {
            reservation.skip();
            shared.validation.withdraw(&self.state.notes, timestamp);
            if let Error::Conflict(conflict) = &error {
                self.count_refusal(conflict.cause, timestamp);
                let why = GaveWay::Conflict(conflict.cause);
                self.note_conflict(why, &conflict.place, conflict.other);
            }
            self.undo_all();
            return Poll::Ready(Outcome::Aborted(error));
        }
        let copied = self.copy(reservation);
        // Noted before another transaction can find the versions.
        let committer = shared.active.party(self.state.id);
        shared.committers.note(timestamp, committer);
        #[cfg(feature = "planted")]
        if planted!(PublishBeforeInstall) {
            return self.publish_before_install(copied, timestamp, context);
        }
        self.install(timestamp);
        copied.installed();
        Poll::Ready(self.finish(timestamp))
    }

    /// Gets room in the log for the commit's frame, once everything before it is sent.
    fn poll_credit(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Credit<'run>, coeval_log::Error>> {
        let shared = self.shared;
        let State {
            id,
            storages,
            held,
            entries,
            space_wait,
            only_frees,
            ..
        } = &mut *self.state;
        entries.set_only_frees(*only_frees == Some(true));
        let guard = OnceCell::new();
        let rows = private_rows(shared, *id, storages, held, &guard);
        shared
            .log
            .poll_prepare_with(entries, rows, space_wait, context)
    }

    /// Copies the commit into the log.
    #[inline]
    fn copy<'log>(&self, reservation: Reservation<'log>) -> Copied<'log> {
        let state = &*self.state;
        let guard = OnceCell::new();
        let rows = private_rows(self.shared, state.id, &state.storages, &state.held, &guard);
        reservation.commit_with(&state.entries, rows)
    }

    /// Finishes a commit whose versions are installed.
    pub(super) fn finish(&mut self, timestamp: Timestamp) -> Outcome {
        self.wait_until_visible(timestamp);
        self.finish_schema();
        self.drop_replaced_entries();
        self.release_rows();
        self.free_other_locks();
        Outcome::Committed(timestamp)
    }

    /// Collects the log entries and the keys to register. False when the transaction
    /// wrote nothing. Fails when memory is short for very many of either.
    fn prepare(&mut self) -> Result<bool, Error> {
        let shared = self.shared;
        let logged = !shared.log.is_ephemeral();
        self.state.written = 0;
        if self.state.held.is_empty() {
            return Ok(false);
        }
        let guard = shared.domain.pin();
        let State {
            id,
            storages,
            held,
            entries,
            registration_keys,
            bytes,
            scratch,
            ..
        } = &mut *self.state;
        entries.clear();
        registration_keys.clear();
        bytes.clear();
        let mut registration_keys = RegistrationKeys {
            registration_keys,
            bytes,
            scratch,
            arrivals_only: shared.validation.registers_arrivals_only(),
        };
        // Rows without anything to install are moved to the back; the rows in front are
        // installed.
        let mut installed = 0;
        let mut looked_at = 0;
        for at in 0..held.len() {
            let row = held[at];
            let table = &*storages[row.storage];
            let record = table.records.record(row.rid).expect("it is locked");
            let Some(write) = Write::of(&record, *id, &guard) else {
                continue;
            };
            // The row's final position, by which the log's copy finds it.
            held.swap(installed, at);
            if logged {
                let image_every = shared.settings.image_every;
                write.log(table.id, image_every, installed, entries);
            }
            installed += 1;
            registration_keys.of_write(row.storage, table, &write);
            let bytes = entries.capacity() + registration_keys.memory();
            if bytes > looked_at + BYTES_BETWEEN_LOOKS {
                looked_at = bytes;
                memory::check_reserve(shared)?;
            }
        }
        registration_keys.sort();
        self.state.written = installed;
        Ok(installed > 0)
    }

    /// Registers every written key, in each key space that orders it.
    fn register(&mut self) {
        let (validation, id) = (&self.shared.validation, self.state.id);
        let State {
            registration_keys,
            bytes,
            notes,
            storages,
            ..
        } = &mut *self.state;
        let mut register =
            |map: &RangeMap, keys: &[&[u8]]| validation.register(notes, id, map, keys);
        for group in registration_keys
            .chunk_by(|one, other| (one.storage, one.index) == (other.storage, other.index))
        {
            let table = &storages[group[0].storage];
            let indexes = table.indexes();
            let map = match group[0].index {
                None => table.rows_by_rid().expect("noted because it is there"),
                Some(id) => match find(&indexes, id) {
                    Ok(index) => &index.ranges,
                    // The index was dropped since the key was noted: no scan can use it
                    // any more.
                    Err(_) => continue,
                },
            };
            if let [only] = group {
                register(map, &[&bytes[only.start..only.end]]);
            } else {
                let keys: Vec<&[u8]> = group
                    .iter()
                    .map(|registration_key| &bytes[registration_key.start..registration_key.end])
                    .collect();
                register(map, &keys);
            }
        }
    }

    pub(super) fn install(&mut self, timestamp: Timestamp) {
        let id = self.state.id;
        for held in &self.state.held[..self.state.written] {
            let table = &self.state.storages[held.storage];
            let record = table.records.record(held.rid).expect("it is locked");
            record.commit(id, timestamp);
        }
    }

    /// If the transaction locked or shared a row that it did not write, or locked a table in
    /// a strong mode: waits until snapshots include the installed commit at `timestamp`.
    fn wait_until_visible(&self, timestamp: Timestamp) {
        let state = &*self.state;
        let unwritten = state.held.len() > state.written || !state.shares.is_empty();
        if !unwritten && state.tables.iter().all(|table| table.mode.is_weak()) {
            return;
        }
        let mut backoff = Backoff::default();
        while self.shared.log.installed() < timestamp {
            backoff.wait();
        }
    }

    /// Notifies the waiters of written rows, whose locks were freed at installation;
    /// frees the other rows: locked and not written, or inserted and deleted again.
    fn release_rows(&mut self) {
        for at in 0..self.state.held.len() {
            let row = self.state.held[at];
            if at < self.state.written {
                self.row_released(row);
            } else {
                self.release_row(row);
            }
        }
        self.no_writer();
        self.state.held.clear();
    }
}

/// Finds a transaction's new rows by their position in `held`, for the log's copy. Pins
/// `guard` at the first call.
fn private_rows<'guard, 'shared>(
    shared: &'shared Shared,
    id: TransactionId,
    storages: &[StorageHandle],
    held: &[Held],
    guard: &'guard OnceCell<Guard<'shared>>,
) -> impl Fn(usize) -> &'guard [u8] {
    move |at| {
        let guard = guard.get_or_init(|| shared.domain.pin());
        let held = held[at];
        let table = &storages[held.storage];
        let record = table.records.record(held.rid).expect("it is locked");
        let version = record.read(Timestamp::ZERO, id, guard);
        let row = version.and_then(|version| version.row());
        row.expect("noted because there is one").bytes()
    }
}

/// The net effect of a transaction on one record.
pub(super) struct Write<'a, 'guard> {
    pub(super) record: &'a RecordRef<'a>,
    id: TransactionId,
    pub(super) new: Option<RowRef<'guard>>,
    /// The newest committed row, and its commit timestamp.
    pub(super) old: Option<(Timestamp, RowRef<'guard>)>,
}

impl<'a, 'guard> Write<'a, 'guard> {
    /// The effect of the record's lock holder; `None` when there is none: it has written
    /// nothing, or deleted a row that it inserted itself.
    #[inline]
    fn of(record: &'a RecordRef<'a>, id: TransactionId, guard: &'guard Guard<'_>) -> Option<Self> {
        if !record.has_private(id) {
            return None;
        }
        let new = record.read(Timestamp::ZERO, id, guard)?.row();
        let newest = record.newest_committed(guard);
        let old = newest.and_then(|version| Some((version.cts(), version.row()?)));
        (new.is_some() || old.is_some()).then_some(Self {
            record,
            id,
            new,
            old,
        })
    }

    /// Appends the log entry. The record is the one at position `at` of `held`.
    fn log(&self, storage: StorageId, image_every: u64, at: usize, entries: &mut EntryBuilder) {
        let (record, id, rid) = (self.record, self.id, self.record.rid());
        let Some(row) = self.new else {
            if !planted!(ForgetTombstone) {
                entries.delete(storage, rid);
            }
            return;
        };
        let length = row.bytes().len();
        if let Some((previous, old)) = self.old
            && record.patches_since_image(id) < image_every
        {
            let is_shorter = entries.patch_with(storage, rid, previous, |patch| {
                let start = patch.len();
                old.diff(row, patch) && patch.len() - start < length
            });
            if is_shorter {
                let patches = record.patches_since_image(id) + 1;
                record.set_patches_since_image(id, patches);
                return;
            }
        }
        entries.image_to_come(storage, rid, at, length);
        record.set_patches_since_image(id, 0);
    }
}

/// Whether the private version changes anything.
pub(super) fn has_effect(record: &RecordRef<'_>, id: TransactionId, guard: &Guard<'_>) -> bool {
    Write::of(record, id, guard).is_some()
}

pub(crate) fn log_error(error: coeval_log::Error) -> Error {
    match error {
        coeval_log::Error::TooLarge { bytes, limit } => Error::WriteSetTooLarge { bytes, limit },
        full @ coeval_log::Error::DiskFull(_) => Error::DiskFull(full.to_string()),
        other => Error::Stopped(other.to_string()),
    }
}
