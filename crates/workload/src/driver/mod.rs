//! The driver: clients that run a workload, and what came of it.
//!
//! ```text
//!   load │ connect │ warm-up │ measured ……………………… │ clients end │ check
//!                            ▲ CPU and clock         ▲ CPU and clock
//! ```
//!
//! Clients are spread over threads, each of which is a small executor. In a **closed
//! loop** a client begins its next transaction when the last one has ended: so many are
//! under way at any time, and a slow answer makes fewer requests. In an **open loop**
//! transactions arrive at a rate, whether or not the ones before have been answered; a
//! free client takes the next one, and its latency counts from when it should have
//! begun, so that a stall shows in all requests that came during it (what is called
//! coordinated omission does not happen). That holds for a stall that lasts until the end,
//! too: what has been taken by then is waited for, as long as clients wait for an
//! operation, and counts when it ends; what nobody has taken, or nobody saw the end of,
//! counts with the time that it had waited.
//!
//! A transaction that has to give way is tried again with the same request until it is
//! done, and its latency includes that. Attempts that were undone are counted by cause.
//!
//! The same driver serves benchmarks, soaks and simulations: time, threads and chance
//! come through `coeval-env`.
//!
//! Invariants:
//! - In a closed loop, what is measured is what ended between the two looks at the clock,
//!   and nothing else; warm-up and the last transactions of each client are not in it. Where
//!   a number of transactions is asked for, it is exactly those that began after the warm-up.
//! - In an open loop it is what arrived between them, and all of that: it was completed,
//!   failed, has an unknown outcome, or was not served.
//! - No client is under way when the check begins.

mod arrivals;
mod client;
mod control;
mod load;
mod processor;
pub mod report;
mod show;
mod stop;
mod tally;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_check::history::{History, Outcome as Ending};
use coeval_env as env;
use coeval_txn::Isolation;
use tokio::sync::mpsc;

use crate::store::{Database, Failure, Head, Way};
use crate::workload::{Client, Workload};

pub use arrivals::MOST as MOST_ARRIVALS;
pub use report::Report;
pub use stop::Stop;

use arrivals::Arrivals;
use client::Runner;
use control::{Control, Phase};
use processor::processor_time;
use report::{Facts, Sample};
use tally::Tally;

/// How long is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// For a time.
    Time(Duration),
    /// Until so many transactions have ended, for good or ill.
    Transactions(u64),
}

/// How a workload is driven.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that the clients run on, at least 1.
    pub threads: usize,
    /// Clients, at least 1.
    pub clients: usize,
    /// At which level transactions run.
    pub isolation: Isolation,
    /// What runs before anything is measured.
    pub warm_up: Duration,
    /// How long is measured.
    pub length: Length,
    /// Transactions that arrive in a second, up to [`MOST_ARRIVALS`]; a closed loop when
    /// absent.
    pub rate: Option<f64>,
    /// Whether clients of an open loop wait for the exact moment, at the cost of CPU:
    /// sleeping is exact to a millisecond. Not for simulated time.
    pub exact: bool,
    /// Where chance begins.
    pub seed: u64,
    /// Whether tables are made and filled first; else they are as a run before left
    /// them.
    pub load: bool,
    /// Whether everything is looked at in the end.
    pub check: bool,
    /// Whether a history is recorded, from the first transaction of the warm-up on.
    pub record: bool,
    /// The longest that a client waits for the answer to one operation over the wire.
    /// Then it gives its connection up and takes another; for ever when absent.
    pub operation_timeout: Option<Duration>,
    /// Ends the run before its time.
    pub stop: Stop,
    /// What a commit survives, for the report.
    pub durability: String,
    /// How much memory the process had taken before anything else, in megabytes, for the
    /// report.
    pub preallocated_megabytes: u64,
}

