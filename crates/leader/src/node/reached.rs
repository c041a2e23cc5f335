//! How far a follower has come beyond its disk, as it tells its leader: for people.
//!
//! ```text
//!   sent ─▶ on disk ─▶ committed ─▶ replayed
//!   ├─ consensus ──┤   ├── said here ──────┤
//! ```
//!
//! What a follower has on its disk the leader knows from acknowledgements. What of that the
//! follower knows to be committed, and shows to whoever would read there, nothing depends
//! on; so it says that a few times a second, if it has changed, and on every new connection,
//! for what it said last may have been lost with the one before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use coeval_peers::{Frame, Loss, NodeId};
use coeval_types::Lsn;

use super::driver::Driver;
use super::frames;
use super::{Role, Standing};

/// A follower looks so seldom, in ticks, whether there is something to say.
const TICKS: u32 = 4;

/// How far replay has come; its thread says so.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed(Arc<AtomicU64>);

impl Replayed {
    /// Everything before is in the tables, and visible.
    pub(super) fn set(&self, end: Lsn) {
        self.0.store(end.0, Ordering::Relaxed);
    }

    fn get(&self) -> Lsn {
        Lsn(self.0.load(Ordering::Relaxed))
    }
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Everything before is committed, and it knows.
    pub committed: Lsn,
    /// Everything before is in its tables.
    pub replayed: Lsn,
}

impl Reached {
    fn encode(self) -> Bytes {
        let mut bytes = self.committed.0.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.replayed.0.to_le_bytes());
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (committed, replayed) = bytes.split_first_chunk()?;
        Some(Self {
            committed: Lsn(u64::from_le_bytes(*committed)),
            replayed: Lsn(u64::from_le_bytes(replayed.try_into().ok()?)),
        })
    }
}

/// What a node says of itself, and has heard.
#[derive(Debug)]
pub(super) struct Reaching {
    replayed: Replayed,
    /// Ticks since it was last looked.
    ticks: u32,
    /// What was said last, and to whom.
    told: Option<(NodeId, Reached)>,
    /// What followers have said, while this node leads.
    heard: BTreeMap<NodeId, Reached>,
}

impl Reaching {
    pub(super) fn new(replayed: Replayed) -> Self {
        Self {
            replayed,
            ticks: 0,
            told: None,
            heard: BTreeMap::new(),
        }
    }

    /// A leader begins with knowing nothing of anybody, and ends with it.
    pub(super) fn forget(&mut self) {
        self.heard.clear();
    }

    /// What was said last may have been lost with the connection before.
    pub(super) fn connected(&mut self, node: NodeId) {
        self.told.take_if(|(to, _)| *to == node);
    }
}

impl Driver {
    /// A tick: a follower tells its leader how far it has come.
    pub(super) fn tell_reached(&mut self) {
        self.reaching.ticks += 1;
        if self.reaching.ticks < TICKS {
            return;
        }
        self.reaching.ticks = 0;
        let standing = Standing::of(&self.consensus);
        let Some(leader) = standing.leader.filter(|_| standing.role == Role::Follower) else {
            self.reaching.told = None;
            return;
        };
        let told = (leader, self.own_reached());
        if self.reaching.told == Some(told) {
            return;
        }
        let sent = (self.peers).send(leader, frames::REACHED, told.1.encode(), Loss::Kept);
        self.reaching.told = sent.is_ok().then_some(told);
    }

    /// A follower says how far it has come.
    pub(super) fn reached(&mut self, frame: &Frame) {
        let Some(reached) = Reached::decode(&frame.payload) else {
            tracing::error!(from = %frame.from, "how far a node has come makes no sense");
            return;
        };
        if self.lead.is_some() {
            self.reaching.heard.insert(frame.from, reached);
        }
    }

    /// How far this node has come.
    fn own_reached(&self) -> Reached {
        let committed = self.consensus.commit();
        let serves = self.lead.as_ref().is_some_and(|lead| lead.engine.is_some());
        let replayed = match serves {
            // What it commits is in its tables before.
            true => committed,
            false => self.reaching.replayed.get(),
        };
        Reached {
            committed,
            replayed,
        }
    }

    /// How far a node has come, if that is known here.
    pub(super) fn reached_by(&self, node: NodeId) -> Option<Reached> {
        if node.0 == self.consensus.id().0 {
            return Some(self.own_reached());
        }
        self.reaching.heard.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_follower_says_is_what_its_leader_hears() {
        let reached = Reached {
            committed: Lsn(9000),
            replayed: Lsn(8000),
        };
        let said = reached.encode();
        assert_eq!(Reached::decode(&said), Some(reached));
        for length in 0..said.len() {
            assert_eq!(Reached::decode(&said[..length]), None);
        }
        assert_eq!(Reached::decode(&[&said[..], &[0]].concat()), None);
    }
}
