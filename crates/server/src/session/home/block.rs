//! Transaction blocks at home: from their BEGIN to their end, or to where they move to the
//! leader.
//!
//! ```text
//!            BEGIN            a write, a lock, SET, …        the next message
//!   none ─────────────▶ here ─────────────────────────▶ leaving ───────────▶ at the leader
//!    ▲                 │    │ a snapshot that lasts, a savepoint, a portal, an error
//!    └─ COMMIT, … ─────┤    ▼
//!    └──────────────── here, fixed
//! ```
//!
//! A block that may write is here as long as it only reads, at READ COMMITTED. When it
//! moves, the leader gets its start time and its modes before the client's next message
//! ([`Session::carry_block`](coeval_sql::session::Session::carry_block)), and executes the
//! cycle from its first message on. A block that is READ ONLY stays, but for a statement
//! that only the leader executes; once it is fixed, that is an error.
//!
//! The messages of a fixed block are executed one by one: nothing of it can move, so nothing
//! has to be held back.
//!
//! What a block here has changed that outlives it (settings, prepared statements) is told to
//! the leader before it gets the client's next message.
//!
//! Invariants:
//! - A block is in one place: the leader's session is in none as long as the block is here.
//! - A block leaves only if nothing of the cycle that makes it move was answered.
//! - A block that is here ends with its tables at the latest, and its client is told so.

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::backend::hot;
use coeval_pgwire::frame::kind;
use coeval_sql::Error;
use coeval_sql::session::Session;
use coeval_sql::statement::Statements;

use super::{Offer, Reads};
use crate::metrics::AtLeader;
use crate::session::conversation::Conversation;
use crate::session::cycle::{self, Cycle, Peeked, Place};
use crate::session::opening;
use crate::session::relay::Relay;
use crate::session::report;

/// A transaction block that is not at the leader.
#[derive(Debug)]
pub(super) enum Block {
    /// The home session is in it.
    Here {
        is_read_only: bool,
        /// Whether its next statement reads the state that the statement before has read, or
        /// none.
        keeps_snapshot: bool,
        /// What the leader must be told for the block to move there; `None` when it is fixed.
        piece: Option<Vec<u8>>,
    },
    /// The home session has given it up, and the leader is to get it.
    Leaving(Vec<u8>),
}

impl Reads {
    /// Whether the home session executes all messages until its block, or its cycle, ends.
    pub(super) const fn is_fixed(&self) -> bool {
        matches!(self.block, Some(Block::Here { piece: None, .. }))
    }

    /// Whether the home session is in a block.
    pub(super) const fn is_in_block(&self) -> bool {
        matches!(self.block, Some(Block::Here { .. }))
    }

    /// Whether the next statement reads the state that the statement before has read.
    pub(super) const fn keeps_snapshot(&self) -> bool {
        matches!(
            self.block,
            Some(Block::Here {
                keeps_snapshot: true,
                ..
            })
        )
    }

    /// Whether the client is in a block in which the home session can fail, though it may be
    /// about to leave.
    pub(in crate::session) const fn may_fail_here(&self) -> bool {
        self.block.is_some() && self.home.is_some()
    }

    /// Whether the leader is to be told what blocks have changed.
    pub(in crate::session) const fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The session at home, if it is in a block, or in the middle of a cycle.
    pub(in crate::session) fn session_in_block(&self) -> Option<&Session> {
        let home = self.home.as_ref().filter(|_| self.is_in_block())?;
        Some(&home.conversation.session)
    }

    /// Has the block move to the leader, which gets it before the client's next message.
    pub(super) fn leave(&mut self) {
        match self.block.take() {
            Some(Block::Here { piece, .. }) => {
                self.block = piece.map(Block::Leaving);
                if let Some(home) = &mut self.home {
                    home.conversation.forget_cycle();
                }
            }
            leaving => self.block = leaving,
        }
    }

    /// Writes what the leader must be told before this message of the client, and returns
    /// whether its session is in a block from then on that was here before.
    pub(in crate::session) fn move_to_leader(&mut self, message: u8, out: &mut Vec<u8>) -> bool {
        if message == kind::TERMINATE {
            return false;
        }
        for piece in self.news.drain(..) {
            opening::handover(out, &piece);
        }
        self.leave();
        let Some(Block::Leaving(piece)) = self.block.take() else {
            return false;
        };
        opening::handover(out, &piece);
        true
    }

    /// Takes the block that goes on in a session on this node.
    pub(in crate::session) fn take_block(&mut self) -> Option<Vec<u8>> {
        self.leave();
        match self.block.take()? {
            Block::Leaving(piece) => Some(piece),
            Block::Here { .. } => None,
        }
    }
}

