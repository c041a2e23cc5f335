//! Reads at home: beside the relay of a client, a session on the client's own node executes
//! the cycles that only read, if the client's session wants that (`coeval.read_from`).
//!
//! ```text
//!                        ┌▶ home session ─▶ tables of this node        cycles that only read
//!   client ◀──▶ relay ───┤       ▲ follows
//!                        └▶ leader's session ── what has changed ──▶   all other cycles
//! ```
//!
//! State changes on the leader only (SET, PREPARE, SET ROLE), and comes home with its
//! ReadyForQuery. So a cycle may be read at home when the leader owes the client nothing and
//! no transaction block is open. Decided on the bound statements: the home session binds
//! them in a snapshot of its own, and refuses what has effects.
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
//! An unnamed statement that was prepared at home is unknown to the leader. Before the next
//! cycle that goes there, the relay sends its Parse, and swallows the answer.
//!
//! Invariants:
//! - Each cycle is answered by one of the two sessions, from its first message to its last.
//! - The home session acts as the role that the leader has let in, by number: a role that is
//!   now called like the client gives it nothing.
//! - An error that is found in a state that may be old is not told: the leader executes the
//!   cycle again.
mod open;
mod read;
mod stamp;
mod unnamed;

use std::sync::Arc;

use coeval_sql::Error;
use coeval_sql::session::settings::ReadFrom;

use self::open::Home;
pub(super) use self::read::{Read, Reading};
use self::stamp::Wants;
use self::unnamed::Unsent;
use super::cycle::{self, Cycle, Peeked};
use super::relay::Relay;
use crate::metrics::{AtLeader, Stamp};
use crate::shared::Shared;

/// The state of a relay that reads at home.
#[derive(Default)]
pub(super) struct Reads {
    home: Option<Box<Home>>,
    /// What the leader's session has told since the home session followed it.
    pieces: Vec<Vec<u8>>,
    /// The settings that say where the session reads.
    wants: Option<Wants>,
    /// Whether the next cycle goes to the leader, whatever it is.
    bypass: bool,
    /// A message about the unnamed statement that the leader must get before the next cycle
    /// that it executes.
    unsent: Option<Unsent>,
    /// Type of the leader's answer to such a message, which the client must not get.
    swallows: Option<u8>,
}

impl Reads {
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
    /// The client has gone.
    Gone,
}

impl Relay {
    /// Looks at the client's next cycle, before anything of it is taken.
    pub(super) fn offer(&mut self, shared: &Shared, has_leader: bool) -> Offer {
        if self.reads.bypass || !self.tracker.is_at_rest() {
            return Offer::Leader;
        }
        match self.wants(shared).from {
            ReadFrom::Leader => return Offer::Leader,
            ReadFrom::Fresh if !has_leader => return Offer::Leader,
            ReadFrom::Fresh | ReadFrom::Session | ReadFrom::Any => {}
        }
        if self.handover.login().is_none() || shared.reader.borrow().is_none() {
            return Offer::Leader;
        }
        let peeked = cycle::peek(&self.input.buffer, |name| self.handover.prepared(name));
        match peeked {
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
    async fn prepare_read(&mut self, shared: &Arc<Shared>) -> Result<Stamp, Not> {
        let Some(reader) = shared.reader.borrow().clone() else {
            return Err(Not::Leader(AtLeader::Lost));
        };
        let commit = self.handover.newest_commit();
        let stamp = self.stamp(shared, &reader, commit);
        let session = self.follow(shared, &reader).await?;
        let parsed = session.parsed_settings();
        // The leader's session would end for the silence of a client that reads here.
        if parsed.idle_session_timeout.is_some() {
            return Err(Not::Leader(AtLeader::State));
        }
        let timeout = parsed.statement_timeout;
        session.require(commit.filter(|_| stamp == Stamp::Session));
        if stamp == Stamp::Asked {
            self.ask(&reader, timeout).await?;
        }
        Ok(stamp)
    }
}
