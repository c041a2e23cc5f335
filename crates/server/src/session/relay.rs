//! The relay: connects a client of this node with its session on the leader.
//!
//! ```text
//!   client ◀──▶ relay ◀── stream ──▶ conversation, on the leader
//!               tracker: the client's unanswered requests
//!               handover: the session's handover state
//! ```
//!
//! The relay copies PostgreSQL's messages both ways, whole ones only, and reads little
//! more than their types. The leader adds messages of its own type, [`HANDOVER`], which
//! the relay keeps. When the leader is lost, the client gets an error for each unanswered
//! request ([`Tracker`]), and the session continues on the next leader, this node or
//! another one, with its handover state.
//!
//! Invariants:
//! - A client gets whole messages, and one ReadyForQuery for each that it waits for.
//! - The relay never sends a message to a second leader.
//! - What the relay keeps of a session, and long messages that arrive, are charged to this
//!   node's relayed sessions together; one that finds no room ends with 53200.

mod connecting;
mod errors;
mod find;
mod kept;
mod lazy;
mod side;
mod silence;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use coeval_env::Instant;
use coeval_peers::{NodeId, Streams};
use coeval_pgwire::Limits;
use coeval_pgwire::frame::{HEADER, kind};
use coeval_sql::session::{MAX_PIECE, SessionHandover};
use coeval_sql::{Error, SqlState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tracing::debug;

pub(super) use self::connecting::{Leader, cancel, open_or_refused, open_unless_replaced};
use self::errors::ending;
pub(super) use self::errors::{no_leader, removed};
use self::find::NextLeader;
use self::kept::Kept;
pub(super) use self::lazy::Unconfirmed;
pub(super) use self::side::Side;
use self::silence::Silence;
use super::cycle::Cycle;
use super::effect::Effect;
use super::home::{Offer, Read, Reads};
use super::input::Input;
use super::opening::{HANDOVER, Origin};
use super::owed::Owed;
use super::signal::Signal;
use super::tracker::{Status, Tracker, Verdict, answer};
use super::transport::WriteHalf;
use super::{report, shutdown};
use crate::metrics::Sheet;
use crate::registry::Entry;
use crate::serving_term::{Lead, ServingTerm};
use crate::shared::Shared;

/// Number of bytes per read.
const READ: usize = 64 << 10;
/// Delay before the relay asks a node again that does not lead, or cannot be reached.
pub(super) const BETWEEN: Duration = Duration::from_millis(50);

/// A client session that this node forwards to the leader.
pub(super) struct Relay {
    pub(super) origin: Box<Origin>,
    pub(super) entry: Entry,
    pub(super) signal: Arc<Signal>,
    pub(super) input: Input,
    pub(super) sheet: Arc<Sheet>,
    pub(super) handover: SessionHandover,
    pub(super) tracker: Tracker,
    pub(super) client: Side<WriteHalf>,
    /// The reads that this node executes for the client.
    pub(super) reads: Reads,
    /// Whether the client has been let in, and told so.
    is_admitted: bool,
    /// Whether the leader gets the session only once the client needs the leader.
    is_lazy: bool,
    /// Whether no leader has had the session yet, so that one may have no place for it.
    is_unknown: bool,
    /// Set if no leader was asked when the client was let in.
    pub(super) unconfirmed: Option<Box<Unconfirmed>>,
    /// Whether the leader has sent the error that ends the session.
    is_ended: bool,
    kept: Kept,
    /// When the client began to wait for a leader.
    waits_since: Option<Instant>,
    /// How long a statement waits for a leader.
    pub(super) patience: Duration,
    /// What limits the client's silence.
    silence: Silence,
}

/// Why copying stopped.
enum Stop {
    /// The client has closed the connection, or has sent Terminate.
    Client,
    /// The leader is lost.
    Leader,
    /// The leader has ended the session.
    Ended,
    /// The client has been let in.
    Admitted,
    /// The session must end.
    Terminated,
    /// The client has sent an invalid message.
    Nonsense(Error),
    /// This node may execute the client's next cycle.
    Reads(Cycle),
    /// The client's next cycle, in a block that is here, fails with this error.
    Refused(Error),
}

/// How a relayed session continues.
pub(super) enum Next {
    /// The session has ended.
    Ended,
    /// The session runs on this node from now on.
    Here(Arc<ServingTerm>, Box<Relay>),
}

fn frame(out: &mut Vec<u8>, message: u8, contents: &[u8]) {
    out.push(message);
    out.extend_from_slice(&(contents.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(contents);
}

/// The two directions of a client's connection.
pub(super) struct Line {
    pub(super) input: Input,
    pub(super) output: WriteHalf,
    /// Bytes that the client gets first.
    pub(super) rest: Vec<u8>,
}

impl Relay {
    /// A relay for a client that has not been let in.
    pub(super) fn new(
        shared: &Shared,
        origin: Box<Origin>,
        (entry, signal): (Entry, Arc<Signal>),
        line: Line,
        sheet: &Arc<Sheet>,
    ) -> Self {
        Self {
            origin,
            entry,
            signal,
            input: line.input,
            sheet: Arc::clone(sheet),
            handover: SessionHandover::default(),
            tracker: Tracker::new(Status::Idle, Owed::NOTHING),
            client: Side::new(line.output, line.rest),
            reads: Reads::default(),
            is_admitted: false,
            is_lazy: false,
            is_unknown: false,
            unconfirmed: None,
            is_ended: false,
            kept: Kept::new(&shared.relayed),
            waits_since: None,
            patience: Duration::from_millis(shared.settings.cluster_wait_milliseconds),
            silence: Silence::Unknown,
        }
    }

    /// Continues a session that was let in before, with its handover state.
    pub(super) fn go_on(&mut self, handover: SessionHandover, tracker: Tracker) {
        self.kept.resume(handover.bytes());
        (self.handover, self.tracker) = (handover, tracker);
        self.is_admitted = true;
    }

    /// The client's connection, and the bytes that were not sent to it yet.
    pub(super) fn into_parts(self) -> (Input, WriteHalf, Vec<u8>, Box<Origin>, Entry) {
        let Side {
            stream,
            mut buffer,
            sent,
            ..
        } = self.client;
        buffer.drain(..sent);
        (self.input, stream, buffer, self.origin, self.entry)
    }

    /// Has the leader let the client in, or begin the session of one that this node has let
    /// in; false when it has refused.
    pub(super) async fn admit(&mut self, shared: &Shared, leader: &mut Leader) -> bool {
        match self.copy(shared, leader).await {
            Stop::Admitted => return true,
            Stop::Leader => {
                let error = Error::new(
                    SqlState("57P03"),
                    "the leader of the cluster has changed while you were logging in",
                );
                self.say_last(&error.with_hint("Connect again.")).await;
            }
            Stop::Terminated => self.say_last(&shutdown()).await,
            Stop::Nonsense(error) => self.say_last(&error).await,
            Stop::Ended => self.flush().await,
            Stop::Client | Stop::Reads(_) | Stop::Refused(_) => {}
        }
        false
    }

    /// Copies messages until the session ends, or continues on this node.
    pub(super) async fn run(
        mut self: Box<Self>,
        shared: &Arc<Shared>,
        mut leader: Option<Leader>,
    ) -> Next {
        loop {
            let Some(mut connected) = leader.take() else {
                match self.find(shared).await {
                    Ok(NextLeader::Leader(found)) => {
                        self.meet_leader();
                        leader = Some(found);
                    }
                    Ok(NextLeader::Here(serving_term)) => {
                        self.leave_home();
                        return Next::Here(serving_term, self);
                    }
                    Err(Stop::Reads(cycle)) => {
                        if let Read::Ended = self.read(shared, cycle).await {
                            self.stop(shared, Stop::Client, None).await;
                            return Next::Ended;
                        }
                    }
                    Err(Stop::Refused(error)) => {
                        if !self.fail_at_home(&error).await
                            && let Some(stop) = self.refuse(Some(&error))
                        {
                            self.stop(shared, stop, None).await;
                            return Next::Ended;
                        }
                    }
                    Err(stop) => {
                        self.stop(shared, stop, None).await;
                        return Next::Ended;
                    }
                }
                continue;
            };
            match self.copy(shared, &mut connected).await {
                Stop::Leader if shared.failure().is_some() => {
                    self.say_last(&ending(shared)).await;
                    return Next::Ended;
                }
                Stop::Leader => {
                    debug!(
                        session = self.origin.process_id,
                        leader = %connected.node,
                        "the leader of a relayed session is lost"
                    );
                    self.tracker.lost(&mut self.client.buffer);
                }
                Stop::Reads(cycle) => match self.read(shared, cycle).await {
                    Read::Answered | Read::Leader => leader = Some(connected),
                    Read::Ended => {
                        self.stop(shared, Stop::Client, Some(connected)).await;
                        return Next::Ended;
                    }
                },
                // The client was let in before.
                Stop::Admitted => leader = Some(connected),
                stop => {
                    self.stop(shared, stop, Some(connected)).await;
                    return Next::Ended;
                }
            }
        }
    }

    async fn stop(&mut self, shared: &Shared, stop: Stop, leader: Option<Leader>) {
        match stop {
            Stop::Terminated => self.say_last(&ending(shared)).await,
            Stop::Nonsense(error) => self.say_last(&error).await,
            Stop::Ended => self.flush().await,
            Stop::Client | Stop::Leader | Stop::Admitted | Stop::Reads(_) | Stop::Refused(_) => {}
        }
        if let Some(mut leader) = leader {
            // The last message to the leader may be Terminate.
            let last = poll_fn(|context| {
                let mut moved = false;
                match leader.side.poll_send(context, &mut moved) {
                    Ok(()) if !leader.side.is_empty() => Poll::Pending,
                    Ok(()) | Err(()) => Poll::Ready(()),
                }
            });
            let _ = coeval_env::timeout(Duration::from_secs(1), last).await;
        }
    }

    /// Sends the client all buffered bytes, within a timeout.
    async fn flush(&mut self) {
        let Self { client, .. } = self;
        let flushed = async {
            poll_fn(|context| {
                let mut moved = false;
                match client.poll_send(context, &mut moved) {
                    Ok(()) if !client.is_empty() => Poll::Pending,
                    Ok(()) | Err(()) => Poll::Ready(()),
                }
            })
            .await;
            client.stream.shutdown().await
        };
        let _ = coeval_env::timeout(Duration::from_secs(5), flushed).await;
    }

    pub(super) async fn say_last(&mut self, error: &Error) {
        self.sheet.error(error.state());
        report::fatal(&mut self.client.buffer, error);
        self.flush().await;
    }
}

impl Relay {
    /// Whether the session ends now. If this node stops, the relay waits for the
    /// statement that runs on the leader, as for one that runs here; after the grace
    /// period the statement is canceled.
    fn shall_end(&self, has_leader: bool) -> bool {
        self.signal.is_terminated() && !(has_leader && self.tracker.waits())
    }

    fn poll_signal(
        &self,
        context: &Context<'_>,
        leader: Option<(&Streams, NodeId)>,
    ) -> Option<Stop> {
        self.signal.register(context);
        if self.shall_end(leader.is_some()) {
            return Some(Stop::Terminated);
        }
        if self.signal.is_deposed() {
            // The session has left this node's engine already, or never ran on it.
            self.signal.has_left();
        } else if self.signal.is_canceled() {
            self.signal.forget_cancel();
            if let Some((streams, node)) = leader {
                let (streams, process_id) = (streams.clone(), self.origin.process_id);
                let secret = self.origin.secret.clone();
                coeval_env::spawn("cancel request", async move {
                    cancel(&streams, node, process_id, &secret).await;
                });
            }
        }
        None
    }

    /// Copies messages both ways until one side stops.
    async fn copy(&mut self, shared: &Shared, leader: &mut Leader) -> Stop {
        let Some(node) = &shared.node else {
            return Stop::Terminated;
        };
        let streams = node.streams();
        let mut leads = shared.lead.subscribe();
        let at = leader.node;
        // A node that no longer leads may hang and never answer.
        let mut replaced = pin!(async move {
            let elsewhere = |lead: &Lead| match lead {
                Lead::Here(_) => true,
                Lead::There(node) => *node != at,
                Lead::Nowhere => false,
            };
            if leads.wait_for(elsewhere).await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        poll_fn(|context| {
            if let Some(stop) = self.poll_signal(context, Some((&streams, leader.node))) {
                return Poll::Ready(stop);
            }
            if replaced.as_mut().poll(context).is_ready() {
                return Poll::Ready(Stop::Leader);
            }
            loop {
                let mut moved = false;
                if let Some(stop) = self.poll_answers(leader, context, &mut moved) {
                    return Poll::Ready(stop);
                }
                if self.shall_end(true) {
                    return Poll::Ready(Stop::Terminated);
                }
                if self.client.poll_send(context, &mut moved).is_err() {
                    return Poll::Ready(Stop::Client);
                }
                if let Some(stop) = self.poll_asked(shared, leader, context, &mut moved) {
                    return Poll::Ready(stop);
                }
                if leader.side.poll_send(context, &mut moved).is_err() {
                    return Poll::Ready(self.leader_gone());
                }
                if let Some(error) = self.poll_silence(shared, context) {
                    return Poll::Ready(Stop::Nonsense(error));
                }
                if !moved {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    const fn leader_gone(&self) -> Stop {
        match self.is_ended {
            true => Stop::Ended,
            false => Stop::Leader,
        }
    }

    /// Copies messages from the leader to the client.
    fn poll_answers(
        &mut self,
        leader: &mut Leader,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Option<Stop> {
        if self.client.is_full() {
            return None;
        }
        // What came with the beginning of the session comes first. The stream is polled after
        // it: without that, nothing would wake the relay for what the leader sends next.
        if whole(&leader.came).is_some() {
            *moved = true;
        } else {
            let read = poll_read(&mut leader.read, &mut leader.came, context);
            match read {
                Poll::Pending => return None,
                Poll::Ready(0) => return Some(self.leader_gone()),
                Poll::Ready(_) => *moved = true,
            }
        }
        let mut admitted = false;
        while let Some(length) = whole(&leader.came) {
            let Some(length) = length else {
                return Some(Stop::Leader);
            };
            let (message, contents) = (leader.came[0], &leader.came[HEADER..length]);
            if message == HANDOVER {
                self.told(contents);
                if let Err(error) = self.kept.charge_handover(self.handover.bytes()) {
                    return Some(Stop::Nonsense(error));
                }
            } else {
                self.tracker.answered(message, contents);
                if message == answer::ERROR && is_fatal(contents) {
                    self.is_ended = true;
                }
                if message == answer::READY && !self.is_admitted {
                    admitted = true;
                }
                self.client.buffer.extend_from_slice(&leader.came[..length]);
            }
            leader.came.advance(length);
        }
        if admitted {
            self.is_admitted = true;
            return Some(Stop::Admitted);
        }
        None
    }

    /// Copies messages from the client to the leader.
    fn poll_asked(
        &mut self,
        shared: &Shared,
        leader: &mut Leader,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Option<Stop> {
        // A session that is about to end forwards no new request.
        let takes = |relay: &Self| !relay.signal.is_terminated() || relay.tracker.is_copying();
        while takes(self) && !leader.side.is_full() {
            let held = self.input.buffer.capacity() + leader.side.buffer.capacity();
            if let Err(error) = self.kept.charge_messages(held) {
                return Some(Stop::Nonsense(error));
            }
            match self.offer(shared, true) {
                Offer::Home(cycle) => return Some(Stop::Reads(cycle)),
                Offer::Wait => match self.input.poll_fill(context) {
                    Poll::Ready(Ok(())) => {
                        *moved = true;
                        continue;
                    }
                    Poll::Ready(Err(())) => return Some(Stop::Client),
                    Poll::Pending => return None,
                },
                Offer::Leader => {}
            }
            match self.input.buffer.next_frame() {
                Ok(Some(next)) => {
                    self.silence = Silence::Unknown;
                    if self.tracker.begins_cycle(next.kind) {
                        self.reads.mark(shared, &mut leader.side.buffer);
                    }
                    if !self.tracker.is_skipping() {
                        let (reads, out) = (&mut self.reads, &mut leader.side.buffer);
                        if reads.has_news() {
                            let charged = self.kept.charge_handover(self.handover.bytes());
                            if let Err(error) = charged {
                                return Some(Stop::Nonsense(error));
                            }
                        }
                        if reads.move_to_leader(next.kind, out) {
                            self.tracker.enter_block();
                        }
                        reads.before(next.kind, next.contents, &mut self.handover, out);
                    }
                    let handover = &self.handover;
                    let prepared = |name: &[u8]| {
                        let text = handover.prepared(str::from_utf8(name).ok()?)?;
                        Some(Effect::of_one(text.as_bytes()))
                    };
                    self.reads.begin_cycle();
                    match self.tracker.client(next.kind, next.contents, prepared) {
                        Verdict::Pass => {
                            frame(&mut leader.side.buffer, next.kind, next.contents);
                        }
                        Verdict::Drop => {}
                        Verdict::Ready => self.tracker.ready(&mut self.client.buffer),
                    }
                    *moved = true;
                    if next.kind == kind::TERMINATE {
                        return Some(Stop::Client);
                    }
                }
                Ok(None) => match self.input.poll_fill(context) {
                    Poll::Ready(Ok(())) => *moved = true,
                    Poll::Ready(Err(())) => return Some(Stop::Client),
                    Poll::Pending => return None,
                },
                Err(error) => return Some(Stop::Nonsense(report::from_wire(&error))),
            }
        }
        // The relay reads nothing while the leader accepts nothing, but detects that the
        // client has closed the connection.
        self.input
            .poll_gone(context)
            .is_ready()
            .then_some(Stop::Client)
    }
}

/// Length of the message at the beginning, if it is complete; `Some(None)` for bytes that
/// cannot be a message.
fn whole(bytes: &[u8]) -> Option<Option<usize>> {
    let length = bytes.get(1..)?.first_chunk::<4>()?;
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length @ 4..) => (bytes.len() > length).then_some(Some(1 + length)),
        _ => Some(None),
    }
}

/// Whether an ErrorResponse ends the session.
fn is_fatal(contents: &[u8]) -> bool {
    let mut fields = contents.split(|&byte| byte == 0);
    fields.any(|field| matches!(field, b"VFATAL" | b"VPANIC"))
}

/// Reads more bytes; 0 at the end of the stream.
fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    into: &mut BytesMut,
    context: &mut Context<'_>,
) -> Poll<usize> {
    if into.capacity() - into.len() < READ / 4 {
        into.reserve(READ);
    }
    let read = pin!(stream.read_buf(into));
    Poll::Ready(ready!(read.poll(context)).unwrap_or(0))
}

/// The limits on a client's messages after it has been let in.
pub(super) fn limits(shared: &Shared) -> Limits {
    Limits {
        long_message: shared.settings.max_message_bytes,
        ..Limits::default()
    }
}

/// The limits on the messages of another node for its client: the client's, and what the
/// node tells by itself.
pub(super) fn limits_of_node(shared: &Shared) -> Limits {
    Limits {
        node_message: Some(4 + MAX_PIECE),
        ..limits(shared)
    }
}
