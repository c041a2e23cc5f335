//! Why somebody is not let in.

use std::fmt;

/// What kind of reason it is: for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No version of the protocol that both speak.
    Version,
    /// Another cluster's node.
    Cluster,
    /// The id of the very node that was asked.
    OwnId,
    /// Another node was meant than the one that was asked.
    Addressee,
    /// No member has this id.
    Unknown,
    /// The member with this id has been removed.
    Removed,
    /// The certificate is not that node's.
    Certificate,
    /// A member that says not where it listens, or where nobody may talk to it.
    Address,
    /// It has joined with nothing, under an id whose word counts.
    Forgotten,
    /// There is no room for another stream at the moment: try again.
    Busy,
    /// A reason that this version does not know; its words say which.
    Other,
}

impl Reason {
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
            Self::Other => u8::MAX,
        }
    }

    /// Zero is no refusal.
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
            _ => Self::Other,
        })
    }
}

/// A refusal, with its reason in words: for people, on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub reason: Reason,
    words: String,
}

/// Most bytes of words that are sent.
pub(crate) const MOST_WORDS: usize = 512;

impl Refusal {
    pub(crate) fn new(reason: Reason, words: impl Into<String>) -> Self {
        Self::heard(reason, &words.into())
    }

    /// What somebody else says is shown to people, so it cannot hold what moves a
    /// terminal's cursor or begins a line of a log.
    pub(crate) fn heard(reason: Reason, words: &str) -> Self {
        let mut end = words.len().min(MOST_WORDS);
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
        let long = "ä".repeat(MOST_WORDS);
        let refusal = Refusal::heard(Reason::Other, &format!("x{long}"));
        assert_eq!(refusal.words().len(), MOST_WORDS - 1);
    }
}
