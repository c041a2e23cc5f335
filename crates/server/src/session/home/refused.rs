//! Cycles that need no leader because they fail: writes in a READ ONLY block.
//!
//! A fresh read waits for a leader, whose newest commit it must not miss. A write in a READ ONLY
//! block fails with SQLSTATE 25006 whatever has been committed, so it does so at once, in the
//! state that this node has, and its block is over where it is.
//!
//! ```text
//!   begin read only              here
//!                                the leader is lost
//!   insert into t values (1)     here: no question is answered, and none needs to be
//!   rollback                     here
//! ```
//!
//! With a leader such a cycle asks as any other does, because what is wrong with the statement
//! itself comes first, as in PostgreSQL: that there is no such table, say. Without one, what is
//! wrong with it by this node's catalog may be right by the newest one. Then the client is told
//! that there is no leader.

use coeval_pgwire::frame::kind;
use coeval_sql::{Error, SqlState};

use super::block::Block;
use crate::session::cycle::Cycle;
use crate::session::relay::Relay;
use crate::session::tracker::string;

/// Whether an error depends on the state of the catalog: it is of the class "syntax error or
/// access rule violation".
pub(super) fn is_of_state(error: &Error) -> bool {
    let SqlState(state) = error.state();
    state.starts_with("42")
}

fn name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (name, rest) = string(bytes)?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

impl Relay {
    /// Whether the cycle fails in every state of the database: the block is READ ONLY, and all
    /// that the cycle prepares or executes writes.
    pub(super) fn is_refused(&mut self, cycle: &Cycle) -> bool {
        let (Some(Block::Here { is_read_only, .. }), Some(home)) =
            (&self.reads.block, &mut self.reads.home)
        else {
            return false;
        };
        if !is_read_only {
            return false;
        }
        let session = &mut home.conversation.session;
        let mut prepared_here = Vec::new();
        let (mut at, mut found) = (0, false);
        while at < cycle.bytes
            && let Ok(Some((frame, end))) = self.input.buffer.peek(at)
        {
            at = end;
            let prepared = match frame.kind {
                kind::QUERY | kind::PARSE => {
                    let first = name(frame.contents);
                    let text = match first {
                        Some((statement, rest)) if frame.kind == kind::PARSE => {
                            prepared_here.push(statement);
                            name(rest)
                        }
                        text => text,
                    };
                    if !text.is_some_and(|(text, _)| session.refuses(text)) {
                        return false;
                    }
                    found = true;
                    continue;
                }
                kind::BIND => name(frame.contents).and_then(|(_, rest)| name(rest)),
                kind::DESCRIBE if frame.contents.first() == Some(&b'S') => {
                    name(&frame.contents[1..])
                }
                _ => continue,
            };
            match prepared {
                Some((statement, _)) if prepared_here.contains(&statement) => {}
                Some((statement, _)) if session.refuses_named(statement) => {}
                Some(_) | None => return false,
            }
            found = true;
        }
        found
    }
}
