//! The interface of a node that runs a protocol for PutAll and GetAll: epochs, or one that they are
//! compared with. Payloads are bytes, as a connection between two nodes carries them.

use bytes::Bytes;
use coeval_council::NodeId;

use crate::answer::Answer;
use crate::back_end::LogWrite;
use crate::codec::Malformed;
use crate::directory::Decision;
use crate::node::EpochNode;
use crate::operation::{Key, Write};
use crate::wire;

/// What the caller has to carry out.
#[derive(Debug, Default)]
pub struct Turn {
    /// Payloads for other nodes.
    pub payloads: Vec<(NodeId, Bytes)>,
    /// Answers for clients, by the handles of their requests.
    pub answers: Vec<(u64, Answer)>,
    /// Writes to the log, in order; reported by [`Engine::persisted`].
    pub writes: Vec<LogWrite>,
    /// Decisions to propose to the council; only epochs have any.
    pub proposals: Vec<Decision>,
}

/// See the module.
pub trait Engine {
    /// A write-only transaction: all operations, or none.
    fn put_all(&mut self, handle: u64, writes: Vec<Write>);
    /// A read-only transaction, of what is there now.
    fn get_latest(&mut self, handle: u64, keys: Vec<Key>);
    /// A payload has come from a node.
    ///
    /// # Errors
    /// When no node of this protocol sends it.
    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed>;
    /// A tick of the caller's clock.
    fn tick(&mut self);
    /// Log writes up to this number are durable.
    fn persisted(&mut self, number: u64);
    /// Takes everything that the caller must do now.
    fn take(&mut self) -> Turn;
}

impl Engine for EpochNode {
    fn put_all(&mut self, handle: u64, writes: Vec<Write>) {
        Self::put_all(self, handle, writes);
    }

    fn get_latest(&mut self, handle: u64, keys: Vec<Key>) {
        Self::get_latest(self, handle, keys);
    }

    fn receive(&mut self, from: NodeId, payload: Bytes) -> Result<(), Malformed> {
        let frame = wire::decode(from, self.id(), payload)?;
        Self::receive(self, &frame);
        Ok(())
    }

    fn tick(&mut self) {
        Self::tick(self);
    }

    fn persisted(&mut self, number: u64) {
        Self::persisted(self, number);
    }

    fn take(&mut self) -> Turn {
        let output = Self::take(self);
        let frames = output.frames.iter();
        let payloads = frames.flat_map(|frame| {
            let payloads = wire::encode(frame).into_iter();
            payloads.map(|payload| (frame.to, payload))
        });
        Turn {
            payloads: payloads.collect(),
            answers: output.answers,
            writes: output.writes,
            proposals: output.proposals,
        }
    }
}
