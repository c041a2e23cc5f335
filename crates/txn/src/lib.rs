//! The transaction contract: what SQL, workloads and judges may ask of any
//! protocol, and what each protocol promises in return.
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
//! 1. **A read is one pinned step.** Rows are shown to a visitor and are gone when
//!    it returns. No reclamation guard and no borrowed row crosses an await.
//! 2. **Only begin, locks, writes that may meet a lock, index builds and commit
//!    wait.** They are `poll_` methods, so that the common case, ready at once,
//!    allocates nothing. A call that returned `Pending` is called again with the
//!    same arguments until it is ready, or the transaction is aborted.
//! 3. **What a transaction has seen may not be durable yet.** Nothing it returned
//!    leaves the process before [`Engine::poll_durable`] is ready for
//!    [`Transaction::newest_seen`]; nor an acknowledgement of its commit before
//!    the same for the commit's timestamp. And it may be old, where another engine
//!    may have taken this one's place unheard: what a transaction that wrote nothing
//!    was shown does not leave before [`Engine::poll_confirmed`] is ready for a
//!    [`Confirmation`] that was asked for after its snapshot. [`Basis`] has both. A
//!    transaction that is open may show more than its first answer before that, while
//!    [`Engine::is_unchallenged`], if its end waits.
//! 4. **A statement that changes rows first collects which, then changes them.** A
//!    transaction sees its own writes at once, so a scan that met them would chase
//!    its own tail.
//! 5. **Storages and indexes are physical.** They are created at once and known to
//!    nobody until a catalog row says so; that row's version decides who sees
//!    them. A storage that a rollback leaves behind is dropped by whoever created
//!    it. The indexes of a storage come and go with the transaction that has it
//!    locked alone, so that at no moment others meet an index they do not know, or
//!    miss one they do.
//!
//! Dropping a transaction that has not ended aborts it.

mod basis;
mod contention;
pub mod contract;
mod definitions;
mod error;
pub mod serial;
mod wait;

pub use basis::{Basis, Confirmation};
pub use contention::{Blocked, ConflictCount, GaveWay, LockKind, Party};
pub use contract::{
    BeginOptions, Bounds, Direction, Engine, IndexBuild, Insert, Isolation, KeptSnapshot,
    LockObserver, LockWait, LockedRow, Outcome, Savepoint, ScanProgress, ScanRequest, ScanSource,
    TableLock, Transaction, Update,
};
pub use definitions::{Definitions, Rows};
pub use error::{Cause, Conflict, Error, Place};
pub use serial::Serial;
pub use wait::{
    begin, build_index, commit, confirmed, durable, insert, lock_row, lock_table, update,
};
