//! The driver: runs a workload with many clients against a database, and reports
//! throughput, latencies and a history.
//!
//! ```text
//!   load │ connect │ warm-up │ measured ……………………… │ clients end │ check
//!                            ▲ CPU and clock         ▲ CPU and clock
//! ```
//!
//! Clients are spread over threads, each of which is a small executor. In a **closed
//! loop** a client begins its next transaction when the last one has ended: the number of
//! transactions in progress is constant, and a slow answer makes fewer requests. In an
//! **open loop** transactions arrive at a fixed rate, whether or not the ones before have
//! been answered; a free client takes the next one, and its latency counts from when it
//! should have begun, so that a stall shows in all requests that arrived during it (there
//! is no coordinated omission). That holds for a stall that lasts until the end, too:
//! clients finish the transactions they have taken, within the operation timeout, and
//! these count when they end; transactions that no client took or finished count with the
//! time they had waited.
//!
//! A client retries a transaction that was aborted by a conflict with the same request
//! until it is done, and its latency includes the retries. Aborted attempts are counted
//! by cause.
//!
//! The same driver serves benchmarks, soak tests and simulations: time, threads and
//! randomness come through `coeval-env`.
//!
//! Invariants:
//! - In a closed loop, exactly the transactions that ended between the two readings of
//!   the clock are measured; the warm-up and the last transactions of each client are
//!   not. With a requested number of transactions, exactly those that began after the
//!   warm-up are.
//! - In an open loop, exactly the transactions that arrived between them are measured:
//!   each completed, failed, has an unknown outcome, or was not served.
//! - No client is running when the check begins.

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

pub use arrivals::MOST as MAX_ARRIVALS;
pub use report::Report;
pub use stop::Stop;

use arrivals::Arrivals;
use client::Runner;
use control::{Control, Phase};
use processor::processor_time;
use report::{Facts, Sample};
use tally::Tally;

/// Length of the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// The measurement lasts for a fixed duration.
    Time(Duration),
    /// Until this many transactions have ended, with or without success.
    Transactions(u64),
}

/// How a workload is driven.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads that the clients run on, at least 1.
    pub threads: usize,
    /// Number of clients, at least 1.
    pub clients: usize,
    /// Isolation level of the transactions.
    pub isolation: Isolation,
    /// Duration of the warm-up, which is not measured.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub length: Length,
    /// Transactions that arrive per second, up to [`MAX_ARRIVALS`]; a closed loop when
    /// absent.
    pub rate: Option<f64>,
    /// Whether clients of an open loop wait for the exact moment, at the cost of CPU:
    /// sleeping is exact to a millisecond. Not for simulated time.
    pub exact: bool,
    /// Seed of the random number generators.
    pub seed: u64,
    /// Whether the driver creates and fills the tables first; otherwise it uses those of
    /// an earlier run.
    pub load: bool,
    /// Whether the driver checks all data at the end.
    pub check: bool,
    /// Whether a history is recorded, from the first transaction of the warm-up on.
    pub record: bool,
    /// The longest time a client waits for the answer to one operation over the wire
    /// before it drops its connection and opens another; unlimited when absent.
    pub operation_timeout: Option<Duration>,
    /// Handle that ends the run early.
    pub stop: Stop,
    /// What a commit survives, for the report.
    pub durability: String,
    /// Memory that the process preallocated before anything else, in megabytes, for the
    /// report.
    pub preallocated_megabytes: u64,
}

/// Default operation timeout of a client: longer than any statement of a workload should
/// take, yet short enough to notice a hang.
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

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Current phase: `loading`, `warming up`, `running` or `checking`.
    pub phase: &'static str,
    /// Whether `done` and `of` are in milliseconds; otherwise they count parts or
    /// transactions.
    pub in_time: bool,
    /// Amount of work done so far.
    pub done: u64,
    /// Total amount of work.
    pub of: u64,
    /// Transactions completed in the last second.
    pub per_second: u64,
    /// Transactions completed since the clients began.
    pub completed: u64,
    /// Committed transactions that are not read-only, since the clients began.
    pub written: u64,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The measured numbers of the run.
    pub report: Report,
    /// History of all clients' transactions and outcomes, if it was recorded.
    pub history: Option<History>,
    /// Origin of the times in the history.
    pub origin: env::Instant,
}

/// Transaction mode of the final check: a read-only snapshot.
const SNAPSHOT: Way = Way {
    isolation: Isolation::SnapshotIsolation,
    read_only: true,
    single: false,
};

/// Interval at which the driver polls its clients.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a workload on a database, and reports its progress to `progress`.
///
/// # Errors
/// If tables cannot be created or filled, no client can connect, or the final check
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

/// Makes the workload continue on the existing contents of its tables. Returns the
/// greatest unique number in them.
async fn resume<W: Workload>(workload: &W, database: &Database) -> Result<u64, Failure> {
    let mut session = database.session();
    session.begin(SNAPSHOT).await?;
    let greatest = workload.resume(&mut session).await?;
    session.commit().await?;
    Ok(greatest)
}

/// Runs the workload's check of all data, in one snapshot.
///
/// # Errors
/// If the data cannot be read.
pub async fn check<W: Workload>(workload: &W, database: &Database) -> Result<Vec<String>, Failure> {
    look(workload, database, env::now(), None).await
}

/// Runs the same check as the last transaction of a history whose times count from
/// `origin`, under a process of its own: the history then ends with the final state, so
/// that a judge notices lost writes.
///
/// # Errors
/// If the data cannot be read.
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

/// Measurements of the driver itself, beside the clients' counters.
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) processor: Duration,
    pub(crate) timeline: Vec<Sample>,
    /// Whether the run was stopped early.
    pub(crate) interrupted: bool,
}

/// The running clients and their shared state.
struct Running {
    control: Arc<Control>,
    threads: Vec<env::JoinHandle<Vec<client::Ended>>>,
}

impl Running {
    /// Connects all clients, whose unique numbers begin above the greatest of an earlier
    /// run, and waits until they are ready.
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

    /// Releases the clients, for the warm-up and the measurement.
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

    /// Polls the clients until the time is over, or all transactions have ended; takes a
    /// sample every second.
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
            // With a requested number of transactions, only the remaining ones count as
            // unserved.
            let mut left = control.left();
            arrivals.unserved(from, until, |count, waited| {
                tally.unserved(count.min(left), waited);
                left = left.saturating_sub(count);
            });
        }
        Ok((tally, history))
    }

    /// All clients, as soon as they have ended. Clients of an open loop abandon what
    /// exceeds the timeout.
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
    /// A caller that abandons a run leaves no running clients.
    fn drop(&mut self) {
        self.control
            .phase
            .store(Phase::Done as u8, Ordering::Release);
    }
}
