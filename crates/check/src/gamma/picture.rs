//! The picture of Γ over time: a dot for each score, a dotted line for each pause at its
//! start, as high as it was long. Both are measured on the same axis, so a spike that is as
//! high as its pause is seen to be.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::text::milliseconds;
use super::{Analysis, nanoseconds};

/// Size of the picture, and the edges of the plot in it.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 930.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 430.0;

/// Colours of Okabe and Ito, which colour-blind people can distinguish.
const SCORE: &str = "#0072b2";
const PAUSE: &str = "#d55e00";
const THRESHOLD: &str = "#009e73";
const INK: &str = "#282828";
const GRID: &str = "#e1e1e1";

/// A linear scale from 0 to a round number.
struct Scale {
    high: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(greatest: f64, from: f64, to: f64) -> Self {
        let rough = greatest.max(1e-9) / 8.0;
        let power = 10_f64.powf(rough.log10().floor());
        let mut steps = [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power);
        let step = steps.find(|step| *step >= rough).unwrap_or(10.0 * power);
        let high = (greatest / step).ceil().max(1.0) * step;
        Self {
            high,
            step,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value / self.high).clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let count = (self.high / self.step).round() as u32;
        (0..=count).map(move |tick| {
            let value = f64::from(tick) * self.step;
            (self.place(value), format!("{value:.digits$}"))
        })
    }
}

/// Draws an SVG document.
pub(super) fn draw(analysis: &Analysis, title: &str) -> String {
    let origin = analysis.origin();
    let seconds = |time: u64| time.saturating_sub(origin) as f64 / 1e9;
    let height = |time: u64| time as f64 / 1e6;
    let last = analysis.report.span.map_or(0, |span| span.1);
    let threshold = nanoseconds(analysis.options.threshold);
    let no_pauses = Vec::new();
    let pauses = match &analysis.pauses {
        Some((pauses, _)) => pauses,
        None => &no_pauses,
    };
    let shown = |time: &u64| (origin..=last).contains(time);
    let pauses = pauses.iter().filter(|pause| shown(&pause.started));
    let longest = pauses.clone().map(|pause| pause.finished - pause.started);
    let longest = longest.max().unwrap_or(0);
    let greatest = analysis.report.gamma.max(longest).max(threshold);
    let x = Scale::new(seconds(last), LEFT, RIGHT);
    let y = Scale::new(height(greatest), BOTTOM, TOP);

    let mut body = String::new();
    for (at, label) in x.ticks() {
        line(&mut body, (at, BOTTOM), (at, TOP), GRID, "");
        text(&mut body, (at, BOTTOM + 18.0), "middle", INK, &label);
    }
    for (at, label) in y.ticks() {
        line(&mut body, (LEFT, at), (RIGHT, at), GRID, "");
        text(&mut body, (LEFT - 8.0, at + 4.0), "end", INK, &label);
    }
    text(&mut body, (RIGHT, BOTTOM + 38.0), "end", INK, "time, s");
    text(&mut body, (LEFT, TOP - 12.0), "middle", INK, "ms");

    // A pixel is drawn once, however many scores are there.
    let mut drawn = BTreeSet::new();
    for pause in pauses {
        let at = x.place(seconds(pause.started));
        let to = y.place(height(pause.finished - pause.started));
        if drawn.insert((at.round() as i64, to.round() as i64)) {
            let dashes = r#" stroke-width="2" stroke-dasharray="2 3""#;
            line(&mut body, (at, BOTTOM), (at, to), PAUSE, dashes);
        }
    }
    let level = y.place(height(threshold));
    let dashes = r#" stroke-dasharray="6 4""#;
    line(&mut body, (LEFT, level), (RIGHT, level), THRESHOLD, dashes);
    let mut drawn = BTreeSet::new();
    for score in &analysis.report.scores {
        let (at, to) = (x.place(seconds(score.time)), y.place(height(score.gamma)));
        if drawn.insert((at.round() as i64, to.round() as i64)) {
            let _ = writeln!(
                body,
                r#"<circle cx="{at:.1}" cy="{to:.1}" r="2" fill="{SCORE}"/>"#
            );
        }
    }

    text(&mut body, (20.0, 24.0), "start", INK, title);
    let summary = format!(
        "Γ {} ms; {} of {} values above {} ms",
        milliseconds(analysis.report.gamma),
        analysis.above,
        analysis.report.values,
        milliseconds(threshold)
    );
    text(&mut body, (20.0, 44.0), "start", INK, &summary);
    let mut legend = vec![("Γ of a value", SCORE), ("threshold", THRESHOLD)];
    if analysis.pauses.is_some() {
        legend.insert(1, ("a pause, as high as it was long", PAUSE));
    }
    let mut right = RIGHT;
    for (name, colour) in legend.into_iter().rev() {
        text(&mut body, (right, TOP - 12.0), "end", colour, name);
        right -= 9.0 * name.chars().count() as f64 + 20.0;
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
{body}</svg>
"#
    )
}

fn line(body: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, more: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        body,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"{more}/>"#
    );
}

fn text(body: &mut String, (x, y): (f64, f64), anchor: &str, colour: &str, text: &str) {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Such characters end an XML document.
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    let _ = writeln!(
        body,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{colour}">{escaped}</text>"#
    );
}
