//! A commit copies what it changes for the log: not beyond the limit of memory, and not
//! for longer than the transaction.
//!
//! A program of its own, because its allocator counts.

use coeval_log::Settings as LogSettings;
use coeval_memory::allocator::{self, Allocator};
use coeval_memory::heap;
use coeval_occ::{Budget, Engine, Settings};
use coeval_txn::{Engine as _, Error, Isolation, Transaction};
use coeval_types::{IndexKind, RowBuilder, RowRef};

use support::{PRIMARY, STORAGE, begin, commit, definition, index, lock_table, settings};

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "what the other tests need besides")]
mod support;

#[global_allocator]
static ALLOCATOR: Allocator = allocator::NEW;

const LIMIT: u64 = 96 << 20;
const ROW: usize = 60 << 10;

/// A transaction that has inserted so many rows of [`ROW`] bytes from this key on.
async fn inserted(engine: &Engine, keys: std::ops::Range<u64>) -> Box<dyn Transaction> {
    let mut t = begin(engine, Isolation::ReadCommitted).await;
    lock_table(&mut *t).await.expect("nobody else");
    let filler = vec![7_u8; ROW];
    for key in keys {
        let (mut builder, mut bytes) = (RowBuilder::new(), Vec::new());
        builder.push(Some(&key.to_be_bytes()));
        builder.push(Some(&filler));
        builder.finish(&mut bytes);
        let row = RowRef::trusted(&bytes);
        let inserting = coeval_txn::insert(&mut *t, STORAGE, row).await;
        inserting.expect("the rows themselves have room");
    }
    t
}

#[tokio::test]
async fn of_many_rows_need_memory_too() {
    allocator::start();
    let settings = Settings {
        budget: Budget::of(LIMIT, 50),
        log: LogSettings {
            ring_bytes: 8 << 20,
            ..LogSettings::default()
        },
        ..settings()
    };
    let directory = tempfile::tempdir().expect("a directory");
    let (engine, _) = Engine::open(directory.path(), settings)
        .await
        .expect("it opens");
    engine
        .attach_storage(definition(vec![index(PRIMARY, IndexKind::Primary, 0)]))
        .expect("a new engine has no storage");
    engine.set_occupied(heap::bytes().expect("the allocator counts"), 0);

    // A quarter of the limit, and for a moment as much again. What is kept of that is
    // little.
    let before = heap::bytes().expect("it counts");
    let mut t = inserted(&engine, 0..384).await;
    commit(&mut *t).await.expect("there is room for the copy");
    drop(t);
    let kept = heap::bytes().expect("it counts") - before;
    let rows = 384 * ROW as u64;
    assert!(kept < rows + rows / 4, "{kept} for rows of {rows}");

    // With another half there is none for its copy; the rows go, and others get in.
    let mut t = inserted(&engine, 1000..1700).await;
    assert_eq!(commit(&mut *t).await, Err(Error::OutOfMemory));
    drop(t);
    let mut t = inserted(&engine, 2000..2100).await;
    commit(&mut *t).await.expect("there is room again");
    drop(t);
    engine.close().await.expect("it closes");
}
