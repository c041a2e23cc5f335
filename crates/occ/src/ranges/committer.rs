//! Who validates.

use coeval_types::{Timestamp, TransactionId};

/// A transaction that commits: it has drawn `own`, and fenced since.
#[derive(Clone, Copy, Debug)]
pub struct Committer {
    /// Its number.
    pub id: TransactionId,
    /// It has read what was committed up to here.
    pub snapshot: Timestamp,
    /// Its place in the order of commits.
    pub own: Timestamp,
}
