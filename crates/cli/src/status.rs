//! `coeval status`: prints the state of a server on one screen.
//!
//! The command reads `coeval.metrics` and `coeval.settings` over an ordinary connection,
//! twice, a moment apart: rates per second are differences between the two readings.
//!
//! ```text
//! $ coeval status
//! coeval 0.1.0 at 127.0.0.1:5433, up 3 h 12 min
//!   role         single node
//!   data         /var/lib/coeval
//!   sessions     12 of 500: 3 active, 8 idle, 1 idle in transaction
//!   throughput   1834.0 commits/s, 5502.0 statements/s, 0.0 errors/s
//!   checkpoint   4 min old, 24.8 MB, 200000 rows; none under way
//!   log          61.2 MB to replay on a start, 77.0 MB kept
//!   memory       212.4 MB of 12.4 GB: rows 96.1 MB, old versions 0.2 MB, …
//!   snapshots    2, the oldest shows the state of 3 s ago
//!   problems     none
//!   backups      none under way
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tokio_postgres::Client;

use crate::client::{self, rows, shown};

/// Time between the two readings.
const BETWEEN: Duration = Duration::from_secs(1);

/// Session states and memory classes, in the order of display, each with its displayed
/// name.
const STATES: [&str; 4] = [
    "active",
    "idle",
    "idle in transaction",
    "idle in transaction (aborted)",
];
const CLASSES: [(&str, &str); 6] = [
    ("rows", "rows"),
    ("old_versions", "old versions"),
    ("records", "record headers"),
    ("indexes", "indexes"),
    ("log", "log"),
    ("rest", "rest"),
];

