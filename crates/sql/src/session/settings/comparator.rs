//! `coeval.read_comparator`: ways to give a follower's read its state that Coeval does not
//! use, to be measured beside the one it uses. A setting for developers, which only superusers
//! may set: what it chooses is slower, or stale.
//!
//! Source: snapshot isolation over Paxos replication, where the comparators have these names.

/// A way to give a follower's read its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadComparator {
    /// All reads go to the leader.
    Single,
    /// A read is executed in the state that its node has.
    Weak,
    /// A question for each read. A node that has not flushed, or does not know as committed,
    /// what the answer says has the leader execute the read; one that has not replayed it waits.
    Basic,
    /// A question for each read, which no other read shares.
    Alone,
    /// A read takes the commit that came with an answer of the leader to a message that was
    /// sent after the read had arrived; when none comes for a while, the leader is asked.
    Adaptive,
}

impl ReadComparator {
    /// The names of all values; the first is that of no comparator.
    pub(super) const NAMES: &[&str] = &["none", "single", "weak", "basic", "alone", "adaptive"];

    /// The comparator of that name; `None` for none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "single" => Self::Single,
            "weak" => Self::Weak,
            "basic" => Self::Basic,
            "alone" => Self::Alone,
            "adaptive" => Self::Adaptive,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_but_the_first_is_one_of_a_comparator() {
        let named = ReadComparator::NAMES
            .iter()
            .map(|name| ReadComparator::named(name));
        let named: Vec<_> = named.collect();
        assert_eq!(named[0], None);
        assert!(named[1..].iter().all(Option::is_some), "{named:?}");
    }
}
