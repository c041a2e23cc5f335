//! The driver: one task that owns a node's consensus, log and machine, and carries out what
//! consensus asks for, step by step.
//!
//! The log's writes are few and small, so each is awaited where it stands: while it is under way
//! the driver does nothing else, and clock ticks that come meanwhile are made up for before the
//! next input.

use std::sync::Arc;

use bytes::Bytes;
use coeval_consensus::{
    Change, Consensus, Content, Message, NodeId, Position, Ready, Role, RoleChange, StartError,
};
use coeval_env::Instant;
use coeval_types::{Lsn, Term};
use tokio::sync::{mpsc, oneshot, watch};

use crate::fence::Fenced;
use crate::packet::{self, Packet};
use crate::proposals::{Answer, Proposals};
use crate::store::Store;
use crate::{Error, MAX_ENTRY_BYTES, Machine, Settings, Standing, Transport, convert};

/// Most ticks that are made up for at once: enough for any timeout to pass.
const MOST_TICKS: u32 = 100;

/// A request to the driver.
#[derive(Debug)]
pub(crate) enum Request {
    /// Propose an entry, in this term.
    Propose(Term, Bytes, Answer),
    /// Change the members.
    Change(Change, Answer),
    /// Confirm that this node leads, and answer once its state is at least as new as that of any
    /// leader before the request.
    Confirm(oneshot::Sender<Result<Lsn, Error>>),
    /// A message of another node.
    Deliver(NodeId, Bytes),
    /// End, in order.
    Close(oneshot::Sender<Result<(), Error>>),
}

/// A reader that waits: for consensus's answer first, then for the state to have come that far.
struct Waiting {
    context: u64,
    at: Option<Lsn>,
    answer: oneshot::Sender<Result<Lsn, Error>>,
}

/// See the module.
pub(crate) struct Driver {
    settings: Settings,
    machine: Box<dyn Machine>,
    transport: Arc<dyn Transport>,
    consensus: Consensus,
    store: Store,
    applied: Position,
    proposals: Proposals,
    waiting: Vec<Waiting>,
    next_context: u64,
    standing: watch::Sender<Standing>,
    next_tick: Instant,
}

impl Driver {
    pub(crate) async fn open(
        settings: Settings,
        mut machine: Box<dyn Machine>,
        transport: Arc<dyn Transport>,
        standing: watch::Sender<Standing>,
    ) -> Result<Self, Error> {
        let (store, opened) = Store::open(&settings).await?;
        machine.restore(opened.snapshot.as_deref())?;
        let restored = opened.restored;
        if let Some(observer) = &settings.observer {
            observer.started(settings.node, &restored, &store.all());
        }
        let seed = coeval_env::random_u64();
        let consensus = Consensus::new(settings.node, settings.consensus(), &restored, seed);
        let consensus = consensus.map_err(|error| match error {
            StartError::Settings(_) => Error::Malformed("the council's settings contradict"),
            StartError::Restored(error) => {
                Error::Log(coeval_log::Error::Setting(error.to_string()))
            }
        })?;
        Ok(Self {
            machine,
            transport,
            consensus,
            store,
            applied: Position {
                term: Term(0),
                end: restored.applied,
            },
            proposals: Proposals::default(),
            waiting: Vec::new(),
            next_context: 0,
            standing,
            next_tick: coeval_env::now() + settings.tick,
            settings,
        })
    }

