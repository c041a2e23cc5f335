//! What a relay keeps of a session that runs on another node: its handover state, and long
//! messages on their way. Both are charged to all sessions that this node relays; one that
//! finds no room fails with SQLSTATE 53200.

use std::sync::Arc;

use coeval_sql::Error;
use coeval_sql::instance::{SessionsMemory, SharedCharge};

/// Size in bytes of a client's messages in transit that any session may have.
const UNCHARGED: usize = 1 << 20;

pub(super) struct Kept {
    memory: Arc<SessionsMemory>,
    handover: Option<SharedCharge>,
    messages: Option<SharedCharge>,
    /// Size of the messages when they were charged last.
    charged: usize,
}

impl Kept {
    pub(super) fn new(memory: &Arc<SessionsMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            handover: None,
            messages: None,
            charged: 0,
        }
    }

    /// Charges the handover state of a session that this node has kept before.
    pub(super) fn resume(&mut self, bytes: u64) {
        self.handover = Some(self.memory.charge_anyway(bytes));
    }

    /// Charges the handover state as it is after a change.
    pub(super) fn charge_handover(&mut self, bytes: u64) -> Result<(), Error> {
        self.handover = None;
        self.handover = Some(self.memory.charge(bytes, "The state of a session")?);
        Ok(())
    }

    /// Charges the client's messages that are arriving, or on their way to the leader.
    pub(super) fn charge_messages(&mut self, bytes: usize) -> Result<(), Error> {
        if bytes != self.charged {
            (self.messages, self.charged) = (None, bytes);
            if bytes > UNCHARGED {
                self.messages = Some(self.memory.charge(bytes as u64, "A message")?);
            }
        }
        Ok(())
    }

    /// Charges a copy of the handover state, which is being sent to the next leader.
    pub(super) fn copied(&self, bytes: usize) -> SharedCharge {
        self.memory.charge_anyway(bytes as u64)
    }
}
