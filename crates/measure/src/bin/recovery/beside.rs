//! Checkpoint under load: measures how much throughput the clients keep while a
//! checkpoint is being written.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_env::{self as env, Instant};
use coeval_measure::table::{self, Change};
use coeval_measure::{Chance, Failure, Output, median};
use coeval_occ::{Engine, Settings};
use coeval_workload::plot::{Bar, Bars};

use super::Arguments;

/// Number of rows that a transaction updates.
const COMMIT: usize = 4;

/// How long the load runs before the checkpoint; the initial warm-up does not count.
const BEFORE: Duration = Duration::from_secs(4);
const WARM: Duration = Duration::from_secs(1);
/// Timeout for the start of a checkpoint.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which the checkpoint's status is polled.
const LOOK: Duration = Duration::from_millis(2);

/// Target for the throughput during a checkpoint under a paced load, in per cent of that
/// before.
const AIM: f64 = 85.0;

/// One transaction: its end, since the start of the load, and its latency.
type Done = (Duration, Duration);

/// Running clients; each returns the number of rows it updated, and its transactions.
type Clients = Vec<env::JoinHandle<Result<(u64, Vec<Done>), Failure>>>;

/// State shared by the clients.
struct Load {
    engine: Engine,
    rows: u64,
    begun: Instant,
    /// Interval between the intended starts of two transactions; `None` for an unpaced
    /// load.
    period: Option<Duration>,
    next: AtomicU64,
    stop: AtomicBool,
}

/// Results of a period of a run.
struct Window {
    seconds: f64,
    per_second: f64,
    /// Median and high percentile of the latency, in microseconds.
    middle: f64,
    high: f64,
}

/// Results of one run: before and during the checkpoint.
struct LoadRun {
    before: Window,
    during: Window,
}

impl Load {
    fn new(engine: Engine, rows: u64, per_second: Option<f64>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            rows,
            begun: env::now(),
            period: per_second.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        })
    }

    /// Runs transactions one after the other; returns the number of updated rows.
    async fn client(&self, seed: u64) -> Result<(u64, Vec<Done>), Failure> {
        let (mut chance, mut changed, mut done) = (Chance::new(seed), 0, Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let intended = match self.period {
                Some(period) => self.begun + period.mul_f64(number as f64),
                None => env::now(),
            };
            env::sleep_until(intended).await;
            // Sorted keys avoid deadlocks between clients.
            let key = |_| chance.below(self.rows as usize) as u64;
            let mut keys: Vec<u64> = (0..COMMIT).map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            let committed = table::update(&self.engine, &keys, Change::Counter, 0).await?;
            coeval_txn::durable(&self.engine, committed).await?;
            let now = env::now();
            changed += keys.len() as u64;
            done.push((now.duration_since(self.begun), now.duration_since(intended)));
        }
        Ok((changed, done))
    }

    /// Waits until a checkpoint is running, or no longer is; returns the time.
    async fn checkpoint(&self, running: bool) -> Result<Duration, Failure> {
        let asked = env::now();
        while self.engine.checkpoint_status().running.is_some() != running {
            if asked.elapsed() > PATIENCE {
                return Err("no checkpoint".into());
            }
            env::sleep(LOOK).await;
        }
        Ok(self.begun.elapsed())
    }
}

