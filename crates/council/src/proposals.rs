//! Proposals that wait for their commit, by the log offset at which their entries end.
//!
//! An entry that another term's leader puts at the offset, or across it, proves that the
//! proposal is not in the log and never will be.

use std::collections::BTreeMap;

use bytes::Bytes;
use coeval_consensus::{Entry, Position};
use coeval_types::{Lsn, Term};
use tokio::sync::oneshot;

use crate::{Applied, Error};

/// The way to a waiting proposer.
pub(crate) type Answer = oneshot::Sender<Result<Applied, Error>>;

/// The waiting proposals of one node.
#[derive(Debug, Default)]
pub(crate) struct Proposals(BTreeMap<Lsn, (Term, Answer)>);

impl Proposals {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a proposal whose entry ends at this position.
    pub(crate) fn add(&mut self, at: Position, answer: Answer) {
        // At an offset that was truncated, this node's earlier proposal is lost.
        if let Some((_, earlier)) = self.0.insert(at.end, (at.term, answer)) {
            let _ = earlier.send(Err(Error::Lost));
        }
    }

    /// Called when an entry has been applied, with the machine's answer. A proposer may have
    /// gone.
    pub(crate) fn applied(&mut self, entry: &Entry, answer: Bytes) {
        while let Some(first) = self.0.first_entry()
            && *first.key() <= entry.end
        {
            let (end, (term, proposer)) = first.remove_entry();
            let outcome = match (end, term) == (entry.end, entry.term) {
                true => Ok(Applied {
                    at: entry.position(),
                    answer: answer.clone(),
                }),
                false => Err(Error::Lost),
            };
            let _ = proposer.send(outcome);
        }
    }

    /// Called when a snapshot has replaced the log up to `end`, in which a proposal may be.
    pub(crate) fn covered(&mut self, end: Lsn) {
        while let Some(first) = self.0.first_entry()
            && *first.key() <= end
        {
            let _ = first.remove().1.send(Err(Error::Unknown));
        }
    }
}
