//! Identifiers of storages, indexes, records and transactions. Each is its own type, so
//! that the compiler rejects one where another is expected.

use std::fmt;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, formatter)
            }
        }
    };
}

identifier!(
    /// Identifies the record array of one table. It is not the table's own identity:
    /// TRUNCATE and table rewrites give a table a new storage, and roll back by keeping the
    /// old one.
    StorageId(u32), "storage "
);

identifier!(
    /// Identifies one index over one storage. Unique in a database, never reused.
    IndexId(u32), "index "
);

identifier!(
    /// Record id: the slot of a record in its storage's array. `(StorageId, Rid)` names a
    /// record in memory and in the log.
    Rid(u64), "rid "
);

identifier!(
    /// Identifies a running transaction. At most 62 bits, because a record's lock word
    /// keeps two for itself; 0 means "no transaction".
    TransactionId(u64), "transaction "
);

impl TransactionId {
    /// The largest transaction id that fits a record's lock word.
    pub const MAX: Self = Self((1 << 61) - 1);
}

identifier!(
    /// A member of a cluster. Never used again for another one, nor for one that has
    /// lost its disk.
    NodeId(u64), "node "
);

/// The identity of a node's data directory: a random number, drawn once. A node that has
/// lost its disk, or has another directory in its place, keeps its number and has another
/// identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u128);

impl fmt::Display for DirectoryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Debug for DirectoryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "directory {self}")
    }
}
