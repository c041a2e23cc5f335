//! Which chunks somebody who reads the log has met, and which commits have named them.
//!
//! A leader knows which transactions may still commit ([`crate::chunks`]). Whoever only reads
//! its log knows: a commit names chunks of its own term. So a chunk is needed until a commit
//! has named it, or until a later term has begun.
//!
//! ```text
//!        chunk a   chunk b   commit, names b      P
//!  ───────┼─────────┼──────────┼──────────────────┼─────▶   needed from a on
//!         of term 2                               S₃ before P: needed from P on
//! ```
//!
//! Of a transaction that was rolled back nobody tells: its chunks are kept until the term
//! ends.

use std::collections::BTreeMap;

use coeval_types::{Lsn, Term, Timestamp};

#[derive(Clone, Copy, Debug)]
struct Met {
    term: Term,
    /// The commit that has named it.
    named: Option<Lsn>,
}

/// Chunks that were met.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetChunks {
    met: BTreeMap<Lsn, Met>,
    /// From here on the log is needed for chunks of this term that were not met.
    before: Option<(Lsn, Term)>,
}

impl MetChunks {
    /// Those of a log that is read from behind a checkpoint on, with which it is needed from
    /// an earlier place on, for chunks of this term.
    pub(crate) fn needed_before(&mut self, from: Lsn, term: Term) {
        self.before = Some((from, term));
    }

    /// A chunk stands here.
    pub(crate) fn meet(&mut self, chunk: Timestamp) {
        let term = chunk.term();
        self.met.insert(chunk.lsn(), Met { term, named: None });
    }

    /// A commit has named a chunk.
    pub(crate) fn name(&mut self, chunk: Lsn, commit: Timestamp) {
        if let Some(met) = self.met.get_mut(&chunk) {
            met.named = Some(commit.lsn());
        }
    }

    /// The log is cut here.
    pub(crate) fn cut(&mut self, at: Lsn) {
        self.met.retain(|chunk, _| *chunk < at);
        for met in self.met.values_mut() {
            met.named = met.named.filter(|commit| *commit < at);
        }
    }

    /// From where on the log is needed for what commits at `end` or behind. Everything before
    /// is committed, and ends in this term.
    pub(crate) fn needed_from(&mut self, end: Lsn, term: Term) -> Lsn {
        self.met.retain(|chunk, met| {
            *chunk >= end || met.term >= term && met.named.is_none_or(|commit| commit >= end)
        });
        self.before = self.before.filter(|(_, of)| *of >= term);
        let met = self.met.first_key_value().map(|(chunk, _)| *chunk);
        let before = self.before.map(|(from, _)| from);
        [met, before].into_iter().flatten().fold(end, Lsn::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(term: u32, lsn: u64) -> Timestamp {
        Timestamp::new(Term(term), Lsn(lsn))
    }

    #[test]
    fn the_log_is_needed_until_a_commit_names_a_chunk_or_the_term_ends() {
        let mut chunks = MetChunks::default();
        assert_eq!(chunks.needed_from(Lsn(96), Term(2)), Lsn(96));
        for lsn in [96, 104, 120] {
            chunks.meet(at(2, lsn));
        }
        chunks.name(Lsn(96), at(2, 160));
        assert_eq!(chunks.needed_from(Lsn(112), Term(2)), Lsn(96));
        assert_eq!(
            chunks.needed_from(Lsn(160), Term(2)),
            Lsn(96),
            "160 is behind"
        );
        // The commit that named it is none, and another one may.
        chunks.cut(Lsn(160));
        assert_eq!(chunks.needed_from(Lsn(168), Term(2)), Lsn(96));
        chunks.name(Lsn(96), at(2, 168));
        assert_eq!(chunks.needed_from(Lsn(176), Term(2)), Lsn(104));
        chunks.meet(at(3, 240));
        assert_eq!(chunks.needed_from(Lsn(200), Term(3)), Lsn(200));
        assert_eq!(chunks.needed_from(Lsn(248), Term(3)), Lsn(240));
    }

    #[test]
    fn what_was_not_met_counts_until_its_term_ends() {
        let mut chunks = MetChunks::default();
        chunks.needed_before(Lsn(40), Term(2));
        chunks.meet(at(2, 96));
        chunks.name(Lsn(96), at(2, 104));
        assert_eq!(chunks.needed_from(Lsn(200), Term(2)), Lsn(40));
        assert_eq!(chunks.needed_from(Lsn(300), Term(3)), Lsn(300));
    }
}