/// Measures every pace and every bandwidth limit, and prints the results.
pub async fn measure(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.load_rows == 0 {
        return Ok(());
    }
    let directory = arguments.directory()?;
    let engine = Engine::open(directory.path(), settings(0)).await?.0;
    table::attach(&engine)?;
    table::fill(&engine, arguments.load_rows).await?;
    coeval_txn::Engine::checkpoint(&engine).await?;
    engine.close().await?;
    drop(engine);

    let mut bench = Bench {
        arguments,
        directory: directory.path(),
        updates: 0,
    };
    let (most, bytes) = bench.most().await?;
    let pace = most * arguments.pace as f64 / 100.0;
    let limit = Settings::default().checkpoint_bytes_per_second;
    output.say(&format!(
        "\na load of {COMMIT} updates a transaction, durable, by {} clients on {} rows, beside a \
         checkpoint: medians of {} rounds\n\
         {:<10} {:>10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
        arguments.clients,
        arguments.load_rows,
        arguments.rounds,
        "load",
        "limit",
        "took, s",
        "before",
        "during",
        "kept, %",
        "p50, us",
        "during",
        "p99, us",
        "during"
    ));
    let mut csv = String::from(
        "load,limit_bytes_per_second,round,checkpoint_seconds,\
         before_per_second,during_per_second,\
         before_p50_us,during_p50_us,before_p99_us,during_p99_us\n",
    );
    let mut bars = Vec::new();
    for (load, rate) in [("paced", Some(pace)), ("saturated", None)] {
        for limited in [true, false] {
            let mut runs = Vec::new();
            for round in 0..arguments.rounds {
                let log = rate.unwrap_or(most) * bytes * BEFORE.as_secs_f64();
                let run = bench.run(rate, limited.then_some(log as u64)).await?;
                let _ = writeln!(
                    csv,
                    "{load},{},{round},{:.3},{:.0},{:.0},{:.0},{:.0},{:.0},{:.0}",
                    if limited { limit } else { 0 },
                    run.during.seconds,
                    run.before.per_second,
                    run.during.per_second,
                    run.before.middle,
                    run.during.middle,
                    run.before.high,
                    run.during.high
                );
                runs.push(run);
            }
            let of = |number: fn(&LoadRun) -> f64| median(runs.iter().map(number));
            let kept = of(|run| run.during.per_second / run.before.per_second * 100.0);
            let limit = format!("{} MiB/s", limit >> 20);
            let mut line = format!(
                "{load:<10} {:>10} {:>9.2} {:>8.0} {:>8.0} {kept:>8.1} {:>9.0} {:>9.0} {:>9.0} \
                 {:>9.0}",
                if limited { &limit } else { "none" },
                of(|run| run.during.seconds),
                of(|run| run.before.per_second),
                of(|run| run.during.per_second),
                of(|run| run.before.middle),
                of(|run| run.during.middle),
                of(|run| run.before.high),
                of(|run| run.during.high)
            );
            if rate.is_some() && limited {
                let verdict = if kept >= AIM { "reached" } else { "missed" };
                let _ = write!(line, "  aim {AIM:.0} %: {verdict}");
            }
            output.say(&line);
            let aim = (rate.is_some() && limited).then_some(AIM);
            let limit = if limited { &limit } else { "no limit" };
            bars.extend(pair(&format!("{load}, {limit}"), &runs, aim));
        }
    }
    let chart = Bars {
        title: "Throughput before a checkpoint and during it".to_owned(),
        axis: "transactions a second".to_owned(),
        bars,
    };
    output.bars("recovery-beside", &chart)?;
    output.file("recovery-beside.csv", csv.as_bytes())?;
    Ok(())
}

/// Bars for the throughput before and during a checkpoint, with `aim` per cent of the
/// former as the target.
fn pair(name: &str, runs: &[LoadRun], aim: Option<f64>) -> [Bar; 2] {
    let of = |window: fn(&LoadRun) -> &Window| -> Vec<f64> {
        runs.iter().map(|run| window(run).per_second).collect()
    };
    let before = of(|run| &run.before);
    let aim = aim.map(|percent| median(before.iter().copied()) * percent / 100.0);
    [
        Bar {
            name: format!("{name}: before"),
            rounds: before,
            aim: None,
        },
        Bar {
            name: format!("{name}: during"),
            rounds: of(|run| &run.during),
            aim,
        },
    ]
}

fn settings(checkpoint_log_bytes: u64) -> Settings {
    Settings {
        checkpoint_log_bytes,
        ..Settings::default()
    }
}

/// The database that all runs use.
struct Bench<'arguments> {
    arguments: &'arguments Arguments,
    directory: &'arguments Path,
    /// Number of acknowledged updates so far.
    updates: u64,
}

