//! The transaction contract: the interface that SQL, workloads and checkers use for every
//! concurrency control protocol, and the guarantees that each protocol gives in return.
//!
//! ```text
//!   sql, workload, check                 know only this crate
//!        │  dyn Engine / dyn Transaction
//!        ▼
//!   serial │ occ │ leader │ epoch │ …     know this crate, never each other
//! ```
//!
//! The rules that hold for every implementation:
//!
//! 1. **A read is one pinned step.** The engine passes rows to a visitor, and they are
//!    invalid after it returns. No reclamation guard and no borrowed row crosses an await.
//! 2. **Only begin, locks, writes that may need a lock, index builds and commit wait.**
//!    They are `poll_` methods, so that the common case, ready at once, allocates nothing.
//!    After `Pending`, the caller calls again with the same arguments until the method is
//!    ready, or aborts the transaction.
//! 3. **What a transaction has seen may not be durable yet.** Nothing it returned leaves
//!    the process before [`Engine::poll_durable`] is ready for
//!    [`Transaction::newest_seen`]; nor does an acknowledgement of its commit before the
//!    same for the commit's timestamp. A read may also be stale, if another engine may have
//!    become leader unnoticed: the results of a transaction that wrote nothing do not leave
//!    before [`Engine::poll_confirmed`] is ready for a [`Confirmation`] that was requested
//!    after its snapshot. [`ResponseDependencies`] holds both conditions. While
//!    [`Engine::is_unchallenged`], an open transaction may return more than its first
//!    answer before that, if its end waits. An engine that follows another asks the other
//!    way round, before the snapshot: its snapshots include what was acknowledged before a
//!    [`Question`] once [`Engine::poll_newest`] is ready for it.
//! 4. **A statement that changes rows first collects which, then changes them.** A
//!    transaction sees its own writes at once, so a scan that encountered them would never
//!    end.
//! 5. **Storages and indexes are physical.** They are created at once, and no transaction
//!    knows of them until a catalog row names them; the visibility of that row's version
//!    decides which transactions see them. The creator of a storage drops it after a
//!    rollback. The indexes of a storage are created and dropped by the transaction that
//!    holds a lock on it that keeps writers out, so that no writer ever encounters an index
//!    unknown to it, or misses a known one.
//!
//! Dropping a transaction that has not ended aborts it.

mod contention;
pub mod contract;
mod definitions;
mod error;
mod message_marks;
mod response_dependencies;
pub mod serial;
mod table_lock;
mod wait;

pub use coeval_types::RowLock;
pub use contention::{Blocked, ConflictCount, GaveWay, LockKind, Party};
pub use contract::{
    Asking, BeginOptions, Bounds, Direction, Engine, IndexBuild, Insert, Isolation, KeptSnapshot,
    LockObserver, LockWait, LockedRow, Outcome, Savepoint, ScanProgress, ScanRequest, ScanSource,
    Standing, StorageMemory, Transaction, UnbuiltIndexes, Update,
};
pub use definitions::{Definitions, Rows};
pub use error::{Cause, Conflict, ConflictLocation, Error};
pub use message_marks::MarkedMessages;
pub use response_dependencies::{Answered, Confirmation, Question, ResponseDependencies};
pub use serial::Serial;
pub use table_lock::TableLock;
pub use wait::{
    StateWait, begin, build_index, commit, confirmed, durable, insert, lock_row, lock_row_in,
    lock_table, newest, update,
};
