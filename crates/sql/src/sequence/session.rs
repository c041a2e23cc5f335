//! What a session knows of sequences: the number it was given last of each (`currval`), the
//! sequence that it has used last (`lastval`), and the numbers it has cached.
//!
//! It is no part of a transaction, and goes along when the session moves to another node; but
//! for cached numbers, which are lost then.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::number::{Counting, Step};

/// Most sequences that a session remembers. One more forgets the others' numbers.
const MOST: usize = 10_000;

/// What a session knows of sequences.
#[derive(Debug, Default)]
pub(crate) struct SessionSequences(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: BTreeMap<u32, Known>,
    /// The sequence of the last `nextval`.
    last: Option<u32>,
    /// Sequences of which a number was given since they were told.
    untold: Untold,
}

/// Which numbers another node has not been told.
#[derive(Debug, Default)]
struct Untold {
    sequences: std::collections::BTreeSet<u32>,
    /// Whether everything was forgotten before.
    forgotten: bool,
}

/// What a session knows of one sequence.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// State of which the cached numbers are.
    state: u64,
    /// The number that was given last.
    last: i64,
    /// The last of the cached numbers.
    cached: i64,
    /// Whether a number was given, or set with `setval`.
    is_given: bool,
}

/// The last number of a sequence that a session was given, for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// OID of the sequence.
    pub(crate) sequence: u32,
    pub(crate) number: i64,
    /// Whether it is the sequence of the last `nextval`.
    pub(crate) is_last: bool,
}

impl SessionSequences {
    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic while it was held")
    }

    /// The next cached number, if the session has one.
    pub(crate) fn take_cached(
        &self,
        sequence: u32,
        state: u64,
        counting: &Counting,
    ) -> Option<i64> {
        let mut inner = self.inner();
        let known = inner.known.get_mut(&sequence)?;
        if known.state != state || known.last == known.cached {
            return None;
        }
        known.last += counting.increment;
        let number = known.last;
        inner.give(sequence);
        Some(number)
    }

    /// Notes numbers that the session was handed out.
    pub(crate) fn note(&self, sequence: u32, state: u64, step: &Step) {
        let mut inner = self.inner();
        inner.make_room(sequence);
        let known = Known {
            state,
            last: step.first,
            cached: step.last,
            is_given: true,
        };
        inner.known.insert(sequence, known);
        inner.give(sequence);
    }

    /// Notes what `setval` has set. Cached numbers are lost.
    pub(crate) fn note_set(&self, sequence: u32, number: i64, is_called: bool) {
        let mut inner = self.inner();
        if is_called {
            inner.make_room(sequence);
            let known = Known {
                state: 0,
                last: number,
                cached: number,
                is_given: true,
            };
            inner.known.insert(sequence, known);
            inner.untold.sequences.insert(sequence);
        } else if let Some(known) = inner.known.get_mut(&sequence) {
            known.cached = known.last;
        }
    }

    /// The last number that the session was given of a sequence.
    pub(crate) fn current(&self, sequence: u32) -> Option<i64> {
        let inner = self.inner();
        let known = inner.known.get(&sequence)?;
        known.is_given.then_some(known.last)
    }

    /// The sequence of the last `nextval`, with its number.
    pub(crate) fn last(&self) -> Option<(u32, i64)> {
        let inner = self.inner();
        let sequence = inner.last?;
        Some((sequence, inner.known.get(&sequence)?.last))
    }

    /// DISCARD SEQUENCES.
    pub(crate) fn discard(&self) {
        let mut inner = self.inner();
        // Who knows of no sequence says nothing, which each version of a node understands.
        let forgotten = inner.untold.forgotten || !inner.known.is_empty();
        *inner = Inner {
            untold: Untold {
                forgotten,
                ..Untold::default()
            },
            ..Inner::default()
        };
    }

    /// Takes over that the session has forgotten everything on another node.
    pub(crate) fn forget(&self) {
        *self.inner() = Inner::default();
    }

    /// Takes over what the session knew on another node.
    pub(crate) fn take_over(&self, used: Used) {
        let mut inner = self.inner();
        inner.make_room(used.sequence);
        let known = Known {
            state: 0,
            last: used.number,
            cached: used.number,
            is_given: true,
        };
        inner.known.insert(used.sequence, known);
        if used.is_last {
            inner.last = Some(used.sequence);
        }
    }

    /// Whether there is something that another node was not told.
    pub(crate) fn has_news(&self) -> bool {
        let inner = self.inner();
        inner.untold.forgotten || !inner.untold.sequences.is_empty()
    }

    /// What another node was not told: whether to forget everything before, and the numbers.
    pub(crate) fn take_news(&self) -> (bool, Vec<Used>) {
        let mut inner = self.inner();
        let untold = std::mem::take(&mut inner.untold);
        let used = untold.sequences.into_iter();
        (
            untold.forgotten,
            used.filter_map(|each| inner.used(each)).collect(),
        )
    }

    /// All that another node has to know.
    pub(crate) fn all(&self) -> Vec<Used> {
        let inner = self.inner();
        let all = inner.known.keys();
        all.filter_map(|each| inner.used(*each)).collect()
    }
}

impl Inner {
    fn give(&mut self, sequence: u32) {
        self.last = Some(sequence);
        self.untold.sequences.insert(sequence);
    }

    fn make_room(&mut self, sequence: u32) {
        if self.known.len() >= MOST && !self.known.contains_key(&sequence) {
            let last = self.last.and_then(|last| self.known.remove_entry(&last));
            self.known.clear();
            self.untold.sequences.clear();
            self.untold.forgotten = true;
            if let Some((last, known)) = last {
                self.known.insert(last, known);
                self.untold.sequences.insert(last);
            }
        }
    }

    fn used(&self, sequence: u32) -> Option<Used> {
        let known = self.known.get(&sequence)?;
        known.is_given.then_some(Used {
            sequence,
            number: known.last,
            is_last: self.last == Some(sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_TWO: Counting = Counting {
        start: 1,
        increment: 2,
        minimum: 1,
        maximum: 100,
        cache: 3,
        cycle: false,
    };

    fn step() -> Step {
        BY_TWO.next(BY_TWO.begin(), "s").unwrap()
    }

    #[test]
    fn cached_numbers_are_given_before_others_are_asked_for() {
        let session = SessionSequences::default();
        assert_eq!(session.current(7), None);
        session.note(7, 1, &step());
        assert_eq!(session.current(7), Some(1));
        assert_eq!(session.take_cached(7, 1, &BY_TWO), Some(3));
        assert_eq!(session.take_cached(7, 1, &BY_TWO), Some(5));
        assert_eq!(session.take_cached(7, 1, &BY_TWO), None);
        session.note(7, 1, &step());
        assert_eq!(session.take_cached(7, 2, &BY_TWO), None, "another state");
        session.note_set(7, 90, false);
        assert_eq!(session.current(7), Some(1));
        assert_eq!(session.take_cached(7, 1, &BY_TWO), None);
    }

    #[test]
    fn another_node_is_told_what_was_given() {
        let (here, there) = (SessionSequences::default(), SessionSequences::default());
        here.note(7, 1, &step());
        here.note(8, 2, &step());
        assert!(here.has_news());
        let (forget, used) = here.take_news();
        assert!(!forget && !here.has_news());
        used.into_iter().for_each(|used| there.take_over(used));
        assert_eq!((there.current(7), there.last()), (Some(1), Some((8, 1))));
        here.discard();
        assert_eq!(here.take_news(), (true, Vec::new()));
        assert_eq!(here.last(), None);
        here.discard();
        assert!(!here.has_news(), "there was nothing to forget");
    }
}
