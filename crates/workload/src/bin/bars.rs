//! Draws what runs came to, beside what they should come to.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin bars -- --title TPC-C --axis µs FILE.csv FILE.svg
//! ```
//!
//! The file has a head and a line for each round of each run: its name, what the round came
//! to, and the aim, which may be empty. A bar is as long as the median of a run's rounds.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_workload::plot::{Bar, Bars};

/// Draws bars.
#[derive(Debug, Parser)]
struct Arguments {
    /// What the chart shows.
    #[arg(long)]
    title: String,
    /// What lengths count, with their unit.
    #[arg(long)]
    axis: String,
    /// Lines of run, number, aim.
    csv: PathBuf,
    /// The chart.
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

/// Bars in the order of their first rounds, or the line that is none.
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
