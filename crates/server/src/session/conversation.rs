//! The message loop of a session: decodes the client's messages, runs them, and buffers
//! the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_env::Work;
use coeval_pgwire::Frame;
use coeval_pgwire::backend::{cold, hot};
use coeval_pgwire::frame::kind;
use coeval_pgwire::frontend::{DescribeTarget, Message};
use coeval_sql::instance::{Deadline, Limits, SharedCharge, TimeLimit};
use coeval_sql::output::TransactionStatus;
use coeval_sql::session::{Portal, Session};
use coeval_sql::statement::{Statement, Statements};
use coeval_sql::{Error, SqlState};
use coeval_types::{Remedy, Timestamp};

use super::home::Reading;
use super::input::{Input, Wake, Watch};
use super::notes::{Clock, statement_failed};
use super::output::{Lost, Output};
use super::owed::{AfterError, Owed, Treatment};
#[cfg(feature = "planted")]
use super::planted;
use super::signal::Signal;
use super::tracker::{Tracker, leader_changed};
use super::{Ended, opening, report, shutdown, transcode};
use crate::audit::Client;
use crate::metrics::Sheet;
use crate::serving_term::ServingTerm;
use crate::shared::Shared;

/// What happens to a session when its engine no longer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moves {
    /// The session ends: a single server has one engine.
    Never,
    /// The session continues on another node, and this node relays it.
    Away,
    /// The session was opened by another node for its client; that node moves it, and
    /// keeps the session's handover state.
    Back,
    /// The session reads on its client's node, beside the one on the leader, which answers
    /// what this one does not.
    Home,
}

/// Objects by name, with a fast path for the unnamed one.
#[derive(Debug)]
pub(super) struct Named<T> {
    pub(super) unnamed: Option<T>,
    pub(super) named: BTreeMap<String, T>,
}

impl<T> Named<T> {
    const fn new() -> Self {
        Self {
            unnamed: None,
            named: BTreeMap::new(),
        }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        if name.is_empty() {
            self.unnamed.as_mut()
        } else {
            self.named.get_mut(name)
        }
    }

    pub(super) fn insert(&mut self, name: &str, value: T) {
        if name.is_empty() {
            self.unnamed = Some(value);
        } else {
            self.named.insert(name.to_owned(), value);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.unnamed.take_if(|value| !keep(value));
        self.named.retain(|_, value| keep(value));
    }

    /// All objects; the unnamed one has the empty name.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = (&str, &mut T)> {
        let unnamed = self.unnamed.iter_mut().map(|value| ("", value));
        let named = self.named.iter_mut();
        unnamed.chain(named.map(|(name, value)| (name.as_str(), value)))
    }
}

/// Size in bytes of an input buffer that any session may have.
const UNCHARGED: usize = 1 << 20;

/// A session, and its state of the protocol.
pub(super) struct Conversation {
    pub(super) session: Session,
    pub(super) limits: Limits,
    pub(super) output: Output,
    pub(super) signal: Arc<Signal>,
    /// The client, for the audit log.
    pub(super) client: Client,
    pub(super) portals: Named<Portal>,
    /// Whether a portal may have stopped at its row limit.
    pub(super) suspended: bool,
    /// What the client is owed for the messages that were taken.
    pub(super) owed: Owed,
    /// Whether the message being handled is the last before a Sync.
    pub(super) before_sync: bool,
    /// The statements of a simple query that remain after a COPY.
    pub(super) rest: Statements,
    /// What happens to the session when its engine no longer leads.
    pub(super) moves: Moves,
    /// The cycle that reads on its client's node.
    pub(super) reading: Reading,
    /// Whether the nodes of clients read, and so are told what they need for that.
    pub(super) tells_reads: Option<Arc<AtomicBool>>,
    /// Whether the nodes of clients have blocks, and watch their silence.
    pub(super) carries_blocks: Option<Arc<AtomicBool>>,
    pub(super) clock: Clock,
    pub(super) sheet: Arc<Sheet>,
    /// Changed parameters that the client does not have yet: they leave with
    /// ReadyForQuery.
    pub(super) changes: Vec<u8>,
    /// Handover state on its way to the client's node, in messages.
    handover: Vec<u8>,
    /// Whether that was withdrawn, and has to be sent once more.
    handover_withdrawn: bool,
    /// The COPY FROM STDIN that runs, and its start time.
    pub(super) copying: Option<(Statement, coeval_env::Instant)>,
    /// The session's irrevocable effects when its client began to wait; see [`done`].
    done_when_asked: (Timestamp, u64),
    /// Size in bytes of the input buffer that the memory budget was last asked for.
    asked_for: usize,
    /// What the message that arrives is charged to all sessions.
    message_charge: Option<SharedCharge>,
}

