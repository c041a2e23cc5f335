//! Model test of follower tables against a model that applies the final log one commit
//! after the other.
//!
//! A run generates a log as a leader would: rows that are inserted and deleted, that
//! change cells and keys, keys that move from one record to another and that records
//! exchange, RIDs that are reused, new storages. It replays the log ahead of the commit
//! point, by several workers in random order, cuts it, and continues in another term at
//! the offsets that were cut away. Views and transactions read at commits that stay, by
//! record, by key and by scans in every order.

mod reads;
mod unasked;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use coeval_log::{Entry, Replay as _};
use coeval_types::planted::plant;
use coeval_types::{
    ExtractedKey, IndexDefinition, IndexId, IndexKind, KeyExtractor, RowBuilder, RowRef, Term,
};
use proptest::prelude::*;

use coeval_txn::{BeginOptions, Engine as _, Isolation, Transaction};

pub(super) use self::unasked::Unasked;

use super::*;
use crate::storage::Index;
use coeval_types::Rid;
use coeval_types::planted::Bug;

/// Key, unique number, and a number that any row may have.
pub(super) type Numbers = [u8; 3];
type RecordName = (StorageId, Rid);

const STORAGES: u32 = 3;
const KEYS: u8 = 12;
/// Most transactions that a run keeps open.
const READERS: usize = 5;

#[derive(Debug)]
struct Cell(usize);

impl KeyExtractor for Cell {
    fn extract(&self, row: RowRef<'_>, key: &mut Vec<u8>) -> ExtractedKey {
        key.extend_from_slice(row.cell(self.0).expect("no nulls here"));
        ExtractedKey::Comparable
    }
}

/// The first storage has a primary index, the second has none, the third has no index.
pub(super) fn definitions() -> Vec<StorageDefinition> {
    let index = |storage: u32, kind, cell: u32| IndexDefinition {
        id: IndexId(storage * 10 + cell),
        kind,
        extractor: Arc::new(Cell(cell as usize)),
    };
    let indexes = |storage| match storage {
        1 => vec![
            index(1, IndexKind::Primary, 0),
            index(1, IndexKind::Unique, 1),
            index(1, IndexKind::Secondary, 2),
        ],
        2 => vec![
            index(2, IndexKind::Unique, 0),
            index(2, IndexKind::Secondary, 2),
        ],
        _ => Vec::new(),
    };
    let definition = |storage| StorageDefinition {
        id: StorageId(storage),
        schema_version: 1,
        indexes: indexes(storage),
    };
    (1..=STORAGES).map(definition).collect()
}

/// The definitions of one generation. Each adds or drops the secondary index of the first
/// storage, which is a change of its schema.
fn definitions_of(generation: u32) -> Vec<StorageDefinition> {
    let mut definitions = definitions();
    let first = &mut definitions[0];
    first.schema_version = u64::from(generation);
    if generation.is_multiple_of(2) {
        let index = first.indexes.last_mut().expect("it has three");
        index.id = IndexId(index.id.0 + 100 * generation);
    } else {
        first.indexes.pop();
    }
    definitions
}

pub(super) fn bytes(numbers: Numbers) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    for number in numbers {
        // Of several lengths, so that patches have to move what follows.
        builder.push(Some(&vec![number; 1 + usize::from(number % 3)]));
    }
    let mut bytes = Vec::new();
    builder.finish(&mut bytes);
    bytes
}

pub(super) fn numbers(row: RowRef<'_>) -> Numbers {
    std::array::from_fn(|cell| row.cell(cell).expect("no nulls here")[0])
}

/// One entry's effect, with the record's row before and after.
#[derive(Clone, Debug)]
struct Change {
    place: RecordName,
    kind: EventKind,
    after: Option<Numbers>,
}

#[derive(Clone, Debug)]
enum EventKind {
    Image(Vec<u8>),
    Patch(Timestamp, Vec<u8>),
    Delete,
}

impl Change {
    fn entry(&self) -> Entry<'_> {
        let (storage, rid) = self.place;
        match &self.kind {
            EventKind::Image(row) => Entry::Image {
                storage,
                rid,
                row: RowRef::trusted(row),
            },
            EventKind::Patch(previous, patch) => Entry::Patch {
                storage,
                rid,
                previous: *previous,
                patch,
            },
            EventKind::Delete => Entry::Delete { storage, rid },
        }
    }
}

