//! The storages that a transaction's changes of the schema make and replace.
//!
//! A storage that a change of the schema makes is there at once and no transaction
//! takes it back. [`Storages`] lists those that have to be dropped at the end, by how
//! the transaction ends. Indexes need no such list: they come and go with the
//! engine's transaction.

use coeval_txn::Engine;
use coeval_types::StorageId;

/// The storages of one transaction that are to be dropped when it ends.
#[derive(Debug, Default)]
pub(crate) struct Storages {
    /// Made by this transaction; of no use if it is rolled back.
    made: Vec<StorageId>,
    /// No longer needed once it has committed.
    replaced: Vec<StorageId>,
    /// Of no use however it ends.
    useless: Vec<StorageId>,
}

/// What a savepoint keeps of a transaction's storages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoragesMark {
    made: usize,
    replaced: usize,
}

impl Storages {
    /// Notes a storage made in the engine.
    pub(super) fn note_made(&mut self, storage: StorageId) {
        self.made.push(storage);
    }

    /// Notes a storage that is not needed after the commit. One that this
    /// transaction has made itself is not needed in either case.
    pub(super) fn note_replaced(&mut self, storage: StorageId) {
        self.replaced.push(storage);
    }

    /// A savepoint is set here.
    pub(crate) fn mark(&self) -> StoragesMark {
        StoragesMark {
            made: self.made.len(),
            replaced: self.replaced.len(),
        }
    }

    /// The transaction goes back to a savepoint.
    pub(crate) fn rollback_to(&mut self, mark: StoragesMark) {
        // Others may still be told of them by the undo itself, so they are dropped
        // when all is over.
        self.useless.extend(self.made.drain(mark.made..));
        self.replaced.truncate(mark.replaced);
    }

    /// The transaction has committed.
    pub(crate) fn committed(&mut self, engine: &dyn Engine) {
        for storage in self.replaced.drain(..).chain(self.useless.drain(..)) {
            engine.drop_storage(storage);
        }
    }

    /// The transaction was rolled back.
    pub(crate) fn rolled_back(&mut self, engine: &dyn Engine) {
        for storage in self.made.drain(..).chain(self.useless.drain(..)) {
            engine.drop_storage(storage);
        }
    }
}