    /// Runs until a request closes the council, every handle is gone, or a step fails.
    pub(crate) async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        let ended = loop {
            if let Err(error) = self.settle().await {
                break Err(error);
            }
            let request = tokio::select! {
                biased;
                () = coeval_env::sleep_until(self.next_tick) => None,
                request = requests.recv() => match request {
                    Some(request) => Some(request),
                    None => break Ok(None),
                },
            };
            self.make_up_ticks();
            match request {
                Some(Request::Close(answer)) => break Ok(Some(answer)),
                Some(request) => {
                    if let Err(error) = self.take(request).await {
                        break Err(error);
                    }
                }
                None => {}
            }
        };
        match ended {
            Ok(answer) => {
                let closed = self.store.close().await;
                if let Some(answer) = answer {
                    let _ = answer.send(closed);
                }
            }
            Err(error) => tracing::error!(%error, node = %self.settings.node, "the council ends"),
        }
    }

    fn make_up_ticks(&mut self) {
        let now = coeval_env::now();
        for _ in 0..MOST_TICKS {
            if now < self.next_tick {
                return;
            }
            self.consensus.tick();
            self.next_tick += self.settings.tick;
        }
        // A clock that has jumped: what it counted beyond that is not made up for.
        self.next_tick = now + self.settings.tick;
    }

    async fn take(&mut self, request: Request) -> Result<(), Error> {
        match request {
            Request::Propose(term, entry, answer) => self.propose(term, entry, answer),
            Request::Change(change, answer) => {
                let proposed = self.consensus.change_membership(change);
                let term = self.term();
                self.add(proposed.map_err(|refusal| Error::of(refusal, term)), answer);
            }
            Request::Confirm(answer) => {
                let context = self.next_context;
                self.next_context += 1;
                match self.consensus.read(context) {
                    Ok(()) => self.waiting.push(Waiting {
                        context,
                        at: None,
                        answer,
                    }),
                    Err(refusal) => {
                        let _ = answer.send(Err(Error::of(refusal, self.term())));
                    }
                }
            }
            Request::Deliver(from, message) => match self.deliver(from, &message).await {
                Err(error @ (Error::Malformed(_) | Error::Refused(_))) => {
                    tracing::warn!(%from, %error, "a message to the council was dropped");
                }
                delivered => return delivered,
            },
            Request::Close(_) => {}
        }
        Ok(())
    }

    fn term(&self) -> Term {
        self.consensus.role().term
    }

    fn propose(&mut self, term: Term, entry: Bytes, answer: Answer) {
        let proposed = if entry.len() > MAX_ENTRY_BYTES {
            Err(Error::TooLarge(entry.len()))
        } else if self.proposals.len() >= self.settings.proposals {
            Err(Error::Busy(self.settings.proposals))
        } else if term != self.term() {
            Err(Error::Fenced(Fenced {
                found: term,
                newest: self.term(),
            }))
        } else {
            let proposed = self.consensus.propose(entry);
            proposed.map_err(|refusal| Error::of(refusal, term))
        };
        self.add(proposed, answer);
    }

    fn add(&mut self, proposed: Result<Position, Error>, answer: Answer) {
        match proposed {
            Ok(at) => self.proposals.add(at, answer),
            Err(error) => {
                // The proposer may have gone.
                let _ = answer.send(Err(error));
            }
        }
    }

    async fn deliver(&mut self, from: NodeId, message: &Bytes) -> Result<(), Error> {
        match packet::read(message)? {
            Packet::Consensus(message) => {
                if message.from != from {
                    return Err(Error::Malformed("it names another sender"));
                }
                convert::check(&message)?;
                match self.consensus.receive(message) {
                    Err(refusal) if refusal.remedy() == coeval_types::Remedy::Fatal => {
                        tracing::error!(%from, %refusal, "the council's logs contradict");
                        Err(Error::Refused(refusal))
                    }
                    Err(refusal) => Err(Error::Refused(refusal)),
                    Ok(()) => Ok(()),
                }
            }
            Packet::Snapshot(offer, bytes) => {
                if offer.end() <= self.consensus.commit() {
                    return Ok(());
                }
                let checkpoint = self.store.receive(offer, &bytes).await?;
                let taken = self.consensus.install_checkpoint(checkpoint);
                if !matches!(taken, Ok(true)) {
                    self.store.discard().await;
                }
                taken.map(|_| ()).map_err(Error::Refused)
            }
        }
    }

    /// Carries out everything that consensus asks for, until it asks for nothing.
    async fn settle(&mut self) -> Result<(), Error> {
        loop {
            self.consensus.tell_commit();
            let ready = self.consensus.ready();
            if ready.is_empty() {
                break;
            }
            if let Some(observer) = &self.settings.observer {
                observer.handed_out(self.settings.node, &ready);
            }
            self.carry_out(ready).await?;
        }
        self.take_snapshot().await?;
        self.answer_waiting();
        self.publish();
        Ok(())
    }

    async fn carry_out(&mut self, ready: Ready) -> Result<(), Error> {
        for message in &ready.messages {
            self.send(message);
        }
        if let Some(write) = &ready.write {
            let installed = self.store.write(write).await?;
            if let Some(checkpoint) = &write.install {
                self.machine.restore(installed.as_deref())?;
                self.proposals.covered(checkpoint.position.end);
                self.applied = checkpoint.position;
            }
            if let Some(observer) = &self.settings.observer {
                observer.persisted(self.settings.node, write.number);
            }
            self.consensus
                .persisted(write.number)
                .map_err(Error::Refused)?;
        }
        if let Some(committed) = ready.committed {
            for entry in self.store.between(self.applied.end, committed.to.end) {
                let answer = match &entry.content {
                    Content::Payload(bytes) => self.machine.apply(entry.position(), bytes),
                    Content::Mark(_) | Content::Membership(_) => Bytes::new(),
                };
                self.proposals.applied(&entry, answer);
            }
            self.applied = committed.to;
        }
        for read in ready.reads {
            let found = self
                .waiting
                .iter()
                .position(|waiting| waiting.context == read.context);
            let Some(index) = found else { continue };
            match read.outcome {
                Ok(at) => self.waiting[index].at = Some(at),
                Err(refusal) => {
                    let waiting = self.waiting.swap_remove(index);
                    let _ = waiting.answer.send(Err(Error::of(refusal, self.term())));
                }
            }
        }
        for fetch in ready.fetches {
            let entries = self.store.fetch(&fetch);
            self.consensus
                .fetched(fetch, entries)
                .map_err(Error::Refused)?;
        }
        for to in ready.checkpoints {
            if let Some((offer, bytes)) = self.store.offer().await? {
                self.transport.send(to, packet::snapshot(&offer, &bytes));
            }
            self.consensus.checkpoint_sent(to);
        }
        Ok(())
    }

    fn send(&self, message: &Message) {
        self.transport.send(message.to, packet::consensus(message));
    }

    /// Takes a snapshot when the log since the last one has grown long.
    async fn take_snapshot(&mut self) -> Result<(), Error> {
        let applied = self.applied.end;
        if self.store.since_snapshot(applied) < self.settings.snapshot_every_bytes {
            return Ok(());
        }
        let state = self.machine.snapshot();
        self.store.snapshot(applied, &state).await?;
        self.consensus.removed_before(applied);
        Ok(())
    }

    fn answer_waiting(&mut self) {
        let applied = self.applied.end;
        let is_due = |waiting: &mut Waiting| waiting.at.is_some_and(|at| at <= applied);
        for waiting in self.waiting.extract_if(.., is_due) {
            // The reader may have gone.
            let _ = waiting.answer.send(Ok(applied));
        }
    }

    fn publish(&self) {
        let RoleChange { term, role, leader } = self.consensus.role();
        let status = self.consensus.status();
        let now = Standing {
            term,
            leader,
            leads: role == Role::Leader { serving: true },
            applied: self.applied.end,
            members: status.membership,
        };
        self.standing.send_if_modified(|before| {
            let changed = *before != now;
            *before = now;
            changed
        });
    }
}
