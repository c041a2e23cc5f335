//! Numbers that name things. Each is its own type, so that one is never taken
//! for another.

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
    /// The records of one table. Not the table's own identity: TRUNCATE and
    /// rewrites give a table a new storage, and roll back by keeping the old.
    StorageId(u32), "storage "
);

identifier!(
    /// One index over one storage. Unique in a database, never used twice.
    IndexId(u32), "index "
);

identifier!(
    /// A record's place in its storage's array. `(StorageId, Rid)` names a
    /// record in memory and in the log.
    Rid(u64), "rid "
);

identifier!(
    /// A running transaction. At most 62 bits, because a record's lock word
    /// keeps two for itself; 0 is nobody.
    TransactionId(u64), "transaction "
);

impl TransactionId {
    /// The largest number that fits a record's lock word.
    pub const MAX: Self = Self((1 << 62) - 1);
}
