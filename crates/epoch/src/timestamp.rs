//! Timestamps without a clock: the epoch in the high bits, then a counter, then the front end.
//!
//! ```text
//!  63            24 23        8 7        0
//! +----------------+-----------+----------+
//! | epoch (40 bit) | counter   | front end|
//! +----------------+-----------+----------+
//!
//!  front end 2 draws in epoch 7:  7.0.2, 7.1.2, 7.2.2 …
//!  front end 1 meanwhile:         7.0.1, 7.1.1 …
//! ```
//!
//! Timestamps of one epoch are below all of the next, whatever the clocks of the front ends
//! show, so the validity periods of epochs are disjoint by construction. A front end whose
//! counter is full waits for the next epoch.

use std::fmt;
use std::str::FromStr;

/// The number of an epoch, below 2⁴⁰. Epoch 0 is before every epoch in which anything is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Epochs are below this.
    pub const LIMIT: u64 = 1 << 40;

    /// The epoch that many later.
    #[must_use]
    pub const fn plus(self, more: u64) -> Self {
        Self(self.0 + more)
    }

    /// The epoch before; 0 before the first.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The number of a front end, which is part of the timestamps that it draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontEndId(pub u8);

/// Timestamp of a transaction, and version number of what it writes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochTimestamp(u64);

impl EpochTimestamp {
    /// The timestamp with these parts.
    #[must_use]
    pub const fn new(epoch: Epoch, counter: u16, front_end: FrontEndId) -> Self {
        Self(epoch.0 << 24 | (counter as u64) << 8 | front_end.0 as u64)
    }

    /// The last timestamp of an epoch: a read there sees all of the epoch.
    #[must_use]
    pub const fn end_of(epoch: Epoch) -> Self {
        Self::new(epoch, u16::MAX, FrontEndId(u8::MAX))
    }

    /// The timestamp as a number, in the same order.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The timestamp of a number.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its epoch.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> 24)
    }

    /// The front end that drew it.
    #[must_use]
    pub const fn front_end(self) -> FrontEndId {
        FrontEndId(self.0 as u8)
    }

    /// Its place among the timestamps of its front end and epoch.
    #[must_use]
    pub const fn counter(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

impl fmt::Display for EpochTimestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, counter) = (self.epoch(), self.counter());
        write!(formatter, "{epoch}.{counter}.{}", self.front_end().0)
    }
}

/// A text is no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a timestamp is an epoch, a counter and a front end, as 7.0.1")]
pub struct NotATimestamp;

impl FromStr for EpochTimestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        let mut fields = text.split('.').map(str::parse::<u64>);
        let mut field = || fields.next().and_then(Result::ok).ok_or(NotATimestamp);
        let (epoch, counter, front_end) = (field()?, field()?, field()?);
        let (counter, front_end) = (u16::try_from(counter), u8::try_from(front_end));
        match (counter, front_end, fields.next()) {
            (Ok(counter), Ok(front_end), None) if epoch < Epoch::LIMIT => {
                Ok(Self::new(Epoch(epoch), counter, FrontEndId(front_end)))
            }
            _ => Err(NotATimestamp),
        }
    }
}

impl fmt::Debug for EpochTimestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_epoch_decides_then_the_counter_then_the_front_end() {
        let stamp = |epoch, counter, id| EpochTimestamp::new(Epoch(epoch), counter, FrontEndId(id));
        let ascending = [
            stamp(6, u16::MAX, 255),
            stamp(7, 0, 1),
            stamp(7, 0, 2),
            stamp(7, 1, 1),
            stamp(8, 0, 0),
        ];
        assert!(ascending.is_sorted());
        let last = stamp(Epoch::LIMIT - 1, 513, 9);
        assert_eq!(last.epoch(), Epoch(Epoch::LIMIT - 1));
        assert_eq!((last.counter(), last.front_end()), (513, FrontEndId(9)));
        assert_eq!(EpochTimestamp::from_bits(last.to_bits()), last);
        assert_eq!(last.to_string(), "1099511627775.513.9");
        assert_eq!("1099511627775.513.9".parse(), Ok(last));
        for wrong in [
            "",
            "7",
            "7.0",
            "7.0.1.0",
            "7.0.256",
            "7.65536.1",
            "1099511627776.0.1",
            "-1.0.0",
        ] {
            assert_eq!(
                wrong.parse::<EpochTimestamp>(),
                Err(NotATimestamp),
                "{wrong}"
            );
        }
    }
}
