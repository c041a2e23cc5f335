//! Replication protocols: each cluster has one, chosen when it is founded.

use std::fmt;

/// The protocol by which a cluster's nodes keep their copies: all that know it by name are here.
///
/// It stands in the CONTROL file of each node's directory and in the handshake of its nodes, so
/// that no node of one protocol takes part in a cluster of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// One node at a time, the leader, orders transactions in a log that the others follow.
    #[default]
    Leader,
    /// Transactions over partitions are ordered by epochs.
    Epoch,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 2] = [Self::Leader, Self::Epoch];

    /// Its name, as messages to people have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Epoch => "epoch",
        }
    }

    /// Its number, in files and in messages.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Leader => 0,
            Self::Epoch => 1,
        }
    }

    /// The protocol of a number; `None` for one of a later program.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.code() == code)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_a_number_of_its_own() {
        for (code, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(protocol.code()), code);
            assert_eq!(Protocol::of_code(protocol.code()), Some(protocol));
        }
        assert_eq!(Protocol::of_code(2), None);
        assert_eq!(
            Protocol::default(),
            Protocol::Leader,
            "what older files say"
        );
    }
}
