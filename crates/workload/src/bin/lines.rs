//! The lines command: draws a line chart of measured values.
//!
//! ```text
//! cargo run --release -p coeval-workload --bin lines -- --title B --x clients --y µs IN.csv OUT.svg
//! ```
//!
//! The file has a header and a line for each round of each point: the series, x, and y. The
//! height of a point is the median of its rounds.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use coeval_workload::plot::{Axis, Chart, Series};

/// Draws a line chart of measurements.
#[derive(Debug, Parser)]
struct Arguments {
    /// Title of the chart.
    #[arg(long)]
    title: String,
    /// Label of the horizontal axis.
    #[arg(long)]
    x: String,
    /// Whether that axis is logarithmic.
    #[arg(long)]
    logarithmic: bool,
    /// Label of the vertical axis, with its unit.
    #[arg(long)]
    y: String,
    /// Input file: lines of series, x, y.
    csv: PathBuf,
    /// Output file: the chart.
    svg: PathBuf,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lines: {error}");
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
    let series = read(&text).map_err(|line| {
        let name = arguments.csv.display();
        io::Error::other(format!("{name}: not a series and two numbers: {line}"))
    })?;
    let chart = Chart {
        title: arguments.title,
        x: Axis {
            name: arguments.x,
            logarithmic: arguments.logarithmic,
        },
        y: Axis {
            name: arguments.y,
            logarithmic: false,
        },
        series,
    };
    std::fs::write(&arguments.svg, chart.svg())
}

/// Parses the series, in the order of their first points; the error is the first line that is
/// malformed.
fn read(text: &str) -> Result<Vec<Series>, &str> {
    /// The rounds of each point, by its x, which is kept as it was written, too.
    type Points = BTreeMap<u64, (f64, Vec<f64>)>;
    let mut all: Vec<(String, Points)> = Vec::new();
    for line in text.lines().skip(1) {
        let [name, x, y] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(line);
        };
        let x: f64 = x.parse().map_err(|_| line)?;
        let y: f64 = y.parse().map_err(|_| line)?;
        if !(x >= 0.0 && y.is_finite()) {
            return Err(line);
        }
        let at = match all.iter().position(|(its, _)| its == name) {
            Some(at) => at,
            None => {
                all.push((name.to_owned(), Points::new()));
                all.len() - 1
            }
        };
        // The bits of numbers that are not negative are in their order.
        let point = all[at].1.entry(x.to_bits()).or_insert((x, Vec::new()));
        point.1.push(y);
    }
    let series = all.into_iter().map(|(name, points)| Series {
        name,
        points: points
            .into_values()
            .map(|(x, mut rounds)| {
                rounds.sort_by(f64::total_cmp);
                (x, rounds[rounds.len() / 2])
            })
            .collect(),
    });
    Ok(series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_the_median_of_its_rounds() {
        let read = read("series,x,y\nb,32,3\nb,8,1\na,8,9\nb,32,5\nb,32,4\n").unwrap();
        let names: Vec<_> = read.iter().map(|series| &*series.name).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(read[0].points, [(8.0, 1.0), (32.0, 4.0)]);
    }

    #[test]
    fn a_line_that_is_no_point_is_named() {
        for wrong in ["a,1", "a,b,1", "a,-1,1", "a,1,NaN"] {
            assert_eq!(read(&format!("s,x,y\n{wrong}\n")).unwrap_err(), wrong);
        }
    }
}
