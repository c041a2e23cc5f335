//! The mark rule: the first entry of a term is its mark, there is no other mark in it,
//! and its leader appends nothing after the mark before the mark is on a majority's
//! disks.
//!
//! Source: FRS §6.4, theorem 6.2.

use super::Violation;
use super::logs::Logs;
use crate::entry::Entry;
use crate::position::{NodeId, Position};
use crate::ready::Role;

/// Checks entries when they enter a log.
pub(super) struct MarkRule;

impl MarkRule {
    /// Checks an entry of a node's log, which follows the prefix `before`.
    pub(super) fn has(
        logs: &Logs,
        node: NodeId,
        before: Position,
        entry: &Entry,
    ) -> Result<(), Violation> {
        let violation = |what: String| {
            Err(Violation {
                property: "the mark rule",
                node,
                what,
            })
        };
        if (entry.term > before.term) != entry.is_mark() {
            return violation(format!(
                "behind {before} comes {}, which {} a mark",
                entry.position(),
                if entry.is_mark() { "is" } else { "is not" }
            ));
        }
        let role = logs.role(node);
        let leads = matches!(role.role, Role::Leader { .. }) && role.term == entry.term;
        if entry.is_mark() || !leads {
            return Ok(());
        }
        let log = logs.log(node);
        let mark = log.first_of(entry.term);
        let membership = mark.and_then(|mark| log.memberships_from(mark.end).next());
        if let (Some(mark), Some(membership)) = (mark, membership)
            && !logs.is_durable(membership, mark.position())
        {
            return violation(format!(
                "it adds {} while its mark {} is not on a majority's disks",
                entry.position(),
                mark.position()
            ));
        }
        Ok(())
    }
}
