//! The committing transaction, as a validator needs to know it.

use coeval_types::{Timestamp, TransactionId};

/// A committing transaction, which was assigned `own` and has fenced since.
#[derive(Clone, Copy, Debug)]
pub struct Committer {
    /// Transaction id.
    pub id: TransactionId,
    /// Snapshot that the transaction has read at.
    pub snapshot: Timestamp,
    /// The transaction's own commit timestamp.
    pub own: Timestamp,
}
