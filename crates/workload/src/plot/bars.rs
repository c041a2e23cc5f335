//! Horizontal bar charts: for each of several measurements the median and range of its
//! rounds, beside a target.
//!
//! ```text
//!   one client    ████████████|████   31       █ median   | aim
//!   sixteen       ██████████        |   22
//! ```
//!
//! Bars are horizontal because names of runs are long. They begin at 0, so that lengths
//! are comparable; runs of very different magnitude belong in separate charts.

use super::ticks::Scale;
use super::{Anchor, COLOURS, GRID, INK, SIZE, Shape, line, png, svg, text};

/// Margins around the plot: left, top, right, bottom. The names are on the left.
const MARGIN: (f64, f64, f64, f64) = (290.0, 70.0, 90.0, 60.0);
/// Greatest thickness of a bar: as a share of its row, and in pixels.
const THICK: (f64, f64) = (0.6, 24.0);

/// One bar of a chart.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Name of the measurement.
    pub name: String,
    /// Value of each round.
    pub rounds: Vec<f64>,
    /// Target value, drawn as a mark.
    pub aim: Option<f64>,
}

/// A bar chart; the bars are listed from top to bottom.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Title of the chart.
    pub title: String,
    /// Label of the value axis, with its unit.
    pub axis: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
}

impl Bar {
    /// Minimum, median and maximum of the rounds.
    fn range(&self) -> Option<(f64, f64, f64)> {
        let finite = |round: &f64| round.is_finite();
        let mut rounds: Vec<f64> = self.rounds.iter().copied().filter(finite).collect();
        rounds.sort_by(f64::total_cmp);
        Some((
            *rounds.first()?,
            *rounds.get(rounds.len() / 2)?,
            *rounds.last()?,
        ))
    }
}

impl Bars {
    /// The chart as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::write(&self.shapes())
    }

    /// The chart as PNG.
    ///
    /// # Errors
    /// Only errors of the encoder; the chart itself cannot cause one.
    pub fn png(&self) -> std::io::Result<Vec<u8>> {
        png::write(&self.shapes())
    }

    fn shapes(&self) -> Vec<Shape> {
        let (left, top, right, bottom) = MARGIN;
        let (end, floor) = (SIZE.0 - right, SIZE.1 - bottom);
        let most = self.bars.iter().filter_map(Bar::range).map(|range| range.2);
        let aims = self.bars.iter().filter_map(|bar| bar.aim);
        let scale = Scale::new(most.chain(aims).chain([0.0]), false, (left, end));
        let mut shapes = vec![text((left, 26.0), Anchor::Start, &self.title, INK, true)];
        let below = (end, SIZE.1 - 16.0);
        shapes.push(text(below, Anchor::End, &self.axis, INK, false));
        for (value, label) in scale.ticks() {
            let at = scale.place(value);
            shapes.push(line(vec![(at, top), (at, floor)], GRID, 1.0));
            let under = (at, floor + 20.0);
            shapes.push(text(under, Anchor::Middle, &label, INK, false));
        }
        let row = (floor - top) / self.bars.len().max(1) as f64;
        let thick = (row * THICK.0).min(THICK.1);
        for (number, bar) in self.bars.iter().enumerate() {
            let y = top + row * (number as f64 + 0.5);
            let beside = (left - 8.0, y + 4.0);
            shapes.push(text(beside, Anchor::End, &bar.name, INK, false));
            let Some((least, middle, most)) = bar.range() else {
                continue;
            };
            let across = |from: f64, to: f64| vec![(scale.place(from), y), (scale.place(to), y)];
            shapes.push(line(across(0.0, middle), COLOURS[0], thick));
            shapes.push(line(across(least, most), INK, 1.0));
            if let Some(aim) = bar.aim {
                let (at, half) = (scale.place(aim), (row / 2.0).min(thick));
                shapes.push(line(vec![(at, y - half), (at, y + half)], COLOURS[1], 3.0));
            }
            // To the right of the bar and the target.
            let last = scale.place(most.max(bar.aim.unwrap_or(0.0)));
            let value = number_of(middle);
            shapes.push(text(
                (last + 8.0, y + 4.0),
                Anchor::Start,
                &value,
                INK,
                false,
            ));
        }
        shapes.push(line(vec![(left, top), (left, floor)], INK, 1.0));
        if self.bars.iter().any(|bar| bar.aim.is_some()) {
            let at = (left + 3.0, top - 16.0);
            shapes.push(line(
                vec![(at.0, at.1 - 10.0), (at.0, at.1 + 2.0)],
                COLOURS[1],
                3.0,
            ));
            let beside = (at.0 + 8.0, at.1);
            shapes.push(text(beside, Anchor::Start, "aim", INK, false));
        }
        shapes
    }
}

/// Formats a number to about three significant digits.
fn number_of(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        let bar = |name: &str, rounds: &[f64], aim| Bar {
            name: name.to_owned(),
            rounds: rounds.to_owned(),
            aim,
        };
        Bars {
            title: "Processor time & <more>".to_owned(),
            axis: "µs for each transaction".to_owned(),
            bars: vec![
                bar("one client", &[97.0, 88.0, 95.0], Some(20.0)),
                bar("sixteen", &[31.0, 42.0, 31.0], Some(20.0)),
                bar("nobody", &[], None),
            ],
        }
    }

    /// The end points of all lines of this width and colour.
    fn lines(shapes: &[Shape], wide: f64, of: super::super::Colour) -> Vec<Vec<(f64, f64)>> {
        let these = shapes.iter().filter_map(|shape| match shape {
            Shape::Line {
                points,
                width,
                colour,
            } if *width == wide && *colour == of => Some(points.clone()),
            _ => None,
        });
        these.collect()
    }

    #[test]
    fn an_svg_is_well_formed_and_names_every_bar() {
        let svg = bars().svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("Processor time &amp; &lt;more&gt;"));
        for text in ["one client", "sixteen", "nobody", "95.0", "31.0", "aim"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert!(!svg.contains("NaN"));
        assert!(!Bars::default().svg().contains("NaN"));
    }

    #[test]
    fn bars_are_as_long_as_medians_and_aims_lie_where_they_are() {
        let shapes = bars().shapes();
        let drawn = lines(&shapes, THICK.1, COLOURS[0]);
        let length = |ends: &Vec<(f64, f64)>| ends[1].0 - ends[0].0;
        assert_eq!(drawn.len(), 2);
        assert!((length(&drawn[0]) / length(&drawn[1]) - 95.0 / 31.0).abs() < 1e-9);
        assert!(drawn[0][0].1 < drawn[1][0].1, "the first is above");
        let aims = lines(&shapes, 3.0, COLOURS[1]);
        let share = (aims[0][0].0 - drawn[0][0].0) / length(&drawn[0]);
        assert!((share - 20.0 / 95.0).abs() < 1e-9);
    }

    #[test]
    fn a_png_has_bars_and_aims() {
        let pixels = png::read(&bars().png().unwrap());
        for colour in [COLOURS[0], COLOURS[1], INK] {
            let of = [colour.0, colour.1, colour.2];
            let count = pixels.chunks(3).filter(|pixel| *pixel == of).count();
            assert!(count > 50, "{colour:?}: {count} pixels");
        }
    }
}
