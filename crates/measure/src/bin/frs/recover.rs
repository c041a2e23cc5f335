//! Cost of recoveries: figures 6.5 to 6.7.

use std::fmt::Write as _;
use std::time::Duration;

use coeval_consensus::NodeId;
use coeval_measure::Output;
use coeval_measure::virtual_cluster::{Cluster, Recovery, expected};
use coeval_workload::plot::{Axis, Chart, Series};

use super::fail::{Base, LIMIT};
use super::{Arguments, Failure, LINES, Line};

/// Number of clients whose writes diverged on the recovering node, unless a figure varies
/// it; as in the source.
const CLIENTS: usize = 400;

/// Parameters of one recovery to measure.
#[derive(Clone, Copy, Debug)]
struct Turn {
    line: Line,
    node: NodeId,
    commit_is_lost: bool,
    clients: usize,
    delay: Duration,
    with_files: bool,
}

/// Restarts the node of `cluster` that is down, and measures its recovery.
fn recover(mut cluster: Cluster, base: &Base, turn: &Turn) -> Result<Recovery, String> {
    cluster.load(turn.clients, 1);
    cluster.pass(Duration::from_millis(300))?;
    cluster.slow(turn.node, turn.delay);
    if turn.with_files {
        cluster.use_files(base.files.clone(), turn.line.writes_anew);
    }
    cluster.restart(turn.node, turn.commit_is_lost)?;
    cluster.pass_until("recovery of the log", LIMIT, |cluster| {
        let recovery = cluster.recovery();
        recovery.is_some_and(|watch| watch.log_recovered.is_some())
    })?;
    cluster.load(0, 1);
    cluster.pass(Duration::from_millis(500))?;
    cluster.check()?;
    let recovery = cluster.recovery().cloned();
    let recovery = recovery.ok_or_else(|| "nothing was watched".to_owned())?;
    let counted = (recovery.requests, recovery.entries);
    let table = expected(turn.line.method, &recovery);
    if counted != table {
        return Err(format!(
            "{}: {counted:?} requests and entries, and by table 6.1 {table:?}: {recovery:?}",
            turn.line.name
        ));
    }
    Ok(recovery)
}

const HEAD: &str = "figure,line,x,last,commit,diverges,requests,answers,entries,bytes,seconds\n";

/// All measurements of the figures so far.
struct Results {
    csv: String,
    rows: Vec<(&'static str, &'static str, f64, Recovery)>,
}

impl Results {
    fn add(&mut self, figure: &'static str, line: Line, x: f64, recovery: Recovery) {
        let _ = writeln!(
            self.csv,
            "{figure},\"{}\",{x},{},{},{},{},{},{},{},{:.6}",
            line.name,
            recovery.last,
            recovery.commit,
            recovery.diverges,
            recovery.requests,
            recovery.answers,
            recovery.entries,
            recovery.bytes,
            seconds(&recovery)
        );
        self.rows.push((figure, line.name, x, recovery));
    }

