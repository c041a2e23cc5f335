//! Pictures of anomalies as SVG.
//!
//! The transactions are drawn below each other in the order of the explanation, each as a
//! box with its operations; arrows lead from each to the next, labelled with the kind of
//! edge and its reason; in a cycle, one arrow leads back along the right side.

use std::fmt::Write;

use super::anomaly::Anomaly;
use super::explain::{operation, title};
use crate::history::History;

const WIDTH: usize = 760;
const LEFT: usize = 20;
const BOX: usize = 620;
const LINE: usize = 18;
const GAP: usize = 64;
/// Maximum number of operations and of characters shown; more are cut.
const OPERATIONS: usize = 8;
const CHARACTERS: usize = 88;

/// Draws an anomaly as an SVG document.
#[must_use]
pub fn svg(history: &History, anomaly: &Anomaly) -> String {
    let mut body = String::new();
    let mut top = 70;
    let mut places = Vec::new();
    for index in &anomaly.transactions {
        let transaction = &history.transactions[*index];
        let mut lines: Vec<String> = transaction
            .operations
            .iter()
            .take(OPERATIONS)
            .map(operation)
            .collect();
        let rest = transaction.operations.len().saturating_sub(OPERATIONS);
        if rest > 0 {
            lines.push(format!("and {rest} more"));
        }
        let height = LINE * (lines.len() + 1) + 14;
        let _ = writeln!(
            body,
            r##"<rect x="{LEFT}" y="{top}" width="{BOX}" height="{height}" rx="6" fill="#f6f8fa" stroke="#57606a"/>"##
        );
        text(
            &mut body,
            LEFT + 12,
            top + LINE + 2,
            "bold",
            "#24292f",
            &title(*index, transaction),
        );
        for (place, line) in lines.iter().enumerate() {
            let y = top + LINE * (place + 2) + 2;
            text(&mut body, LEFT + 24, y, "normal", "#24292f", line);
        }
        places.push((top, height));
        top += height + GAP;
    }
    let middle = LEFT + 40;
    for (place, step) in anomaly.steps.iter().enumerate() {
        let (y, height) = places[place];
        let from = y + height;
        let color = color(step, anomaly.is_cycle);
        text(
            &mut body,
            middle + 14,
            from + GAP / 2 + 4,
            "normal",
            color,
            step,
        );
        if let Some((to, _)) = places.get(place + 1) {
            if anomaly.is_cycle {
                let _ = writeln!(
                    body,
                    r#"<path d="M {middle} {from} L {middle} {}" stroke="{color}" stroke-width="2" fill="none" marker-end="url(#head)"/>"#,
                    to - 2
                );
            }
        } else if anomaly.is_cycle {
            // From the last around the right side to the first.
            let (first, first_height) = places[0];
            let (right, edge) = (WIDTH - 40, LEFT + BOX);
            let (last, target) = (y + height / 2, first + first_height / 2);
            let _ = writeln!(
                body,
                r#"<path d="M {edge} {last} C {right} {last} {right} {last} {right} {} L {right} {} C {right} {target} {right} {target} {} {target}" stroke="{color}" stroke-width="2" fill="none" marker-end="url(#head)"/>"#,
                last.saturating_sub(30),
                target + 30,
                edge + 2
            );
        }
    }
    let mut heading = String::new();
    text(&mut heading, LEFT, 30, "bold", "#24292f", &anomaly.name());
    text(
        &mut heading,
        LEFT,
        50,
        "normal",
        "#57606a",
        anomaly.phenomenon.meaning(),
    );
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" fill="#57606a"/></marker></defs>
<rect width="{WIDTH}" height="{top}" fill="white"/>
{heading}{body}</svg>
"##
    )
}

/// The color of a step: every kind of edge has its own.
fn color(step: &str, is_cycle: bool) -> &'static str {
    if !is_cycle {
        return "#57606a";
    }
    match step.split(':').next() {
        Some("ww") => "#0550ae",
        Some("wr") => "#116329",
        Some("rw") => "#a40e26",
        _ => "#6e7781",
    }
}

fn text(to: &mut String, x: usize, y: usize, weight: &str, color: &str, words: &str) {
    let mut shown: String = words.chars().take(CHARACTERS).collect();
    if shown.len() < words.len() {
        shown.push('…');
    }
    let shown = shown
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        to,
        r#"<text x="{x}" y="{y}" font-weight="{weight}" fill="{color}">{shown}</text>"#
    );
}
