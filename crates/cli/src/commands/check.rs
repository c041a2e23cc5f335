//! `coeval check`: checks a recorded history of a database against consistency models.
//!
//! The checkers are those of the crate `check`; this module reads the file, runs them,
//! and prints their findings:
//!
//! ```text
//! $ coeval check run.edn --model serializable
//! run.edn: 2 transactions, 2 of which took effect
//!
//! G2-item: transactions each miss what another writes, in a circle (write skew)
//!   T0: process 0, 10 to 30 ns, committed
//!       read list 1: [], append 2 to list 2
//!   T1: process 1, 15 to 35 ns, committed
//!       read list 2: [], append 1 to list 1
//!   1. rw: T0 read list 1 empty, and T1 appended 1
//!   2. rw: T1 read list 2 empty, and T0 appended 2
//!   So T0 would have to come before itself.
//!
//! serializable: violated (G2-item 1)
//! ```

mod gamma;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use coeval_check::history::{self, Format, History, Operation, Register, Transaction};
use coeval_check::transactions::{self, Anomaly, KEPT, Level, story, svg};
use coeval_check::{bank, recency, registers};

/// Exit code: a model is violated.
const VIOLATED: u8 = 1;
/// Exit code: the history could not be judged.
const UNREADABLE: u8 = 2;

/// Maximum number of printed anomalies of each name, and of printed findings of the other
/// checkers.
const TOLD: usize = 3;
const LISTED: usize = 20;

const LINEARIZABLE: &str = "linearizable";
const GAMMA: &str = "gamma";
const RECENCY: &str = "recency";
const SESSIONS: &str = "sessions";
const BANK: &str = "bank";

const HELP: &str = "\
Models:
  read-committed                      no dirty, intermediate or circular reads
  snapshot-isolation                  every transaction works on one snapshot
  strong-session-snapshot-isolation   and sees what its process did before
  strong-snapshot-isolation           and sees all that had committed before
  serializable                        some order of transactions explains all
  strict-serializable                 and respects real time
  linearizable                        each register by itself, and how far off (gamma)
  gamma                               the same over time: which values are further off
                                      than a threshold, and whether after a pause
  recency                             no read-only transaction misses a commit that
                                      was acknowledged before it began
  sessions                            no process goes back behind what it saw or did
  bank                                every read of all accounts finds the same total

A history is a sequence of transactions on lists (append, read) and registers (write,
read), each with its process, its start and finish, and the result that its client got.
In EDN it is what Jepsen and Elle write:

  {:process 0, :type :invoke, :time 10, :value [[:append 3 1] [:r 3 nil]]}
  {:process 0, :type :ok, :time 25, :value [[:append 3 1] [:r 3 [1]]]}

In lines of JSON, one transaction each:

  {\"process\":0,\"started\":10,\"finished\":25,\"outcome\":\"committed\",
   \"operations\":[[\"append\",3,1],[\"read_list\",3,[1]]]}     (on one line)

In CSV, one operation on a register each, with names of columns in the first line:

  operation,key,value,started,finished
  write,user7,1,10,25

Elements and values must be unique for a key, except for the bank. That nothing is found
is no proof; that something is found is.

Exit codes:
  0  nothing was found that the models forbid
  1  something was
  2  the file or the arguments cannot be used, or there is nothing to judge

Examples:
  coeval check history.edn --model strict-serializable
  coeval check run.jsonl --model serializable --model recency --svg pictures
  coeval check run.jsonl --model linearizable --scores gamma.csv
  coeval check run.csv --model gamma --pauses gc.csv --svg pictures
  zcat run.jsonl.gz | coeval check - --format jsonl --model snapshot-isolation";

/// The definition of `coeval check`.
pub(super) fn command() -> Command {
    let models = Level::ALL.into_iter().map(Level::name);
    let models = models.chain([LINEARIZABLE, GAMMA, RECENCY, SESSIONS, BANK]);
    Command::new("check")
        .about("Judge a history: does it show what a consistency model forbids?")
        .after_help(HELP)
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The history; - for standard input"),
        )
        .arg(
            Arg::new("model")
                .long("model")
                .value_name("MODEL")
                .required(true)
                .action(ArgAction::Append)
                .hide_possible_values(true)
                .value_parser(PossibleValuesParser::new(models))
                .help("What was promised (see below); may be given several times"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(["edn", "jsonl", "csv"])
                .help("How the file is written [default: by its name]"),
        )
        .arg(
            Arg::new("svg")
                .long("svg")
                .value_name("DIR")
                .help("Draw each anomaly, and gamma over time, into a file of this directory"),
        )
        .arg(
            Arg::new("scores")
                .long("scores")
                .value_name("FILE")
                .help("Write the gamma score of each value as CSV (models linearizable, gamma)"),
        )
        .args(gamma::arguments())
        .arg(
            Arg::new("total")
                .long("total")
                .value_name("AMOUNT")
                .value_parser(value_parser!(i64))
                .allow_negative_numbers(true)
                .help(
                    "What all accounts hold together (model bank) [default: the first total read]",
                ),
        )
}

/// Runs `coeval check`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let said = check(matches);
    match said {
        Ok((report, is_violated)) => {
            // A closed pipe does not change the exit code.
            let _ = io::stdout().write_all(report.as_bytes());
            ExitCode::from(if is_violated { VIOLATED } else { 0 })
        }
        Err(problem) => {
            let _ = writeln!(io::stderr(), "coeval check: {problem}");
            ExitCode::from(UNREADABLE)
        }
    }
}