    /// The median of a value of one line at one x.
    fn median(&self, figure: &str, line: &str, x: f64, value: fn(&Recovery) -> f64) -> f64 {
        let rows = self.rows.iter();
        let mut values: Vec<f64> = rows
            .filter(|row| (row.0, row.1, row.2) == (figure, line, x))
            .map(|row| value(&row.3))
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn seconds(recovery: &Recovery) -> f64 {
    recovery
        .log_time()
        .map_or(f64::NAN, |time| time.as_secs_f64())
}

/// Contents of one chart of a figure.
struct Panel {
    figure: &'static str,
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    digits: usize,
    value: fn(&Recovery) -> f64,
}

const FAILED: &str = "clients of the leader that failed";
const LOAD: &str = "clients during recovery";
const DELAY: &str = "added delay, ms";
const MILLISECONDS: &str = "milliseconds until the log is recovered";

const PANELS: [Panel; 6] = [
    panel(
        "6.5",
        "6.5a",
        "A follower's recovery",
        FAILED,
        "requests",
        0,
        |recovery| recovery.requests as f64,
    ),
    panel(
        "6.5",
        "6.5b",
        "A follower's recovery",
        FAILED,
        "entries received",
        0,
        |recovery| recovery.entries as f64,
    ),
    panel(
        "6.6a",
        "6.6a",
        "With a commit point",
        LOAD,
        MILLISECONDS,
        2,
        milliseconds,
    ),
    panel(
        "6.6b",
        "6.6b",
        "With a commit point",
        DELAY,
        MILLISECONDS,
        2,
        milliseconds,
    ),
    panel(
        "6.7a",
        "6.7a",
        "Commit point lost",
        LOAD,
        MILLISECONDS,
        2,
        milliseconds,
    ),
    panel(
        "6.7b",
        "6.7b",
        "Commit point lost",
        DELAY,
        MILLISECONDS,
        2,
        milliseconds,
    ),
];

const fn panel(
    figure: &'static str,
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    digits: usize,
    value: fn(&Recovery) -> f64,
) -> Panel {
    Panel {
        figure,
        name,
        title,
        x,
        y,
        digits,
        value,
    }
}

fn milliseconds(recovery: &Recovery) -> f64 {
    seconds(recovery) * 1e3
}

/// Measures, prints and plots the figures.
pub fn measure(arguments: &Arguments, base: &Base, output: &mut Output) -> Result<(), Failure> {
    let mut results = Results {
        csv: HEAD.to_owned(),
        rows: Vec::new(),
    };
    if arguments.wants("6.5") {
        counts(arguments, base, &mut results)?;
    }
    if arguments.wants("6.6") || arguments.wants("6.7") {
        times(arguments, base, &mut results)?;
    }
    output.file("frs-recoveries.csv", results.csv.as_bytes())?;
    for panel in &PANELS {
        report(panel, &results, output)?;
    }
    Ok(())
}

/// Figure 6.5. Counts are the same in every run, and on any disk.
fn counts(arguments: &Arguments, base: &Base, results: &mut Results) -> Result<(), String> {
    for line in LINES.into_iter().filter(|line| !line.writes_anew) {
        for &clients in &arguments.clients {
            let (cluster, node) = base.failed(line.method, clients)?;
            let turn = Turn {
                line,
                node,
                commit_is_lost: false,
                clients,
                delay: Duration::ZERO,
                with_files: false,
            };
            results.add("6.5", line, clients as f64, recover(cluster, base, &turn)?);
        }
    }
    Ok(())
}

/// Figures 6.6 and 6.7. While the delay varies no client sends requests to the leader:
/// otherwise a request of CHK queues after those of clients, which hides delays shorter
/// than that.
fn times(arguments: &Arguments, base: &Base, results: &mut Results) -> Result<(), String> {
    for line in LINES {
        let (cluster, node) = base.failed(line.method, CLIENTS)?;
        let loads = arguments
            .clients
            .iter()
            .map(|&clients| (clients, 0, clients as f64));
        let delays = arguments
            .delays
            .iter()
            .map(|&delay| (0, delay, delay as f64));
        let figures = [("6.6", false), ("6.7", true)];
        for (number, commit_is_lost) in figures {
            if !arguments.wants(number) {
                continue;
            }
            let [by_load, by_delay] = match number {
                "6.6" => ["6.6a", "6.6b"],
                _ => ["6.7a", "6.7b"],
            };
            let loads = loads.clone().map(|cell| (by_load, cell));
            let delays = delays.clone().map(|cell| (by_delay, cell));
            for (figure, (clients, delay, x)) in loads.chain(delays) {
                let turn = Turn {
                    line,
                    node,
                    commit_is_lost,
                    clients,
                    delay: Duration::from_millis(delay),
                    with_files: true,
                };
                for _ in 0..arguments.rounds {
                    results.add(figure, line, x, recover(cluster.clone(), base, &turn)?);
                }
            }
        }
    }
    Ok(())
}

fn report(panel: &Panel, results: &Results, output: &mut Output) -> std::io::Result<()> {
    let rows = results.rows.iter().filter(|row| row.0 == panel.figure);
    let (mut lines, mut places): (Vec<&str>, Vec<f64>) = (Vec::new(), Vec::new());
    for (_, line, x, _) in rows {
        if !lines.contains(line) {
            lines.push(line);
        }
        if !places.contains(x) {
            places.push(*x);
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let value = |line: &str, x| results.median(panel.figure, line, x, panel.value);
    output.say(&format!("\n{}  {}: {}", panel.name, panel.title, panel.y));
    let mut head = format!("{:>34}", panel.x);
    for line in &lines {
        let _ = write!(head, " {line:>12}");
    }
    output.say(&head);
    for &x in &places {
        let mut row = format!("{x:>34}");
        for line in &lines {
            let _ = write!(row, " {:>12.*}", panel.digits, value(line, x));
        }
        output.say(&row);
    }
    let chart = Chart {
        title: format!("{}, after figure {} of FRS", panel.title, panel.name),
        x: Axis {
            name: panel.x.to_owned(),
            logarithmic: false,
        },
        y: Axis {
            name: panel.y.to_owned(),
            logarithmic: true,
        },
        series: lines
            .iter()
            .map(|line| Series {
                name: (*line).to_owned(),
                points: places.iter().map(|&x| (x, value(line, x))).collect(),
            })
            .collect(),
    };
    output.chart(&format!("frs-{}", panel.name), &chart)
}
