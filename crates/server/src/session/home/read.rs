//! Executing a cycle at home, and who answers it if the home session cannot.

use std::borrow::Cow;
use std::sync::Arc;

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::frame::kind;
use coeval_sql::session::{lost_here, not_in_this_block};
use coeval_sql::statement::{Statement, Statements};
use coeval_sql::{Error, SqlState};
use coeval_types::Remedy;

use super::Not;
use super::refused::is_of_state;
use crate::metrics::{AtLeader, Stamp};
use crate::session::Ended;
use crate::session::conversation::{Conversation, Moves};
use crate::session::cycle::Cycle;
use crate::session::input::Watch;
use crate::session::notes::Clock;
use crate::session::output::Stream;
use crate::session::owed::Owed;
use crate::session::relay::{Relay, Side, no_leader};
use crate::session::transport::WriteHalf;
use crate::shared::Shared;

/// A cycle that a home session executes.
#[derive(Debug, Default)]
pub(in crate::session) struct Reading {
    /// Whether the snapshot includes everything that was acknowledged before the cycle.
    fresh: bool,
    /// Number of Execute messages that have not been handled.
    executions: usize,
    /// Whether the leader cannot execute the cycle, because it is in a block that is fixed.
    stays: bool,
    /// Whether no leader can be asked, and the cycle fails in every state.
    refused: bool,
    /// Why the leader has to execute the cycle.
    why: Option<AtLeader>,
}

impl Reading {
    /// Whether an error sends the cycle to the leader, instead of to the client. `holds`
    /// says that answers of the cycle are held back.
    pub(in crate::session) fn leaves(&mut self, error: &Error, holds: bool) -> bool {
        let why = match error.report().of_leader {
            _ if (self.stays || self.refused) && error.remedy() != Remedy::Fatal => return false,
            Some(reason) => AtLeader::Statement(reason),
            None if error.state() == SqlState::QUERY_CANCELED || error.ends_session() => {
                return false;
            }
            None if error.remedy() == Remedy::Fatal => AtLeader::Lost,
            None if holds && error.state() == SqlState::PROGRAM_LIMIT_EXCEEDED => AtLeader::Large,
            // Only a definition that keeps changing is a conflict here.
            None if error.state() == SqlState::SERIALIZATION_FAILURE => AtLeader::Error,
            None if holds || !self.fresh || error.state().0.starts_with("XX") => AtLeader::Error,
            None => return false,
        };
        self.why.get_or_insert(why);
        true
    }

    /// The error of a statement as the client is told it.
    pub(in crate::session) fn told<'error>(&self, error: &'error Error) -> Cow<'error, Error> {
        match error.report().of_leader {
            Some(reason) => Cow::Owned(not_in_this_block(reason)),
            None if self.refused && is_of_state(error) => Cow::Owned(no_leader()),
            None => Cow::Borrowed(error),
        }
    }

    /// Records that the answers of the cycle do not fit into the buffer that holds them.
    pub(in crate::session) fn is_large(&mut self) {
        self.why = Some(AtLeader::Large);
    }

    /// Records an execution. Returns whether it is the last of the cycle.
    pub(in crate::session) fn executes(&mut self) -> bool {
        self.executions = self.executions.saturating_sub(1);
        self.executions == 0
    }
}

/// How a cycle has ended that the home session was to execute.
#[derive(Debug)]
pub(in crate::session) enum Read {
    /// It is answered.
    Answered,
    /// Nothing was told: the leader executes it.
    Leader,
    /// The session has ended, and its client was told so.
    Ended,
}

impl Conversation {
    /// Fails at home, if the leader has to execute the statement.
    pub(in crate::session) fn check_home(&self, statement: &Statement) -> Result<(), Error> {
        match self.moves {
            Moves::Home => self.session.check_here(statement),
            Moves::Never | Moves::Away | Moves::Back => Ok(()),
        }
    }

    /// Executes the cycle at the front of the buffer, and leaves it there. `at` is how far
    /// that has come.
    async fn read(
        &mut self,
        buffer: &ReadBuffer,
        watch: &mut Watch,
        cycle: &Cycle,
        at: &mut usize,
    ) -> Result<(), Ended> {
        self.clock.bytes_came();
        while *at < cycle.bytes {
            let Ok(Some((frame, end))) = buffer.peek(*at) else {
                return Err(Ended::Moved);
            };
            let next = buffer.peek(end).ok().flatten();
            self.before_sync = next.is_some_and(|(next, _)| next.kind == kind::SYNC);
            match self.handle(frame, watch).await {
                Err(Ended::Interrupted(error)) => self.interrupted(error).await?,
                handled => handled?,
            }
            *at = end;
        }
        Ok(())
    }