/// The effects of a session that no rollback undoes: its newest commit that wrote, and
/// the number of cluster changes that it has requested.
fn done(session: &Session) -> (Timestamp, u64) {
    (session.newest_commit(), session.cluster_changes())
}

impl Conversation {
    pub(super) fn new(
        session: Session,
        output: Output,
        signal: Arc<Signal>,
        limits: Limits,
        client: Client,
    ) -> Self {
        Self {
            sheet: Arc::clone(output.sheet()),
            clock: Clock::start(),
            changes: Vec::new(),
            handover: Vec::new(),
            handover_withdrawn: false,
            copying: None,
            done_when_asked: done(&session),
            asked_for: 0,
            message_charge: None,
            session,
            limits,
            output,
            signal,
            client,
            portals: Named::new(),
            suspended: false,
            owed: Owed::NOTHING,
            before_sync: false,
            rest: Statements::default(),
            moves: Moves::Never,
            reading: Reading::default(),
            tells_reads: None,
            carries_blocks: None,
        }
    }

    /// Answers the client's messages until the session ends.
    pub(super) async fn run(&mut self, input: &mut Input) -> Ended {
        loop {
            let Input { buffer, watch } = &mut *input;
            let frame = match buffer.next_frame_and_following() {
                Ok(Some((frame, following))) => {
                    self.before_sync = following == Some(kind::SYNC);
                    frame
                }
                Ok(None) => {
                    // The buffer may have to grow by as much again for the rest of a
                    // message.
                    let held = buffer.capacity();
                    // An empty buffer is given back before the next read.
                    let held = if buffer.is_empty() { 0 } else { held };
                    if let Err(error) = self.charge_message(held) {
                        return self.end(error).await;
                    }
                    let cancelable = self.owed.is_copying();
                    let patience = self.patience();
                    match input.fill(&self.signal, cancelable, patience).await {
                        Wake::Bytes => {
                            self.clock.bytes_came();
                            continue;
                        }
                        Wake::Gone => return Ended::Gone,
                        Wake::Terminated => return self.stopped().await,
                        Wake::Deposed => return Ended::Moved,
                        Wake::Canceled => match self.interrupted(Error::canceled()).await {
                            Ok(()) => continue,
                            Err(ended) => return ended,
                        },
                        Wake::Late(TimeLimit::Statement) => {
                            match self.interrupted(TimeLimit::Statement.error()).await {
                                Ok(()) => continue,
                                Err(ended) => return ended,
                            }
                        }
                        #[cfg(feature = "planted")]
                        Wake::Late(limit) if planted::outlives(&mut self.session, limit) => {
                            continue;
                        }
                        Wake::Late(limit) => return self.end(limit.error()).await,
                    }
                }
                Err(error) => return self.end(report::from_wire(&error)).await,
            };
            match self.handle(frame, watch).await {
                Ok(()) => {}
                Err(Ended::Interrupted(error)) => {
                    if let Err(ended) = self.interrupted(error).await {
                        return ended;
                    }
                }
                Err(ended) => return ended,
            }
            if self.signal.shall_go() {
                return self.stopped().await;
            }
        }
    }

    /// The deadline for the client's next bytes. Its node watches a client that is in no
    /// block, once every node does.
    fn patience(&self) -> Option<Deadline> {
        let carries = self.carries_blocks.as_ref();
        let is_watched = self.moves == Moves::Back
            && carries.is_some_and(|carries| carries.load(Ordering::Relaxed));
        let patience = self.session.patience();
        patience.filter(|deadline| !is_watched || deadline.limit != TimeLimit::IdleSession)
    }

    /// Charges the message that arrives, in an input buffer of this size, which may have to
    /// grow by as much again.
    fn charge_message(&mut self, held: usize) -> Result<(), Error> {
        if held == self.asked_for {
            return Ok(());
        }
        self.message_charge = None;
        if held > self.asked_for {
            let room = self.session.budget();
            room.ask_for(held as u64, "A message")?;
        }
        self.asked_for = held;
        if held > UNCHARGED {
            let charge = self.session.memory().charge_message(held as u64)?;
            self.message_charge = Some(charge);
        }
        Ok(())
    }

    /// Deposes a session that was registered after the serving term's end had been
    /// signalled to all sessions.
    pub(super) fn look_again(&self, shared: &Shared, serving_term: &Arc<ServingTerm>) {
        if self.moves != Moves::Never {
            let now = shared.serving_term();
            if !now.is_some_and(|now| Arc::ptr_eq(&now, serving_term)) {
                self.signal.depose();
            }
        }
    }