/// Returns the report, and whether any model is violated.
fn check(matches: &ArgMatches) -> Result<(String, bool), String> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let file = text("file").ok_or("no file")?;
    let format = match text("format") {
        Some("edn") => Format::Edn,
        Some("csv") => Format::Csv,
        Some(_) => Format::JsonLines,
        None => Format::of_name(file)
            .ok_or_else(|| format!("{file}: say --format edn, --format jsonl or --format csv"))?,
    };
    let models: Vec<&str> = matches
        .get_many::<String>("model")
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    if models == [GAMMA] {
        return gamma::check_file(file, format, matches);
    }
    gamma::refuse_alone(&models, matches)?;
    let bytes = read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let history = history::read(&bytes, format).map_err(|error| format!("{file}, {error}"))?;
    drop(bytes);
    let levels: Vec<Level> = models
        .iter()
        .filter_map(|name| Level::of_name(name))
        .collect();
    let mut report = format!("{file}: {} transactions", history.transactions.len());
    let mut verdicts = String::new();
    let mut is_violated = false;
    // A checker without input would find no violation, and its verdict would mislead.
    let something = |count: usize, what: &str| match count {
        0 => Err(format!("{file}: nothing to judge: no {what}")),
        _ => Ok(()),
    };
    let committed = history.transactions.iter();
    let committed = committed.filter(|transaction| transaction.is_committed());
    something(committed.count(), "committed transaction")?;
    let compares = [LINEARIZABLE, GAMMA]
        .iter()
        .any(|model| models.contains(model));
    if (compares || !levels.is_empty())
        && let Some(lack) = lacking(&history)
    {
        return Err(format!("{file}: nothing to judge: {lack}"));
    }
    if levels.is_empty() {
        report.push('\n');
    } else {
        let violated = isolation(&history, &levels, text("svg"), &mut report, &mut verdicts)?;
        is_violated |= violated;
    }
    for model in models {
        let violated = match model {
            LINEARIZABLE => {
                let found = registers::judge(&history).map_err(|error| error.to_string())?;
                something(found.operations, "operation on a register")?;
                linearizable(&found, text("scores"), &mut report, &mut verdicts)?
            }
            GAMMA => gamma::check(&history, file, matches, &mut report, &mut verdicts)?,
            RECENCY => {
                let found = recency::judge(&history).map_err(|error| error.to_string())?;
                something(found.reads, "read of a read-only transaction")?;
                list(&found.missed, &mut report);
                let reads = format!("{} reads of read-only transactions", found.reads);
                verdict(RECENCY, &reads, found.missed.len(), &mut verdicts)
            }
            SESSIONS => {
                let found =
                    recency::sessions::judge(&history).map_err(|error| error.to_string())?;
                something(found.reads, "committed read")?;
                list(&found.went_back, &mut report);
                let reads = format!("{} reads of {} processes", found.reads, found.processes);
                verdict(SESSIONS, &reads, found.went_back.len(), &mut verdicts)
            }
            BANK => {
                let total = matches
                    .get_one::<i64>("total")
                    .map(|total| i128::from(*total));
                let found = bank::judge(&history, total);
                something(
                    found.reads,
                    "committed transaction that reads all accounts and writes none",
                )?;
                list(&found.wrong, &mut report);
                let reads = format!("{} reads of {} accounts", found.reads, found.accounts);
                verdict(BANK, &reads, found.wrong.len(), &mut verdicts)
            }
            _ => false,
        };
        is_violated |= violated;
    }
    report.push('\n');
    report += &verdicts;
    Ok((report, is_violated))
}

/// The missing part of a history, for checkers that compare reads with writes.
fn lacking(history: &History) -> Option<&'static str> {
    let transactions = &history.transactions;
    let mut committed = transactions.iter().filter(|its| its.is_committed());
    if committed.all(|its| its.operations.is_empty()) {
        return Some("no committed transaction has an operation");
    }
    let found = |operation: &Operation| match operation {
        Operation::Read { value, .. } => matches!(value, Some(Register::Value(_))),
        Operation::ReadList { elements, .. } => {
            elements.as_ref().is_some_and(|all| !all.is_empty())
        }
        Operation::Append { .. } | Operation::Write { .. } => false,
    };
    let reads = transactions
        .iter()
        .any(|its| its.operations.iter().any(found));
    let writes = transactions.iter().any(Transaction::writes);
    (reads && !writes).then_some(
        "values were read, but no transaction wrote any; of sums without transfers, --model bank \
         judges the totals",
    )
}

