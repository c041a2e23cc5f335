//! Questions for the newest commit: the interface by which a follower's engine learns up to
//! which offset its snapshots must reach (a read index asked by a follower).

use std::fmt;
use std::task::{Context, Poll};

use coeval_txn::{Error, Question};
use coeval_types::Lsn;

/// Consensus, as a follower's engine sees it: the source of answers.
///
/// Rule: when [`Questions::poll`] is ready with an offset, that offset is committed, and
/// every commit that was acknowledged before [`Questions::ask`] returned the question ends
/// at or before it.
///
/// Questions are numbered in the order in which they are asked. An answer answers all
/// earlier questions as well, since it includes more than theirs; so a source need only
/// keep the newest one. A question that is answered stays so: it is polled by all who
/// share it, and again by each of them while its tables are behind.
pub trait Questions: Send + Sync + fmt::Debug {
    /// The question that will be sent next; all callers until then share it.
    fn ask(&self) -> Question;

    /// Ready with the offset before which everything is committed; [`Error::Stopped`] when
    /// the question was lost, or no leader is known.
    fn poll(&self, question: Question, context: &mut Context<'_>) -> Poll<Result<Lsn, Error>>;
}
