//! Election safety: a term has at most one leader.
//!
//! Source: Raft §5.2.

use std::collections::BTreeMap;

use coeval_types::Term;

use super::Violation;
use crate::position::NodeId;

/// Who led which term.
#[derive(Clone, Debug, Default)]
pub(super) struct ElectionSafety(BTreeMap<Term, NodeId>);

impl ElectionSafety {
    /// A node leads a term. Whether that is news.
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
