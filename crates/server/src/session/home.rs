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

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::backend::hot;
use coeval_pgwire::frame::kind;
use coeval_sql::instance::TimeLimit;
use coeval_sql::route::Route;
use coeval_sql::session::settings::{self, ReadFrom};
use coeval_sql::session::{Session, SessionHandover};
use coeval_sql::statement::Statement;
use coeval_sql::{Error, SqlState};
use coeval_types::Remedy;
use tracing::debug;

use super::authenticate::Admitted;
use super::conversation::{Conversation, Moves};
use super::cycle::{self, Cycle, Peeked};
use super::input::Watch;
use super::notes::Clock;
use super::output::{Output, Stream};
use super::owed::Owed;
use super::relay::Relay;
use super::tracker::Status;
use super::transport::WriteHalf;
use super::{Ended, greet, report};
use crate::access::Method;
use crate::audit::Client;
use crate::metrics::{AtLeader, Stamp};
use crate::reader::Reader;
use crate::registry::SessionRequest;
use crate::shared::Shared;

/// How long a question for the newest commit may take before the leader is to execute the
/// cycle.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most pieces that a home session follows; one that has missed more begins anew, in the
/// state that the relay keeps.
const MAX_PIECES: usize = 256;

/// A cycle that a home session executes.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Whether the snapshot includes everything that was acknowledged before the cycle.
    fresh: bool,
    /// Number of Execute messages that have not been handled.
    executions: usize,
    /// Why the leader has to execute the cycle.
    why: Option<AtLeader>,
}

