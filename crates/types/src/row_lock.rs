//! Modes of a row lock, and which of them two transactions may hold on one row at once.
//!
//! ```text
//!                     KEY SHARE   SHARE   NO KEY UPDATE   UPDATE
//!   KEY SHARE             ·         ·           ·           ×
//!   SHARE                 ·         ·           ×           ×
//!   NO KEY UPDATE         ·         ×           ×           ×
//!   UPDATE                ×         ×           ×           ×        × one waits
//! ```
//!
//! Each mode conflicts with all that the mode before it conflicts with, so a transaction that
//! holds one mode has every weaker one. PostgreSQL's table 13.3 (row-level lock conflicts).

use std::fmt;

/// Mode of a row lock, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowLock {
    /// The row keeps its unique keys: it is not deleted, nor one of them changed.
    KeyShare,
    /// The row stays as it is.
    Share,
    /// The holder may change the row, except its unique keys.
    NoKeyUpdate,
    /// The holder may change any column, or delete the row.
    #[default]
    Update,
}

impl RowLock {
    /// All modes, from the weakest.
    pub const ALL: [Self; 4] = [Self::KeyShare, Self::Share, Self::NoKeyUpdate, Self::Update];

    /// Whether a transaction that wants `self` waits for another one that holds `held`.
    #[must_use]
    pub const fn conflicts_with(self, held: Self) -> bool {
        self as u8 + held as u8 > 2
    }

    /// Whether several transactions may hold this mode on one row.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !self.conflicts_with(self)
    }
}

impl fmt::Display for RowLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::KeyShare => "KEY SHARE",
            Self::Share => "SHARE",
            Self::NoKeyUpdate => "NO KEY UPDATE",
            Self::Update => "UPDATE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_conflict_as_in_postgresql() {
        let table = RowLock::ALL.map(|one| RowLock::ALL.map(|other| one.conflicts_with(other)));
        assert_eq!(
            table,
            [
                [false, false, false, true],
                [false, false, true, true],
                [false, true, true, true],
                [true, true, true, true],
            ]
        );
        let shared = RowLock::ALL.map(RowLock::is_shared);
        assert_eq!(shared, [true, true, false, false]);
    }
}