    /// Ends the session, or has it move, as its signal says.
    async fn stopped(&mut self) -> Ended {
        if self.shall_move() {
            return Ended::Moved;
        }
        self.end(shutdown()).await
    }

    pub(super) fn shall_move(&self) -> bool {
        match self.moves {
            Moves::Never => false,
            Moves::Away | Moves::Home => self.signal.is_deposed(),
            // When this node stops, the client of another node keeps its session and
            // moves.
            Moves::Back => self.signal.is_deposed() || self.signal.is_closed(),
        }
    }

    pub(super) async fn handle(
        &mut self,
        frame: Frame<'_>,
        watch: &mut Watch,
    ) -> Result<(), Ended> {
        if frame.kind == opening::HANDOVER {
            return self.node_tells(frame.contents).await;
        }
        let is_first = self.owed.is_nothing();
        match self.owed.take(frame.kind) {
            Treatment::CopyData => return self.copy_in(frame, watch).await,
            Treatment::Skip => return Ok(()),
            Treatment::Handle => self.signal.forget_cancel(),
        }
        if self.handover_withdrawn {
            self.tell_node();
        }
        if !self.owed.is_nothing() {
            if is_first {
                self.done_when_asked = done(&self.session);
            }
            self.clock.asked();
        }
        if self.session.take_portals_ended() {
            let session = &self.session;
            self.portals.retain(|portal| session.is_alive(portal));
            self.session.note_portals(self.portals.named.keys());
        }
        // What SET has changed counts from the next message on.
        let encoding = self.session.parsed_settings().client_encoding;
        self.output.encoding = encoding;
        let converted = match transcode::received(frame, encoding) {
            Ok(converted) => converted,
            Err(error) => {
                self.session.fail();
                return self.failed(&error, watch).await;
            }
        };
        let frame = Frame {
            contents: &converted,
            ..frame
        };
        let message = match Message::decode(frame) {
            Ok(message) => message,
            Err(error) => {
                self.session.fail();
                return self.failed(&report::from_wire(&error), watch).await;
            }
        };
        match message {
            Message::Parse(_) => coeval_env::work(Work::Plan, 1),
            Message::Execute { .. } => coeval_env::work(Work::Execute, 1),
            Message::Query(_) => {
                coeval_env::work(Work::Plan, 1);
                coeval_env::work(Work::Execute, 1);
            }
            _ => {}
        }
        let done = match message {
            Message::Bind(bind) => match self.wake(bind.statement, watch).await {
                Ok(()) => self.bind(&bind),
                Err(error) => Err(error),
            },
            Message::Execute { portal, max_rows } => self.execute(portal, max_rows, watch).await,
            Message::Sync => return self.ready(watch).await,
            Message::Parse(parse) => self.parse(&parse, watch).await,
            Message::Describe(target, name) => {
                let woken = match target {
                    DescribeTarget::Statement => self.wake(name, watch).await,
                    DescribeTarget::Portal => Ok(()),
                };
                woken.and_then(|()| self.describe(target, name))
            }
            Message::Query(text) => return self.query(text, watch).await,
            Message::Close(target, name) => {
                self.close(target, name);
                Ok(())
            }
            Message::Flush => return self.flush(watch).await,
            Message::Terminate => return Err(Ended::ByClient),
            Message::FunctionCall => {
                self.session.fail();
                Err(Error::unsupported("the function call protocol"))
            }
            Message::Password(_) => {
                let error = report::violation("the server has not asked for a password");
                return Err(self.end(error).await);
            }
            // These were handled before.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
        };
        match done {
            Ok(()) if self.output.is_full() || self.owed.is_copying() => self.flush(watch).await,
            Ok(()) => Ok(()),
            Err(error) => self.failed(&error, watch).await,
        }
    }

    /// Takes over what the client's node tells: what a block there has changed, or the block,
    /// which goes on here. It has no answer, and comes before a cycle.
    async fn node_tells(&mut self, piece: &[u8]) -> Result<(), Ended> {
        if let Some(mark) = coeval_sql::session::mark_of(piece) {
            self.session.mark(mark);
            return Ok(());
        }
        match self.session.follow(&[piece.to_vec()]).await {
            Ok(()) => {
                // The client's node has told the client.
                self.session.take_parameter_changes();
                Ok(())
            }
            Err(error) if error.remedy() == Remedy::Fatal => Err(Ended::Moved),
            Err(error) => Err(self.end(error).await),
        }
    }

