//! `coeval verify`: checks that a data directory is intact.
//!
//! It reads the checkpoint and the log after it into memory, exactly as a start does,
//! with every checksum; builds the indexes; and reads every row through its table and
//! through each index. It changes nothing in the directory, and needs as much memory as
//! the server.
//!
//! ```text
//! $ coeval verify ./coeval-data
//! ./coeval-data
//!   checkpoint  200000 rows in 24.8 MB
//!   log         62 commits in 1.7 MB behind it; it was closed in order
//!   tables      3, with 4 indexes and 200031 rows
//!   older log   33.5 MB with 240118 commits
//! sound
//! ```
//!
//! Then it checks the files that a start does not read: older log and checkpoints, kept
//! for restores to a point in time. The report marks damage there as such: a start
//! succeeds.
//!
//! | exit code | means |
//! | --- | --- |
//! | 0 | sound: a start will succeed, and serve all data |
//! | 1 | damaged: the report says which file, where, how, and whether a start needs it |
//! | 2 | the command line is invalid |
//! | 3 | not checked: in use, no such directory, another version's, out of memory |

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use coeval_log::{ArchivedLog, Error, RecoveryProgress, RecoverySummary};
use coeval_occ::{Engine, Settings};
use coeval_sql::Database;
use coeval_sql::verify::Verified;

use crate::progress::{ProgressBar, Unit};

/// Exit code: the directory is damaged.
const DAMAGED: u8 = 1;
/// Exit code: the directory could not be checked.
const NOT_LOOKED_AT: u8 = 3;

/// Why a directory was not found sound.
#[derive(Debug)]
enum Failure {
    Damaged(String),
    NotLookedAt(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Damaged { .. } | Error::Replay { .. } => Self::Damaged(error.to_string()),
            _ => Self::NotLookedAt(error.to_string()),
        }
    }
}

/// Checks the directory, and prints a report.
pub(crate) fn run(directory: &Path) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // The parser is recursive and parses the catalog's definitions here.
        .thread_stack_size(8 << 20)
        .enable_all()
        .build();
    let verified = match runtime {
        Ok(runtime) => runtime.block_on(verify(directory)),
        Err(error) => Err(Failure::NotLookedAt(error.to_string())),
    };
    let (code, said) = match verified {
        Ok(report) => {
            // A closed pipe does not change the exit code.
            let _ = std::io::stdout().write_all(report.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Failure::Damaged(what)) => (DAMAGED, format!("damaged: {what}")),
        Err(Failure::NotLookedAt(why)) => (NOT_LOOKED_AT, why),
    };
    let _ = writeln!(std::io::stderr(), "coeval verify: {said}");
    ExitCode::from(code)
}

async fn verify(directory: &Path) -> Result<String, Failure> {
    let exists = coeval_env::fs::exists(directory).await;
    if !exists.unwrap_or(false) {
        let missing = format!("there is no directory {}", directory.display());
        return Err(Failure::NotLookedAt(missing));
    }
    let bars = Arc::new(Mutex::new(Bars::default()));
    let watch = Arc::clone(&bars);
    let watched = move |progress| {
        let mut bars = watch.lock().expect("no panic under this lock");
        bars.show(progress);
    };
    let settings = Settings {
        sweep_interval: None,
        ..Settings::default()
    };
    let opened = Engine::inspect(directory, settings, watched).await;
    bars.lock().expect("no panic under this lock").end();
    let (engine, summary) = opened?;
    let engine = Arc::new(engine);
    // Rows that pass their checksums but do not fit their tables make the engine panic;
    // in a task of its own that panic becomes an error.
    let looked = coeval_env::spawn("verify", look(engine)).await;
    let verified = looked.map_err(|error| {
        Failure::Damaged(format!("the rows are not those of their tables: {error}"))
    })??;
    if verified.findings.is_empty() {
        let older = older(directory).await?;
        return match &older.findings[..] {
            [] => Ok(report(directory, &summary, &verified, &older)),
            findings => {
                let findings: Vec<String> = findings.iter().map(Error::to_string).collect();
                Err(Failure::Damaged(format!(
                    "not in what a start reads, which is sound, but in what is kept for \
                     restores to a point in time:\n{}",
                    findings.join("\n")
                )))
            }
        };
    }
    Err(Failure::Damaged(format!(
        "every checksum is right, but the rows do not fit together. This is a fault of the \
         server that wrote them; please report it:\n{}",
        verified.findings.join("\n")
    )))
}