impl Reading {
    /// Whether an error sends the cycle to the leader, instead of to the client. `holds`
    /// says that answers of the cycle are held back.
    pub(super) fn leaves(&mut self, error: &Error, holds: bool) -> bool {
        let why = match error.report().of_leader {
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

    /// Records that the answers of the cycle do not fit into the buffer that holds them.
    pub(super) fn is_large(&mut self) {
        self.why = Some(AtLeader::Large);
    }

    /// Records an execution. Returns whether it is the last of the cycle.
    pub(super) fn executes(&mut self) -> bool {
        self.executions = self.executions.saturating_sub(1);
        self.executions == 0
    }
}

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

    /// The message that the leader has to get before this one of the client, which begins
    /// its next cycle. A client's message that replaces or drops the unnamed statement does
    /// so for the home session, too; if the leader takes it, it tells what there is then.
    pub(super) fn before(
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

/// Where the session reads.
#[derive(Clone, Copy)]
struct Wants {
    from: ReadFrom,
    max_lag: Option<Duration>,
}

/// A message about the unnamed statement: Parse, or Close.
struct Unsent {
    kind: u8,
    contents: Vec<u8>,
}

/// The home session, with the reader that it reads.
struct Home {
    reader: Arc<Reader>,
    conversation: Conversation,
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

/// How a cycle has ended that the home session was to execute.
#[derive(Debug)]
pub(super) enum Read {
    /// It is answered.
    Answered,
    /// Nothing was told: the leader executes it.
    Leader,
    /// The session has ended, and its client was told so.
    Ended,
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

impl Conversation {
    /// Fails at home, if the statement is not one that only reads.
    pub(super) fn check_home(&self, statement: &Statement) -> Result<(), Error> {
        match statement.route() {
            Route::Leader(reason) if self.moves == Moves::Home => Err(Error::of_leader(reason)),
            Route::Leader(_) | Route::Anywhere => Ok(()),
        }
    }

    /// Executes the cycle at the front of the buffer, and leaves it there.
    async fn read(
        &mut self,
        buffer: &ReadBuffer,
        watch: &mut Watch,
        cycle: &Cycle,
    ) -> Result<(), Ended> {
        self.clock.bytes_came();
        let mut at = 0;
        while at < cycle.bytes {
            let Ok(Some((frame, end))) = buffer.peek(at) else {
                return Err(Ended::Moved);
            };
            let next = buffer.peek(end).ok().flatten();
            self.before_sync = next.is_some_and(|(next, _)| next.kind == kind::SYNC);
            at = end;
            match self.handle(frame, watch).await {
                Err(Ended::Interrupted(error)) => self.interrupted(error).await?,
                handled => handled?,
            }
        }
        Ok(())
    }

    /// Forgets a cycle that has not been answered.
    fn forget_cycle(&mut self) {
        self.session.fail();
        self.portals.clear();
        self.suspended = false;
        self.rest = coeval_sql::statement::Statements::default();
        self.owed = Owed::NOTHING;
        self.clock = Clock::start();
        self.session.rest();
    }
}

impl Relay {
    /// Keeps what the leader's session has told.
    pub(super) fn told(&mut self, piece: &[u8]) {
        if let Err(error) = self.handover.apply(piece) {
            debug!(%error, "what a session carries is not understood");
        }
        if self.reads.home.is_some() {
            self.reads.pieces.push(piece.to_vec());
        }
        if self.reads.pieces.len() > MAX_PIECES {
            self.reads.home = None;
            self.reads.pieces.clear();
        }
        self.reads.wants = None;
    }

    /// Prepares for another leader, which tells the session's role anew.
    pub(super) fn meet_leader(&mut self) {
        self.handover.forget_login();
        self.reads = Reads::default();
    }

    /// The messages that the next node gets with the session are part of its state now.
    pub(super) fn leave_home(&mut self) {
        self.reads = Reads::default();
    }

    /// Where the session reads, by its settings.
    fn wants(&mut self, shared: &Shared) -> Wants {
        if let Some(wants) = self.reads.wants {
            return wants;
        }
        let value = |name: &str| match self.handover.setting(name) {
            Some(value) => Some(value.to_owned()),
            None => greet::at_start(shared, &self.origin.request, name),
        };
        let from = value("coeval.read_from");
        let from = from.and_then(|name| ReadFrom::named(&name.to_ascii_lowercase()));
        let max_lag = value("coeval.read_max_lag").and_then(|time| settings::time(&time));
        let wants = Wants {
            from: from.unwrap_or_default(),
            max_lag: max_lag.filter(|lag| !lag.is_zero()),
        };
        self.reads.wants = Some(wants);
        wants
    }

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

    /// Whether the client must not get this answer of the leader, because it is the one to a
    /// message that the relay has sent by itself.
    pub(super) fn swallows(&mut self, message: u8) -> bool {
        let Some(expected) = self.reads.swallows else {
            return false;
        };
        let is_answer = message == expected;
        if is_answer {
            self.reads.unsent = None;
        }
        if is_answer
            || matches!(
                message,
                super::tracker::answer::ERROR | super::tracker::answer::READY
            )
        {
            self.reads.swallows = None;
        }
        is_answer
    }

    /// Has the home session execute the cycle at the front of the input.
    pub(super) async fn read(&mut self, shared: &Arc<Shared>, cycle: Cycle) -> Read {
        let stamp = match self.prepare_read(shared).await {
            Ok(stamp) => stamp,
            Err(Not::Leader(why)) => return self.leave_to_leader(why),
            Err(Not::Told(error)) => {
                self.answer(cycle, &error);
                return Read::Answered;
            }
            Err(Not::Gone) => return Read::Ended,
        };
        let Some(home) = &mut self.reads.home else {
            return self.leave_to_leader(AtLeader::State);
        };
        let conversation = &mut home.conversation;
        conversation.reading = Reading {
            fresh: stamp == Stamp::Asked,
            executions: cycle.executions,
            why: None,
        };
        conversation.output.lend(self.client.lend());
        let buffer = &self.input.buffer;
        let ended = conversation
            .read(buffer, &mut self.input.watch, &cycle)
            .await;
        let left = conversation.output.has_left();
        let stream = conversation.output.give_back();
        self.client.give_back(stream);
        match ended {
            Ok(()) => {
                self.sheet.read_here(stamp);
                self.keep_unnamed(cycle);
                self.input.buffer.skip(cycle.bytes);
                Read::Answered
            }
            Err(Ended::Moved | Ended::Interrupted(_) | Ended::EngineStopped(_)) => {
                let why = conversation.reading.why.unwrap_or(AtLeader::Lost);
                conversation.forget_cycle();
                if !left {
                    return self.leave_to_leader(why);
                }
                // Some rows are with the client, so the cycle cannot be answered anew.
                self.answer(cycle, &broken_off());
                Read::Answered
            }
            Err(Ended::ByClient | Ended::Gone | Ended::Fatal(_)) => Read::Ended,
        }
    }

    fn leave_to_leader(&mut self, why: AtLeader) -> Read {
        self.sheet.read_at_leader(why);
        self.reads.bypass = true;
        Read::Leader
    }

    /// Answers a cycle with an error.
    fn answer(&mut self, cycle: Cycle, error: &Error) {
        self.sheet.error(error.state());
        report::error(self.client.buffer(), error);
        hot::ready_for_query(self.client.buffer(), Status::Idle);
        self.input.buffer.skip(cycle.bytes);
    }

    /// Keeps what has become of the unnamed statement, in the handover state and for the
    /// leader.
    fn keep_unnamed(&mut self, cycle: Cycle) {
        let Some(home) = self.reads.home.as_ref().filter(|_| cycle.names) else {
            return;
        };
        let had = self.handover.prepared("").is_some();
        for piece in home.conversation.session.unnamed_statement() {
            // This process has just encoded the piece, so applying it does not fail.
            let _ = self.handover.apply(&piece);
        }
        let mut parse = None;
        let mut at = 0;
        while let Ok(Some((frame, end))) = self.input.buffer.peek(at)
            && end <= cycle.bytes
        {
            if frame.kind == kind::PARSE {
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

    /// Brings the home session to the state of the leader's, and its snapshots to the state
    /// that the session wants to read.
    async fn prepare_read(&mut self, shared: &Arc<Shared>) -> Result<Stamp, Not> {
        let lost = Not::Leader(AtLeader::Lost);
        let Some(reader) = shared.reader.borrow().clone() else {
            return Err(lost);
        };
        let wants = self.wants(shared);
        let commit = self.handover.newest_commit();
        let lag = reader.age().filter(|age| Some(*age) <= wants.max_lag);
        let stamp = match wants.from {
            ReadFrom::Session if commit.is_some() => Stamp::Session,
            ReadFrom::Any if wants.max_lag.is_none() || lag.is_some() => Stamp::None,
            ReadFrom::Leader | ReadFrom::Fresh | ReadFrom::Session | ReadFrom::Any => Stamp::Asked,
        };
        let same = |home: &Home| Arc::ptr_eq(&home.reader, &reader);
        if !self.reads.home.as_deref().is_some_and(same) {
            self.reads.home = None;
            self.reads.pieces.clear();
            // Both look up roles, in a state that the leader is asked for.
            let opening = coeval_env::timeout(PATIENCE, self.open_home(shared, &reader));
            match opening.await {
                Ok(Ok(home)) => self.reads.home = Some(Box::new(home)),
                Ok(Err(error)) => {
                    debug!(%error, "a session does not read on its client's node");
                    return Err(Not::Leader(AtLeader::State));
                }
                Err(coeval_env::Elapsed) => return Err(lost),
            }
        }
        let state = Not::Leader(AtLeader::State);
        let Some(home) = &mut self.reads.home else {
            return Err(state);
        };
        let session = &mut home.conversation.session;
        if !self.reads.pieces.is_empty() {
            let following = coeval_env::timeout(PATIENCE, session.follow(&self.reads.pieces));
            if !matches!(following.await, Ok(Ok(()))) {
                debug!("a session on its client's node does not follow the leader's");
                self.reads.home = None;
                return Err(state);
            }
            self.reads.pieces.clear();
        }
        let parsed = session.parsed_settings();
        // The leader's session would end for the silence of a client that reads here.
        if parsed.idle_session_timeout.is_some() {
            return Err(state);
        }
        let timeout = parsed.statement_timeout;
        session.require(commit.filter(|_| stamp == Stamp::Session));
        if stamp == Stamp::Asked {
            self.ask(&reader, timeout).await?;
        }
        Ok(stamp)
    }

    /// Asks the leader for the newest commit, and waits until snapshots include it.
    async fn ask(&mut self, reader: &Reader, timeout: Option<Duration>) -> Result<(), Not> {
        self.signal.forget_cancel();
        let asked = coeval_env::now();
        let timeout = timeout.filter(|timeout| *timeout < PATIENCE);
        let mut late = pin!(coeval_env::sleep_until(asked + timeout.unwrap_or(PATIENCE)));
        let mut newest = pin!(coeval_txn::newest(&*reader.engine));
        let (signal, watch) = (&self.signal, &mut self.input.watch);
        let told = poll_fn(|context| {
            if let Poll::Ready(told) = newest.as_mut().poll(context) {
                return Poll::Ready(told.map_err(|_| Not::Leader(AtLeader::Lost)));
            }
            signal.register(context);
            if signal.shall_go() {
                return Poll::Ready(Err(Not::Leader(AtLeader::Lost)));
            }
            if signal.is_canceled() {
                return Poll::Ready(Err(Not::Told(Error::canceled())));
            }
            if watch.poll_gone(context) {
                return Poll::Ready(Err(Not::Gone));
            }
            late.as_mut().poll(context).map(|()| {
                Err(match timeout {
                    Some(_) => Not::Told(TimeLimit::Statement.error()),
                    None => Not::Leader(AtLeader::Lost),
                })
            })
        })
        .await;
        told?;
        reader.is_fresh_since(asked);
        Ok(())
    }

    /// Opens the home session, in the state that the leader's session has.
    async fn open_home(
        &mut self,
        shared: &Arc<Shared>,
        reader: &Arc<Reader>,
    ) -> Result<Home, Error> {
        let state = || Error::internal("the leader has not told who has logged in");
        let login = self.handover.login().ok_or_else(state)?;
        let mut request = self.origin.request.clone();
        let mut client = Client::new(self.origin.peer, self.origin.tls);
        client.user = super::resume::user(&request)?;
        client.database = request
            .take("database")
            .filter(|database| !database.is_empty())
            .unwrap_or_else(|| client.user.clone());
        // These parameters are no settings; login has handled them.
        let _ = (request.take("user"), request.take("replication"));
        let admitted = Admitted {
            login,
            place: SessionRequest {
                role: login.role,
                limit: None,
                privileged: login.superuser,
            },
            method: Method::Trust,
        };
        let place = (&self.entry, &self.signal);
        let options = greet::options(shared, &mut request, &client, &admitted, place)?;
        let database = Arc::clone(&reader.database);
        let handover = self.handover.clone();
        let (session, refused) = Session::resume(database, options, handover, false).await?;
        if let Some(error) = refused.into_iter().next() {
            return Err(error);
        }
        let mut output = Output::new(
            WriteHalf::Lent,
            Arc::clone(&reader.engine),
            Arc::clone(&self.signal),
            shared.settings.output_buffer_bytes,
            shared.settings.max_result_bytes,
            Arc::clone(&self.sheet),
        );
        output.show_on(session.activity());
        let signal = Arc::clone(&self.signal);
        let limits = shared.limits();
        let mut conversation = Conversation::new(session, output, signal, limits, client);
        conversation.moves = Moves::Home;
        conversation.session.rest();
        Ok(Home {
            reader: Arc::clone(reader),
            conversation,
        })
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
impl super::relay::Side<WriteHalf> {
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
