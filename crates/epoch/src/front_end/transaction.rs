//! A write-only transaction at its front end, from its timestamp to the close of its epoch.
//!
//! ```text
//!   storing ──all back ends have it──▶ stored ──epoch closed──▶ committed
//!      │ refused, or given up
//!      ▼
//!   aborting ──all back ends have taken it back──▶ aborted
//! ```
//!
//! Storing and aborting transactions hold the barrier of their epoch; the others do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use coeval_council::NodeId;

use crate::answer::Reason;
use crate::operation::Write;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Storing,
    Stored,
    Aborting(Reason),
    Aborted,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) handle: u64,
    /// Number of different keys.
    pub(super) size: u32,
    /// The operations for each back end, kept until the epoch is closed: a back end that starts
    /// again needs them again.
    pub(super) writes: BTreeMap<NodeId, Arc<Vec<Write>>>,
    /// Back ends that have not taken this number of their stream.
    pub(super) awaits: BTreeMap<NodeId, u64>,
    pub(super) stage: Stage,
}

impl Transaction {
    /// Whether the epoch may not be reported drained because of it.
    pub(super) fn holds_barrier(&self) -> bool {
        matches!(self.stage, Stage::Storing | Stage::Aborting(_)) || !self.awaits.is_empty()
    }
}
