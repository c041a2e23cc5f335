//! A hostile load: statements that compute for long beside point reads on the same
//! worker, to see whether timeouts and cancel requests take effect and the reads are
//! answered.
//!
//! ```text
//!   one worker    analytic ×4   ████████████████████████████   aggregates, for ever
//!                 hostile         ├─ one long value ──X        timeout, then cancel
//!                 reader        · · · · · · · · · · · · · · ·  one row by its key
//! ```
//!
//! For each hostile statement the load measures how long after its timeout, and after a
//! cancel request, the statement ends, and how long point reads take meanwhile. A
//! statement that ends by itself before that counts as on time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coeval_env as env;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, NoTls};

use crate::connect;

/// Statements that compute for long, each in one value, one sort or one plan. A pattern
/// that is too long is refused; what counts then is that nothing waits for the refusal.
pub const STATEMENTS: [(&str, &str); 12] = [
    ("no other statement", ""),
    (
        "compile a pattern",
        "SELECT 'a' ~ repeat('(a|b)*', 3000000)",
    ),
    (
        "compile patterns",
        "SELECT count(*) FROM generate_series(1, 1000000) g WHERE 'a' ~ (repeat('(a|b)*', 1500) || g)",
    ),
    (
        "match",
        "SELECT repeat('ab', 20000000) ~ '(a|b)*[ab]{0,200}c'",
    ),
    (
        "regexp_replace",
        "SELECT length(regexp_replace(repeat('ab', 50000000), '(a|b)+?', 'x', 'g'))",
    ),
    (
        "split_part",
        "SELECT split_part(repeat('a,', 50000000), ',', 49999999)",
    ),
    (
        "replace",
        "SELECT length(replace(repeat('ab', 50000000), 'a', 'xy')) FROM generate_series(1, 1000)",
    ),
    (
        "like",
        "SELECT repeat('ab', 50000000) LIKE '%_b' || repeat('_a', 1000) || 'c%'",
    ),
    (
        "sort",
        "SELECT count(*) FROM (SELECT n FROM facts ORDER BY m, v, n OFFSET 0) x",
    ),
    (
        "string_agg",
        "SELECT length(string_agg(v, ',' ORDER BY m)) FROM facts, generate_series(1, 100)",
    ),
    (
        "join without an index",
        "SELECT count(*) FROM facts x, facts y WHERE x.m + y.m = -1",
    ),
    (
        "subquery of a row",
        "SELECT (SELECT count(*) FROM generate_series(1, 1000000000000)) + 1",
    ),
];

/// A statement with the longest text: half a million rows of VALUES.
#[must_use]
pub fn long_text() -> String {
    let mut text = String::from("SELECT count(*) FROM (VALUES (0)");
    for number in 1..500_000 {
        text.push_str(&format!(",({number})"));
    }
    text + ") x (n)"
}

/// What each analytic session runs.
const ANALYSIS: &str =
    "SELECT m, count(*), sum(n), avg(n), max(v) FROM facts GROUP BY m ORDER BY m LIMIT 10";

/// Time that a statement runs before it is to end.
const RUNS: Duration = Duration::from_millis(700);

/// Pause between two point reads.
const BETWEEN_READS: Duration = Duration::from_millis(1);

/// Parameters of the load.
#[derive(Clone, Copy, Debug)]
pub struct HostileLoad {
    /// TCP port of the server, on loopback.
    pub port: u16,
    /// Rows of the table that is aggregated.
    pub rows: u32,
    /// Sessions that aggregate it meanwhile.
    pub analysts: usize,
}

/// What was measured beside one statement.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Time from the end of the statement's timeout to its answer; zero if it ended
    /// before.
    pub after_timeout: Duration,
    /// Time from a cancel request to the statement's answer.
    pub after_cancel: Duration,
    /// How the statement ended: a SQLSTATE, or `ok`.
    pub ended: String,
    /// Latencies of the point reads, in order.
    pub reads: Vec<Duration>,
}

