//! Table locks: the eight modes, and which of them exclude each other.
//!
//! The modes and their conflicts are PostgreSQL's:
//!
//! | mode | taken by | excludes |
//! | --- | --- | --- |
//! | ACCESS SHARE | SELECT | ACCESS EXCLUSIVE |
//! | ROW SHARE | SELECT … FOR UPDATE and its like | EXCLUSIVE, ACCESS EXCLUSIVE |
//! | ROW EXCLUSIVE | INSERT, UPDATE, DELETE | SHARE and stronger |
//! | SHARE UPDATE EXCLUSIVE | ANALYZE | itself, SHARE and stronger |
//! | SHARE | CREATE INDEX | ROW EXCLUSIVE and stronger, but not itself |
//! | SHARE ROW EXCLUSIVE | GRANT on a table | ROW EXCLUSIVE and stronger, itself too |
//! | EXCLUSIVE | only LOCK TABLE | everything but ACCESS SHARE |
//! | ACCESS EXCLUSIVE | ALTER, DROP, TRUNCATE | everything |

/// Mode of a table lock. A transaction's own locks never exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TableLock {
    /// Held by a reader.
    AccessShare,
    /// Held by a reader that locks rows.
    RowShare,
    /// Held by a writer.
    RowExclusive,
    /// Held by maintenance beside readers and writers.
    ShareUpdateExclusive,
    /// Keeps writers out, for example while an index is built.
    Share,
    /// As [`TableLock::Share`], for one transaction at a time.
    ShareRowExclusive,
    /// Leaves only plain readers beside it.
    Exclusive,
    /// Leaves nothing beside it: for a change of the table's definition.
    AccessExclusive,
}

impl TableLock {
    /// All modes, from the weakest to the strongest.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// The mode as a set of one mode: bit `n` is the mode at position `n` of
    /// [`TableLock::ALL`].
    #[must_use]
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The set of modes that this mode excludes.
    #[must_use]
    pub const fn conflicts(self) -> u8 {
        match self {
            Self::AccessShare => 0b1000_0000,
            Self::RowShare => 0b1100_0000,
            Self::RowExclusive => 0b1111_0000,
            Self::ShareUpdateExclusive => 0b1111_1000,
            Self::Share => 0b1110_1100,
            Self::ShareRowExclusive => 0b1111_1100,
            Self::Exclusive => 0b1111_1110,
            Self::AccessExclusive => 0b1111_1111,
        }
    }

    /// Whether two transactions cannot hold these modes of one table at once.
    #[must_use]
    pub const fn excludes(self, other: Self) -> bool {
        self.conflicts() & other.bit() != 0
    }

    /// Whether a transaction that holds this mode needs nothing more to have `other`:
    /// this mode excludes everything that `other` excludes.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self as u8 == other as u8 || other.conflicts() & !self.conflicts() == 0
    }

    /// Whether this is a mode of statements that read or write rows (ACCESS SHARE, ROW
    /// SHARE, ROW EXCLUSIVE). These exclude none of one another.
    #[must_use]
    pub const fn is_weak(self) -> bool {
        matches!(
            self,
            Self::AccessShare | Self::RowShare | Self::RowExclusive
        )
    }

    /// The mode's name, as LOCK TABLE takes it, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "access share",
            Self::RowShare => "row share",
            Self::RowExclusive => "row exclusive",
            Self::ShareUpdateExclusive => "share update exclusive",
            Self::Share => "share",
            Self::ShareRowExclusive => "share row exclusive",
            Self::Exclusive => "exclusive",
            Self::AccessExclusive => "access exclusive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusion_is_mutual() {
        for one in TableLock::ALL {
            for other in TableLock::ALL {
                assert_eq!(
                    one.excludes(other),
                    other.excludes(one),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_table_is_postgresqls() {
        let table = TableLock::ALL.map(|one| {
            let excludes = |other| if one.excludes(other) { 'X' } else { '.' };
            TableLock::ALL.map(excludes).iter().collect::<String>()
        });
        assert_eq!(
            table,
            [
                ".......X", "......XX", "....XXXX", "...XXXXX", "..XX.XXX", "..XXXXXX", ".XXXXXXX",
                "XXXXXXXX",
            ]
        );
    }

    #[test]
    fn only_share_is_beside_the_order_of_strength() {
        use TableLock::{RowExclusive, Share, ShareRowExclusive, ShareUpdateExclusive};
        for one in TableLock::ALL {
            for other in TableLock::ALL {
                let beside = one == Share && matches!(other, RowExclusive | ShareUpdateExclusive);
                assert_eq!(
                    one.covers(other),
                    one >= other && !beside,
                    "{one:?} {other:?}"
                );
            }
        }
        assert!(ShareRowExclusive.covers(Share) && ShareRowExclusive.covers(ShareUpdateExclusive));
    }
}
