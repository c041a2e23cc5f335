//! The unnamed statement: one that was prepared at home is unknown to the leader, which
//! gets its Parse before the next cycle that it executes.

use coeval_pgwire::frame::kind;
use coeval_sql::session::SessionHandover;

use super::Reads;
use crate::session::cycle::Cycle;
use crate::session::relay::Relay;
use crate::session::tracker::{answer, string};

/// A message about the unnamed statement: Parse, or Close.
pub(super) struct Unsent {
    kind: u8,
    contents: Vec<u8>,
}

impl Reads {
    /// The message that the leader has to get before this one of the client, which begins
    /// its next cycle. A client's message that replaces or drops the unnamed statement does
    /// so for the home session, too; if the leader takes it, it tells what there is then.
    pub(in crate::session) fn before(
        &mut self,
        message: u8,
        contents: &[u8],
        handover: &mut SessionHandover,
    ) -> Option<(u8, Vec<u8>)> {
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
            return None;
        }
        let unsent = self.unsent.as_ref()?;
        let begins_no_cycle = [
            kind::TERMINATE,
            kind::COPY_DATA,
            kind::COPY_DONE,
            kind::COPY_FAIL,
            kind::PASSWORD,
        ];
        if begins_no_cycle.contains(&message) || self.swallows.is_some() {
            return None;
        }
        self.swallows = Some(match unsent.kind {
            kind::PARSE => b'1',
            _ => b'3',
        });
        Some((unsent.kind, unsent.contents.clone()))
    }
}

impl Relay {
    /// Whether the client must not get this answer of the leader, because it is the one to a
    /// message that the relay has sent by itself.
    pub(in crate::session) fn swallows(&mut self, message: u8) -> bool {
        let Some(expected) = self.reads.swallows else {
            return false;
        };
        let is_answer = message == expected;
        // What the leader refuses once, because a table is gone, it would refuse again.
        if is_answer || message == answer::ERROR {
            self.reads.unsent = None;
        }
        if is_answer || matches!(message, answer::ERROR | answer::READY) {
            self.reads.swallows = None;
        }
        is_answer
    }

    /// Keeps what has become of the unnamed statement, in the handover state and for the
    /// leader.
    pub(super) fn keep_unnamed(&mut self, cycle: Cycle) {
        let Some(home) = self.reads.home.as_ref().filter(|_| cycle.names) else {
            return;
        };
        let had = self.handover.prepared("").is_some();
        for piece in home.conversation.session.unnamed_statement() {
            // This process has just encoded the piece, so applying it does not fail.
            let _ = self.handover.apply(&piece);
        }
        let text = self.handover.prepared("").unwrap_or_default();
        let mut parse = None;
        let mut at = 0;
        while let Ok(Some((frame, end))) = self.input.buffer.peek(at)
            && end <= cycle.bytes
        {
            // The last one may have been skipped after an error.
            let query = frame.contents.get(1..).and_then(string);
            if frame.kind == kind::PARSE
                && frame.contents.first() == Some(&0)
                && (parse.is_none() || query.is_some_and(|(query, _)| query == text.as_bytes()))
            {
                parse = Some(frame.contents);
            }
            at = end;
        }
        let exists = self.handover.prepared("").is_some();
        self.reads.unsent = match parse {
            Some(contents) if exists => Some(Unsent {
                kind: kind::PARSE,
                contents: contents.to_vec(),
            }),
            _ if had || self.reads.unsent.is_some() => Some(Unsent {
                kind: kind::CLOSE,
                contents: b"S\0".to_vec(),
            }),
            _ => None,
        };
    }
}