/// How long a client waits for an answer, unless it is told otherwise: longer than any
/// statement of a workload should take, shorter than anybody's patience.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            clients: 1,
            isolation: Isolation::Serializable,
            warm_up: Duration::ZERO,
            length: Length::Time(Duration::from_secs(10)),
            rate: None,
            exact: true,
            seed: 1,
            load: true,
            check: true,
            record: false,
            operation_timeout: Some(OPERATION_TIMEOUT),
            stop: Stop::default(),
            durability: "none".to_owned(),
            preallocated_megabytes: 0,
        }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// What it is at: `loading`, `warming up`, `running` or `checking`.
    pub phase: &'static str,
    /// Whether it is counted in milliseconds; else in parts or transactions.
    pub in_time: bool,
    /// So much is done.
    pub done: u64,
    /// Of so much.
    pub of: u64,
    /// Transactions of the last second.
    pub per_second: u64,
    /// Transactions that have ended as they should, since the clients began.
    pub completed: u64,
    /// Of them, those that committed and are no mere reads.
    pub written: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The numbers.
    pub report: Report,
    /// What every client did and was told, if that was wanted.
    pub history: Option<History>,
    /// What its times count from.
    pub origin: env::Instant,
}

/// How everything is looked at.
const SNAPSHOT: Way = Way {
    isolation: Isolation::SnapshotIsolation,
    read_only: true,
    single: false,
};

/// How often the driver looks at its clients.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a workload on a database, and tells `progress` how far it has come.
///
/// # Errors
/// When tables cannot be made or filled, no client can connect, or the final check
/// cannot read; a failing transaction is a part of the report.
pub async fn run<W: Workload>(
    workload: &Arc<W>,
    database: &Database,
    options: &Options,
    progress: &mut (dyn FnMut(&Tick) + Send),
) -> Result<Outcome, Failure> {
    let began = env::now();
    let greatest = if options.load {
        load::load(workload, database, options, progress).await?;
        0
    } else {
        resume(&**workload, database).await?
    };
    let loaded = began.elapsed();
    let mut running = Running::start(workload, database, options, greatest).await?;
    let measured = running.measure(options, progress).await;
    let origin = running.control.origin();
    let (tally, mut history) = running.finish(options).await?;
    let mut violations = tally.wrong.clone();
    if options.check {
        progress(&Tick {
            phase: "checking",
            in_time: false,
            done: 0,
            of: 1,
            per_second: 0,
            completed: 0,
            written: 0,
        });
        violations.extend(look(&**workload, database, origin, history.as_mut()).await?);
    }
    let facts = Facts {
        workload: workload.name(),
        kinds: workload.kinds(),
        parameters: workload.parameters(),
        backend: database.backend(),
        over_wire: database.is_over_wire(),
        loaded: options.load.then_some(loaded),
        checked: options.check,
        violations,
    };
    Ok(Outcome {
        report: Report::new(facts, options, measured, &tally),
        history,
        origin,
    })
}

/// Has the workload go on from what is in its tables. The greatest unique number in them.
async fn resume<W: Workload>(workload: &W, database: &Database) -> Result<u64, Failure> {
    let mut session = database.session();
    session.begin(SNAPSHOT).await?;
    let greatest = workload.resume(&mut session).await?;
    session.commit().await?;
    Ok(greatest)
}

/// What the workload says of everything, in one snapshot.
///
/// # Errors
/// When it cannot be read.
pub async fn check<W: Workload>(workload: &W, database: &Database) -> Result<Vec<String>, Failure> {
    look(workload, database, env::now(), None).await
}

/// The same, as the last transaction of a history that counts from `origin`, by a
/// process of its own: so a history ends with what there is in the end, and what is
/// missing there is missed by somebody.
///
/// # Errors
/// When it cannot be read.
pub async fn look<W: Workload>(
    workload: &W,
    database: &Database,
    origin: env::Instant,
    history: Option<&mut History>,
) -> Result<Vec<String>, Failure> {
    let mut session = database.session();
    if history.is_some() {
        session.record_versions(workload.versions());
    }
    let since = |at: env::Instant| at.duration_since(origin).as_nanos() as u64;
    let started = env::now();
    session.begin(SNAPSHOT).await?;
    let found = workload.check(&mut session).await?;
    session.commit().await?;
    if let Some(History { transactions }) = history {
        let processes = transactions.iter().map(|transaction| transaction.process);
        let process = processes.max().map_or(0, |last| last + 1);
        session.noted(|| Head {
            process,
            started: since(started),
            finished: Some(since(env::now())),
            outcome: Ending::Committed,
            read_only: true,
        });
        let recording = session.end_recording();
        transactions.extend(
            recording
                .into_iter()
                .flat_map(|all| all.into_transactions()),
        );
    }
    Ok(found)
}

