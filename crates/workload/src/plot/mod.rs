//! Charts of lines and of bars, rendered as SVG and as PNG.
//!
//! ```text
//!   Chart, Bars ── shapes ──▶ lines, dots, texts at places ──┬──▶ SVG
//!   (points, axes)                                           └──▶ PNG
//! ```
//!
//! A chart is laid out once, into a few kinds of shapes, so that both files show the
//! same. The label of the y-axis is above it, where it is horizontal; a series has a
//! colour and is labelled beside its last point. The colours are those of Okabe and Ito,
//! which colour-blind people can distinguish.

mod bars;
mod png;
mod svg;
mod ticks;

pub use bars::{Bar, Bars};
use ticks::Scale;

/// Width and height of a chart, in pixels.
pub(crate) const SIZE: (f64, f64) = (960.0, 540.0);
/// Margins around the plot: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (90.0, 70.0, 230.0, 60.0);

/// Colours of the series, in turn.
const COLOURS: [Colour; 8] = [
    Colour(0, 114, 178),
    Colour(213, 94, 0),
    Colour(0, 158, 115),
    Colour(204, 121, 167),
    Colour(230, 159, 0),
    Colour(86, 180, 233),
    Colour(120, 94, 0),
    Colour(90, 90, 90),
];
const INK: Colour = Colour(40, 40, 40);
const GRID: Colour = Colour(225, 225, 225);

/// A colour, as red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// One axis of a chart.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// Label of the axis, with its unit.
    pub name: String,
    /// Whether the axis is logarithmic; then values that are not above 0 are left out.
    pub logarithmic: bool,
}

/// A series of points, drawn as one line.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A line chart of several series.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Horizontal axis, from left to right.
    pub x: Axis,
    /// Vertical axis, from bottom to top.
    pub y: Axis,
    /// The series to draw.
    pub series: Vec<Series>,
}

/// Which end of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A shape to draw. Positions are in pixels from the top left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Line {
        points: Vec<(f64, f64)>,
        colour: Colour,
        width: f64,
    },
    Dot {
        at: (f64, f64),
        colour: Colour,
    },
    Text {
        at: (f64, f64),
        anchor: Anchor,
        text: String,
        colour: Colour,
        large: bool,
    },
}

impl Chart {
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

    /// The points of a series that the axes can show.
    fn shown<'c>(&'c self, series: &'c Series) -> impl Iterator<Item = (f64, f64)> + 'c {
        let shows =
            |axis: &Axis, value: f64| value.is_finite() && (!axis.logarithmic || value > 0.0);
        let points = series.points.iter().copied();
        points.filter(move |&(x, y)| shows(&self.x, x) && shows(&self.y, y))
    }

    fn shapes(&self) -> Vec<Shape> {
        let all = || self.series.iter().flat_map(|series| self.shown(series));
        let (left, top, right, bottom) = MARGIN;
        let x = Scale::new(
            all().map(|(x, _)| x),
            self.x.logarithmic,
            (left, SIZE.0 - right),
        );
        let y = Scale::new(
            // A linear axis begins at 0, so that lengths are comparable.
            all()
                .map(|(_, y)| y)
                .chain((!self.y.logarithmic).then_some(0.0)),
            self.y.logarithmic,
            (SIZE.1 - bottom, top),
        );
        let mut shapes = vec![text((left, 26.0), Anchor::Start, &self.title, INK, true)];
        shapes.push(text(
            (left, top - 16.0),
            Anchor::Start,
            &self.y.name,
            INK,
            false,
        ));
        let below = (SIZE.0 - right, SIZE.1 - 16.0);
        shapes.push(text(below, Anchor::End, &self.x.name, INK, false));
        for (value, label) in y.ticks() {
            let at = y.place(value);
            shapes.push(line(vec![(left, at), (SIZE.0 - right, at)], GRID, 1.0));
            shapes.push(text(
                (left - 8.0, at + 4.0),
                Anchor::End,
                &label,
                INK,
                false,
            ));
        }
        let floor = SIZE.1 - bottom;
        for (value, label) in x.ticks() {
            let at = x.place(value);
            shapes.push(line(vec![(at, floor), (at, floor + 5.0)], INK, 1.0));
            shapes.push(text((at, floor + 20.0), Anchor::Middle, &label, INK, false));
        }
        shapes.push(line(vec![(left, floor), (SIZE.0 - right, floor)], INK, 1.0));
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let place = |(a, b)| (x.place(a), y.place(b));
            let points: Vec<(f64, f64)> = self.shown(series).map(place).collect();
            if points.len() <= 60 {
                let dot = |&at: &(f64, f64)| Shape::Dot { at, colour };
                shapes.extend(points.iter().map(dot));
            }
            shapes.push(line(points, colour, 2.0));
            let at = top + 10.0 + 20.0 * number as f64;
            let from = SIZE.0 - right + 14.0;
            shapes.push(line(vec![(from, at), (from + 20.0, at)], colour, 2.0));
            let beside = (from + 28.0, at + 4.0);
            shapes.push(text(beside, Anchor::Start, &series.name, INK, false));
        }
        shapes
    }
}

