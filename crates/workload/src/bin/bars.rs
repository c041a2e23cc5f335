//! The bars command: draws a bar chart of measured values beside their targets.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin bars -- --title TPC-C --axis µs FILE.csv FILE.svg
//! ```
//!
//! The file has a header and a line for each round of each run: the run's name, the
//! round's value, and the target, which may be empty. The length of a bar is the median
//! of a run's rounds.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_workload::plot::{Bar, Bars};

/// Draws a bar chart of measurements.
#[derive(Debug, Parser)]
struct Arguments {
    /// Title of the chart.
    #[arg(long)]
    title: String,
    /// Label of the value axis, with its unit.
    #[arg(long)]
    axis: String,
    /// Input file: lines of run, number, target.
    csv: PathBuf,
    /// Output file: the chart.
    svg: PathBuf,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bars: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "files of a measurement, beside which no database runs"
)]
fn run(arguments: Arguments) -> io::Result<()> {
    let text = std::fs::read_to_string(&arguments.csv)?;
    let bars = read(&text).map_err(|line| {
        let name = arguments.csv.display();
        io::Error::other(format!("{name}: not a run, a number and an aim: {line}"))
    })?;
    let chart = Bars {
        title: arguments.title,
        axis: arguments.axis,
        bars,
    };
    std::fs::write(&arguments.svg, chart.svg())
}

/// Parses the bars, in the order of their first rounds; the error is the first line that
/// is malformed.
fn read(text: &str) -> Result<Vec<Bar>, &str> {
    let mut bars: Vec<Bar> = Vec::new();
    for line in text.lines().skip(1) {
        let [name, round, aim] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(line);
        };
        let round = round.parse().map_err(|_| line)?;
        let aim = match aim {
            "" => None,
            aim => Some(aim.parse().map_err(|_| line)?),
        };
        match bars.iter_mut().find(|bar| bar.name == name) {
            Some(bar) => bar.rounds.push(round),
            None => bars.push(Bar {
                name: name.to_owned(),
                rounds: vec![round],
                aim,
            }),
        }
    }
    Ok(bars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_run_are_one_bar() {
        let bars = read("run,value,aim\na,1.5,20\nb,2,\na,2.5,20\n").unwrap();
        assert_eq!(bars.len(), 2);
        assert_eq!((bars[0].name.as_str(), bars[0].aim), ("a", Some(20.0)));
        assert_eq!(bars[0].rounds, [1.5, 2.5]);
        assert_eq!((bars[1].name.as_str(), bars[1].aim), ("b", None));
    }

    #[test]
    fn a_line_that_is_no_round_is_named() {
        assert_eq!(read("run,value,aim\na,much,\n").unwrap_err(), "a,much,");
        assert_eq!(read("run,value,aim\na,1\n").unwrap_err(), "a,1");
    }
}