/// What was measured beside what each client has counted.
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) processor: Duration,
    pub(crate) timeline: Vec<Sample>,
    /// It was told to end before its time.
    pub(crate) interrupted: bool,
}

/// Clients at work.
struct Running {
    control: Arc<Control>,
    threads: Vec<env::JoinHandle<Vec<client::Ended>>>,
}

impl Running {
    /// Connects all clients, whose unique numbers begin above the greatest of a run
    /// before, and waits until they are ready.
    async fn start<W: Workload>(
        workload: &Arc<W>,
        database: &Database,
        options: &Options,
        greatest: u64,
    ) -> Result<Self, Failure> {
        let arrivals = options.rate.map(|rate| Arrivals::new(rate, options.exact));
        let control = Arc::new(Control::new(options.clients, arrivals, options.length));
        let (ready, mut readiness) = mpsc::unbounded_channel();
        let mut threads = Vec::new();
        let count = options.threads.clamp(1, options.clients.max(1));
        for thread in 0..count {
            let runners: Vec<Runner<W>> = (thread..options.clients)
                .step_by(count)
                .map(|number| Runner {
                    workload: Arc::clone(workload),
                    session: database.session().with_timeout(options.operation_timeout),
                    client: {
                        let clients = options.clients as u64;
                        let mut client = Client::new(number as u64, clients, options.seed);
                        client.begin_above(greatest);
                        client
                    },
                    control: Arc::clone(&control),
                    isolation: options.isolation,
                    alone: options.clients <= count,
                    record: options.record,
                    times_commits: database.is_over_wire(),
                    tally: Tally::new(workload.kinds().len()),
                    ended: None,
                })
                .collect();
            let ready = ready.clone();
            threads.push(env::spawn_dedicated("load", move || async move {
                let tasks: Vec<_> = runners
                    .into_iter()
                    .map(|runner| env::spawn("client", runner.run(ready.clone())))
                    .collect();
                drop(ready);
                let mut ended = Vec::new();
                for task in tasks {
                    match task.await {
                        Ok(client) => ended.push(client),
                        Err(error) => panic!("a client ended early: {error}"),
                    }
                }
                ended
            }));
        }
        drop(ready);
        let running = Self { control, threads };
        for _ in 0..options.clients {
            let lost = || Failure::Wrong("a client ended before it began".to_owned());
            let connected = readiness.recv().await.ok_or_else(lost);
            if let Err(error) = connected.and_then(|connected| connected) {
                running.control.enter(Phase::Done);
                return Err(error);
            }
        }
        Ok(running)
    }

    /// Lets the clients go, for the warm-up and what is measured.
    async fn measure(
        &mut self,
        options: &Options,
        progress: &mut (dyn FnMut(&Tick) + Send),
    ) -> Measured {
        let control = Arc::clone(&self.control);
        control.begin();
        if options.warm_up > Duration::ZERO {
            control.enter(Phase::WarmUp);
            let limit = Length::Time(options.warm_up);
            self.watch("warming up", limit, &options.stop, progress)
                .await;
        }
        let processor = processor_time();
        let from = env::now();
        control.enter(Phase::Measure);
        let timeline = self
            .watch("running", options.length, &options.stop, progress)
            .await;
        control.enter(Phase::Done);
        let elapsed = from.elapsed();
        let interrupted = options.stop.is_stopped();
        let processor = processor_time().saturating_sub(processor);
        Measured {
            elapsed,
            processor,
            timeline,
            interrupted,
        }
    }

