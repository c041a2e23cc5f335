//! One client of the driver: it runs request after request, each until it is done.

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

/// Pause between two attempts to reach a server that is down.
const RECONNECT: Duration = Duration::from_millis(20);

/// A client, with everything it needs to run.
pub(super) struct Runner<W: Workload> {
    pub(super) workload: Arc<W>,
    pub(super) session: Session,
    pub(super) client: Client,
    pub(super) control: Arc<Control>,
    pub(super) isolation: Isolation,
    /// Whether the client has a thread of its own.
    pub(super) alone: bool,
    pub(super) record: bool,
    /// Whether commit latency is measured: only over the wire, where reading the clock
    /// costs little in comparison.
    pub(super) times_commits: bool,
    pub(super) tally: Tally,
    /// Time at which the last measured request ended.
    pub(super) ended: Option<env::Instant>,
}

/// Results of a client: its counters, and its recorded history if any.
pub(super) struct Ended {
    pub(super) tally: Tally,
    pub(super) recording: Option<Recording>,
}

/// When a request should have begun, and whether it counts.
#[derive(Clone, Copy)]
struct Began {
    intended: env::Instant,
    turn: Turn,
}

/// Result of an attempt; it has an effect if all but the commit was done.
struct Attempt<E> {
    began: bool,
    failure: Option<Failure>,
    effect: Option<E>,
    /// Duration of the commit, if it was measured.
    commit: Option<Duration>,
}

impl<W: Workload> Runner<W> {
    /// Connects, reports the result through `ready`, and runs requests until the run is
    /// over.
    pub(super) async fn run(mut self, ready: UnboundedSender<Result<(), Failure>>) -> Ended {
        let connected = self.connect().await;
        let failed = connected.is_err();
        // If the receiver is gone, the run is over.
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

    /// Runs an empty transaction, so that the first one that counts finds a connection.
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
        // After an unknown outcome the client continues under a new process number: the
        // lost transaction may still take effect concurrently.
        let mut process = self.client.number;
        let counter = &control.counters[self.place()];
        while control.goes_on() {
            let intended = match &control.arrivals {
                // A client with a thread of its own continues at once, so one reading of
                // the clock ends a request and begins the next.
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
                // The start time is needed for a history only.
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
                // The server was down, or refused the client.
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
                // An in-memory engine never waits by itself, and other clients share the
                // thread.
                env::yield_now().await;
            }
        }
    }

    /// Runs an attempt. In an open loop, an attempt that arrived before the end continues
    /// after it, until the driver gives up.
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
                    message: "the driver no longer waited for it".to_owned(),
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
        // A single statement is its own commit.
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

    /// Index of the client's counter.
    fn place(&self) -> usize {
        usize::try_from(self.client.number).unwrap_or(0)
    }

    /// Records the latency of a request of this kind, which ends now.
    fn note_latency(&mut self, kind: usize, intended: env::Instant) {
        let now = env::now();
        self.ended = Some(now);
        let latency = now.duration_since(intended);
        self.tally.kinds[kind].latencies.record(latency);
    }

    /// Counts an attempt. Returns whether its request has ended.
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
