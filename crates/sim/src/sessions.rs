//! The command-line front end of a campaign (`campaign`): skips runs that are on record for
//! this build, keeps the record up to date, prints failures as they are found, and ends
//! cleanly on a signal.
#![expect(
    clippy::disallowed_methods,
    reason = "a program that writes its record on the real disk in real time; what it runs is simulated"
)]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coeval_sim::Scenario;
use coeval_sim::campaign::{self, News, Record, Table, Verdict};

use crate::CampaignArguments;

/// Interval at which the record is written.
const SAVE: Duration = Duration::from_secs(5);
/// Interval at which progress is printed.
const TELL: Duration = Duration::from_secs(20);

/// Progress of the campaign, and its record.
struct CampaignProgress {
    record: Record,
    began: Instant,
    saved: Instant,
    told: Instant,
    done: usize,
    failed: usize,
    of: usize,
    /// Number of runs that were on record before.
    before: usize,
}

/// Performs a campaign; returns whether no run failed.
pub(crate) fn hold(arguments: &CampaignArguments) -> io::Result<bool> {
    let record = match &arguments.record {
        Some(path) if path.exists() => {
            let text = fs::read_to_string(path)?;
            let named = |error| io::Error::other(format!("{}: {error}", path.display()));
            Record::read(&text).map_err(named)?
        }
        _ => Record::default(),
    };
    let mut scenarios = match arguments.sample {
        true => campaign::sample(arguments.first),
        false => Scenario::all(),
    };
    scenarios.retain(|scenario| scenario.to_string().contains(&arguments.only));
    let seeds = arguments.first..arguments.first + arguments.seeds;
    // Every scenario once before any of them twice.
    let mut runs: Vec<(Scenario, u64)> = seeds
        .flat_map(|seed| scenarios.iter().map(move |scenario| (*scenario, seed)))
        .collect();
    let of = runs.len();
    let (build, length_ms) = (&arguments.build, arguments.length_ms);
    runs.retain(|(scenario, seed)| {
        record.failed(*scenario, *seed, build, length_ms) != Some(false)
    });
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let now = Instant::now();
    let progress = Mutex::new(CampaignProgress {
        record,
        began: now,
        saved: now,
        told: now,
        done: 0,
        failed: 0,
        of,
        before: of - runs.len(),
    });
    let signal = stop_on_signal();
    let until = arguments
        .seconds
        .map(|seconds| now + Duration::from_secs(seconds));
    let is_over =
        || signal.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
    let length = Duration::from_millis(arguments.length_ms);
    campaign::hold(&runs, length, threads, is_over, |news| {
        tell(news);
        let News::Done(done, ..) = news else { return };
        let mut progress = progress.lock().expect("no panic while it was held");
        let failed = done.verdict == Verdict::Failed;
        let before = progress
            .record
            .failed(done.scenario, done.seed, build, length_ms);
        if before == Some(true) && !failed {
            println!(
                "\n{} {} is clean, and this build is on record with a failure of it: something \
                 decides beside the seed",
                done.scenario, done.seed
            );
        }
        progress.record.add(done, build, length_ms);
        progress.done += 1;
        progress.failed += usize::from(failed || before == Some(true));
        if progress.told.elapsed() >= TELL {
            progress.told = Instant::now();
            eprintln!("{}", progress.line(build));
        }
        if failed || progress.saved.elapsed() >= SAVE {
            progress.saved = Instant::now();
            if let Err(error) = save(arguments, &progress.record) {
                eprintln!("the record is not up to date: {error}");
            }
        }
    });
    let progress = progress.into_inner().expect("no panic while it was held");
    save(arguments, &progress.record)?;
    println!("{}", Table::new(&progress.record, build, length_ms));
    println!("{}", progress.line(build));
    Ok(progress.failed == 0)
}

impl CampaignProgress {
    fn line(&self, build: &str) -> String {
        let there = self.before + self.done;
        let left = self.of - there;
        let elapsed = self.began.elapsed();
        let rate = self.done as f64 / elapsed.as_secs_f64().max(0.001);
        let more = match left {
            0 => String::new(),
            _ => format!(", {:.0} min left", left as f64 / rate.max(0.001) / 60.0),
        };
        format!(
            "{there} of {} runs of build {build}, {} of them before; {} failed; {rate:.1} runs a second for {:.0} s{more}",
            self.of,
            self.before,
            self.failed,
            elapsed.as_secs_f64()
        )
    }
}

/// Prints a failure at once, and the smallest failing run when it has been found.
fn tell(news: News<'_>) {
    match news {
        News::Done(_, _, report) if report.is_clean() => {}
        News::Done(_, options, report) => println!("\nFAILED {}\n{report}", options.command()),
        News::Shrunk(failure) => println!(
            "\nof {}\nsmallest: {}\n{}",
            failure.options.command(),
            failure.smallest.command(),
            failure.report
        ),
    }
}

/// Replaces the record and the table atomically, because the record is the result of
/// hours.
fn save(arguments: &CampaignArguments, record: &Record) -> io::Result<()> {
    if let Some(path) = &arguments.record {
        replace(path, &record.to_string())?;
    }
    if let Some(path) = &arguments.table {
        let table = Table::new(record, &arguments.build, arguments.length_ms);
        replace(path, &format!("{table}\n"))?;
    }
    Ok(())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        fs::create_dir_all(folder)?;
    }
    let other = path.with_extension("new");
    let mut file = fs::File::create(&other)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(other, path)
}

/// Returns a flag that a termination signal sets.
fn stop_on_signal() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let terminate = tokio::signal::unix::SignalKind::terminate();
            let Ok(mut terminate) = tokio::signal::unix::signal(terminate) else {
                return;
            };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            seen.store(true, Ordering::Relaxed);
        });
    });
    stop
}