    /// Forgets a cycle that has not been answered, and gives up the block that it is in.
    pub(super) fn forget_cycle(&mut self) {
        self.session.abandon_block();
        self.portals.clear();
        self.changes.clear();
        self.suspended = false;
        self.rest = Statements::default();
        self.owed = Owed::NOTHING;
        self.clock = Clock::start();
        self.session.rest();
    }
}

impl Relay {
    /// Has the home session execute the cycle at the front of the input.
    pub(in crate::session) async fn read(&mut self, shared: &Arc<Shared>, cycle: Cycle) -> Read {
        self.hear();
        let stays = self.reads.is_fixed();
        let (stamp, refused) = match self.prepare_read(shared, &cycle).await {
            Ok(stamp) => (stamp, false),
            Err(Not::Refused) => (Stamp::None, true),
            Err(Not::Leader(_)) if stays => return self.answer(cycle, 0, &lost_here()),
            Err(Not::Leader(why)) => return self.leave_to_leader(why),
            Err(Not::Told(error)) => return self.answer(cycle, 0, &error),
            Err(Not::Gone) => return Read::Ended,
        };
        let Some(home) = &mut self.reads.home else {
            return self.leave_to_leader(AtLeader::State);
        };
        let conversation = &mut home.conversation;
        conversation.reading = Reading {
            fresh: stamp.is_fresh(),
            executions: cycle.executions,
            stays,
            refused,
            why: None,
        };
        conversation.output.lend(self.client.lend(), !stays);
        let buffer = &self.input.buffer;
        let mut at = 0;
        let ended = conversation
            .read(buffer, &mut self.input.watch, &cycle, &mut at)
            .await;
        let left = conversation.output.has_left();
        let stream = conversation.output.give_back(ended.is_ok());
        self.client.give_back(stream);
        match ended {
            Ok(()) => {
                if cycle.reads {
                    self.sheet.read_here(stamp);
                }
                self.keep_unnamed(cycle);
                self.input.buffer.skip(cycle.bytes);
                self.note_block();
                Read::Answered
            }
            Err(Ended::Moved | Ended::Interrupted(_) | Ended::EngineStopped(_)) => {
                let why = conversation.reading.why.unwrap_or(AtLeader::Lost);
                if stays {
                    return self.answer(cycle, at, &lost_here());
                }
                if left {
                    conversation.owed = Owed::NOTHING;
                    // Some rows are with the client, so the cycle cannot be answered anew.
                    return self.answer(cycle, 0, &broken_off());
                }
                self.leave_to_leader(why)
            }
            Err(Ended::ByClient | Ended::Gone | Ended::Fatal(_)) => Read::Ended,
        }
    }

    fn leave_to_leader(&mut self, why: AtLeader) -> Read {
        self.sheet.read_at_leader(why);
        self.reads.bypass = true;
        self.reads.leave();
        let home = &mut self.reads.home;
        if let Some(conversation) = home.as_mut().map(|home| &mut home.conversation) {
            conversation.forget_cycle();
            // Its settings or statements are not the leader's.
            if conversation.session.has_changed() {
                *home = None;
            }
        }
        Read::Leader
    }

    /// Answers a cycle, from the offset `at` of the buffer on, with an error.
    pub(super) fn answer(&mut self, cycle: Cycle, at: usize, error: &Error) -> Read {
        if let Some(home) = &mut self.reads.home {
            let from = (&self.input.buffer, at);
            let out = self.client.buffer();
            home.conversation.refuse(from, &cycle, error, out);
        }
        self.input.buffer.skip(cycle.bytes);
        self.note_block();
        Read::Answered
    }
}

/// SQLSTATE 40001, `serialization_failure`: the node that has executed the statement lost
/// its tables, or leads by now.
fn broken_off() -> Error {
    Error::new(
        SqlState::SERIALIZATION_FAILURE,
        "the statement was broken off because its node no longer follows the leader",
    )
    .with_hint("Run the statement again.")
}

/// The sending side of a relay, which a home session uses for a cycle.
impl Side<WriteHalf> {
    fn lend(&mut self) -> Stream {
        let (half, rest, flushing) = self.take(WriteHalf::Lent);
        Stream {
            half,
            rest,
            flushing,
        }
    }

    fn give_back(&mut self, stream: Stream) {
        self.put(stream.half, stream.rest, stream.flushing);
    }
}