/// Checks isolation levels, by the graph of dependencies.
fn isolation(
    history: &History,
    levels: &[Level],
    pictures: Option<&str>,
    report: &mut String,
    verdicts: &mut String,
) -> Result<bool, String> {
    let judgement = transactions::judge(history, levels).map_err(|error| error.to_string())?;
    let _ = writeln!(report, ", {} of which took effect", judgement.transactions);
    let forbidden: Vec<&Anomaly> = judgement
        .anomalies
        .iter()
        .filter(|anomaly| {
            let mut levels = levels.iter();
            levels.any(|level| level.forbids(anomaly.phenomenon, anomaly.seen_in))
        })
        .collect();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for anomaly in &forbidden {
        let times = told.entry(anomaly.name()).or_default();
        *times += 1;
        if *times <= TOLD {
            let _ = write!(report, "\n{}", story(history, anomaly));
        }
    }
    if let Some(folder) = pictures {
        draw(Path::new(folder), history, &forbidden)
            .map_err(|error| format!("cannot draw into {folder}: {error}"))?;
    }
    let mut is_violated = false;
    for level in levels {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for anomaly in judgement.violations(*level) {
            let count = judgement.counts.get(&(anomaly.phenomenon, anomaly.seen_in));
            names.insert(anomaly.name(), count.copied().unwrap_or(1));
        }
        if names.is_empty() {
            let _ = writeln!(verdicts, "{level}: no violation found");
            continue;
        }
        is_violated = true;
        let names: Vec<String> = names
            .into_iter()
            .map(|(name, count)| {
                let more = if count == KEPT { " or more" } else { "" };
                format!("{name} {count}{more}")
            })
            .collect();
        let _ = writeln!(verdicts, "{level}: violated ({})", names.join(", "));
    }
    Ok(is_violated)
}

/// Checks the linearizability of each register.
fn linearizable(
    found: &registers::Report,
    scores: Option<&str>,
    report: &mut String,
    verdicts: &mut String,
) -> Result<bool, String> {
    list(&found.impossible, report);
    let mut worst = found.scores.clone();
    worst.sort_by_key(|score| std::cmp::Reverse(score.gamma));
    list(&worst, report);
    if let Some(file) = scores {
        let mut text = "time_ns,key,value,gamma_ns\n".to_owned();
        for score in &found.scores {
            let value = match score.value {
                Register::Absent => String::new(),
                Register::Value(value) => value.to_string(),
            };
            let _ = writeln!(text, "{},{},{value},{}", score.time, score.key, score.gamma);
        }
        write_file(Path::new(file), &text)
            .map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    let what = format!(
        "{} operations on {} registers, gamma {} ns",
        found.operations, found.keys, found.gamma
    );
    let count = found.scores.len() + found.impossible.len();
    Ok(verdict(LINEARIZABLE, &what, count, verdicts))
}

/// Lists some findings, one per line.
fn list<Finding: std::fmt::Display>(findings: &[Finding], report: &mut String) {
    for finding in findings.iter().take(LISTED) {
        let _ = writeln!(report, "  {finding}");
    }
    if let Some(more) = findings.len().checked_sub(LISTED).filter(|more| *more > 0) {
        let _ = writeln!(report, "  and {more} more");
    }
}

/// Writes the verdict on a model, and returns whether it is violated.
fn verdict(model: &str, of: &str, found: usize, verdicts: &mut String) -> bool {
    let _ = match found {
        0 => writeln!(verdicts, "{model}: no violation found in {of}"),
        count => writeln!(verdicts, "{model}: violated ({count} found in {of})"),
    };
    found > 0
}

#[expect(
    clippy::disallowed_methods,
    reason = "a history is read by a command of its own, not by a server"
)]
fn read(file: &str) -> io::Result<Vec<u8>> {
    if file != "-" {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[expect(
    clippy::disallowed_methods,
    reason = "pictures are drawn by a command of its own, not by a server"
)]
fn draw(folder: &Path, history: &History, anomalies: &[&Anomaly]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (place, anomaly) in anomalies.iter().enumerate() {
        let name = format!("{:02}-{}.svg", place + 1, anomaly.name());
        std::fs::write(folder.join(name), svg(history, anomaly))?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "scores are written by a command of its own, not by a server"
)]
fn write_file(file: &Path, text: &str) -> io::Result<()> {
    std::fs::write(file, text)
}