    /// Before a statement that may change the data that suspended portals read, has those
    /// portals collect their remaining rows; except the portal of this name, which runs
    /// the statement.
    pub(super) async fn settle_portals(
        &mut self,
        but: Option<&str>,
        watch: &mut Watch,
    ) -> Result<(), Error> {
        self.suspended = false;
        let Self {
            session,
            portals,
            signal,
            ..
        } = self;
        for (name, portal) in portals.all_mut() {
            if but != Some(name) && portal.is_suspended() {
                watch.over(signal, session.settle(portal)).await?;
            }
        }
        Ok(())
    }

    /// Reports an error after the session has handled its effect.
    pub(super) async fn failed(&mut self, error: &Error, watch: &mut Watch) -> Result<(), Ended> {
        self.output.end_copy_out(false);
        if self.moves == Moves::Home && self.reading.leaves(error, self.output.holds()) {
            return Err(Ended::Moved);
        }
        if self.moves != Moves::Never
            && (error.remedy() == Remedy::Fatal
                || error.state() == SqlState::QUERY_CANCELED && self.shall_move())
        {
            return Err(Ended::Moved);
        }
        if error.remedy() == Remedy::Fatal {
            let reason = error.to_string();
            // `Output` sends what the client may see only once it is durable.
            self.end(error.clone()).await;
            return Err(Ended::EngineStopped(reason));
        }
        if error.ends_session() {
            return Err(self.end(error.clone()).await);
        }
        if self.signal.is_terminated() && error.state() == SqlState::QUERY_CANCELED {
            return Err(self.end(shutdown()).await);
        }
        self.output.lift();
        let error = &*self.reading.told(error);
        statement_failed(&self.session, error, false);
        if error.state() == SqlState::QUERY_CANCELED {
            // It has had its effect; the error itself may wait for the engine.
            self.signal.forget_cancel();
        }
        self.sheet.error(error.state());
        report::error(&mut self.output.buffer, error);
        match self.owed.after_error() {
            AfterError::Ready => {
                self.rest = Statements::default();
                self.ready(watch).await
            }
            AfterError::SkipToSync => {
                // A client that used Flush waits for this error, and the session skips
                // further Flush messages. The error is owed until it is sent: if sending
                // fails, the client gets another error.
                self.flush(watch).await?;
                self.owed.skip_to_sync();
                Ok(())
            }
        }
    }

    /// Handles the end of a cycle: the implicit transaction ends, and all answers are
    /// sent.
    pub(super) async fn ready(&mut self, watch: &mut Watch) -> Result<(), Ended> {
        let finished = watch.over(&self.signal, self.session.finish()).await;
        let holds = self.output.holds();
        self.output.lift();
        match finished {
            Ok(()) => {}
            Err(error) if self.moves == Moves::Home && self.reading.leaves(&error, holds) => {
                return Err(Ended::Moved);
            }
            Err(error)
                if self.moves != Moves::Never
                    && (error.remedy() == Remedy::Fatal
                        || error.state() == SqlState::QUERY_CANCELED && self.shall_move()) =>
            {
                return Err(Ended::Moved);
            }
            Err(error) if error.remedy() == Remedy::Fatal => {
                let reason = error.to_string();
                self.end(error).await;
                return Err(Ended::EngineStopped(reason));
            }
            Err(error) if error.ends_session() => return Err(self.end(error).await),
            Err(error) => {
                statement_failed(&self.session, &error, false);
                self.sheet.error(error.state());
                report::error(&mut self.output.buffer, &error);
            }
        }
        let status = self.status();
        for (name, value) in self.session.take_parameter_changes() {
            // A value too long for a message is not reported.
            let _ = cold::parameter_status(&mut self.changes, &name, &value);
        }
        if self.moves == Moves::Back {
            let tells = self.tells_reads.as_ref();
            if tells.is_some_and(|tells| tells.load(Ordering::Relaxed)) {
                self.session.note_reads();
            }
        }
        self.tell_node();
        self.output.buffer.extend_from_slice(&self.changes);
        hot::ready_for_query(&mut self.output.buffer, status);
        self.answered(watch).await?;
        self.changes.clear();
        Ok(())
    }

    /// Sends the answers of a cycle that has ended.
    async fn answered(&mut self, watch: &mut Watch) -> Result<(), Ended> {
        self.flush(watch).await?;
        self.owed.ready();
        self.session.rest();
        self.clock.answered(&self.sheet);
        Ok(())
    }

