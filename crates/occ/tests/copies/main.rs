//! The copy that a commit makes for the log needs memory: not beyond the limit, and not
//! for longer than the transaction. A row that is logged as a whole needs none.
//!
//! A separate program, because its allocator counts.

use std::ops::Range;
use std::path::Path;

use coeval_log::Settings as LogSettings;
use coeval_memory::allocator::{self, Allocator};
use coeval_memory::heap;
use coeval_occ::{Budget, Engine, Settings};
use coeval_txn::{Engine as _, Error, Isolation, LockWait, Transaction};
use coeval_types::{IndexDefinition, IndexId, IndexKind, RowBuilder, RowRef};

use support::{PRIMARY, STORAGE, begin, commit, definition, index, lock_table, settings};

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "what the other tests need besides")]
mod support;

#[global_allocator]
static ALLOCATOR: Allocator = allocator::NEW;

const LIMIT: u64 = 96 << 20;
const ROW: usize = 60 << 10;

/// A row whose last cell never changes, so that a change of the second is a patch.
fn row(key: u64, filler: u8) -> Vec<u8> {
    let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
    builder.push(Some(&key.to_be_bytes()));
    builder.push(Some(&vec![filler; ROW]));
    builder.push(Some(&[1; 100]));
    builder.finish(&mut bytes);
    bytes
}

async fn begun(engine: &Engine) -> Box<dyn Transaction> {
    let mut t = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    t
}

/// A transaction that has inserted rows of [`ROW`] bytes with these keys.
async fn inserted(engine: &Engine, keys: Range<u64>) -> Box<dyn Transaction> {
    let mut t = begun(engine).await;
    for key in keys {
        let bytes = row(key, 7);
        let inserting = coeval_txn::insert(&mut *t, STORAGE, RowRef::trusted(&bytes)).await;
        inserting.expect("the rows themselves have room");
    }
    t
}

/// A transaction that has changed nearly every byte of the rows with these keys.
async fn changed(engine: &Engine, keys: Range<u64>, filler: u8) -> Box<dyn Transaction> {
    let mut t = begun(engine).await;
    for key in keys {
        let mut found = None;
        t.get(STORAGE, PRIMARY, &key.to_be_bytes(), &mut |rid, _| {
            found = Some(rid);
        })
        .expect("it can be read");
        let rid = found.expect("it was inserted");
        coeval_txn::lock_row(&mut *t, STORAGE, rid, LockWait::Wait, &mut |_, _| ())
            .await
            .expect("nobody else");
        let bytes = row(key, filler);
        let updating = coeval_txn::update(&mut *t, STORAGE, rid, RowRef::trusted(&bytes)).await;
        updating.expect("the rows themselves have room");
    }
    t
}

async fn opened(directory: &Path) -> Engine {
    opened_with(
        directory,
        LIMIT,
        vec![index(PRIMARY, IndexKind::Primary, 0)],
    )
    .await
}

/// An engine with this memory limit, and one table with these indexes.
async fn opened_with(directory: &Path, limit: u64, indexes: Vec<IndexDefinition>) -> Engine {
    allocator::start();
    let settings = Settings {
        budget: Budget::of(limit, 50),
        log: LogSettings {
            ring_bytes: 8 << 20,
            ..LogSettings::default()
        },
        ..settings()
    };
    let (engine, _) = Engine::open(directory, settings).await.expect("it opens");
    engine
        .attach_storage(definition(indexes))
        .expect("a new engine has no storage");
    engine.set_occupied(heap::bytes().expect("the allocator counts"), 0);
    engine
}

/// One test, since the counter belongs to the process.
#[tokio::test]
async fn patches_need_memory_and_whole_rows_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = opened(directory.path()).await;

    // Two thirds of the limit, which leaves no room for a copy.
    let mut t = inserted(&engine, 0..1000).await;
    commit(&mut *t).await.expect("nothing is copied");
    drop(t);
    engine.close().await.expect("it closes");
    drop(engine);

    let directory = tempfile::tempdir().expect("a directory");
    let engine = opened(directory.path()).await;
    let mut t = inserted(&engine, 0..500).await;
    commit(&mut *t).await.expect("nothing is copied");
    drop(t);

    // An eighth of the limit, and for a moment as much again. Little of that is kept.
    let before = heap::bytes().expect("it counts");
    let mut t = changed(&engine, 0..200, 8).await;
    commit(&mut *t)
        .await
        .expect("there is room for the patches");
    drop(t);
    let kept = heap::bytes().expect("it counts") - before;
    let rows = 200 * ROW as u64;
    assert!(kept < rows + rows / 4, "{kept} for rows of {rows}");

    // With all of the rows there is no room for their patches; the rows are undone, and
    // others are admitted.
    let mut t = changed(&engine, 0..500, 9).await;
    assert_eq!(commit(&mut *t).await, Err(Error::OutOfMemory));
    drop(t);
    let mut t = changed(&engine, 200..300, 10).await;
    commit(&mut *t).await.expect("there is room again");
    drop(t);
    engine.close().await.expect("it closes");
    drop(engine);

    what_is_registered_needs_memory().await;
}

/// For small rows in many indexes the registration keys need more memory than the log.
async fn what_is_registered_needs_memory() {
    const CELLS: usize = 7;
    let indexes = (0..CELLS).map(|cell| {
        let kind = match cell {
            0 => IndexKind::Primary,
            _ => IndexKind::Secondary,
        };
        index(IndexId(PRIMARY.0 + 100 * cell as u32), kind, cell)
    });
    let directory = tempfile::tempdir().expect("a directory");
    let engine = opened_with(directory.path(), LIMIT / 2, indexes.collect()).await;
    let begin = |rows: u64| small_rows::<CELLS>(&engine, rows);
    let mut t = begin(60_000).await;
    assert_eq!(commit(&mut *t).await, Err(Error::OutOfMemory));
    drop(t);
    let mut t = begin(10_000).await;
    commit(&mut *t).await.expect("there is room for few");
    drop(t);
    engine.close().await.expect("it closes");
}

/// A transaction that has inserted rows of `CELLS` cells, all of which are the key.
async fn small_rows<const CELLS: usize>(engine: &Engine, rows: u64) -> Box<dyn Transaction> {
    let mut t = begun(engine).await;
    let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
    for key in 0..rows {
        (0..CELLS).for_each(|_| builder.push(Some(&key.to_be_bytes())));
        bytes.clear();
        builder.finish(&mut bytes);
        let inserting = coeval_txn::insert(&mut *t, STORAGE, RowRef::trusted(&bytes)).await;
        inserting.expect("the rows themselves have room");
    }
    t
}
