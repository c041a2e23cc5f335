//! One client: request after request, each until it is done.

use std::sync::Arc;
use std::time::Duration;

use coeval_check::history::Outcome;
use coeval_env as env;
use coeval_txn::Isolation;
use tokio::sync::mpsc::UnboundedSender;

use super::control::{Control, Phase, Turn};
use super::tally::Tally;
use crate::store::{Failure, Head, Recording, Session, Way};
use crate::workload::{Client, Done, Nature, Workload};

/// Between two attempts at a server that is not there.
const RECONNECT: Duration = Duration::from_millis(20);

/// A client, with all it needs.
pub(super) struct Runner<W: Workload> {
    pub(super) workload: Arc<W>,
    pub(super) session: Session,
    pub(super) client: Client,
    pub(super) control: Arc<Control>,
    pub(super) isolation: Isolation,
    /// It has its thread for itself.
    pub(super) alone: bool,
    pub(super) record: bool,
    /// Whether it is measured how long commits take: over the wire, where a look at the clock
    /// costs nothing beside.
    pub(super) times_commits: bool,
    pub(super) tally: Tally,
    /// When the last request that was measured ended.
    pub(super) ended: Option<env::Instant>,
}

/// What a client leaves behind.
pub(super) struct Ended {
    pub(super) tally: Tally,
    pub(super) recording: Option<Recording>,
}

/// When a request should have begun, and as what it did.
#[derive(Clone, Copy)]
struct Began {
    intended: env::Instant,
    turn: Turn,
}

/// How an attempt ended; an effect when all but the commit has been done.
struct Attempt<E> {
    began: bool,
    failure: Option<Failure>,
    effect: Option<E>,
    /// How long the commit took, if that is measured.
    commit: Option<Duration>,
}

impl<W: Workload> Runner<W> {
    /// Connects, says so, and works until the run is over.
    pub(super) async fn run(mut self, ready: UnboundedSender<Result<(), Failure>>) -> Ended {
        let connected = self.connect().await;
        let failed = connected.is_err();
        // When nobody waits for it any more the run is over.
        let _ = ready.send(connected);
        drop(ready);
        if !failed {
            if self.record {
                self.session.record_versions(self.workload.versions());
            }
            self.work().await;
        }
        Ended {
            tally: self.tally,
            recording: self.session.end_recording(),
        }
    }

    /// An empty transaction, so that the first one that counts finds a connection.
    async fn connect(&mut self) -> Result<(), Failure> {
        self.session
            .begin(Way {
                isolation: self.isolation,
                read_only: true,
                single: false,
            })
            .await?;
        self.session.commit().await
    }

    async fn work(&mut self) {
        let control = Arc::clone(&self.control);
        control.wait_for_start().await;
        let origin = control.origin();
        // After an outcome that nobody knows, what follows is another process's: the
        // lost transaction may still take effect beside it.
        let mut process = self.client.number;
        let counter = &control.counters[self.place()];
        while control.goes_on() {
            let intended = match &control.arrivals {
                // Who has a thread to himself goes on at once, so that one look at the clock
                // ends a request and begins the next.
                None => match self.ended.take() {
                    Some(ended) if self.alone => ended,
                    _ => env::now(),
                },
                Some(arrivals) => match arrivals.next(|| control.end()).await {
                    Some(at) => at,
                    None => return,
                },
            };
            let Some(turn) = control.turn(intended) else {
                return;
            };
            let request = self.workload.draw(&mut self.client);
            let nature = self.workload.nature(&request);
            loop {
                // For a history only.
                let started = if self.record { env::now() } else { intended };
                let attempt = self.patiently(&request, nature).await;
                if attempt.began && self.record {
                    let since = |at: env::Instant| at.duration_since(origin).as_nanos() as u64;
                    let outcome = match &attempt.failure {
                        None => Outcome::Committed,
                        Some(Failure::Unknown { .. }) => Outcome::Unknown,
                        Some(_) => Outcome::Aborted,
                    };
                    self.session.noted(|| Head {
                        process,
                        started: since(started),
                        finished: (outcome != Outcome::Unknown).then(|| since(env::now())),
                        outcome,
                        read_only: nature.read_only,
                    });
                    if outcome == Outcome::Unknown {
                        process += self.client.of;
                    }
                }
                // Nobody was there, or nobody let it in.
                let pause = !attempt.began;
                let began = Began { intended, turn };
                if self.settle(&request, nature, attempt, began) {
                    if turn == Turn::Counted {
                        counter.counted();
                    }
                    break;
                }
                if pause {
                    env::sleep(RECONNECT).await;
                } else if !self.alone {
                    env::yield_now().await;
                }
            }
            if !self.alone {
                // In memory nothing waits by itself, and others share the thread.
                env::yield_now().await;
            }
        }
    }

