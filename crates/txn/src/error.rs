//! Errors of the transaction contract, classified by what the caller can do about them.

use std::fmt;

use coeval_types::{IndexId, Remedy, Rid, StorageId, Timestamp, TransactionId};

/// The row, key, range or table over which two transactions conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictLocation {
    /// One row.
    Row {
        /// The storage of the row.
        storage: StorageId,
        /// The record of the row.
        rid: Rid,
    },
    /// One key, present or absent.
    Key {
        /// The storage of the index.
        storage: StorageId,
        /// The index that holds the key.
        index: IndexId,
        /// The encoded key.
        key: Vec<u8>,
    },
    /// A range that a transaction scanned; the conflict is somewhere in it.
    Range {
        /// The storage of the index.
        storage: StorageId,
        /// The index that was scanned.
        index: IndexId,
        /// First encoded key of the range; empty for no lower end.
        lower: Vec<u8>,
        /// Encoded key after the last one of the range; `None` for no upper end.
        upper: Option<Vec<u8>>,
    },
    /// A whole table.
    Table {
        /// The storage of the table.
        storage: StorageId,
    },
}

/// Why the engine cannot give a transaction the isolation that it requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Another transaction committed a newer version of a row that this one writes.
    WriteWrite,
    /// A row or key that this transaction read was changed before it committed.
    ReadChanged,
    /// A row was inserted, deleted or changed in a range that this transaction scanned.
    RangeChanged,
    /// The ring of recent writers was overwritten before this transaction could validate
    /// against it.
    RingOverflow,
    /// A lock that this transaction needs at commit is held by a transaction that waits for
    /// it.
    LockOrder,
    /// A schema that this transaction relied on was changed.
    Schema,
}

impl Cause {
    /// The cause in messages: completes "because …".
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::WriteWrite => "a concurrent transaction updated the row first",
            Self::ReadChanged => "a row that was read has been changed since",
            Self::RangeChanged => "a range that was scanned has been changed since",
            Self::RingOverflow => "too many writers since the scan began to check them all",
            Self::LockOrder => "a row to be written is locked by another commit",
            Self::Schema => "the definition of a table has changed since",
        }
    }
}

/// A conflict between two transactions, seen by the one that has to abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Why the transaction has to abort.
    pub cause: Cause,
    /// The row, key, range or table of the conflict.
    pub place: ConflictLocation,
    /// The other transaction, if known.
    pub other: Option<TransactionId>,
    /// The commit timestamp of the other transaction, if it has committed and is known.
    pub committed: Option<Timestamp>,
}

/// Why a call of the contract failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Retry: the engine could not provide the requested isolation this time.
    Conflict(Box<Conflict>),
    /// Retry: this transaction and others wait for each other; this one is the victim.
    Deadlock {
        /// The lock that this transaction waited for.
        place: ConflictLocation,
        /// The transactions of the cycle, this one first.
        circle: Vec<TransactionId>,
    },
    /// Retry: the lock did not become available within the lock timeout.
    LockTimeout(ConflictLocation),
    /// Retry: another transaction holds the lock, and the caller asked not to wait.
    LockNotAvailable(ConflictLocation),
    /// Retry the statement with a new plan and, at READ COMMITTED, a new snapshot.
    SchemaChanged(StorageId),
    /// Retry: the transaction's snapshot was the oldest of all and protected more versions
    /// from garbage collection than the limit permits.
    SnapshotTooOld,
    /// Retry: the transaction was canceled through [`crate::BeginOptions::cancel`].
    Canceled,
    /// Fix: the transaction is read-only and attempted a write.
    ReadOnly,
    /// Fix: a row is longer than one row may be.
    RowTooLarge {
        /// Size of the row, in bytes as it is stored.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Fix: as many transactions are open as the engine can tell apart.
    TooManyTransactions {
        /// The most there can be.
        limit: usize,
    },
    /// Fix: the transaction writes more bytes than one commit can hold.
    WriteSetTooLarge {
        /// Size of the commit, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Fix: the memory limit is reached and no data can be added; deletes still work.
    OutOfMemory,
    /// Fix: the disk is full; the text names the file system. Reads continue, and commits
    /// are safe.
    DiskFull(String),
    /// Fix: an I/O operation failed on which no commit depends, such as a checkpoint.
    Io(String),
    /// Fix: the caller named a storage, index or savepoint that does not exist.
    Unknown(&'static str),
    /// Fatal: the engine has stopped, for this reason.
    Stopped(String),
}

impl Error {
    /// The caller's remedy: whether to retry, to change the request, or to give up.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Conflict(_)
            | Self::Deadlock { .. }
            | Self::LockTimeout(_)
            | Self::LockNotAvailable(_)
            | Self::SchemaChanged(_)
            | Self::SnapshotTooOld
            | Self::Canceled => Remedy::Retry,
            Self::ReadOnly
            | Self::RowTooLarge { .. }
            | Self::TooManyTransactions { .. }
            | Self::WriteSetTooLarge { .. }
            | Self::OutOfMemory
            | Self::DiskFull(_)
            | Self::Io(_)
            | Self::Unknown(_) => Remedy::Fix,
            Self::Stopped(_) => Remedy::Fatal,
        }
    }

    /// Creates an [`Error::Conflict`].
    #[must_use]
    pub fn conflict(cause: Cause, place: ConflictLocation, other: Option<TransactionId>) -> Self {
        Self::Conflict(Box::new(Conflict {
            cause,
            place,
            other,
            committed: None,
        }))
    }

    /// Adds the commit timestamp of the other transaction, if it has committed, to a
    /// conflict.
    #[must_use]
    pub fn with_commit(mut self, committed: Option<Timestamp>) -> Self {
        if let Self::Conflict(conflict) = &mut self {
            conflict.committed = committed;
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict(conflict) => write!(
                formatter,
                "could not serialize access: {}",
                conflict.cause.describe()
            ),
            Self::Deadlock { .. } => formatter.write_str("deadlock detected"),
            Self::LockTimeout(_) => formatter.write_str("canceled: lock timeout"),
            Self::LockNotAvailable(_) => formatter.write_str("could not obtain lock"),
            Self::SchemaChanged(storage) => {
                write!(formatter, "the schema of {storage:?} has changed")
            }
            Self::SnapshotTooOld => formatter.write_str("the snapshot is too old"),
            Self::Canceled => formatter.write_str("canceled by request"),
            Self::ReadOnly => formatter.write_str("the transaction is read-only"),
            Self::RowTooLarge { bytes, limit } => write!(
                formatter,
                "row is too big: size {bytes}, maximum size {limit}"
            ),
            Self::TooManyTransactions { limit } => write!(
                formatter,
                "sorry, too many transactions already: {limit} are open"
            ),
            Self::WriteSetTooLarge { bytes, limit } => write!(
                formatter,
                "a row or a transaction takes {bytes} bytes in the log, more than the limit of \
                 {limit}"
            ),
            Self::OutOfMemory => formatter.write_str("out of memory"),
            Self::DiskFull(reason) | Self::Io(reason) => formatter.write_str(reason),
            Self::Unknown(what) => write!(formatter, "no such {what}"),
            Self::Stopped(reason) => write!(formatter, "the engine has stopped: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