/// Rows after some commits, with the commits that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    rows: BTreeMap<RecordName, (Timestamp, Numbers)>,
    used: BTreeSet<RecordName>,
}

impl State {
    fn do_commit(&mut self, timestamp: Timestamp, changes: &[Change]) {
        for change in changes {
            self.used.insert(change.place);
            match change.after {
                Some(row) => self.rows.insert(change.place, (timestamp, row)),
                None => self.rows.remove(&change.place),
            };
        }
    }

    /// A leader lets no two rows of a storage have a key or a unique number in common.
    fn check_keys(&self) {
        for cell in 0..2 {
            let mut keys = BTreeSet::new();
            let rows = self.rows.iter();
            let mut keys_of_rows = rows.map(|((storage, _), (_, row))| (*storage, row[cell]));
            assert!(keys_of_rows.all(|key| keys.insert(key)), "{:?}", self.rows);
        }
    }
}

/// A random number generator.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Begins a transaction, which must not wait.
pub(super) fn begin(engine: &FollowerEngine, isolation: Isolation) -> Box<dyn Transaction> {
    let options = BeginOptions {
        isolation,
        ..BeginOptions::default()
    };
    let mut context = Context::from_waker(std::task::Waker::noop());
    match engine.poll_begin(&options, &mut context) {
        Poll::Ready(Ok(transaction)) => transaction,
        other => panic!("{:?}", other.map(|begun| begun.map(|_| ()))),
    }
}

/// Tables that follow a log which is empty.
pub(super) fn followed_tables(threads: usize) -> FollowedTables {
    let tables = FollowedTables::new();
    let opened = coeval_log::RecoverySummary {
        checkpoint: None,
        clean: true,
        commits: 0,
        entries: 0,
        bytes: 0,
        last_commit: Timestamp::ZERO,
        end: Lsn(4096),
        cut_bytes: 0,
    };
    tables.follow(&opened, threads);
    tables
}

struct FollowingRun {
    draw: Draw,
    tables: FollowedTables,
    engine: Arc<FollowerEngine>,
    /// The visible commits from which on definitions hold, and their generation.
    defined: Vec<(Timestamp, u32)>,
    readers: Vec<(Box<dyn Transaction>, State)>,
    term: Term,
    /// The commits in the log, and the log's end.
    log: Vec<(Timestamp, Vec<Change>)>,
    end: Lsn,
    replayed: Lsn,
    committed: Lsn,
    views: Vec<(FollowedView, State)>,
}

