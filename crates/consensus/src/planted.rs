//! Planted bugs of consensus: code of injected known bugs that takes more than one line.
//! Only code guarded by `planted!` calls it, so a program without planted bugs contains
//! none of it.

use coeval_types::Term;

use crate::consensus::{Consensus, State};
use crate::entry::Entry;
use crate::message::Body;
use crate::position::{NodeId, Position};
use crate::refusal::Refusal;

impl Consensus {
    /// Bug: a follower accepts the entries of a leader whose term is over, and acknowledges
    /// them in that term.
    pub(crate) fn obey_stale_leader(
        &mut self,
        from: NodeId,
        term: Term,
        previous: Position,
        entries: Vec<Entry>,
    ) -> Result<(), Refusal> {
        let received = entries.last().map_or(previous.end, |entry| entry.end);
        if matches!(self.state, State::Follower(_)) && self.has_prefix(previous) {
            self.take(entries)?;
            self.promise_in(from, term, Body::Appended { matched: received });
        }
        Ok(())
    }

    /// Bug: a follower also asks the node that led the term before its own, and takes that answer.
    pub(crate) fn ask_old_term(&mut self, number: u64) {
        let before = Term(self.term.0.saturating_sub(1));
        if self.durability.term() < before {
            return;
        }
        let members: Vec<NodeId> = self.shape.membership().members().collect();
        let own = self.id;
        for node in members.into_iter().filter(|node| *node != own) {
            self.send_preliminarily(node, before, Body::Ask { number });
        }
    }
}