impl Bench<'_> {
    async fn open(&self, checkpoint_log_bytes: u64) -> Result<Engine, Failure> {
        let settings = settings(checkpoint_log_bytes);
        let (engine, _) = Engine::open(self.directory, settings).await?;
        table::attach(&engine)?;
        let totals = table::totals(&engine).await?;
        if (totals.rows, totals.updates) != (self.arguments.load_rows, self.updates) {
            return Err(format!("{totals:?} instead of {} updates", self.updates).into());
        }
        Ok(engine)
    }

    /// Greatest number of transactions per second, and bytes of log for each.
    async fn most(&mut self) -> Result<(f64, f64), Failure> {
        let engine = self.open(0).await?;
        let before = engine.checkpoint_status().log_bytes;
        let (load, clients) = self.begin(engine, None);
        env::sleep(BEFORE).await;
        let log = load.engine.checkpoint_status().log_bytes - before;
        let done = self.end(&load, clients).await?;
        let per_second = window(&done, WARM, BEFORE).per_second;
        let all = done.iter().filter(|done| done.0 <= BEFORE).count();
        Ok((per_second, log as f64 / all as f64))
    }

    /// Runs a load, and a checkpoint after this volume of log, or on request.
    async fn run(&mut self, rate: Option<f64>, log: Option<u64>) -> Result<LoadRun, Failure> {
        let engine = self.open(log.unwrap_or(0)).await?;
        let (load, clients) = self.begin(engine, rate);
        if log.is_none() {
            env::sleep(BEFORE).await;
            // Dropping the future does not stop the checkpoint.
            drop(coeval_txn::Engine::checkpoint(&load.engine));
        }
        let begun = load.checkpoint(true).await?;
        let ended = load.checkpoint(false).await?;
        let done = self.end(&load, clients).await?;
        Ok(LoadRun {
            before: window(&done, WARM, begun),
            during: window(&done, begun, ended),
        })
    }

    fn begin(&self, engine: Engine, rate: Option<f64>) -> (Arc<Load>, Clients) {
        let load = Load::new(engine, self.arguments.load_rows, rate);
        let clients = (0..self.arguments.clients as u64)
            .map(|client| {
                let load = Arc::clone(&load);
                env::spawn("client", async move { load.client(client + 1).await })
            })
            .collect();
        (load, clients)
    }

    /// Stops a load, takes a checkpoint, and returns the load's transactions.
    async fn end(&mut self, load: &Load, clients: Clients) -> Result<Vec<Done>, Failure> {
        load.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for client in clients {
            let ended = client.await.map_err(|error| format!("{error:?}"))?;
            let (changed, done) = ended?;
            self.updates += changed;
            all.extend(done);
        }
        coeval_txn::Engine::checkpoint(&load.engine).await?;
        load.engine.close().await?;
        Ok(all)
    }
}

/// Results of the transactions between two points in time.
fn window(done: &[Done], from: Duration, to: Duration) -> Window {
    let within = done.iter().filter(|done| done.0 >= from && done.0 < to);
    let mut latencies: Vec<Duration> = within.map(|done| done.1).collect();
    latencies.sort_unstable();
    let quantile = |share: f64| {
        let at = (latencies.len() as f64 * share) as usize;
        let latency = latencies.get(at.min(latencies.len().saturating_sub(1)));
        latency.map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
    };
    let seconds = to.saturating_sub(from).as_secs_f64();
    Window {
        seconds,
        per_second: latencies.len() as f64 / seconds,
        middle: quantile(0.5),
        high: quantile(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_left_is_a_share_of_what_there_was_before() {
        let window = |per_second| Window {
            seconds: 1.0,
            per_second,
            middle: 1.0,
            high: 1.0,
        };
        let run = |before, during| LoadRun {
            before: window(before),
            during: window(during),
        };
        let runs = [run(90.0, 80.0), run(110.0, 95.0), run(100.0, 99.0)];
        let [before, during] = pair("paced", &runs, Some(85.0));
        assert_eq!((before.aim, during.aim), (None, Some(85.0)));
        assert_eq!(before.rounds, [90.0, 110.0, 100.0]);
        assert_eq!(during.rounds, [80.0, 95.0, 99.0]);
        assert_eq!(pair("saturated", &runs, None)[1].aim, None);
    }
}
