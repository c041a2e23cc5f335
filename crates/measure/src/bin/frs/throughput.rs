//! Figure 6.8 of FRS: answers over time, while a leader is killed and restarted.

use std::fmt::Write as _;
use std::time::Duration;

use coeval_consensus::NodeId;
use coeval_measure::Output;
use coeval_measure::virtual_cluster::{Cluster, Recovery, expected};
use coeval_workload::plot::{Axis, Chart, Series};

use super::fail::{Base, LIMIT};
use super::{Failure, LINES, Line};

/// Number of clients, and times of the kill and the restart, as in the source.
const CLIENTS: usize = 1000;
const KILLED: Duration = Duration::from_secs(10);
const RESTARTED: Duration = Duration::from_secs(15);
/// End of the run, late enough for the slowest line.
const END: Duration = Duration::from_secs(50);
/// The leader is partitioned from the other nodes for this long before it is killed, so
/// that it has entries that no other node has: a leader that is killed at once has next
/// to none.
const CUT_OFF: Duration = Duration::from_millis(200);
/// One in this many requests is a write. Then the leader, which does all writes and its
/// share of the reads, does four fifths as much when two nodes share the reads as when
/// three do: the ratio of the source between the kill and the return.
const ONE_IN_IS_WRITE: u64 = 4;
/// Length of a counting interval, in seconds.
const SLICE: f64 = 0.1;

/// A run, and its results.
struct ThroughputRun {
    line: Line,
    answers: Vec<u64>,
    recovery: Recovery,
    /// Time from the restart until the node serves reads.
    returned: Duration,
    /// Time without any answer after the kill, in seconds.
    silent: f64,
}

impl ThroughputRun {
    /// Answers per second, between two points in time.
    fn rate(&self, from: f64, to: f64) -> f64 {
        let slices = &self.answers[(from / SLICE) as usize..(to / SLICE) as usize];
        slices.iter().sum::<u64>() as f64 / (to - from)
    }
}

/// Runs a cluster until its leader has been down for a while.
fn until_restart(base: &Base, line: Line) -> Result<(Cluster, NodeId), String> {
    let mut cluster = base.cluster(line.method)?;
    cluster.load(CLIENTS, ONE_IN_IS_WRITE);
    // Time counts from the first election on.
    cluster.begin();
    cluster.pass(KILLED - CUT_OFF)?;
    let old = cluster.leader().ok_or("there is no leader")?;
    cluster.cut_off(old);
    cluster.pass(CUT_OFF)?;
    cluster.kill(old);
    cluster.reconnect(old);
    cluster.pass(RESTARTED - KILLED)?;
    Ok((cluster, old))
}

fn run(
    mut cluster: Cluster,
    old: NodeId,
    base: &Base,
    line: Line,
    commit_is_lost: bool,
) -> Result<ThroughputRun, String> {
    cluster.use_files(base.files.clone(), line.writes_anew);
    let restarted = cluster.now();
    cluster.restart(old, commit_is_lost)?;
    cluster.pass(END - RESTARTED)?;
    let answers = cluster.answers().to_vec();
    cluster.pass_until("recovery", LIMIT, |cluster| {
        let recovery = cluster.recovery();
        recovery.is_some_and(|watch| watch.state_recovered.is_some())
    })?;
    cluster.load(0, 1);
    cluster.pass(Duration::from_secs(1))?;
    cluster.check()?;
    let recovery = cluster.recovery().cloned().ok_or("nothing was watched")?;
    let counted = (recovery.requests, recovery.entries);
    let table = expected(line.method, &recovery);
    if counted != table {
        return Err(format!(
            "{}: {counted:?} requests and entries, and by table 6.1 {table:?}: {recovery:?}",
            line.name
        ));
    }
    let killed = (KILLED.as_secs_f64() / SLICE) as usize;
    let restart = (RESTARTED.as_secs_f64() / SLICE) as usize;
    let silent = answers[killed..restart].iter().filter(|count| **count == 0);
    Ok(ThroughputRun {
        line,
        silent: silent.count() as f64 * SLICE,
        returned: recovery
            .state_recovered
            .map_or(LIMIT, |moment| moment - restarted),
        answers,
        recovery,
    })
}

/// Measures, prints and plots the figure.
pub fn measure(base: &Base, output: &mut Output) -> Result<(), Failure> {
    let mut runs = [Vec::new(), Vec::new()];
    for line in LINES {
        let (cluster, old) = until_restart(base, line)?;
        for (commit_is_lost, runs) in [false, true].into_iter().zip(&mut runs) {
            runs.push(run(cluster.clone(), old, base, line, commit_is_lost)?);
        }
    }
    let names = [
        ("6.8a", "commit point valid"),
        ("6.8b", "commit point lost"),
    ];
    let mut csv = "figure,line,seconds,answers in a second\n".to_owned();
    for ((name, what), runs) in names.into_iter().zip(&runs) {
        output.say(&format!(
            "\n{name}  {CLIENTS} clients, leader killed at 10 s and back at 15 s, {what}: answers \
             in a second"
        ));
        output.say(&format!(
            "{:>10} {:>10} {:>12} {:>10} {:>12} {:>10} {:>12} {:>12} {:>10} {:>10}",
            "",
            "before",
            "silent, s",
            "while down",
            "second 15-16",
            "at the end",
            "log, s",
            "back, s",
            "requests",
            "entries"
        ));
        for run in runs {
            output.say(&format!(
                "{:>10} {:>10.0} {:>12.1} {:>10.0} {:>12.0} {:>10.0} {:>12.3} {:>12.3} {:>10} {:>10}",
                run.line.name,
                run.rate(5.0, 9.5),
                run.silent,
                run.rate(12.5, 15.0),
                run.rate(15.0, 16.0),
                run.rate(47.0, 50.0),
                run.recovery.log_time().map_or(f64::NAN, |time| time.as_secs_f64()),
                run.returned.as_secs_f64(),
                run.recovery.requests,
                run.recovery.entries,
            ));
            for (slice, count) in run.answers.iter().enumerate() {
                let moment = slice as f64 * SLICE;
                let rate = *count as f64 / SLICE;
                let _ = writeln!(csv, "{name},\"{}\",{moment:.1},{rate:.0}", run.line.name);
            }
        }
        output.chart(&format!("frs-{name}"), &chart(name, what, runs))?;
    }
    output.file("frs-throughput.csv", csv.as_bytes())?;
    Ok(())
}

fn chart(name: &str, what: &str, runs: &[ThroughputRun]) -> Chart {
    let points = |run: &ThroughputRun| {
        let slices = run.answers.iter().enumerate();
        slices
            .map(|(slice, count)| (slice as f64 * SLICE, *count as f64 / SLICE))
            .collect()
    };
    Chart {
        title: format!("Kill and return of a leader, {what}, after figure {name} of FRS"),
        x: Axis {
            name: "seconds".to_owned(),
            logarithmic: false,
        },
        y: Axis {
            name: "answers in a second".to_owned(),
            logarithmic: false,
        },
        series: runs
            .iter()
            .map(|run| Series {
                name: run.line.name.to_owned(),
                points: points(run),
            })
            .collect(),
    }
}