    /// In an open loop what arrived before the end is waited for after it, but not for
    /// ever.
    async fn patiently(&mut self, request: &W::Request, nature: Nature) -> Attempt<W::Effect> {
        if self.control.arrivals.is_none() {
            return self.attempt(request, nature).await;
        }
        let control = Arc::clone(&self.control);
        tokio::select! {
            biased;
            attempt = self.attempt(request, nature) => attempt,
            () = control.giving_up() => Attempt {
                began: true,
                failure: Some(Failure::Unknown {
                    cause: "left".into(),
                    message: "nobody waited for it any more".to_owned(),
                }),
                effect: None,
                commit: None,
            },
        }
    }

    async fn attempt(&mut self, request: &W::Request, nature: Nature) -> Attempt<W::Effect> {
        let mut attempt = Attempt {
            began: false,
            failure: None,
            effect: None,
            commit: None,
        };
        // A statement by itself is its own commit.
        let timed = self.times_commits && !nature.read_only && !nature.single;
        let way = Way {
            isolation: self.isolation,
            read_only: nature.read_only,
            single: nature.single,
        };
        let done = async {
            self.session.begin(way).await?;
            attempt.began = true;
            let run = self
                .workload
                .run(request, &mut self.client, &mut self.session);
            attempt.effect = Some(run.await?);
            let asked = timed.then(env::now);
            self.session.commit().await?;
            attempt.commit = asked.map(|asked| asked.elapsed());
            Ok(())
        };
        attempt.failure = done.await.err();
        if attempt.failure.is_some() {
            self.session.abort().await;
        }
        attempt
    }

    /// Where its counter is.
    fn place(&self) -> usize {
        usize::try_from(self.client.number).unwrap_or(0)
    }

    /// A request of this kind has ended.
    fn note_latency(&mut self, kind: usize, intended: env::Instant) {
        let now = env::now();
        self.ended = Some(now);
        let latency = now.duration_since(intended);
        self.tally.kinds[kind].latencies.record(latency);
    }

    /// Counts an attempt. Whether its request has ended.
    fn settle(
        &mut self,
        request: &W::Request,
        nature: Nature,
        attempt: Attempt<W::Effect>,
        Began { intended, turn }: Began,
    ) -> bool {
        let phase = self.control.phase();
        let measured = self.control.counts_in(intended, turn);
        let open = self.control.arrivals.is_some();
        let counter = &self.control.counters[self.place()];
        let kind = nature.kind;
        match attempt.failure {
            None => {
                self.workload
                    .ended(request, attempt.effect, Done::Committed);
                counter.completed();
                if !nature.read_only {
                    counter.written();
                }
                if measured {
                    if let Some(commit) = attempt.commit {
                        self.tally.commits.record(commit);
                    }
                    self.tally.kinds[kind].committed += 1;
                    self.note_latency(kind, intended);
                }
                true
            }
            Some(Failure::Rollback) => {
                counter.completed();
                if measured {
                    self.tally.kinds[kind].rolled_back += 1;
                    self.note_latency(kind, intended);
                }
                true
            }
            Some(Failure::Unknown { .. }) => {
                self.workload.ended(request, attempt.effect, Done::Perhaps);
                counter.failed();
                if measured && self.control.has_given_up() {
                    self.tally.unserved(1, intended.elapsed());
                } else if measured {
                    self.tally.unknown += 1;
                    if open {
                        self.tally.waited.record(intended.elapsed());
                    }
                }
                true
            }
            Some(Failure::Wrong(what)) => {
                counter.failed();
                self.tally.wrong(what);
                self.tally.failed += u64::from(measured);
                true
            }
            Some(Failure::Aborted {
                cause,
                message,
                retry,
            }) => {
                counter.aborted();
                let again = retry && phase != Phase::Done;
                if measured {
                    self.tally.abort(kind, cause.clone());
                    self.tally.retries += u64::from(again);
                    self.tally.failed += u64::from(!retry);
                }
                if !retry {
                    let failure = || format!("{cause} {message}").trim().to_owned();
                    self.tally.failure.get_or_insert_with(failure);
                }
                if !again {
                    counter.failed();
                    if measured && open && retry {
                        self.tally.unserved(1, intended.elapsed());
                    }
                }
                !again
            }
        }
    }
}
