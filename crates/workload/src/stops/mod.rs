//! Stops of a follower under `any` reads: how stale its answers are when it goes on.
//!
//! ```text
//!   leader     w w w w w w w w w w w w w w w w w w      one writer for each key
//!   follower   r r r r ┤ SIGSTOP … SIGCONT ├ r r r      reads are sent all the time
//!                        r r r r r r r r r              … and these wait in its sockets
//! ```
//!
//! Three processes are a cluster; one that follows is stopped for a while, again and again.
//! Clients of the leader write registers, each value once. Clients of the follower read them
//! with `coeval.read_from = any`, and send their next read without waiting for the answer to
//! the last: the reads that were sent during a stop are answered when it ends, from the state
//! before it or from a newer one. The judge of Γ says by how much they were too old
//! ([`coeval_check::gamma`]); a score is a stop's if the violation began between the stop's
//! start and a while after its end.

mod clients;
mod stopped_cluster;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coeval_check::gamma::pauses::Pause;
use coeval_check::gamma::{self, Analysis, GammaError};
use coeval_check::history::Names;
use coeval_env as env;

use crate::server;
use clients::Recorder;
use stopped_cluster::Cluster;

/// Time before the first stop and after the last one.
const AROUND: Duration = Duration::from_millis(300);

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program.
    pub binary: PathBuf,
    /// Further settings of the nodes, as arguments of the command line.
    pub settings: Vec<String>,
    /// Number of stops.
    pub stops: usize,
    /// Length of a stop.
    pub stopped: Duration,
    /// Time between two stops, in which the follower runs.
    pub between: Duration,
    /// Time before the first stop in which nothing is stopped.
    pub quiet: Duration,
    /// Interval between two reads of a client, and between two writes of a key.
    pub every: Duration,
    /// Scores above this are counted.
    pub threshold: Duration,
    /// How long after its end a stop is held to be the cause of what begins.
    pub shadow: Duration,
}

/// What a run has shown.
#[derive(Debug)]
pub struct Findings {
    /// The greatest score of each stop in nanoseconds; 0 for none above the threshold.
    pub stops: Vec<u64>,
    /// The judgement, with the stops as pauses.
    pub analysis: Analysis,
    /// Number of scores above the threshold that are a stop's, and the time in which they
    /// may begin: the stops and their shadows.
    pub near: (usize, Duration),
    /// Number of scores above the threshold that are no stop's, and the rest of the time. A
    /// follower is always a little behind: this is the floor, which grows on a busy machine.
    pub elsewhere: (usize, Duration),
    /// Reads answered in the quiet time, and those of them that were held.
    pub quiet_reads: u64,
    /// Reads held in the quiet time.
    pub quiet_held: u64,
    /// Reads of the whole run that the follower executed itself, and how many it held.
    pub reads: u64,
    /// Reads held in the whole run.
    pub held: u64,
    /// Holds that ran out.
    pub ran_out: u64,
}

