//! Planted bugs of sessions: known faults that a test server injects on purpose.

use super::{Block, Session};

impl Session {
    /// Aborts the transaction without informing the client.
    #[doc(hidden)]
    pub fn forget_transaction(&mut self) {
        self.fail();
        if self.block == Block::Failed {
            self.roll_back();
        }
    }

    /// Commits the transaction so far, although the client has not asked for that.
    #[doc(hidden)]
    pub async fn commit_whatever_there_is(&mut self) {
        if self.block == Block::Explicit {
            self.ticket.resume();
            // The client is not connected, so an error has no addressee.
            let _ = self.commit_block().await;
        }
    }
}
