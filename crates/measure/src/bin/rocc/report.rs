//! Tables and charts of a figure of the rocc benchmark.

use std::fmt::Write as _;
use std::io;

use coeval_measure::Output;
use coeval_workload::plot::{Axis, Chart, Series};

use super::figures::{Figure, Panel};
use super::turn::Turn;

/// The line that the others are compared with.
const OURS: &str = "RV";

/// The median over the rounds of one line at one x; of the quotients, if the panel is
/// relative to another line.
fn median(turns: &[Turn], panel: &Panel, series: &str, x: f64) -> f64 {
    let of = |series: &str| {
        let mut values: Vec<f64> = turns
            .iter()
            .filter(|turn| turn.cell.series == series && turn.cell.x == x)
            .map(panel.value)
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    match panel.relative_to {
        None => of(series),
        Some(other) => of(series) / of(other),
    }
}

/// Lines and x values in the order of their first occurrence.
fn lines_and_places(figure: &Figure) -> (Vec<String>, Vec<f64>) {
    let (mut lines, mut places) = (Vec::new(), Vec::new());
    for cell in &figure.cells {
        if !lines.contains(&cell.series) {
            lines.push(cell.series.clone());
        }
        if !places.contains(&cell.x) {
            places.push(cell.x);
        }
    }
    places.sort_by(f64::total_cmp);
    (lines, places)
}

/// Prints and plots a figure.
pub fn report(figure: &Figure, turns: &[Turn], output: &mut Output) -> io::Result<()> {
    let (lines, places) = lines_and_places(figure);
    for panel in &figure.panels {
        let name = format!("{}{}", figure.number, panel.letter);
        output.say(&format!("\n{name}  {}: {}", figure.title, panel.y));
        let compared = panel.relative_to.is_none() && lines.iter().any(|line| line == OURS);
        let shown: Vec<&String> = lines
            .iter()
            .filter(|line| panel.relative_to != Some(line.as_str()))
            .collect();
        let mut head = format!("{:>18}", figure.x);
        for line in &shown {
            let _ = write!(head, " {line:>20}");
        }
        output.say(&head);
        for &x in &places {
            let ours = median(turns, panel, OURS, x);
            let mut row = format!("{x:>18}");
            for line in &shown {
                let value = median(turns, panel, line, x);
                let mut text = format!("{value:.3}");
                if compared && line.as_str() != OURS && value > 0.0 {
                    let _ = write!(text, " (RV {:.2} x)", ours / value);
                }
                let _ = write!(row, " {text:>20}");
            }
            output.say(&row);
        }
        let chart = Chart {
            title: format!("{}, after figure {name} of ROCC", figure.title),
            x: Axis {
                name: figure.x.to_owned(),
                logarithmic: figure.logarithmic,
            },
            y: Axis {
                name: panel.y.to_owned(),
                logarithmic: false,
            },
            series: shown
                .iter()
                .map(|line| Series {
                    name: (*line).clone(),
                    points: places
                        .iter()
                        .map(|&x| (x, median(turns, panel, line, x)))
                        .collect(),
                })
                .collect(),
        };
        output.chart(&format!("rocc-{name}"), &chart)?;
    }
    Ok(())
}
