//! Readers beside definitions that change: an index is there when it is shown to be.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_log::Entry;
use coeval_txn::{
    Bounds, Definitions, Direction, Engine as _, Error, Isolation, Rows, ScanRequest, ScanSource,
    Transaction,
};
use coeval_types::planted::{Bug, plant};
use coeval_types::{Lsn, Rid, RowRef, StorageDefinition, StorageId, Term, Timestamp};

use super::super::super::FollowerEngine;
use super::super::super::tests::{begin, bytes, definitions, numbers};
use super::{PRIMARY, SECONDARY, TABLE, World, lock, scan};

/// A catalog of one table, whose row in storage 3 tells whether the table has its secondary
/// index. A reader reads by it whenever the catalog is read.
#[derive(Debug)]
struct Catalog {
    engine: Arc<FollowerEngine>,
    /// Number of rows of the table.
    rows: usize,
    failed: AtomicBool,
}

const CATALOG: StorageId = StorageId(3);

impl Catalog {
    fn new(world: &World, rows: usize) -> Self {
        Self {
            engine: Arc::clone(&world.engine),
            rows,
            failed: AtomicBool::new(false),
        }
    }

    /// Reads as a session does: by the index, if the catalog's row in the snapshot says that
    /// there is one, and it is built.
    fn read_as_session(&self) -> Result<usize, Error> {
        let mut reader = begin(&self.engine, Isolation::SnapshotIsolation);
        let mut has_index = false;
        reader.get_record(CATALOG, Rid(0), &mut |_, row| {
            has_index = numbers(row)[2] == 1
        })?;
        let unbuilt = self.engine.unbuilt_indexes().unwrap_or_default();
        let source = match has_index && !unbuilt.contains(&(TABLE, SECONDARY)) {
            true => ScanSource::Index(SECONDARY),
            false => ScanSource::Table,
        };
        let request = ScanRequest {
            storage: TABLE,
            source,
            bounds: Bounds::ALL,
            direction: Direction::Forward,
            limit: 1000,
        };
        let mut rows = 0;
        reader.scan(&request, &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Whether a session reads all rows, and did whenever the catalog was read.
    fn is_right(&self) -> bool {
        self.read_as_session() == Ok(self.rows) && !self.failed.load(Ordering::Relaxed)
    }
}

impl Definitions for Catalog {
    fn sources(&self) -> Vec<StorageId> {
        vec![CATALOG]
    }

    fn read(&self, rows: Rows<'_>) -> Result<Vec<StorageDefinition>, String> {
        if self.read_as_session() != Ok(self.rows) {
            self.failed.store(true, Ordering::Relaxed);
        }
        let mut has_index = false;
        rows(CATALOG, &mut |row| has_index = numbers(row)[2] == 1);
        let mut definitions = definitions();
        if !has_index {
            definitions[0].indexes.retain(|index| index.id != SECONDARY);
        }
        definitions[0].schema_version = u64::from(has_index);
        Ok(definitions)
    }
}

impl World {
    /// A commit of the catalog's row.
    fn define(&mut self, catalog: &Catalog, has_index: bool) {
        let at = Timestamp::new(Term(1), Lsn(self.end));
        self.end += 64;
        let row = bytes([0, 0, u8::from(has_index)]);
        let entry = Entry::Image {
            storage: CATALOG,
            rid: Rid(0),
            row: RowRef::trusted(&row),
        };
        self.tables.replay().apply(&[(at, entry)]).unwrap();
        self.tables.settle();
        let defined = self.tables.commit_defining(Lsn(self.end), catalog);
        defined.unwrap();
    }

    fn indexes(&self) -> usize {
        let storage = self.tables.followed().unwrap().storage(TABLE).unwrap();
        storage.indexes().len()
    }
}

/// Whether every reader beside a CREATE INDEX finds what its catalog tells.
fn creates_an_index() -> bool {
    let mut world = World::new();
    let catalog = Catalog::new(&world, 3);
    world.did(&[
        (0, Some([1, 1, 3])),
        (1, Some([2, 2, 2])),
        (2, Some([3, 3, 1])),
    ]);
    world.define(&catalog, false);
    let mut before = world.begin();
    world.define(&catalog, true);
    let is_right = catalog.is_right();
    if is_right {
        let mut after = world.begin();
        assert_eq!(
            scan(&mut *after, SECONDARY, Direction::Forward)[0],
            [3, 3, 1]
        );
        assert_eq!(
            (lock(&mut *before, 0), lock(&mut *after, 1)),
            (Ok(()), Ok(()))
        );
        let changed = Err(Error::SchemaChanged(TABLE));
        assert_eq!(
            (lock(&mut *before, 1), lock(&mut *after, 0)),
            (changed.clone(), changed)
        );
        // The index is dropped under a reader that knows it.
        world.define(&catalog, false);
        world.did(&[(0, Some([1, 1, 0]))]);
        assert_eq!(
            scan(&mut *after, SECONDARY, Direction::Backward)[0],
            [1, 1, 3]
        );
        assert_eq!(world.indexes(), 3);
        drop((before, after));
        while world.tables.work() {}
        assert_eq!(world.indexes(), 2);
    }
    is_right
}

/// Rows of a table whose index is not built at once.
const MANY: u64 = 100;

fn many_rows(world: &mut World) {
    for rid in 0..MANY {
        world.did(&[(rid, Some([rid as u8, rid as u8, (rid % 7) as u8]))]);
    }
}

/// Whether every reader finds what its catalog tells while a large index is being built, and
/// commits become visible meanwhile.
fn builds_an_index_beside_replay() -> bool {
    let mut world = World::new();
    let catalog = Catalog::new(&world, MANY as usize);
    many_rows(&mut world);
    world.define(&catalog, false);
    world.define(&catalog, true);
    let mut early = world.begin();
    let mut is_right = catalog.is_right();
    let mut steps = 0;
    while world.engine.unbuilt_indexes().is_some() {
        // Each commit is visible at once, although the index is not complete.
        let (rid, row) = (steps * 13 % MANY, (steps % 5) as u8);
        world.did(&[(rid, Some([rid as u8, rid as u8, row]))]);
        assert_eq!(world.tables.visible().lsn(), Lsn(world.end - 64));
        is_right &= catalog.is_right();
        steps += 1;
        assert!(steps <= MANY, "each commit brings the index on");
    }
    if is_right {
        assert!(steps > MANY / 2, "a step does little: {steps}");
        let by = |reader: &mut dyn Transaction, source| {
            let mut rows = scan(reader, source, Direction::Forward);
            rows.sort_unstable();
            rows
        };
        for reader in [&mut early, &mut world.begin()] {
            let expected = by(&mut **reader, PRIMARY);
            assert_eq!(expected.len(), MANY as usize);
            assert_eq!(by(&mut **reader, SECONDARY), expected);
        }
    }
    is_right
}

#[test]
fn an_index_is_visible_when_it_is_there() {
    assert!(creates_an_index());
    assert!(builds_an_index_beside_replay());
}

#[test]
fn an_index_that_is_shown_before_it_is_built_is_found() {
    let planted = plant(Bug::ShowUnbuiltIndex).expect("tests have bugs to plant");
    let is_right = (creates_an_index(), builds_an_index_beside_replay());
    drop(planted);
    assert_eq!(is_right, (false, false));
}

#[test]
fn an_index_that_is_being_built_ends_with_its_table_and_is_the_leaders_to_build() {
    let mut world = World::new();
    let catalog = Catalog::new(&world, MANY as usize);
    many_rows(&mut world);
    world.define(&catalog, false);
    world.define(&catalog, true);
    let unbuilt = |world: &World| world.engine.unbuilt_indexes().map(|its| its.len());
    assert_eq!(unbuilt(&world), Some(1));
    let mut reader = world.begin();
    let refused = reader.get(TABLE, SECONDARY, &[1], &mut |_, _| {});
    assert_eq!(refused, Err(Error::SchemaChanged(TABLE)));
    // It is dropped before it is complete, and made again.
    world.define(&catalog, false);
    assert_eq!(unbuilt(&world), Some(1), "a snapshot knows it");
    drop(reader);
    while world.tables.work() {}
    assert_eq!((unbuilt(&world), world.indexes()), (None, 2));
    world.define(&catalog, true);
    assert_eq!(unbuilt(&world), Some(1));
    // The node is elected: its engine builds what is missing.
    let (_, tables) = world.tables.finish().unwrap();
    let kept: Vec<_> = tables[&TABLE].indexes.iter().map(|its| its.id).collect();
    assert!(!kept.contains(&SECONDARY), "{kept:?}");
}

#[test]
fn a_table_that_was_dropped_before_it_was_known_goes() {
    const BRIEF: StorageId = StorageId(77);
    let mut world = World::new();
    let catalog = Catalog::new(&world, 0);
    let write = |world: &mut World, storage, rid| {
        let at = Timestamp::new(Term(1), Lsn(world.end));
        world.end += 64;
        let row = bytes([0, 0, 0]);
        let row = RowRef::trusted(&row);
        let entry = Entry::Image { storage, rid, row };
        world.tables.replay().apply(&[(at, entry)]).unwrap();
        world.tables.settle();
    };
    let has_brief = |world: &World| world.tables.followed().unwrap().storage(BRIEF).is_some();
    // It gets a row, and another commit drops it, before either is visible.
    write(&mut world, CATALOG, Rid(0));
    write(&mut world, BRIEF, Rid(0));
    write(&mut world, CATALOG, Rid(0));
    assert!(has_brief(&world));
    let end = Lsn(world.end);
    world.tables.commit_defining(end, &catalog).unwrap();
    while world.tables.work() {}
    assert!(!has_brief(&world));
    // A start finds its rows, and a catalog that does not know it. One whose rows are not
    // committed yet stays.
    write(&mut world, BRIEF, Rid(0));
    world.commit();
    write(&mut world, StorageId(78), Rid(0));
    world.tables.define_by(&catalog).unwrap();
    while world.tables.work() {}
    assert!(!has_brief(&world));
    let others = world.tables.followed().unwrap().storage(StorageId(78));
    assert!(others.is_some());
}