impl Conversation {
    /// Answers the messages of a cycle with an error, instead of handling them, from the
    /// offset `at` of the buffer on.
    pub(super) fn refuse(
        &mut self,
        (buffer, mut at): (&ReadBuffer, usize),
        cycle: &Cycle,
        error: &Error,
        out: &mut Vec<u8>,
    ) {
        self.session.fail();
        self.rest = Statements::default();
        while let Ok(Some((frame, end))) = buffer.peek(at)
            && end <= cycle.bytes
        {
            at = end;
            self.owed.take(frame.kind);
            if cycle::is_end(frame.kind) || end == cycle.bytes {
                let lost = self.owed.lose();
                if lost.error {
                    self.sheet.error(error.state());
                    report::error(out, error);
                }
                if lost.ready {
                    let status = self.status();
                    hot::ready_for_query(out, status);
                }
            }
        }
        self.session.rest();
    }

    /// Whether a portal is open that a later message may execute.
    fn keeps_portal(&mut self) -> bool {
        let mut all = self.portals.all_mut();
        all.any(|(name, portal)| !name.is_empty() || !portal.is_done())
    }
}

impl Relay {
    /// Looks at the next cycle of a client that is in a block at home.
    pub(super) fn offer_in_block(&mut self, has_leader: bool) -> Offer {
        let handover = &self.handover;
        let prepared = |name: &str| handover.prepared(name);
        let buffer = &self.input.buffer;
        let message = || match cycle::message(buffer, prepared) {
            Some(message) => Offer::Home(message),
            None if buffer.has_frame() => Offer::Leader,
            None => Offer::Wait,
        };
        let place = match &self.reads.block {
            Some(Block::Here { piece: None, .. }) => return message(),
            Some(Block::Here { is_read_only, .. }) => match is_read_only {
                true => Place::ReadOnly,
                false => Place::Block,
            },
            Some(Block::Leaving(_)) | None => return Offer::Leader,
        };
        match cycle::peek(buffer, place, prepared) {
            Peeked::Whole(cycle) => Offer::Home(cycle),
            Peeked::Partial => Offer::Wait,
            Peeked::Leader(Some(AtLeader::Flush | AtLeader::Large)) if place == Place::ReadOnly => {
                let message = message();
                // Its answers leave as they come.
                if let (Offer::Home(_), Some(Block::Here { piece, .. })) =
                    (message, &mut self.reads.block)
                {
                    *piece = None;
                }
                message
            }
            Peeked::Leader(why) => {
                // Without a leader the cycle waits, and the block with it.
                if let Some(why) = why.filter(|_| has_leader) {
                    self.sheet.read_at_leader(why);
                }
                Offer::Leader
            }
        }
    }

    /// After a cycle, or a part of it: where the home session is, and what it has changed.
    pub(super) fn note_block(&mut self) {
        let Some(home) = &mut self.reads.home else {
            return;
        };
        let conversation = &mut home.conversation;
        let is_partial = !conversation.owed.is_nothing();
        let open = conversation.session.block_here();
        let keeps_portal = conversation.keeps_portal();
        let session = &mut conversation.session;
        let is_fixed = is_partial || open.is_some_and(|open| open.is_fixed || keeps_portal);
        self.reads.block = (open.is_some() || is_partial).then(|| Block::Here {
            is_read_only: open.is_none_or(|open| open.is_read_only),
            keeps_snapshot: open.is_some_and(|open| open.keeps_snapshot || open.has_failed),
            piece: (!is_fixed).then(|| session.carry_block()),
        });
        if session.has_changed() {
            for piece in session.take_handover_changes() {
                // This process has just encoded the piece, so applying it does not fail.
                let _ = self.handover.apply(&piece);
                self.reads.news.push(piece);
            }
            self.reads.forget_settings();
        }
        if self.reads.block.is_none() && self.reads.is_outlived {
            self.reads.home = None;
            self.reads.is_outlived = false;
        }
    }

    /// The client's next cycle fails with this error, if the client is in a block that is here
    /// or was about to leave: the block has failed, and is here. Returns whether there is one.
    pub(in crate::session) async fn fail_at_home(&mut self, error: &Error) -> bool {
        let (Some(block), Some(home)) = (&self.reads.block, &mut self.reads.home) else {
            return false;
        };
        if let Block::Leaving(piece) = block {
            let session = &mut home.conversation.session;
            if session.follow(std::slice::from_ref(piece)).await.is_err() {
                return false;
            }
        }
        self.reads.begin_cycle();
        let cycle = cycle::first(&self.input.buffer);
        self.answer(cycle, 0, error);
        true
    }

    /// The client's next message is refused, because there is no leader for it: its block
    /// ends with that.
    pub(in crate::session) fn refuse_block(&mut self) {
        self.reads.leave();
        if self.reads.block.take().is_some() {
            self.tracker.enter_block();
        }
    }

    /// The session goes on elsewhere on this node: a block that cannot move is lost.
    pub(super) fn lose_fixed_block(&mut self) {
        if !self.reads.is_fixed() {
            return;
        }
        self.reads.block = None;
        if let Some(mut home) = self.reads.home.take() {
            self.tracker = home.conversation.leave(self.client.buffer());
        }
    }
}
