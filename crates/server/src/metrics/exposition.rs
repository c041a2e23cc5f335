//! Writer of Prometheus' text format for metrics.
//!
//! ```text
//!   # HELP coeval_log_written_bytes_total Bytes of log that reached the disk.
//!   # TYPE coeval_log_written_bytes_total counter
//!   coeval_log_written_bytes_total 1048576
//! ```
//!
//! A histogram's buckets are cumulative: each counts the values at most as large as its
//! bound.
//!
//! Source: Prometheus documentation, "Exposition formats", text format 0.0.4.

use std::fmt::Write;

use coeval_memory::counters::{Distribution, bound};

use super::families::{FAMILIES, Family, RECOVERY, Samples};
use super::reading::Reading;

/// The media type of the text that [`exposition`] returns.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics as text.
pub(crate) fn exposition(reading: &Reading) -> String {
    let mut text = String::with_capacity(64 << 10);
    for family in FAMILIES {
        head(&mut text, family);
        let mut writer = Writer {
            text: &mut text,
            family,
        };
        (family.read)(reading, &mut writer);
    }
    text
}

/// The metrics while the server recovers: only the progress, from 0 to 1.
pub(crate) fn recovering(share: f64) -> String {
    let mut text = String::new();
    for family in FAMILIES.iter().filter(|family| family.name == RECOVERY) {
        head(&mut text, family);
        let mut writer = Writer {
            text: &mut text,
            family,
        };
        writer.value(&[], share);
    }
    text
}

fn head(text: &mut String, family: &Family) {
    let about = family.about.replace('\\', "\\\\").replace('\n', "\\n");
    let _ = writeln!(text, "# HELP {} {about}", family.name);
    let _ = writeln!(text, "# TYPE {} {}", family.name, family.kind.name());
}

struct Writer<'text> {
    text: &'text mut String,
    family: &'static Family,
}

impl Writer<'_> {
    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.family.name);
        self.text.push_str(suffix);
        if !labels.is_empty() {
            self.text.push('{');
            write_labels(self.text, labels);
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Writes labels in the form that they have between braces.
pub(crate) fn write_labels(text: &mut String, labels: &[(&str, &str)]) {
    for (place, (name, value)) in labels.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(text, "{name}=\"{value}\"");
    }
}

impl Samples for Writer<'_> {
    fn value(&mut self, labels: &[(&str, &str)], value: f64) {
        debug_assert!(self.family.is_labelled(labels), "{}", self.family.name);
        self.line("", labels, value);
    }

    fn distribution(&mut self, labels: &[(&str, &str)], values: &Distribution, per: f64) {
        debug_assert!(self.family.is_labelled(labels), "{}", self.family.name);
        let mut below = 0;
        let last = values.counts.len().saturating_sub(1);
        for (class, count) in values.counts.iter().enumerate() {
            below += count;
            let limit = if class == last {
                "+Inf".to_owned()
            } else {
                (bound(class) as f64 / per).to_string()
            };
            let with_limit: Vec<_> = labels
                .iter()
                .copied()
                .chain([("le", limit.as_str())])
                .collect();
            self.line("_bucket", &with_limit, below as f64);
        }
        self.line("_sum", labels, values.sum as f64 / per);
        self.line("_count", labels, below as f64);
    }
}
