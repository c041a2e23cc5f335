//! What answers rest on: what must hold before they leave the process.

use coeval_types::Timestamp;

/// A question put to an engine: whether at this moment nobody else can have taken its
/// place. Questions of one engine are in the order in which they were put, and the answer
/// to one answers all before it. One engine's question means nothing to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Confirmation(pub u64);

/// What an answer rests on. See rule 3 of the [crate](crate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The newest commit that it depends on, which must be durable.
    pub newest_seen: Timestamp,
    /// What must be confirmed, if something must.
    pub confirmation: Option<Confirmation>,
}

impl From<Timestamp> for Basis {
    /// Nothing but a commit.
    fn from(newest_seen: Timestamp) -> Self {
        Self {
            newest_seen,
            confirmation: None,
        }
    }
}
