//! The unnamed statement: one that was prepared at home is unknown to the leader, which is told
//! of it before the client's next message there, as a piece of the session's state.
//!
//! ```text
//!   Parse "" "select …"  Bind  Execute  Sync      at home
//!   Bind ""  Execute  Sync                        the leader: the statement, then these
//! ```
//!
//! The leader's session keeps the text until a Bind or Describe uses it, and plans it then. So an
//! error, because its table is gone, say, is that message's, as in PostgreSQL, and a cycle that
//! does not use the statement has none.
//!
//! From cluster version 4 on. Below it the leader prepares all unnamed statements.

use coeval_pgwire::frame::kind;
use coeval_sql::session::SessionHandover;

use super::Reads;
use crate::session::cycle::Cycle;
use crate::session::opening;
use crate::session::relay::Relay;

impl Reads {
    /// Writes what the leader has to get before this message of the client. A client's message
    /// that replaces or drops the unnamed statement does so for the home session, too; if the
    /// leader takes it, it tells what there is then.
    pub(in crate::session) fn before(
        &mut self,
        message: u8,
        contents: &[u8],
        handover: &mut SessionHandover,
        out: &mut Vec<u8>,
    ) {
        let replaces = match message {
            kind::QUERY => true,
            kind::PARSE => contents.first() == Some(&0),
            kind::CLOSE => contents == b"S\0",
            _ => false,
        };
        if replaces {
            self.unsent = None;
            handover.forget_unnamed();
            if let Some(home) = &mut self.home {
                home.conversation.session.forget("");
            }
        }
        if message != kind::TERMINATE {
            for piece in self.unsent.take().into_iter().flatten() {
                opening::handover(out, &piece);
            }
        }
    }
}

impl Relay {
    /// Whether this cycle replaces or drops an unnamed statement.
    pub(super) fn names(&self, cycle: &Cycle) -> bool {
        let is_query = self.input.buffer.peek(0);
        let is_query = is_query.is_ok_and(|next| next.is_some_and(|(f, _)| f.kind == kind::QUERY));
        cycle.names && (!is_query || self.handover.prepared("").is_some())
    }

    /// Keeps what has become of the unnamed statement, in the handover state and for the
    /// leader.
    pub(super) fn keep_unnamed(&mut self, cycle: Cycle) {
        let Some(home) = self.reads.home.as_ref().filter(|_| cycle.names) else {
            return;
        };
        let had = self.handover.prepared("").is_some();
        let pieces = home.conversation.session.unnamed_statement();
        for piece in &pieces {
            // This process has just encoded the piece, so applying it does not fail.
            let _ = self.handover.apply(piece);
        }
        let has = self.handover.prepared("").is_some();
        if had || has || self.reads.unsent.is_some() {
            self.reads.unsent = Some(pieces);
        }
    }
}
