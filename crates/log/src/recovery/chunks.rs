//! The table of chunk frames that a reader of the log has seen, with the commits that
//! reference them; it tells a follower how much log it must retain.
//!
//! A leader knows which transactions may still commit ([`crate::chunks`]). A follower, which
//! only reads the log, knows that a commit references chunks of its own term only. So a chunk
//! is needed until a commit has referenced it, or until a later term has begun.
//!
//! ```text
//!        chunk a   chunk b   commit, refs b       P
//!  ───────┼─────────┼──────────┼──────────────────┼─────▶   needed from a on
//!         of term 2                               S₃ before P: needed from P on
//! ```
//!
//! The log does not say that a transaction was rolled back: its chunks are kept until the
//! term ends.

use std::collections::BTreeMap;

use coeval_types::{Lsn, Term, Timestamp};

#[derive(Clone, Copy, Debug)]
struct SeenChunk {
    term: Term,
    /// Log offset of the commit that references the chunk.
    named: Option<Lsn>,
}

/// The chunks that were seen and may still be needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenChunks {
    met: BTreeMap<Lsn, SeenChunk>,
    /// A log offset and a term: the log is needed from there for chunks of this term that
    /// were not read.
    before: Option<(Lsn, Term)>,
}

impl SeenChunks {
    /// Sets what a checkpoint needs of the log before it: the log is read only from after the
    /// checkpoint, and needed from `from` on for chunks of `term`.
    pub(crate) fn needed_before(&mut self, from: Lsn, term: Term) {
        self.before = Some((from, term));
    }

    /// Records a chunk frame with this timestamp.
    pub(crate) fn meet(&mut self, chunk: Timestamp) {
        let term = chunk.term();
        self.met
            .insert(chunk.lsn(), SeenChunk { term, named: None });
    }

    /// Records that a commit references a chunk.
    pub(crate) fn name(&mut self, chunk: Lsn, commit: Timestamp) {
        if let Some(met) = self.met.get_mut(&chunk) {
            met.named = Some(commit.lsn());
        }
    }

    /// Forgets everything at or after `at`, where the log is truncated.
    pub(crate) fn cut(&mut self, at: Lsn) {
        self.met.retain(|chunk, _| *chunk < at);
        for met in self.met.values_mut() {
            met.named = met.named.filter(|commit| *commit < at);
        }
    }

    /// Log offset from which the log is needed for commits at or after `end`. Everything
    /// before `end` is committed, and ends in `term`.
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
        let mut chunks = SeenChunks::default();
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
        // The commit that referenced it was cut off, and another one may reference it.
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
        let mut chunks = SeenChunks::default();
        chunks.needed_before(Lsn(40), Term(2));
        chunks.meet(at(2, 96));
        chunks.name(Lsn(96), at(2, 104));
        assert_eq!(chunks.needed_from(Lsn(200), Term(2)), Lsn(40));
        assert_eq!(chunks.needed_from(Lsn(300), Term(3)), Lsn(300));
    }
}
