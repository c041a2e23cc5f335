//! The simulated network interface of a node: a fixed bandwidth for sending, which the
//! receivers share.

use std::collections::{BTreeMap, VecDeque};

use coeval_consensus::{Message, NodeId};

use super::model::message_bytes;

/// Receivers take turns after this many bytes, like streams that share a link.
const CHUNK: u64 = 64 << 10;

/// Messages that wait to be sent, and the one that is being sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Nic {
    waiting: BTreeMap<NodeId, VecDeque<(Message, u64)>>,
    leaving: Option<(NodeId, u64)>,
}

impl Nic {
    pub(super) fn push(&mut self, message: Message) {
        let bytes = message_bytes(&message);
        let queue = self.waiting.entry(message.to).or_default();
        queue.push_back((message, bytes));
    }

    /// Starts sending, if the interface is idle: returns the number of bytes of this
    /// turn.
    pub(super) fn begin(&mut self, last: Option<NodeId>) -> Option<u64> {
        if self.leaving.is_some() {
            return None;
        }
        let after = |node: NodeId| last.is_some_and(|last| node > last);
        let mut wanting = self.waiting.iter().filter(|(_, queue)| !queue.is_empty());
        let (to, queue) = wanting
            .clone()
            .find(|(node, _)| after(**node))
            .or_else(|| wanting.next())?;
        let bytes = queue.front().map_or(0, |(_, bytes)| CHUNK.min(*bytes));
        self.leaving = Some((*to, bytes));
        Some(bytes)
    }

    /// Ends the current turn: returns the receiver, and the message if it has been sent
    /// completely.
    pub(super) fn left(&mut self) -> Option<(NodeId, Option<Message>)> {
        let (to, bytes) = self.leaving.take()?;
        let queue = self.waiting.get_mut(&to)?;
        let (_, remaining) = queue.front_mut()?;
        *remaining -= bytes;
        let is_whole = *remaining == 0;
        let message = is_whole.then(|| queue.pop_front()).flatten();
        Some((to, message.map(|(message, _)| message)))
    }
}
