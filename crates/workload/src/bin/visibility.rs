//! The visibility command: how much later a commit is shown by a follower than by the leader.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin visibility -- --leader 5433 --follower 5434
//! ```
//!
//! A client writes numbers in rising order through the leader. One client of each node reads the
//! row again and again, and notes when it sees a number for the first time; both clocks are this
//! process's. The difference of the two times is that of the text's published timestamps, give or
//! take a round trip of each reader. Readers take the state that their node has
//! (`--read-from any`), so what they see of the follower is what the load beside them has brought
//! about there.
//!
//! Prints percentiles, and with `--csv` every difference by time.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use coeval_env as env;
use coeval_workload::connect;

/// Measures how much later a follower shows a commit than its leader.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// Port of the leader.
    #[arg(long)]
    leader: u16,
    /// Port of the follower.
    #[arg(long)]
    follower: u16,
    /// Duration, in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Pause between two writes, in microseconds.
    #[arg(long, default_value_t = 2_000)]
    pause: u64,
    /// Value of coeval.read_from for both readers.
    #[arg(long, default_value = "any")]
    read_from: String,
    /// File that gets the differences: seconds since the start, and milliseconds.
    #[arg(long)]
    csv: Option<PathBuf>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("visibility: {error}");
            ExitCode::FAILURE
        }
    }
}

/// When each number was first seen, by number.
type Seen = Vec<Option<env::Instant>>;

/// Reads the row until the end, and notes when a number is there: with one number all before
/// it are.
async fn watch(port: u16, read_from: String, over: Arc<AtomicBool>) -> Result<Seen, Failure> {
    let connection = connect(port).await?;
    let set = format!("SET coeval.read_from = '{}'", read_from.replace('\'', "''"));
    connection.batch_execute(&set).await?;
    let read = connection.prepare("SELECT n FROM visibility").await?;
    let mut seen = Seen::new();
    while !over.load(Ordering::Relaxed) {
        let n: i64 = connection.query_one(&read, &[]).await?.try_get(0)?;
        let now = env::now();
        let numbers = usize::try_from(n)? + 1;
        if numbers > seen.len() {
            seen.resize(numbers, Some(now));
        }
    }
    Ok(seen)
}

/// The differences, in milliseconds, with the seconds since `start`.
fn differences(start: env::Instant, leader: &Seen, follower: &Seen) -> Vec<(f64, f64)> {
    let pairs = leader.iter().zip(follower).skip(1);
    let pairs = pairs.filter_map(|(leader, follower)| Some(((*leader)?, (*follower)?)));
    let of = |(leader, follower): (env::Instant, env::Instant)| {
        let at = |seen: env::Instant| seen.duration_since(start).as_secs_f64();
        (at(leader), (at(follower) - at(leader)) * 1e3)
    };
    pairs.map(of).collect()
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file of a measurement, beside which no database runs"
)]
async fn run(arguments: Arguments) -> Result<(), Failure> {
    let connection = connect(arguments.leader).await?;
    connection
        .batch_execute(
            "DROP TABLE IF EXISTS visibility;
             CREATE TABLE visibility (id int PRIMARY KEY, n int8 NOT NULL);
             INSERT INTO visibility VALUES (1, 0)",
        )
        .await?;
    // Until the follower has the table.
    let follower = connect(arguments.follower).await?;
    follower
        .batch_execute("SET coeval.read_from = leader")
        .await?;
    follower.simple_query("SELECT n FROM visibility").await?;
    env::sleep(Duration::from_millis(500)).await;
    let over = Arc::new(AtomicBool::new(false));
    let start = env::now();
    let watching = [arguments.leader, arguments.follower].map(|port| {
        let watch = watch(port, arguments.read_from.clone(), Arc::clone(&over));
        env::spawn("watch", watch)
    });
    let update = connection.prepare("UPDATE visibility SET n = $1").await?;
    let lasting = Duration::from_secs_f64(arguments.seconds);
    let mut n = 0_i64;
    while start.elapsed() < lasting {
        n += 1;
        connection.execute(&update, &[&n]).await?;
        env::sleep(Duration::from_micros(arguments.pause)).await;
    }
    env::sleep(Duration::from_millis(200)).await;
    over.store(true, Ordering::Relaxed);
    let [leader, follower] = watching;
    let (leader, follower) = (leader.await??, follower.await??);
    let all = differences(start, &leader, &follower);
    if all.is_empty() {
        return Err("no number was seen on both nodes".into());
    }
    if let Some(path) = arguments.csv {
        let lines = all
            .iter()
            .map(|(at, later)| format!("{at:.4},{later:.4}\n"));
        std::fs::write(path, lines.collect::<String>())?;
    }
    let mut sorted: Vec<f64> = all.iter().map(|(_, later)| *later).collect();
    sorted.sort_by(f64::total_cmp);
    println!(
        "commits {} p50 {:.3} ms p90 {:.3} ms p99 {:.3} ms most {:.3} ms",
        sorted.len(),
        percentile(&sorted, 50),
        percentile(&sorted, 90),
        percentile(&sorted, 99),
        percentile(&sorted, 100),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_those_of_numbers_that_both_have_seen() {
        let start = env::now();
        let at = |milliseconds| Some(start + Duration::from_millis(milliseconds));
        let leader = vec![at(0), at(10), at(20), at(30)];
        let follower = vec![at(0), at(12), at(19)];
        let found = differences(start, &leader, &follower);
        let later: Vec<i64> = found
            .iter()
            .map(|(_, later)| later.round() as i64)
            .collect();
        assert_eq!(later, [2, -1]);
        assert!((found[0].0 - 0.01).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_of_what_there_is() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 50).round() as i64, 51);
        assert_eq!(percentile(&sorted, 100).round() as i64, 100);
        assert!(percentile(&[], 50).is_nan());
    }
}
