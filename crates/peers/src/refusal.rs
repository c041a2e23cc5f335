//! Refusals: why a node does not accept another node's connection.

use std::fmt;

/// Kind of a refusal's reason, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The two nodes have no version of the protocol in common.
    Version,
    /// The node belongs to another cluster.
    Cluster,
    /// The node uses the id of the node that it connects to.
    OwnId,
    /// The connecting node means to reach another node than this one.
    Addressee,
    /// No member has this id.
    Unknown,
    /// The member with this id has been removed.
    Removed,
    /// The connecting node's certificate does not name that node.
    Certificate,
    /// The member announces no address, or one at which no node may connect to it.
    Address,
    /// The node has joined with an empty directory under the id of a voter.
    Forgotten,
    /// The node's data directory is not the one that the cluster knows it by.
    Directory,
    /// The node founds a cluster that the other node has a log of.
    Founded,
    /// The node does not read the cluster version in force.
    Reads,
    /// The node's cluster has another protocol.
    Protocol,
    /// The node has too many streams at the moment: try again.
    Busy,
    /// A reason that this version does not know; the words explain it.
    Other,
}

impl Reason {
    /// Whether the reason lies in the connecting node, and will not go away by itself: its
    /// cluster does not let it in.
    #[must_use]
    pub const fn shuts_out(self) -> bool {
        matches!(
            self,
            Self::Removed | Self::Forgotten | Self::Directory | Self::Founded | Self::Reads
        )
    }

    pub(crate) fn encode(self) -> u8 {
        match self {
            Self::Version => 1,
            Self::Cluster => 2,
            Self::OwnId => 3,
            Self::Addressee => 4,
            Self::Unknown => 5,
            Self::Removed => 6,
            Self::Certificate => 7,
            Self::Busy => 8,
            Self::Address => 9,
            Self::Forgotten => 10,
            Self::Directory => 11,
            Self::Founded => 12,
            Self::Reads => 13,
            Self::Protocol => 14,
            Self::Other => u8::MAX,
        }
    }

    /// Decodes a reason; 0 means no refusal.
    pub(crate) fn decode(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => return None,
            1 => Self::Version,
            2 => Self::Cluster,
            3 => Self::OwnId,
            4 => Self::Addressee,
            5 => Self::Unknown,
            6 => Self::Removed,
            7 => Self::Certificate,
            8 => Self::Busy,
            9 => Self::Address,
            10 => Self::Forgotten,
            11 => Self::Directory,
            12 => Self::Founded,
            13 => Self::Reads,
            14 => Self::Protocol,
            _ => Self::Other,
        })
    }
}

/// A refusal, with its reason in words: for administrators, on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kind of the reason, for programs.
    pub reason: Reason,
    words: String,
}

/// Maximum length of the words sent, in bytes.
pub(crate) const MAX_WORDS: usize = 512;

impl Refusal {
    pub(crate) fn new(reason: Reason, words: impl Into<String>) -> Self {
        Self::heard(reason, &words.into())
    }

    /// A refusal received from another node. Its words are displayed, so control
    /// characters, which could move a terminal's cursor or begin a line of a log, are
    /// replaced.
    pub(crate) fn heard(reason: Reason, words: &str) -> Self {
        let mut end = words.len().min(MAX_WORDS);
        while !words.is_char_boundary(end) {
            end -= 1;
        }
        let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
        Self {
            reason,
            words: words[..end].chars().map(shown).collect(),
        }
    }

    /// The reason in words.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.words
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_back_what_they_write() {
        for byte in 1..=u8::MAX {
            let reason = Reason::decode(byte).unwrap();
            assert!(reason == Reason::Other || reason.encode() == byte);
        }
        assert_eq!(Reason::decode(0), None);
    }

    #[test]
    fn words_from_outside_are_short_and_plain() {
        let refusal = Refusal::heard(Reason::Other, "no\n2026 INFO all is well\u{1b}[2J");
        assert_eq!(refusal.words(), "no 2026 INFO all is well [2J");
        let long = "ä".repeat(MAX_WORDS);
        let refusal = Refusal::heard(Reason::Other, &format!("x{long}"));
        assert_eq!(refusal.words().len(), MAX_WORDS - 1);
    }
}
