//! The replicated state machine's interface: what a user of the council hands in.

use std::fmt;

use bytes::Bytes;

use crate::Position;

/// A deterministic state machine. The council calls it from one thread.
pub trait Machine: Send + 'static {
    /// Applies a committed entry, and returns an answer for its proposer. `at` names the entry:
    /// its term, in which its proposer led, and the log offset at which it ends.
    fn apply(&mut self, at: Position, entry: &[u8]) -> Bytes;

    /// The whole state as bytes, from which [`Machine::restore`] makes it again.
    fn snapshot(&self) -> Bytes;

    /// Replaces the state by that of a snapshot; `None` is the state before any entry.
    ///
    /// # Errors
    /// When the bytes are no snapshot of such a machine.
    fn restore(&mut self, snapshot: Option<&[u8]>) -> Result<(), RestoreFailed>;
}

/// Why bytes are no snapshot, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreFailed(pub &'static str);

impl fmt::Display for RestoreFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for RestoreFailed {}