impl Measured {
    /// Latency that this share of the point reads did not exceed.
    #[must_use]
    pub fn read_within(&self, share: f64) -> Duration {
        let last = self.reads.len().saturating_sub(1);
        let position = (last as f64 * share).ceil() as usize;
        self.reads.get(position).copied().unwrap_or_default()
    }
}

fn state(result: &Result<(), Error>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.code().map_or_else(
            || "connection lost".to_owned(),
            |state| state.code().to_owned(),
        ),
    }
}

impl HostileLoad {
    /// Creates and fills the tables.
    pub async fn set_up(&self) -> Result<(), Error> {
        let connection = connect(self.port).await?;
        let fill = format!(
            "CREATE TABLE point (id int PRIMARY KEY, v text);
             INSERT INTO point SELECT g, 'row ' || g FROM generate_series(1, 1000) g;
             CREATE TABLE facts (n int PRIMARY KEY, m int, v text);
             INSERT INTO facts SELECT g, g % 1000, 'value ' || g
             FROM generate_series(1, {}) g",
            self.rows
        );
        connection.batch_execute(&fill).await
    }

    /// Runs a statement until its timeout ends it, and once more until a cancel request
    /// does, beside the analytic sessions and a reader.
    pub async fn measure(&self, statement: &str) -> Result<Measured, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut analysts = Vec::new();
        for _ in 0..self.analysts {
            analysts.push(env::spawn("analyst", analyze(self.port, Arc::clone(&stop))));
        }
        let reader = env::spawn("reader", read(self.port, Arc::clone(&stop)));
        let measured = self.run(statement).await;
        stop.store(true, Ordering::Relaxed);
        let reads = reader.await;
        for analyst in analysts {
            if let Ok(result) = analyst.await {
                result?;
            }
        }
        let mut measured = measured?;
        if let Ok(reads) = reads {
            measured.reads = reads?;
            measured.reads.sort_unstable();
        }
        Ok(measured)
    }

    async fn run(&self, statement: &str) -> Result<Measured, Error> {
        if statement.is_empty() {
            env::sleep(3 * RUNS).await;
            return Ok(Measured {
                ended: "–".to_owned(),
                ..Measured::default()
            });
        }
        let connection = connect(self.port).await?;
        let timeout = format!("SET statement_timeout = {}", RUNS.as_millis());
        connection
            .batch_execute(&format!("{timeout}; SET work_mem = '1GB'"))
            .await?;
        let began = env::now();
        let ended = connection.batch_execute(statement).await;
        let mut measured = Measured {
            after_timeout: began.elapsed().saturating_sub(RUNS),
            ended: state(&ended),
            ..Measured::default()
        };
        if ended.is_err_and(|error| error.code() != Some(&SqlState::QUERY_CANCELED)) {
            return Ok(measured);
        }
        connection
            .batch_execute("SET statement_timeout = 0")
            .await?;
        let cancel = connection.cancel_token();
        let canceling = env::spawn("cancel", async move {
            env::sleep(RUNS).await;
            let asked = env::now();
            cancel.cancel_query(NoTls).await.map(|()| asked)
        });
        let result = connection.batch_execute(statement).await;
        let ended = env::now();
        if let Ok(asked) = canceling.await
            && result.is_err()
        {
            measured.after_cancel = ended.duration_since(asked?);
        }
        Ok(measured)
    }
}

async fn analyze(port: u16, stop: Arc<AtomicBool>) -> Result<(), Error> {
    let connection = connect(port).await?;
    while !stop.load(Ordering::Relaxed) {
        connection.batch_execute(ANALYSIS).await?;
    }
    Ok(())
}

/// Reads one row by its key, again and again; the latencies.
async fn read(port: u16, stop: Arc<AtomicBool>) -> Result<Vec<Duration>, Error> {
    let connection = connect(port).await?;
    let select = connection
        .prepare("SELECT v FROM point WHERE id = $1")
        .await?;
    let mut took = Vec::new();
    let mut id = 0_i32;
    while !stop.load(Ordering::Relaxed) {
        id = id % 1000 + 1;
        let began = env::now();
        connection.query_one(&select, &[&id]).await?;
        took.push(began.elapsed());
        env::sleep(BETWEEN_READS).await;
    }
    Ok(took)
}