/// Error: a run without a verdict.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A node does not start, or ends.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Statement(#[from] tokio_postgres::Error),
    /// The history cannot be judged.
    #[error("the history cannot be judged: {0}")]
    Judge(#[from] GammaError),
    /// The cluster does not get ready.
    #[error("{0}")]
    NotReady(String),
    /// A client has failed in the program.
    #[error("a client has ended: {0}")]
    Client(#[from] env::JoinError),
    /// Files or sockets.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Findings {
    /// Number of stops with a score above the threshold.
    #[must_use]
    pub fn shown(&self) -> usize {
        self.stops.iter().filter(|score| **score > 0).count()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let mut scores = self.stops.clone();
        scores.sort_unstable();
        let middle = scores.get(scores.len() / 2).copied().unwrap_or_default();
        let greatest = scores.last().copied().unwrap_or_default();
        let threshold = ms(nanoseconds(self.analysis.options.threshold));
        writeln!(
            out,
            "{} of {} stops show a score above {threshold} ms: median {:.1} ms, greatest {:.1} ms",
            self.shown(),
            self.stops.len(),
            ms(middle),
            ms(greatest),
        )?;
        let rate = |(count, time): (usize, Duration)| count as f64 / time.as_secs_f64().max(1e-9);
        writeln!(
            out,
            "scores above {threshold} ms begin {:.2} times a second during and after stops, {:.2} \
             times otherwise; {} values",
            rate(self.near),
            rate(self.elsewhere),
            self.analysis.report.values
        )?;
        writeln!(
            out,
            "{} of {} reads were held, {} holds ran out; without stops {} of {}",
            self.held, self.reads, self.ran_out, self.quiet_held, self.quiet_reads
        )
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs a cluster, stops one of its followers, and judges what its clients were told.
///
/// # Errors
/// [`Error`], when there is no verdict.
pub async fn run(options: &Options) -> Result<Findings, Error> {
    let mut cluster = Cluster::start(options).await?;
    let follower = cluster.follower;
    clients::prepare(cluster.port(cluster.leader)).await?;
    cluster.reads_there(follower).await?;
    let recorder = Arc::new(Recorder::new());
    let ports = (cluster.port(cluster.leader), cluster.port(follower));
    let clients = clients::start(&recorder, ports, options.every).await?;
    env::sleep(AROUND).await;
    let before = cluster.counts(follower).await?;
    env::sleep(options.quiet).await;
    let quiet = cluster.counts(follower).await?;
    let mut pauses = Vec::new();
    for _ in 0..options.stops {
        env::sleep(options.between).await;
        let started = recorder.time();
        cluster.server(follower)?.pause()?;
        env::sleep(options.stopped).await;
        // The stop ends at the latest when this process has been told of it.
        cluster.server(follower)?.resume()?;
        pauses.push(Pause {
            started,
            finished: recorder.time(),
            node: (follower + 1).to_string(),
            what: "SIGSTOP".to_owned(),
        });
    }
    env::sleep(options.between.max(AROUND)).await;
    recorder.end();
    for client in clients {
        client.await??;
    }
    let after = cluster.counts(follower).await?;
    cluster.stop().await?;
    let mut judge = gamma::Judge::default();
    for transaction in recorder.taken() {
        judge.take(&transaction)?;
    }
    let options = gamma::Options {
        threshold: options.threshold,
        every: None,
        shadow: options.shadow,
    };
    let analysis = judge.finish(Names::default(), options, Some(pauses.clone()))?;
    let threshold = nanoseconds(options.threshold);
    let shadow = nanoseconds(options.shadow);
    let mut stops = vec![0; pauses.len()];
    let (mut near, mut elsewhere) = (0, 0);
    let scores = analysis.report.scores.iter();
    for score in scores.filter(|score| score.gamma > threshold) {
        let of = pauses.iter().rposition(|pause| {
            pause.started <= score.begins && score.begins <= pause.finished + shadow
        });
        match of.and_then(|of| stops.get_mut(of)) {
            Some(greatest) => {
                *greatest = score.gamma.max(*greatest);
                near += 1;
            }
            None => elsewhere += 1,
        }
    }
    let (from, to) = analysis.report.span.unwrap_or_default();
    let all = Duration::from_nanos(to - from);
    let shadows = pauses.iter().map(|pause| {
        let end = (pause.finished + shadow).min(to);
        Duration::from_nanos(end.saturating_sub(pause.started))
    });
    let shadows: Duration = shadows.sum();
    Ok(Findings {
        stops,
        near: (near, shadows),
        elsewhere: (elsewhere, all.saturating_sub(shadows)),
        analysis,
        quiet_reads: quiet.reads - before.reads,
        quiet_held: quiet.held - before.held,
        reads: after.reads - before.reads,
        held: after.held - before.held,
        ran_out: after.ran_out,
    })
}