/// Prints the status of the server at `url`.
pub(crate) fn run(url: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let status = match runtime {
        Ok(runtime) => runtime.block_on(ask(url)),
        Err(error) => Err(error.to_string()),
    };
    match status {
        Ok(status) => {
            let _ = std::io::stdout().write_all(status.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "coeval status: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn ask(url: &str) -> Result<String, String> {
    let client = client::connect(url, "coeval status").await?;
    let before = Numbers::read(&client).await?;
    coeval_env::sleep(BETWEEN).await;
    let now = Numbers::read(&client).await?;
    let asked = "SELECT value FROM coeval.settings WHERE name = 'data_dir'";
    let data = rows(&client, asked).await?;
    let data = data.first().and_then(|row| row.get(0)).unwrap_or("unknown");
    Ok(screen(&shown(url), data, &before, &now))
}

/// All metrics of a server, by name and labels.
#[derive(Clone, Debug, Default)]
struct Numbers(BTreeMap<(String, String), f64>);

impl Numbers {
    async fn read(client: &Client) -> Result<Self, String> {
        let asked = "SELECT name, labels, value FROM coeval.metrics";
        let read = rows(client, asked).await.map_err(|error| {
            format!("the server does not tell how it is; is it Coeval?\n{error}")
        })?;
        let mut numbers = BTreeMap::new();
        for row in read {
            let text = |column| row.get(column).unwrap_or_default().to_owned();
            if let Ok(value) = text(2).parse() {
                numbers.insert((text(0), text(1)), value);
            }
        }
        Ok(Self(numbers))
    }

    fn with_label(&self, name: &str, label: &str, value: &str) -> f64 {
        let key = (format!("coeval_{name}"), format!("{label}=\"{value}\""));
        self.0.get(&key).copied().unwrap_or(0.0)
    }

    fn find(&self, name: &str) -> Option<f64> {
        let key = (format!("coeval_{name}"), String::new());
        self.0.get(&key).copied()
    }

    fn get(&self, name: &str) -> f64 {
        self.find(name).unwrap_or(0.0)
    }

    /// The sum over all labels.
    fn sum(&self, name: &str) -> f64 {
        let name = format!("coeval_{name}");
        let from = (name.clone(), String::new());
        let of_name = self
            .0
            .range(from..)
            .take_while(|((each, _), _)| *each == name);
        of_name.map(|(_, value)| value).sum()
    }

    /// The version, which is a label of a metric with the constant value 1.
    fn version(&self) -> &str {
        let mut keys = self.0.keys();
        let found = keys.find(|(name, _)| name == "coeval_build_info");
        let label = found.map_or("", |(_, label)| label.as_str());
        label.split('"').nth(1).unwrap_or("of an unknown version")
    }
}

fn screen(place: &str, data: &str, before: &Numbers, now: &Numbers) -> String {
    let mut lines = vec![format!(
        "coeval {} at {place}, up {}",
        now.version(),
        time(now.get("uptime_seconds"))
    )];
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<12} {text}"));
    line("role", role(now));
    line("data", data.to_owned());
    line("sessions", sessions(now));
    let elapsed = now.get("uptime_seconds") - before.get("uptime_seconds");
    let per_second = |name: &str| (now.sum(name) - before.sum(name)).max(0.0) / elapsed.max(0.001);
    line(
        "throughput",
        format!(
            "{:.1} commits/s, {:.1} statements/s, {:.1} errors/s",
            per_second("transactions_committed_total"),
            per_second("statement_duration_seconds_count"),
            per_second("errors_total"),
        ),
    );
    line("checkpoint", checkpoint(now));
    line(
        "log",
        format!(
            "{} to replay on a start, {} kept",
            size(now.get("log_replay_bytes")),
            size(now.get("log_kept_bytes"))
        ),
    );
    line("memory", memory(now));
    line("snapshots", snapshots(now));
    line("problems", problems(now));
    line(
        "backups",
        match now.get("backups_running") {
            0.0 => "none under way".to_owned(),
            running => format!("{running} under way"),
        },
    );
    lines.join("\n") + "\n"
}

fn role(now: &Numbers) -> String {
    let Some(term) = now.find("cluster_term") else {
        return "single node".to_owned();
    };
    let leads = match now.get("cluster_leader") {
        0.0 => "no node leads".to_owned(),
        leader => format!("node {leader} leads"),
    };
    let reached = now.with_label("cluster_voters", "reachable", "yes");
    let voters = now.sum("cluster_voters");
    format!("cluster, term {term}: {leads}, {reached} of {voters} voters reachable")
}

fn sessions(now: &Numbers) -> String {
    let states: Vec<String> = STATES
        .iter()
        .map(|state| (state, now.with_label("sessions", "state", state)))
        .filter(|(_, count)| *count > 0.0)
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let (all, limit) = (now.sum("sessions"), now.get("sessions_limit"));
    let mut text = format!("{all} of {limit}: {}", states.join(", "));
    let waiting = now.get("admission_waiting");
    if waiting > 0.0 {
        text.push_str(&format!("; {waiting} wait for admission"));
    }
    text
}

fn checkpoint(now: &Numbers) -> String {
    let mut text = match now.find("checkpoint_age_seconds") {
        Some(age) => format!(
            "{} old, {}, {} rows",
            time(age),
            size(now.get("checkpoint_bytes")),
            now.get("checkpoint_rows")
        ),
        None => "none yet".to_owned(),
    };
    if now.get("checkpoint_running") > 0.0 {
        let written = now.get("checkpoint_written_rows");
        let about = now.get("table_rows").max(written);
        text.push_str(&format!("; one under way, {written} of about {about} rows"));
    } else {
        text.push_str("; none under way");
    }
    let failed = now.with_label("checkpoints_total", "outcome", "failed");
    if failed > 0.0 {
        text.push_str(&format!("; {failed} failed since the start"));
    }
    text
}

fn memory(now: &Numbers) -> String {
    let classes = CLASSES.iter().map(|(class, name)| {
        let bytes = now.with_label("memory_bytes", "class", class);
        format!("{name} {}", size(bytes))
    });
    let classes: Vec<String> = classes.collect();
    let of = match now.find("memory_limit_bytes") {
        Some(limit) => format!("of {}", size(limit)),
        None => "without a limit".to_owned(),
    };
    let all = size(now.sum("memory_bytes"));
    format!("{all} {of}: {}", classes.join(", "))
}

fn snapshots(now: &Numbers) -> String {
    match now.get("snapshots") {
        0.0 => "none being read".to_owned(),
        count => format!(
            "{count}, the oldest shows the state of {} ago",
            time(now.get("snapshot_oldest_age_seconds"))
        ),
    }
}

/// The problems for which /health would report `degraded`, in words.
fn problems(now: &Numbers) -> String {
    let problems = [
        (
            "disk_full",
            "the disk is full, and writes are refused until there is room",
        ),
        (
            "checkpoints_fail",
            "the last checkpoint failed, and the log grows until one is taken",
        ),
    ];
    let there: Vec<&str> = problems
        .into_iter()
        .filter(|(name, _)| now.with_label("problems", "problem", name) > 0.0)
        .map(|(_, words)| words)
        .collect();
    if there.is_empty() {
        return "none".to_owned();
    }
    there.join("; ") + "; the server's log says why"
}

fn size(bytes: f64) -> String {
    if bytes >= 1e9 {
        format!("{:.1} GB", bytes / 1e9)
    } else {
        format!("{:.1} MB", bytes / 1e6)
    }
}

fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", whole % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[(&str, &str, f64)]) -> Numbers {
        let values = values.iter().map(|(name, labels, value)| {
            ((format!("coeval_{name}"), (*labels).to_owned()), *value)
        });
        Numbers(values.collect())
    }

    #[test]
    fn one_screen_says_how_it_is() {
        let before = numbers(&[
            ("uptime_seconds", "", 7259.0),
            ("transactions_committed_total", "", 100.0),
            ("errors_total", "sqlstate=\"40001\"", 1.0),
        ]);
        let now = numbers(&[
            ("build_info", "version=\"0.1.0\"", 1.0),
            ("uptime_seconds", "", 7261.0),
            ("sessions", "state=\"active\"", 2.0),
            ("sessions", "state=\"idle\"", 3.0),
            ("sessions_limit", "", 500.0),
            ("transactions_committed_total", "", 300.0),
            ("errors_total", "sqlstate=\"40001\"", 2.0),
            ("errors_total", "sqlstate=\"23505\"", 3.0),
            ("checkpoint_age_seconds", "", 61.0),
            ("checkpoint_bytes", "", 1e6),
            ("checkpoint_rows", "", 10.0),
            ("checkpoint_running", "", 1.0),
            ("checkpoint_written_rows", "", 5.0),
            ("checkpoints_total", "outcome=\"failed\"", 1.0),
            ("table_rows", "", 20.0),
            ("memory_bytes", "class=\"rows\"", 2e6),
            ("memory_bytes", "class=\"rest\"", 1e6),
            ("memory_limit_bytes", "", 4e9),
            ("problems", "problem=\"disk_full\"", 1.0),
            ("problems", "problem=\"checkpoints_fail\"", 0.0),
            ("snapshots", "", 1.0),
            ("snapshot_oldest_age_seconds", "", 90_000.0),
        ]);
        let screen = screen("here", "/data", &before, &now);
        for part in [
            "coeval 0.1.0 at here, up 2 h 1 min\n",
            "  data         /data\n",
            "  sessions     5 of 500: 2 active, 3 idle\n",
            "  throughput   100.0 commits/s, 0.0 statements/s, 2.0 errors/s\n",
            "1 min 1 s old, 1.0 MB, 10 rows; one under way, 5 of about 20 rows; 1 failed",
            "  memory       3.0 MB of 4.0 GB: rows 2.0 MB, old versions 0.0 MB, ",
            "  snapshots    1, the oldest shows the state of 1 d 1 h ago\n",
            "  problems     the disk is full, and writes are refused until there is room; the \
             server's log says why\n",
            "  backups      none under way\n",
        ] {
            assert!(screen.contains(part), "{part} in {screen}");
        }
    }
}
