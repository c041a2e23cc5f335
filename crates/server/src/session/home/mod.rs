//! Reads at home: beside the relay of a client, a session on the client's own node executes
//! the cycles that only read, if the client's session wants that (`coeval.read_from`).
//!
//! ```text
//!                        ┌▶ home session ─▶ tables of this node        cycles that only read
//!   client ◀──▶ relay ───┤       ▲ follows
//!                        └▶ leader's session ── what has changed ──▶   all other cycles
//! ```
//!
//! Outside of blocks, state changes on the leader only (SET, PREPARE, SET ROLE), and comes
//! home with its ReadyForQuery. So a cycle may be read at home when the leader owes the
//! client nothing and has no transaction block open. Decided on the bound statements: the
//! home session binds them in a snapshot of its own, and refuses what has effects.
//! Transaction blocks begin at home as well ([`block`]).
//!
//! ```text
//!   whole cycle ─▶ follow the session ─▶ ask the leader for the newest commit ─▶ execute
//!        │                 │ not understood       │ no answer                     │ refused,
//!        └─────────────────┴──────────────────────┴───────────────────────────────┴▶ leader
//! ```
//!
//! The client's stream is lent to the home session for the cycle, whose messages stay in
//! the input until it has answered. Its answers are held back until the last statement of
//! the cycle is about to run: a cycle that turns out to need the leader has told the client
//! nothing, and the leader executes it from its first message on.
//!
//! An unnamed statement that was prepared at home is unknown to the leader, which is told of it
//! before the next cycle that goes there ([`unnamed`]).
//!
//! Invariants:
//! - Each cycle is answered by one of the two sessions, from its first message to its last.
//! - The home session acts as the role that the leader has let in, by number: a role that is
//!   now called like the client gives it nothing.
//! - An error that is found in a state that may be old is not told: the leader executes the
//!   cycle again. But for one that every state has ([`refused`]).
mod block;
mod comparators;
mod hold;
mod marks;
mod open;
mod read;
mod refused;
mod stamp;
mod unnamed;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_occ::Marks;
use coeval_sql::Error;
use coeval_sql::instance::activity::Listing;
use coeval_sql::session::Freshness;
use coeval_sql::session::settings::{ReadComparator, ReadFrom};

use self::block::Block;
use self::open::Home;
pub(super) use self::read::{Read, Reading};
use self::stamp::{Asked, Wants};
use super::cycle::{self, Cycle, Peeked, Place};
use super::relay::{BETWEEN, Relay, no_leader};
use crate::metrics::{AtLeader, Stamp};
use crate::reader::Reader;
use crate::shared::Shared;

/// The state of a relay that reads at home.
#[derive(Default)]
pub(super) struct Reads {
    home: Option<Box<Home>>,
    /// What the leader's session has told since the home session followed it.
    pieces: Vec<Vec<u8>>,
    /// The settings that say where the session reads.
    wants: Option<Wants>,
    /// How long the client may be silent outside of blocks, once that was looked up.
    idle_timeout: Option<Option<Duration>>,
    /// Whether the next cycle goes to the leader, whatever it is.
    bypass: bool,
    /// The marks among the messages to the leader.
    marks: Marks,
    /// What has become of the unnamed statement at home, which the leader must be told before
    /// the next message that it gets.
    unsent: Option<Vec<Vec<u8>>>,
    /// The entry in the list of this node's sessions of one that has no home session yet.
    listing: Option<Listing>,
    /// The block that the client is in, unless it is at the leader.
    block: Option<Block>,
    /// What blocks at home have changed, for the leader.
    news: Vec<Vec<u8>>,
    /// Whether the home session was opened for the leader before, and ends with its block.
    is_outlived: bool,
}

impl Reads {
    /// The session's settings may have changed.
    fn forget_settings(&mut self) {
        self.wants = None;
        self.idle_timeout = None;
    }

    /// How long the client may be silent outside of blocks, if that was looked up.
    pub(super) const fn idle_timeout(&self) -> Option<Option<Duration>> {
        self.idle_timeout
    }

    pub(super) fn keep_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.idle_timeout = Some(timeout);
    }

    /// Lists a session that reads here, until its home session is.
    pub(super) fn list(&mut self, listing: Listing) {
        self.listing = Some(listing);
    }

    /// Records that a message of the client has been taken, or refused.
    pub(super) fn begin_cycle(&mut self) {
        self.bypass = false;
    }
}

/// Who executes the client's next cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// The leader.
    Leader,
    /// Not known before more of it has come.
    Wait,
    /// The home session, if it can.
    Home(Cycle),
}

/// Why the home session does not execute a cycle.
enum Not {
    /// The leader is to execute it.
    Leader(AtLeader),
    /// The client gets this error.
    Told(Error),
    /// No leader can be asked, and the cycle needs none: it fails in every state.
    Refused,
    /// The client has gone.
    Gone,
}

