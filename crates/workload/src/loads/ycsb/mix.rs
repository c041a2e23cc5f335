//! The six YCSB mixes of operations.

use crate::chance::Chance;

/// Most rows of a scan in mix E.
const SCAN: u64 = 100;

/// A YCSB mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// Half reads, half updates.
    A,
    /// Mostly reads, some updates.
    B,
    /// Only reads.
    C,
    /// Reads of the newest rows.
    D,
    /// Mostly scans, some inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Update,
    Insert,
    Scan(u64),
    ReadModifyWrite,
}

impl Letter {
    /// The operation for a random number `percent` below 100.
    pub(super) fn operation(self, percent: u64, chance: &mut Chance) -> Operation {
        match (self, percent) {
            (Self::A, 0..50) | (Self::B, 0..5) => Operation::Update,
            (Self::D | Self::E, 0..5) => Operation::Insert,
            (Self::E, _) => Operation::Scan(chance.within(1..SCAN + 1)),
            (Self::F, 0..50) => Operation::ReadModifyWrite,
            _ => Operation::Read,
        }
    }

    /// Parses a letter, in either case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "A" => Self::A,
            "B" => Self::B,
            "C" => Self::C,
            "D" => Self::D,
            "E" => Self::E,
            "F" => Self::F,
            _ => return None,
        })
    }

    /// Kinds of the mix's transactions: the read-only kind first.
    pub(super) const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::A | Self::B | Self::C => &["read", "update"],
            Self::D => &["read", "insert"],
            Self::E => &["scan", "insert"],
            Self::F => &["read", "read-modify-write"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_those_of_the_table() {
        for (letter, share) in [
            (Letter::A, 50),
            (Letter::B, 5),
            (Letter::C, 0),
            (Letter::D, 5),
            (Letter::E, 5),
            (Letter::F, 50),
        ] {
            let mut chance = Chance::new(1);
            let changes = (0..100)
                .filter(|&percent| {
                    let operation = letter.operation(percent, &mut chance);
                    !matches!(operation, Operation::Read | Operation::Scan(_))
                })
                .count();
            assert_eq!(changes, share, "{letter:?}");
        }
    }
}