    /// Looks on until the time is over, or everything has been done; a sample for
    /// each second.
    async fn watch(
        &self,
        phase: &'static str,
        length: Length,
        stop: &Stop,
        progress: &mut (dyn FnMut(&Tick) + Send),
    ) -> Vec<Sample> {
        let began = env::now();
        let first = self.control.counts();
        let (mut last, mut at) = (first, began);
        let mut per_second = 0;
        let mut timeline = Vec::new();
        loop {
            let elapsed = began.elapsed();
            let counts = self.control.counts();
            if at.elapsed() >= Duration::from_secs(1) {
                let seconds = at.elapsed().as_secs_f64();
                let rate = |new: u64, old: u64| (new - old) as f64 / seconds;
                let sample = Sample {
                    seconds: elapsed.as_secs_f64(),
                    transactions_per_second: rate(counts.completed, last.completed),
                    aborts_per_second: rate(counts.aborted, last.aborted),
                };
                per_second = sample.transactions_per_second as u64;
                timeline.push(sample);
                (last, at) = (counts, env::now());
            }
            let (done, of) = match length {
                Length::Time(time) => (elapsed.as_millis() as u64, time.as_millis() as u64),
                Length::Transactions(count) => (counts.counted, count),
            };
            progress(&Tick {
                phase,
                in_time: matches!(length, Length::Time(_)),
                done,
                of,
                per_second,
                completed: counts.completed,
                written: counts.written,
            });
            let idle = self.threads.iter().all(env::JoinHandle::is_finished) || stop.is_stopped();
            match length {
                Length::Time(time) if elapsed < time && !idle => {
                    env::sleep(LOOK.min(time - elapsed)).await;
                }
                Length::Transactions(count) if done < count && !idle => {
                    env::sleep(Duration::from_millis(1)).await;
                }
                _ => return timeline,
            }
        }
    }

    /// Waits until every client has ended.
    async fn finish(mut self, options: &Options) -> Result<(Tally, Option<History>), Failure> {
        let mut tally: Option<Tally> = None;
        let mut transactions = Vec::new();
        for client in self.ended(options).await? {
            let recording = client.recording.into_iter();
            transactions.extend(recording.flat_map(|all| all.into_transactions()));
            match &mut tally {
                None => tally = Some(client.tally),
                Some(tally) => tally.add(client.tally),
            }
        }
        transactions.sort_by_key(|transaction| transaction.started);
        let history = options.record.then_some(History { transactions });
        let nobody = || Failure::Wrong("there were no clients".to_owned());
        let mut tally = tally.ok_or_else(nobody)?;
        let control = &self.control;
        if let (Some(arrivals), Some((from, until))) = (&control.arrivals, control.measured()) {
            // Of a number that was asked for, only what is left of it.
            let mut left = control.left();
            arrivals.unserved(from, until, |count, waited| {
                tally.unserved(count.min(left), waited);
                left = left.saturating_sub(count);
            });
        }
        Ok((tally, history))
    }

    /// All clients, as soon as they have ended. Those of an open loop leave what takes
    /// too long.
    async fn ended(&mut self, options: &Options) -> Result<Vec<client::Ended>, Failure> {
        let threads = std::mem::take(&mut self.threads);
        let mut ending = pin!(async move {
            let mut ended = Vec::new();
            for thread in threads {
                let clients = thread.await;
                ended.extend(clients.map_err(|error| Failure::Wrong(error.to_string()))?);
            }
            Ok(ended)
        });
        if self.control.arrivals.is_some() {
            let patience = options.operation_timeout.unwrap_or(OPERATION_TIMEOUT);
            if let Ok(ended) = env::timeout(patience, ending.as_mut()).await {
                return ended;
            }
            self.control.give_up();
        }
        ending.await
    }
}

impl Drop for Running {
    /// Whoever gives up on a run leaves no clients behind.
    fn drop(&mut self) {
        self.control
            .phase
            .store(Phase::Done as u8, Ordering::Release);
    }
}
