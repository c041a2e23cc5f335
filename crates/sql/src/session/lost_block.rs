//! A transaction block that was lost with its leader: what its client is told of it.
//!
//! The session goes on on the next leader, in a block that has failed. Its first statement
//! there tells the client so, with SQLSTATE 40001, and the others are refused as in any block
//! that has failed. What was part of the block is not known there: a portal that is asked for
//! may have been one of the block's, and so it is not answered that there is none (34000).

use crate::error::{Error, Result, SqlState};
use crate::session::Session;

/// Whether the block that is open was lost with its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostBlock {
    /// It was not, or there is none.
    No,
    /// It was, and the client does not know yet.
    Untold,
    /// It was, and the client has the error.
    Told,
}

impl LostBlock {
    /// Whether the client is to get the error now. It gets it once.
    pub(super) fn tell(&mut self) -> bool {
        let is_untold = *self == Self::Untold;
        if is_untold {
            *self = Self::Told;
        }
        is_untold
    }
}

impl Session {
    /// Fails where a portal is asked for that this session does not know, if the open block
    /// was lost with its leader: with SQLSTATE 40001, or 25P02 if that was told.
    pub fn check_portals_kept(&mut self) -> Result<()> {
        match self.lost_block {
            LostBlock::No => Ok(()),
            LostBlock::Untold | LostBlock::Told => self.check_not_failed(),
        }
    }
}

/// SQLSTATE 40001: the block ended with its leader, whatever the client did in it.
pub(super) fn lost_transaction() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the transaction was rolled back because the leader of the cluster has changed",
    )
    .with_hint("Run the transaction again; the new leader has taken over the session.")
}