impl FollowingRun {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed | 1);
        let tables = followed_tables(1 + draw.below(3));
        let mut defined = Vec::new();
        if draw.one_in(2) {
            tables.define(definitions_of(0));
            defined.push((Timestamp::ZERO, 0));
        }
        Self {
            draw,
            engine: FollowerEngine::new(tables.clone(), Arc::new(Unasked)),
            defined,
            readers: Vec::new(),
            tables,
            term: Term(1),
            log: Vec::new(),
            end: Lsn(4096),
            replayed: Lsn(4096),
            committed: Lsn(4096),
            views: Vec::new(),
        }
    }

    fn followed(&self) -> &Arc<Followed> {
        self.tables.followed().expect("it was told to follow")
    }

    /// The model: everything before `end`, one commit after the other.
    fn state_at(&self, end: Lsn) -> State {
        let mut state = State::default();
        for (timestamp, changes) in self.log.iter().filter(|(cts, _)| cts.lsn() < end) {
            state.do_commit(*timestamp, changes);
        }
        state
    }

    /// A commit of a leader that has all of the log.
    fn commit(&mut self) {
        let state = self.state_at(self.end);
        let timestamp = Timestamp::new(self.term, self.end);
        let mut after = state.clone();
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..1 + self.draw.below(4) {
            let storage = StorageId(1 + self.draw.below(STORAGES as usize) as u32);
            let wanted = match self.draw.below(5) {
                0..=1 => self.insert(storage, &state, &after).into_iter().collect(),
                2..=3 => self.change(storage, &state, &after).into_iter().collect(),
                _ => self.exchange(storage, &state, &after),
            };
            let is_new = |change: &Change| changes.iter().all(|done| done.place != change.place);
            if wanted.iter().all(is_new) {
                after.do_commit(timestamp, &wanted);
                changes.extend(wanted);
            }
        }
        after.check_keys();
        if !changes.is_empty() {
            self.log.push((timestamp, changes));
            self.end.0 += 8 * (4 + self.draw.below(9) as u64);
        }
    }

    /// A number that no row of the storage has in this cell.
    fn free_number(&mut self, storage: StorageId, state: &State, cell: usize) -> Option<u8> {
        let number = self.draw.below(usize::from(KEYS)) as u8;
        let mut rows = state.rows.iter().filter(|((its, _), _)| *its == storage);
        rows.all(|(_, (_, row))| row[cell] != number)
            .then_some(number)
    }

    fn insert(&mut self, storage: StorageId, before: &State, after: &State) -> Option<Change> {
        let key = self.free_number(storage, after, 0)?;
        let unique = self.free_number(storage, after, 1)?;
        let row = [key, unique, self.draw.below(4) as u8];
        // A RID whose row was deleted, now or before, or a new one.
        let used = before.used.union(&after.used);
        let used = used.filter(|(its, _)| *its == storage).count() as u64;
        let rid = Rid(self.draw.below(used as usize + 1) as u64);
        let place = (storage, rid);
        (!after.rows.contains_key(&place) && !before.rows.contains_key(&place)).then(|| Change {
            place,
            kind: EventKind::Image(bytes(row)),
            after: Some(row),
        })
    }

    fn change(&mut self, storage: StorageId, before: &State, after: &State) -> Option<Change> {
        let rows: Vec<_> = before.rows.iter().collect();
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|(place, _)| place.0 == storage)
            .collect();
        let (place, (previous, row)) = *rows.get(self.draw.below(rows.len()))?;
        if self.draw.one_in(3) {
            return Some(Change {
                place: *place,
                kind: EventKind::Delete,
                after: None,
            });
        }
        let mut changed = *row;
        changed[2] = self.draw.below(4) as u8;
        if self.draw.one_in(3) {
            changed[1] = self.free_number(storage, after, 1)?;
        }
        if self.draw.one_in(3) {
            changed[0] = self.free_number(storage, after, 0)?;
        }
        Some(self.update(*place, (*previous, *row), changed))
    }

    /// Two or three records, each of which gets the primary key of the next one, and in one
    /// case of two its unique number as well.
    fn exchange(&mut self, storage: StorageId, before: &State, after: &State) -> Vec<Change> {
        // A record that the same commit has changed may have given its key away.
        let untouched = |(place, row): &(&RecordName, &(Timestamp, Numbers))| {
            place.0 == storage && after.rows.get(place) == Some(row)
        };
        let mut rows: Vec<_> = before.rows.iter().filter(untouched).collect();
        let mut chosen = Vec::new();
        for _ in 0..2 + self.draw.below(2) {
            if !rows.is_empty() {
                chosen.push(rows.swap_remove(self.draw.below(rows.len())));
            }
        }
        if chosen.len() < 2 {
            return Vec::new();
        }
        let cells = 1 + self.draw.below(2);
        let next = chosen.iter().cycle().skip(1);
        let pairs = chosen.iter().zip(next);
        let changes = pairs.map(|((place, now), (_, (_, next)))| {
            let mut changed = now.1;
            changed[..cells].copy_from_slice(&next[..cells]);
            self.update(**place, **now, changed)
        });
        changes.collect()
    }

    /// Updates an existing row.
    fn update(
        &mut self,
        place: RecordName,
        (previous, row): (Timestamp, Numbers),
        changed: Numbers,
    ) -> Change {
        let whole = bytes(changed);
        let kind = if self.draw.one_in(3) {
            EventKind::Image(whole)
        } else {
            let mut patch = Vec::new();
            let before = bytes(row);
            RowRef::trusted(&before).diff(RowRef::trusted(&whole), &mut patch);
            EventKind::Patch(previous, patch)
        };
        Change {
            place,
            kind,
            after: Some(changed),
        }
    }

    /// The end of a commit in `from..=to`.
    fn place(&mut self, from: Lsn, to: Lsn) -> Lsn {
        let ends = self.log.iter().map(|(cts, _)| cts.lsn()).chain([self.end]);
        let ends: Vec<_> = ends.filter(|at| (from..=to).contains(at)).collect();
        ends.get(self.draw.below(ends.len()))
            .copied()
            .unwrap_or(from)
    }

    /// Replays more of the log, by workers that take turns in any order.
    fn replay(&mut self, to: Lsn) -> Result<(), String> {
        let workers = 1 + self.draw.below(4);
        let mut queues = vec![Vec::new(); workers];
        let due = |cts: &Timestamp| (self.replayed..to).contains(&cts.lsn());
        for (cts, changes) in self.log.iter().filter(|(cts, _)| due(cts)) {
            for change in changes {
                let worker = (change.place.1.0 + u64::from(change.place.0.0)) as usize % workers;
                queues[worker].push((*cts, change.clone()));
            }
        }
        while queues.iter().any(|queue| !queue.is_empty()) {
            let queue = &mut queues[self.draw.below(workers)];
            let count = self.draw.below(queue.len() + 1);
            let group: Vec<_> = queue.drain(..count).collect();
            let entries: Vec<_> = group.iter().map(|(cts, its)| (*cts, its.entry())).collect();
            let applied = self.tables.0.apply(&entries);
            applied.map_err(|error| error.to_string())?;
        }
        self.tables.settle();
        self.replayed = self.replayed.max(to);
        self.tables.commit(self.committed.min(self.replayed));
        Ok(())
    }

    fn cut(&mut self) -> Result<(), String> {
        let at = self.place(self.committed, self.end);
        if at < self.replayed {
            let taken = self.tables.take_back(at);
            taken.map_err(|error| error.to_string())?;
            self.replayed = at;
        }
        self.log.retain(|(cts, _)| cts.lsn() < at);
        self.end = at;
        self.term.0 += 1;
        // The mark of the new term may be as long as the record it replaces, or not.
        if self.draw.one_in(2) {
            self.end.0 += 8 * self.draw.below(5) as u64;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        match self.draw.below(9) {
            0..=2 => (0..self.draw.below(6)).for_each(|_| self.commit()),
            3..=4 => {
                let to = self.place(self.replayed, self.end);
                self.replay(to)?;
            }
            5 => {
                self.committed = self.place(self.committed, self.end);
                self.tables.commit(self.committed.min(self.replayed));
            }
            6 => self.cut()?,
            7 => {
                let view = self.tables.view().expect("it follows");
                let state = self.state_at(Lsn(view.timestamp().lsn().0 + 1));
                let reader = begin(&self.engine, Isolation::SnapshotIsolation);
                assert_eq!(reader.snapshot(), view.timestamp());
                self.readers.push((reader, state.clone()));
                if self.readers.len() > READERS {
                    self.readers.swap_remove(0);
                }
                self.views.push((view, state));
            }
            _ => match self.draw.below(5) {
                0..=1 => {
                    let has_secondary = self.draw.one_in(2);
                    self.define(has_secondary);
                }
                2 => drop(self.tables.work()),
                3 => {
                    let keep = self.draw.below(self.views.len() + 1);
                    self.views.truncate(keep);
                }
                _ => {
                    let keep = self.draw.below(self.readers.len() + 1);
                    self.readers.drain(..self.readers.len() - keep);
                    while self.tables.work() {}
                }
            },
        }
        self.check()
    }

    /// Defines the storages, with or without the secondary index of the first one. In a real
    /// catalog a commit changes the definitions, and the snapshots that are registered before
    /// it keep theirs; so where one is registered at the visible commit, they stay.
    fn define(&mut self, has_secondary: bool) {
        let visible = self.tables.visible();
        let mut readers = self.readers.iter();
        let has_reader = readers.any(|(reader, _)| reader.snapshot() == visible);
        let last = self.defined.last().map(|(_, generation)| *generation);
        let generation = match last {
            None if has_reader => return,
            None => u32::from(!has_secondary),
            Some(last) if has_reader => last,
            Some(last) => last + u32::from(last.is_multiple_of(2) != has_secondary),
        };
        match self.draw.one_in(2) {
            true => self.tables.define(definitions_of(generation)),
            false => self.tables.define_beside(definitions_of(generation)),
        }
        if last != Some(generation) {
            self.defined.push((visible, generation));
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let visible = self.tables.visible();
        let bound = self.committed.min(self.replayed);
        let mut commits = self.log.iter().map(|(cts, _)| *cts);
        let last = commits.rfind(|cts| cts.lsn() < bound);
        if visible != last.unwrap_or(Timestamp::ZERO) {
            return Err(format!("{visible} is visible, and {last:?} should be"));
        }
        let now = (
            self.tables.view().expect("it follows"),
            self.state_at(bound),
        );
        for (view, state) in self.views.iter().chain([&now]) {
            let mut rows = BTreeMap::new();
            for storage in view.storages() {
                let mut from = Some(Rid(0));
                while let Some(at) = from {
                    from = view.rows(storage, at, 3, &mut |saved| {
                        let row = (saved.timestamp, numbers(saved.row));
                        rows.insert((storage, saved.rid), row);
                    });
                }
            }
            if rows != state.rows {
                return Err(format!(
                    "at {}: {rows:?} instead of {:?}",
                    view.timestamp(),
                    state.rows
                ));
            }
        }
        if self.draw.one_in(5) {
            self.check_reader(bound)?;
        }
        self.check_indexes(&self.state_at(self.replayed))
    }

    /// Checks that every replayed row has its entries, and that no entry leads to a
    /// missing version.
    fn check_indexes(&self, newest: &State) -> Result<(), String> {
        let guard = self.followed().domain.pin();
        for definition in definitions() {
            let Some(storage) = self.followed().storage(definition.id) else {
                continue;
            };
            for index in storage.indexes().iter() {
                let entries = entries(index, &guard);
                let mut displaced = BTreeSet::new();
                if let Some(its) = index.displaced() {
                    its.each(&guard, |key, rid| displaced.extend([(key.to_vec(), rid)]));
                }
                // One that is being built misses records that the backfill has not come to.
                let is_built = index.is_built();
                for (place, (_, row)) in newest.rows.iter().filter(|_| is_built) {
                    let mut entry = Vec::new();
                    index.entry(RowRef::trusted(&bytes(*row)), place.1, &mut entry);
                    if place.0 == definition.id && entries.get(&entry) != Some(&place.1) {
                        return Err(format!("{:?} does not lead to {place:?}", index.id));
                    }
                }
                // An index that was built later misses versions that were old by then.
                let has_all = is_built && index.is_usable(Timestamp::ZERO);
                let all = 0..if has_all {
                    storage.records.high_water().0
                } else {
                    0
                };
                for rid in all.map(Rid) {
                    let record = storage.records.followed(rid).expect("it is below the end");
                    let mut entry = Vec::new();
                    let is_lost = record.any_row(&guard, |row| {
                        index.entry(row, rid, &mut entry);
                        let is_led_to = entries.get(&entry) == Some(&rid);
                        !is_led_to && !displaced.contains(&(entry.clone(), rid))
                    });
                    if is_lost {
                        return Err(format!("{:?} has lost {rid:?} by {entry:?}", index.id));
                    }
                }
                for (entry, rid) in entries.into_iter().chain(displaced) {
                    let record = storage.records.followed(rid).expect("an entry leads to it");
                    let mut its = Vec::new();
                    let has_it = record.any_row(&guard, |row| {
                        index.entry(row, rid, &mut its);
                        its == entry
                    });
                    if !has_it {
                        return Err(format!("{:?} leads to {rid:?} by {entry:?}", index.id));
                    }
                }
            }
        }
        Ok(())
    }

    /// Commits everything, and lets an engine take the tables.
    fn finish(mut self) -> Result<(), String> {
        self.views.clear();
        self.readers.retain({
            let visible = self.tables.visible();
            move |(reader, _)| reader.snapshot() < visible
        });
        self.define(true);
        self.committed = self.end;
        self.replay(self.end)?;
        self.check()?;
        let state = self.state_at(self.end);
        // Readers keep no node from leading.
        let (domain, recovered) = self.tables.finish().map_err(|error| error.to_string())?;
        for (mut reader, _) in self.readers {
            let read = reader.get_record(StorageId(1), Rid(0), &mut |_, _| {});
            if !matches!(read, Err(Error::Stopped(_))) {
                return Err(format!("a reader of tables that are led: {read:?}"));
            }
        }
        let guard = domain.pin();
        let mut rows = BTreeMap::new();
        for (storage, Recovered { records, indexes }) in &recovered {
            for rid in (0..records.high_water().0).map(Rid) {
                let record = records.record(rid).expect("it was made");
                if let Some(version) = record.newest_committed(&guard) {
                    let row = version.row().map(numbers).ok_or("a tombstone is left")?;
                    rows.insert((*storage, rid), (version.cts(), row));
                } else if !record.is_dead() {
                    return Err(format!("{rid:?} is neither a row nor free"));
                }
            }
            for index in indexes {
                let built = crate::building::entries_of(index, records, 1, &domain);
                if self::entries(index, &guard) != entries_of_tree(&built, &guard) {
                    return Err(format!(
                        "{:?} is not what it would be built to be",
                        index.id
                    ));
                }
            }
            let its = state.rows.keys().filter(|(its, _)| its == storage).count();
            let memory = records.memory();
            if (
                records.estimated_rows(),
                memory.old_values,
                memory.version_lists,
            ) != (its as u64, 0, 0)
            {
                return Err(format!("{its} rows, {memory:?}"));
            }
        }
        match rows == state.rows {
            true => Ok(()),
            false => Err(format!("{rows:?} instead of {:?}", state.rows)),
        }
    }
}

fn entries(index: &Index, guard: &coeval_memory::epoch::Guard<'_>) -> BTreeMap<Vec<u8>, Rid> {
    entries_of_tree(&index.entries, guard)
}

fn entries_of_tree(
    tree: &coeval_storage::OrderedIndex,
    guard: &coeval_memory::epoch::Guard<'_>,
) -> BTreeMap<Vec<u8>, Rid> {
    let mut entries = BTreeMap::new();
    let _ = tree.scan_forward(Bound::Unbounded, Bound::Unbounded, guard, |entry, rid| {
        entries.insert(entry.to_vec(), rid);
        ControlFlow::Continue(())
    });
    entries
}

fn run(seed: u64, steps: usize) -> Result<(), String> {
    let mut run = FollowingRun::new(seed);
    for _ in 0..steps {
        run.step()?;
    }
    run.finish()
}

proptest! {
    #[test]
    fn tables_are_what_the_log_says_whatever_was_cut(seed: u64, steps in 1..120_usize) {
        prop_assert_eq!(run(seed, steps), Ok(()));
    }
}

/// Number of seeds until an injected bug is found.
fn found(bug: Bug) -> u64 {
    let planted = plant(bug);
    assert!(planted.is_some(), "this build has no bugs to plant");
    let found = (0..200).find(|seed| run(seed * 7919, 100).is_err());
    drop(planted);
    found.unwrap_or_else(|| panic!("{bug} is not found"))
}

#[test]
fn a_rollback_that_forgets_the_index_is_found() {
    found(Bug::ForgetIndex);
}

#[test]
fn a_reused_offset_taken_for_the_same_timestamp_is_found() {
    found(Bug::ReusedOffset);
}

#[test]
fn a_key_that_leads_to_its_last_record_only_is_found() {
    found(Bug::ForgetDisplaced);
}

#[test]
fn an_index_that_is_used_before_it_is_built_is_found() {
    found(Bug::ShowUnbuiltIndex);
}

#[test]
fn what_is_visible_is_not_taken_back() {
    let mut run = FollowingRun::new(3);
    while run.log.len() < 5 {
        run.commit();
    }
    let end = run.end;
    run.committed = end;
    run.replay(end).unwrap();
    let first = run.log[0].0.lsn();
    assert!(matches!(
        run.tables.take_back(first),
        Err(LogError::Refused { .. })
    ));
    assert!(run.tables.take_back(end).is_ok());
    let view = run.tables.view().unwrap();
    assert!(run.tables.finish().is_err(), "a view reads");
    drop(view);
    assert!(run.tables.finish().is_ok());
}

#[test]
fn workers_on_threads_of_their_own_come_to_the_same() {
    let mut run = FollowingRun::new(11);
    for _ in 0..400 {
        run.commit();
    }
    run.tables.define(definitions());
    let changes = |worker: u64| {
        let all = run.log.iter();
        let all = all.flat_map(|(cts, changes)| changes.iter().map(move |change| (*cts, change)));
        all.filter(move |(_, change)| change.place.1.0 % 4 == worker)
    };
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let changes = changes(worker).collect::<Vec<_>>();
            let tables = &run.tables;
            scope.spawn(move || {
                for group in changes.chunks(7) {
                    let entries: Vec<_> =
                        group.iter().map(|(cts, its)| (*cts, its.entry())).collect();
                    tables.0.apply(&entries).unwrap();
                }
            });
        }
    });
    run.tables.settle();
    run.replayed = run.end;
    run.check().unwrap();
    // Half of the log is taken back, and replayed again.
    run.committed = run.log[200].0.lsn();
    run.tables.commit(run.committed);
    run.tables.take_back(run.committed).unwrap();
    run.replayed = run.committed;
    run.check().unwrap();
    run.finish().unwrap();
}
