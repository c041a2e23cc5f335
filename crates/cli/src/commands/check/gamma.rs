//! `coeval check --model gamma`: how far a database was from linearizable, over time.
//!
//! ```text
//! $ coeval check run.csv --model gamma --pauses gc.csv --svg pictures
//! run.csv
//!      from, s  positive     above 5 ms greatest, ms
//!        0.000        14              0        0.812
//!        1.000        31             12       58.104
//!
//!   user7: 41 and 42 each had to last beyond the other, by 58.104 ms, from 1.202 s to 1.26 s
//!
//! 10000 operations on 500 registers; 2004 values, 45 with a positive score
//! …
//! gamma: violated (12 found in 10000 operations on 500 registers, above 5 ms)
//! ```
//!
//! A history that is judged by this model alone is read piece by piece, so that its size is
//! bounded by the number of its values only.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use coeval_check::gamma::pauses::{self, Pause};
use coeval_check::gamma::{self, Analysis, Judge, Options};
use coeval_check::history::{Format, History, Names};

use super::{GAMMA, write_file};

/// Arguments of this model only.
const OWN: [&str; 5] = ["threshold-ms", "every-ms", "pauses", "shadow-ms", "json"];

/// The arguments of this model.
pub(super) fn arguments() -> [Arg; 5] {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("MS")
            .value_parser(value_parser!(f64))
            .help(help)
    };
    [
        number(
            "threshold-ms",
            "Scores above this are violations (model gamma) [default: 5]",
        ),
        number(
            "every-ms",
            "Length of a row of the table (model gamma) [default: by the length of the run]",
        ),
        Arg::new("pauses")
            .long("pauses")
            .value_name("FILE")
            .help("Pauses of the database's processes, as CSV (model gamma)"),
        number(
            "shadow-ms",
            "How long after its end a pause may be the cause (model gamma) [default: 50]",
        ),
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print one JSON object (model gamma alone)"),
    ]
}

/// Refuses arguments of this model where it is not asked, and `--json` beside others.
pub(super) fn refuse_alone(models: &[&str], matches: &ArgMatches) -> Result<(), String> {
    let is_given =
        |name: &&&str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
    if matches.get_flag("json") {
        return Err("--json prints one model: --model gamma, and no other".to_owned());
    }
    match OWN.iter().find(is_given) {
        Some(name) if !models.contains(&GAMMA) => Err(format!("--{name} is for --model gamma")),
        _ => Ok(()),
    }
}

/// Judges a file by this model alone.
pub(super) fn check_file(
    file: &str,
    format: Format,
    matches: &ArgMatches,
) -> Result<(String, bool), String> {
    let (options, pauses) = asked(matches)?;
    let mut from: Box<dyn BufRead> = match file {
        "-" => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(open(file)?)),
    };
    let found = gamma::judge(&mut from, format, options, pauses)
        .map_err(|error| format!("{file}, {error}"))?;
    write_files(&found, file, matches)?;
    let report = match matches.get_flag("json") {
        true => format!("{}\n", found.json()),
        false => format!("{file}\n{found}\n{}", verdict(&found)),
    };
    Ok((report, found.is_violated()))
}

/// Judges a history that others judge as well.
pub(super) fn check(
    history: &History,
    file: &str,
    matches: &ArgMatches,
    report: &mut String,
    verdicts: &mut String,
) -> Result<bool, String> {
    let (options, pauses) = asked(matches)?;
    let mut judge = Judge::default();
    let found = history
        .transactions
        .iter()
        .try_for_each(|transaction| judge.take(transaction))
        .and_then(|()| judge.finish(Names::default(), options, pauses))
        .map_err(|error| format!("{file}, {error}"))?;
    write_files(&found, file, matches)?;
    let _ = write!(report, "{found}");
    verdicts.push_str(&verdict(&found));
    Ok(found.is_violated())
}

fn asked(matches: &ArgMatches) -> Result<(Options, Option<Vec<Pause>>), String> {
    let duration = |name: &str| match matches.get_one::<f64>(name) {
        None => Ok(None),
        Some(milliseconds) => Duration::try_from_secs_f64(milliseconds / 1e3)
            .map(Some)
            .map_err(|_| format!("--{name} {milliseconds}: a time is from 0 up")),
    };
    let usual = Options::default();
    let options = Options {
        threshold: duration("threshold-ms")?.unwrap_or(usual.threshold),
        every: duration("every-ms")?,
        shadow: duration("shadow-ms")?.unwrap_or(usual.shadow),
    };
    if options.every.is_some_and(|every| every.is_zero()) {
        return Err("--every-ms 0: a row has a length".to_owned());
    }
    let pauses = matches.get_one::<String>("pauses").map(|file| {
        let mut from = BufReader::new(open(file)?);
        pauses::read(&mut from).map_err(|error| format!("{file}, {error}"))
    });
    Ok((options, pauses.transpose()?))
}

fn verdict(found: &Analysis) -> String {
    let report = &found.report;
    let of = format!(
        "{} operations on {} registers, above {} ms",
        report.operations,
        report.keys,
        found.options.threshold.as_secs_f64() * 1e3
    );
    match found.above + report.impossible.len() {
        0 => format!("{GAMMA}: no violation found in {of}\n"),
        count => format!("{GAMMA}: violated ({count} found in {of})\n"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "files are written by a command of its own, not by a server"
)]
fn write_files(found: &Analysis, file: &str, matches: &ArgMatches) -> Result<(), String> {
    if let Some(scores) = matches.get_one::<String>("scores") {
        let mut to = io::BufWriter::new(
            std::fs::File::create(scores)
                .map_err(|error| format!("cannot write {scores}: {error}"))?,
        );
        found
            .scores_csv(&mut to)
            .and_then(|()| io::Write::flush(&mut to))
            .map_err(|error| format!("cannot write {scores}: {error}"))?;
    }
    if let Some(folder) = matches.get_one::<String>("svg") {
        let picture = Path::new(folder).join("gamma.svg");
        std::fs::create_dir_all(folder)
            .and_then(|()| write_file(&picture, &found.picture(file)))
            .map_err(|error| format!("cannot draw into {folder}: {error}"))?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a history is read by a command of its own, not by a server"
)]
fn open(file: &str) -> Result<std::fs::File, String> {
    std::fs::File::open(file).map_err(|error| format!("cannot read {file}: {error}"))
}
