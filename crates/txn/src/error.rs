//! How a call of the contract can fail, sorted by what its caller can do.

use std::fmt;

use coeval_types::{IndexId, Remedy, Rid, StorageId, Timestamp, TransactionId};

/// Where two transactions met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// One row.
    Row {
        /// Its storage.
        storage: StorageId,
        /// Its record.
        rid: Rid,
    },
    /// One key, present or absent.
    Key {
        /// The storage.
        storage: StorageId,
        /// The index.
        index: IndexId,
        /// The encoded key.
        key: Vec<u8>,
    },
    /// Somewhere in a range that was scanned.
    Range {
        /// The storage.
        storage: StorageId,
        /// The index that was scanned.
        index: IndexId,
        /// First encoded key, empty for the very first.
        lower: Vec<u8>,
        /// Encoded key behind the last, `None` for no end.
        upper: Option<Vec<u8>>,
    },
    /// A whole table.
    Table {
        /// Its storage.
        storage: StorageId,
    },
}

/// Why a transaction cannot be given the isolation it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Another transaction committed a newer version of a row this one writes.
    WriteWrite,
    /// A row or key this one read was changed before this one committed.
    ReadChanged,
    /// A row came, went or changed in a range this one scanned.
    RangeChanged,
    /// The record of recent writers was overwritten before it could be checked.
    RingOverflow,
    /// A lock wanted at commit was held by a transaction that waits for this one.
    LockOrder,
    /// A schema this transaction relied on was changed.
    Schema,
}

impl Cause {
    /// For people: completes "because …".
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

/// Two transactions, of which this one has to give way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Why.
    pub cause: Cause,
    /// Where.
    pub place: Place,
    /// With whom, where that is known.
    pub other: Option<TransactionId>,
    /// The timestamp at which the other committed, where that is known.
    pub committed: Option<Timestamp>,
}

/// How a call of the contract can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Retry: the isolation asked for cannot be given this time.
    Conflict(Box<Conflict>),
    /// Retry: this transaction and others wait for each other; it gives way.
    Deadlock {
        /// Where it waited.
        place: Place,
        /// The transactions of the circle, this one first.
        circle: Vec<TransactionId>,
    },
    /// Retry: a lock was not to be had within the lock timeout.
    LockTimeout(Place),
    /// Retry: a lock is held and the caller did not want to wait.
    LockNotAvailable(Place),
    /// Retry the statement with a new plan and, at READ COMMITTED, a new snapshot.
    SchemaChanged(StorageId),
    /// Retry: its snapshot was the oldest of all and held on to more versions than
    /// there may be.
    SnapshotTooOld,
    /// Retry: asked to stop from outside.
    Canceled,
    /// Fix: a write in a read-only transaction.
    ReadOnly,
    /// Fix: the transaction writes more than one commit can hold, in bytes.
    WriteSetTooLarge {
        /// How much it would be.
        bytes: u64,
        /// How much there may be.
        limit: u64,
    },
    /// Fix: no memory left for growth; deletes still work.
    OutOfMemory,
    /// Fix: the disk is full, and says of what. Reads go on; what is committed is
    /// safe.
    DiskFull(String),
    /// Fix: the disk refuses something that no commit depends on, such as a
    /// checkpoint.
    Io(String),
    /// Fix: no such storage, index or savepoint: the caller's mistake.
    Unknown(&'static str),
    /// Fatal: the engine has stopped, for this reason.
    Stopped(String),
}

impl Error {
    /// What the caller can do.
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
            | Self::WriteSetTooLarge { .. }
            | Self::OutOfMemory
            | Self::DiskFull(_)
            | Self::Io(_)
            | Self::Unknown(_) => Remedy::Fix,
            Self::Stopped(_) => Remedy::Fatal,
        }
    }

    /// A conflict, boxed.
    #[must_use]
    pub fn conflict(cause: Cause, place: Place, other: Option<TransactionId>) -> Self {
        Self::Conflict(Box::new(Conflict {
            cause,
            place,
            other,
            committed: None,
        }))
    }

    /// A conflict with a transaction that has committed at this time already.
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
