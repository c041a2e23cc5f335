//! Planted bugs of sessions, for a server that has them.

use super::{Block, Session};

impl Session {
    /// Aborts the transaction, and the client is not told.
    #[doc(hidden)]
    pub fn forget_transaction(&mut self) {
        self.fail();
        if self.block == Block::Failed {
            self.roll_back();
        }
    }

    /// Commits what was done so far, although the client has not asked for that.
    #[doc(hidden)]
    pub async fn commit_whatever_there_is(&mut self) {
        if self.block == Block::Explicit {
            self.ticket.resume();
            // The client is not there to be told.
            let _ = self.commit_block().await;
        }
    }
}