fn line(points: Vec<(f64, f64)>, colour: Colour, width: f64) -> Shape {
    Shape::Line {
        points,
        colour,
        width,
    }
}

fn text(at: (f64, f64), anchor: Anchor, text: &str, colour: Colour, large: bool) -> Shape {
    Shape::Text {
        at,
        anchor,
        text: text.to_owned(),
        colour,
        large,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "Throughput & <more>".to_owned(),
            x: Axis {
                name: "threads".to_owned(),
                logarithmic: false,
            },
            y: Axis {
                name: "transactions per second".to_owned(),
                logarithmic: false,
            },
            series: vec![
                Series {
                    name: "occ".to_owned(),
                    points: vec![(1.0, 1_000.0), (2.0, 1_900.0), (4.0, f64::NAN)],
                },
                Series {
                    name: "serial".to_owned(),
                    points: vec![(1.0, 1_100.0), (2.0, 1_050.0)],
                },
            ],
        }
    }

    #[test]
    fn an_svg_is_well_formed_and_shows_every_series() {
        let svg = chart().svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("Throughput &amp; &lt;more&gt;"));
        assert!(svg.contains(">occ</text>") && svg.contains(">serial</text>"));
        assert!(!svg.contains("NaN"));
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn a_png_has_the_colours_of_its_series() {
        let bytes = chart().png().unwrap();
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
        let pixels = png::read(&bytes);
        for colour in [COLOURS[0], COLOURS[1], INK] {
            let of = [colour.0, colour.1, colour.2];
            let count = pixels.chunks(3).filter(|pixel| *pixel == of).count();
            assert!(count > 50, "{colour:?}: {count} pixels");
        }
        let empty = Chart::default().png().unwrap();
        assert!(png::read(&empty).len() == pixels.len());
    }

    #[test]
    fn lines_that_turn_sharply_are_drawn() {
        let mut chart = chart();
        let heights = [0.0, 1_000.0, 0.0, 900.0, 900.0];
        chart.series[0].points = (0..).map(f64::from).zip(heights).collect();
        let pixels = png::read(&chart.png().unwrap());
        let Colour(red, green, blue) = COLOURS[0];
        let of = pixels
            .chunks(3)
            .filter(|pixel| **pixel == [red, green, blue]);
        assert!(of.count() > 1_000);
    }

    #[test]
    fn what_lies_higher_is_drawn_higher() {
        let shapes = chart().shapes();
        let dots: Vec<(f64, f64)> = shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Dot { at, .. } => Some(*at),
                _ => None,
            })
            .collect();
        assert!(dots[0].0 < dots[1].0 && dots[0].1 > dots[1].1);
        assert_eq!(dots[0].0, dots[2].0);
    }
}
