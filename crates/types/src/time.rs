//! Log offsets, terms, and the commit timestamps made of both.
//!
//! A commit reserves its space in the log with one fetch-and-add. The offset that it
//! reserves becomes its commit timestamp, so log order is commit order:
//!
//! ```text
//!   63            44 43                                   0
//!  +----------------+-------------------------------------+
//!  |  term, 20 bits |  byte offset / 8, 44 bits           |
//!  +----------------+-------------------------------------+
//! ```
//!
//! A start after a crash, or a new leader, raises the term. An offset that is reused after
//! a truncation therefore makes a new timestamp, never an old one. Terms rank above
//! offsets, and a term never starts below the committed end of the one before it, so
//! comparing the packed words compares commits.
//!
//! Limits: 2²⁰ − 1 terms and 128 TiB of log. The code that assigns a term or reserves an
//! offset checks both.

use std::fmt;

/// Log sequence number: a byte offset in the log, seen as one endless stream. Frames start
/// at multiples of [`Lsn::ALIGNMENT`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Every frame starts at a multiple of this many bytes.
    pub const ALIGNMENT: u64 = 8;
    /// The first offset, in bytes, that does not fit a [`Timestamp`].
    pub const LIMIT: Self = Self((1 << Timestamp::OFFSET_BITS) * Self::ALIGNMENT);
}

impl fmt::Debug for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "lsn {}", self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// A period in which the log has one writer. Every start that opens the log for writing
/// raises the term, and so does every election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u32);

impl Term {
    /// The largest term that fits a [`Timestamp`].
    pub const MAX: Self = Self((1 << (64 - Timestamp::OFFSET_BITS)) - 1);
}

impl fmt::Display for Term {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Commit timestamp: a commit's position in the order of all commits, `(term, offset)` in
/// one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    const OFFSET_BITS: u32 = 44;

    /// Earlier than every commit: the timestamp of a snapshot of an empty database.
    pub const ZERO: Self = Self(0);
    /// Later than every commit. In a record's version region it means *no version here*.
    pub const INFINITE: Self = Self(u64::MAX);

    /// The commit timestamp of a frame that starts at `lsn` in `term`.
    ///
    /// # Panics
    /// When `lsn` is not aligned or either is past its limit. The log refuses to grow that
    /// far, so a caller that reserved the offset in the log never hits this.
    #[must_use]
    pub const fn new(term: Term, lsn: Lsn) -> Self {
        assert!(term.0 <= Term::MAX.0, "term past its limit");
        assert!(lsn.0 < Lsn::LIMIT.0, "log offset past its limit");
        assert!(lsn.0.is_multiple_of(Lsn::ALIGNMENT), "unaligned log offset");
        Self(((term.0 as u64) << Self::OFFSET_BITS) | (lsn.0 / Lsn::ALIGNMENT))
    }

    /// The timestamp that [`Display`](fmt::Display) writes as this text; `None` for one that no
    /// commit can have.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (term, lsn) = text.split_once('/')?;
        // `parse` takes a sign, which no text of a timestamp has.
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(term) || !digits(lsn) {
            return None;
        }
        let (term, lsn) = (Term(term.parse().ok()?), Lsn(lsn.parse().ok()?));
        let is_possible =
            term <= Term::MAX && lsn < Lsn::LIMIT && lsn.0.is_multiple_of(Lsn::ALIGNMENT);
        let timestamp = is_possible.then(|| Self::new(term, lsn));
        timestamp.filter(|timestamp| timestamp.is_finite())
    }

    /// The timestamp as one packed word, for atomics and for the log.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The timestamp with this packed word.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The term in which this commit was made.
    #[must_use]
    pub const fn term(self) -> Term {
        Term((self.0 >> Self::OFFSET_BITS) as u32)
    }

    /// The log offset at which this commit's frame starts.
    #[must_use]
    pub const fn lsn(self) -> Lsn {
        Lsn((self.0 & ((1 << Self::OFFSET_BITS) - 1)) * Lsn::ALIGNMENT)
    }

    /// Whether this is the timestamp of a version rather than [`Timestamp::INFINITE`].
    #[must_use]
    pub const fn is_finite(self) -> bool {
        self.0 != u64::MAX
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_finite() {
            write!(formatter, "{}/{}", self.term().0, self.lsn().0)
        } else {
            formatter.write_str("infinite")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        let timestamp = Timestamp::new(Term(7), Lsn(4096));
        assert_eq!(timestamp.term(), Term(7));
        assert_eq!(timestamp.lsn(), Lsn(4096));
        assert_eq!(timestamp.to_string(), "7/4096");
        assert_eq!(Timestamp::parse("7/4096"), Some(timestamp));
        let last = Lsn(Lsn::LIMIT.0 - Lsn::ALIGNMENT);
        for wrong in [
            "", "7", "7/", "/8", "7/4", "+7/8", "7/-8", "7/8/8", "infinite",
        ] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
        for past in [
            format!("{}/0", Term::MAX.0 + 1),
            format!("1/{}", Lsn::LIMIT.0),
            // Its packed word is that of no commit.
            format!("{}/{last}", Term::MAX.0),
        ] {
            assert_eq!(Timestamp::parse(&past), None, "{past}");
        }
    }

    #[test]
    fn a_later_term_is_later_at_any_offset() {
        let last = Timestamp::new(Term(1), Lsn(Lsn::LIMIT.0 - Lsn::ALIGNMENT));
        assert!(last < Timestamp::new(Term(2), Lsn(0)));
        assert!(Timestamp::new(Term::MAX, Lsn(Lsn::LIMIT.0 - 16)) < Timestamp::INFINITE);
    }

    #[test]
    #[should_panic(expected = "unaligned")]
    fn refuses_an_offset_between_frames() {
        let _ = Timestamp::new(Term(1), Lsn(4));
    }
}
