//! Election safety: a term has at most one leader.
//!
//! Source: Raft §5.2.

use std::collections::BTreeMap;

use coeval_types::Term;

use super::Violation;
use crate::position::NodeId;

/// The leader of each term.
#[derive(Clone, Debug, Default)]
pub(super) struct ElectionSafety(BTreeMap<Term, NodeId>);

impl ElectionSafety {
    /// Records that a node leads a term. Returns whether that is new.
    pub(super) fn leads(&mut self, term: Term, node: NodeId) -> Result<bool, Violation> {
        match self.0.insert(term, node) {
            None => Ok(true),
            Some(other) if other == node => Ok(false),
            Some(other) => Err(Violation {
                property: "election safety",
                node,
                what: format!("it leads term {term}, which node {other} has led"),
            }),
        }
    }
}