/// Checks the files that a start does not read.
async fn older(directory: &Path) -> Result<ArchivedLog, Failure> {
    let mut progress = ProgressBar::new("looking at older log", Unit::Bytes);
    let settings = coeval_log::Settings::default();
    let looked = ArchivedLog::look(directory, &settings, |done, of| progress.at(done, of)).await;
    Ok(looked?)
}

async fn look(engine: Arc<Engine>) -> Result<Verified, Failure> {
    let wrong =
        |error: coeval_sql::Error| Failure::Damaged(format!("the catalog cannot be read: {error}"));
    let database = Database::open(engine).await.map_err(wrong)?;
    let mut progress = ProgressBar::new("looking at rows", Unit::Of("rows and entries"));
    let verified = database.verify(|done, of| progress.at(done, of)).await;
    verified.map_err(wrong)
}

/// A progress bar for each phase of recovery.
#[derive(Debug, Default)]
struct Bars {
    checkpoint: Option<ProgressBar>,
    log: Option<ProgressBar>,
}

impl Bars {
    fn show(&mut self, progress: RecoveryProgress) {
        match progress {
            RecoveryProgress::Checkpoint { records, of } => self
                .checkpoint
                .get_or_insert_with(|| ProgressBar::new("reading the checkpoint", Unit::Of("rows")))
                .at(records, of),
            RecoveryProgress::Log { bytes, of } => {
                self.checkpoint = None;
                self.log
                    .get_or_insert_with(|| ProgressBar::new("reading the log", Unit::Bytes))
                    .at(bytes, of);
            }
        }
    }

    fn end(&mut self) {
        *self = Self::default();
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn report(
    directory: &Path,
    summary: &RecoverySummary,
    verified: &Verified,
    older: &ArchivedLog,
) -> String {
    let mut text = format!("{}\n", directory.display());
    if let Some(checkpoint) = summary.checkpoint {
        let (rows, bytes) = (checkpoint.records, megabytes(checkpoint.bytes));
        text.push_str(&format!("  checkpoint  {rows} rows in {bytes}\n"));
    }
    let behind = match summary.checkpoint {
        Some(_) => " behind it",
        None => "",
    };
    let end = if summary.clean {
        "it was closed in order"
    } else {
        "it was not closed in order"
    };
    text.push_str(&format!(
        "  log         {} commits in {}{behind}; {end}\n",
        summary.commits,
        megabytes(summary.bytes)
    ));
    if summary.cut_bytes > 0 {
        text.push_str(&format!(
            "              {} bytes behind its last whole commit make none; the next start cuts \
             them off. A crash\n              leaves such bytes of commits that were not \
             acknowledged; damage to the very last\n              commits after a crash looks \
             the same\n",
            summary.cut_bytes
        ));
    }
    text.push_str(&format!(
        "  tables      {}, with {} indexes and {} rows\n",
        verified.tables, verified.indexes, verified.rows
    ));
    if older.log_bytes > 0 {
        let (bytes, commits) = (megabytes(older.log_bytes), older.commits);
        text.push_str(&format!("  older log   {bytes} with {commits} commits\n"));
    }
    if older.checkpoints > 0 {
        let (count, bytes) = (older.checkpoints, megabytes(older.checkpoint_bytes));
        text.push_str(&format!("  older       {count} checkpoints in {bytes}\n"));
    }
    text + "sound\n"
}