    /// Has the client's node keep what has changed in the session's state. Called before
    /// the client is told of the change: what it knows of survives the loss of this node,
    /// whatever becomes of the rest of the cycle.
    pub(super) fn tell_node(&mut self) {
        if self.moves != Moves::Back {
            return;
        }
        let mut from = self.handover.len();
        for piece in self.session.take_handover_changes() {
            super::opening::handover(&mut self.handover, &piece);
        }
        if std::mem::take(&mut self.handover_withdrawn) {
            // A part may have left. To apply all of it in its order, once more, leads to
            // the same state.
            from = 0;
        }
        let told = &self.handover[from..];
        self.output.buffer.extend_from_slice(told);
    }

    /// Records that all answers have left, with the handover state among them.
    pub(super) fn node_is_told(&mut self) {
        if !self.handover_withdrawn {
            self.handover = Vec::new();
        }
    }

    /// Records that answers were withdrawn, with the handover state among them: it is not
    /// known how much the node has.
    pub(super) fn handover_is_withdrawn(&mut self) {
        self.handover_withdrawn = !self.handover.is_empty();
    }

    /// The transaction status for ReadyForQuery. Portals end with their transaction.
    pub(super) fn status(&mut self) -> hot::TransactionStatus {
        match self.session.transaction_status() {
            TransactionStatus::Idle => {
                self.portals.clear();
                self.suspended = false;
                hot::TransactionStatus::Idle
            }
            TransactionStatus::InTransaction => hot::TransactionStatus::Transaction,
            TransactionStatus::Failed => hot::TransactionStatus::Failed,
        }
    }

    /// Whether the session has done what no rollback undoes since its client began to
    /// wait.
    pub(super) fn has_done(&self) -> bool {
        done(&self.session) != self.done_when_asked
    }

    /// Sends all buffered answers of a session that ends.
    async fn flush_last(&mut self) -> Result<(), Ended> {
        let dependencies = self.session.dependencies();
        match self.output.flush(dependencies).await {
            Ok(()) => Ok(()),
            Err(()) => Err(self.lost().await),
        }
    }

    /// Finds why nothing can be sent any more. If the reason is that the engine cannot
    /// make commits durable, the client gets that error instead of its answers, whose
    /// data may be lost.
    pub(super) async fn lost(&mut self) -> Ended {
        let Some(Lost::Engine(stopped)) = self.output.take_lost() else {
            return Ended::Gone;
        };
        if self.moves != Moves::Never {
            return Ended::Moved;
        }
        let reason = stopped.to_string();
        let error = Error::from(stopped)
            .with_detail("Whether the last transaction was committed is not known.")
            .with_hint(
                "Connect again when the server runs again, and look whether it was; the \
                 server's log says more.",
            );
        self.sheet.error(error.state());
        self.output.say_last(&error).await;
        Ended::EngineStopped(reason)
    }

    /// Writes the messages that the client gets before its session continues elsewhere,
    /// and returns the tracker that follows its messages from then on.
    pub(super) fn leave(&mut self, out: &mut Vec<u8>) -> Tracker {
        let status = match self.session.transaction_status() {
            TransactionStatus::Idle => hot::TransactionStatus::Idle,
            // The open transaction is lost; the running or the next statement reports
            // that.
            TransactionStatus::InTransaction | TransactionStatus::Failed => {
                hot::TransactionStatus::Failed
            }
        };
        let lost = self.owed.lose();
        if lost.error {
            // Of several statements in one query, some may have been committed, and be
            // durable, and the client may have their results: if the client retried, it
            // would run them twice. A change of the cluster may have been made as well. What
            // has only read has done nothing, whatever it has seen.
            report::error(out, &leader_changed(self.has_done()));
        }
        if lost.ready {
            hot::ready_for_query(out, status);
        }
        Tracker::new(status, self.owed)
    }

    /// Ends the session from the server's side, with this error.
    pub(super) async fn end(&mut self, error: Error) -> Ended {
        #[cfg(feature = "planted")]
        planted::commit_on_stop(&mut self.session, &error).await;
        self.session.fail();
        statement_failed(&self.session, &error, true);
        self.sheet.error(error.state());
        report::fatal(&mut self.output.buffer, &error);
        // A client that does not read must not delay a stopping server.
        let patience = std::time::Duration::from_secs(5);
        let flushed = coeval_env::timeout(patience, self.flush_last()).await;
        if let Ok(Ok(())) = flushed {
            let _ = coeval_env::timeout(patience, self.output.close()).await;
        }
        match flushed {
            Ok(Err(ended)) => ended,
            Ok(Ok(())) | Err(coeval_env::Elapsed) => Ended::Fatal(error),
        }
    }
}