impl Relay {
    /// Looks at the client's next cycle, before anything of it is taken.
    pub(super) fn offer(&mut self, shared: &Shared, has_leader: bool) -> Offer {
        if self.reads.bypass || !self.tracker.is_at_rest() {
            return Offer::Leader;
        }
        if self.reads.block.is_some() {
            return self.offer_in_block(has_leader);
        }
        let wants = self.wants(shared);
        let compares = wants.compares.map(|compares| compares.by);
        if compares == Some(ReadComparator::Single) {
            return Offer::Leader;
        }
        match wants.from {
            ReadFrom::Leader => return Offer::Leader,
            ReadFrom::Fresh if !has_leader => return Offer::Leader,
            ReadFrom::Fresh | ReadFrom::Session | ReadFrom::Any => {}
        }
        // The leader has what the session reads: temporary tables, say.
        if self.handover.is_pinned() {
            return Offer::Leader;
        }
        if self.handover.login().is_none() || shared.reader.borrow().is_none() {
            return Offer::Leader;
        }
        let begins = shared.carries_blocks.load(Ordering::Relaxed);
        let prepared = |name: &str| self.handover.prepared(name);
        let peeked = cycle::peek(&self.input.buffer, Place::Rest { begins }, prepared);
        match peeked {
            // Below that version the leader cannot be told what becomes of the unnamed
            // statement.
            Peeked::Whole(cycle) if !begins && self.names(&cycle) => Offer::Leader,
            Peeked::Whole(cycle) => Offer::Home(cycle),
            Peeked::Partial => Offer::Wait,
            Peeked::Leader(why) => {
                if let Some(why) = why {
                    self.sheet.read_at_leader(why);
                }
                self.reads.bypass = true;
                Offer::Leader
            }
        }
    }

    /// Brings the home session to the state of the leader's, and its snapshots to the state
    /// that the session wants to read.
    async fn prepare_read(&mut self, shared: &Arc<Shared>, cycle: &Cycle) -> Result<Stamp, Not> {
        let in_block = self.reads.is_in_block();
        let reader = match &self.reads.home {
            Some(home) if in_block => Some(Arc::clone(&home.reader)),
            _ => shared.reader.borrow().clone(),
        };
        let Some(reader) = reader else {
            return Err(Not::Leader(AtLeader::Lost));
        };
        let commit = self.handover.newest_commit();
        let mut stamp = self.stamp(shared, &reader, commit);
        let begins = shared.carries_blocks.load(Ordering::Relaxed);
        if !in_block {
            self.follow(shared, &reader).await?;
        }
        let Some(home) = &mut self.reads.home else {
            return Err(Not::Leader(AtLeader::State));
        };
        let session = &mut home.conversation.session;
        let parsed = session.parsed_settings();
        // The leader's session would end for the silence of a client that reads here.
        if parsed.idle_session_timeout.is_some() && !begins {
            return Err(Not::Leader(AtLeader::State));
        }
        let timeout = parsed.statement_timeout;
        session.let_blocks_begin(begins);
        session.asks_anew();
        session.require(commit.filter(|_| stamp == Stamp::Session));
        // A Query of several statements may go on after the end of its block.
        if !cycle.reads || (self.reads.keeps_snapshot() && !cycle.is_several) {
            return Ok(Stamp::None);
        }
        let mut waits = None;
        if stamp.is_fresh() {
            let asked = self.ask_until_answered(shared, &reader, timeout, cycle);
            let asked = asked.await;
            if asked.is_err()
                && let Some(home) = &mut self.reads.home
            {
                home.conversation.session.rest();
            }
            let asked = asked?;
            (stamp, waits) = (asked.stamp, Some(asked.waits));
        }
        if let Some(home) = &mut self.reads.home {
            let freshness = Freshness {
                stamp: stamp.name(),
                waits,
            };
            home.conversation.session.note_freshness(freshness);
        }
        if stamp == Stamp::None {
            self.hold(shared, &reader, timeout).await?;
        }
        Ok(stamp)
    }

    /// Asks the leader for the newest commit. In a block that cannot move there, asks anew
    /// for as long as a statement waits for a leader, unless the cycle needs none.
    async fn ask_until_answered(
        &mut self,
        shared: &Shared,
        reader: &Arc<Reader>,
        timeout: Option<Duration>,
        cycle: &Cycle,
    ) -> Result<Asked, Not> {
        let since = coeval_env::now();
        self.signal.forget_cancel();
        loop {
            let rest = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            match self.ask(reader, rest).await {
                Err(Not::Leader(AtLeader::Lost))
                    if !self.signal.shall_go() && self.is_refused(cycle) =>
                {
                    return Err(Not::Refused);
                }
                Err(Not::Leader(why)) if self.reads.is_fixed() => {
                    let now = shared.reader.borrow().clone();
                    let is_there = now.is_some_and(|now| Arc::ptr_eq(&now, reader));
                    if !is_there || self.signal.shall_go() {
                        return Err(Not::Leader(why));
                    }
                    if since.elapsed() >= self.patience {
                        return Err(Not::Told(no_leader()));
                    }
                    coeval_env::sleep(BETWEEN).await;
                }
                asked => return asked,
            }
        }
    }
}
