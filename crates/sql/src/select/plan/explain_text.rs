//! The formats of EXPLAIN: text with indented lines, and JSON.

use std::fmt::Write;
use std::time::Duration;

use crate::expression::Counted;
use crate::statement::ExplainOptions;

/// What a node is to the one above it.
#[derive(Clone, Debug)]
pub(crate) enum Relationship {
    Outer,
    Inner,
    /// A subquery of an expression, or a table of WITH, by its name.
    Named(String),
}

/// A node of a plan in words.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// What the node does, on the first line.
    label: String,
    /// Kind of the node, as PostgreSQL's JSON names it; empty for that of the label.
    pub kind: &'static str,
    /// Kind of a join.
    pub join: Option<&'static str>,
    /// Name and alias of the table that is read.
    pub relation: Option<(String, String)>,
    pub index: Option<String>,
    details: Vec<(&'static str, String)>,
    pub output: Option<String>,
    pub rows: f64,
    pub width: usize,
    pub startup: f64,
    pub total: f64,
    pub counted: Option<Counted>,
    below: Vec<(Relationship, Described)>,
}

impl Described {
    pub(crate) fn new(label: &str, rows: f64) -> Self {
        Self {
            label: label.to_owned(),
            kind: "",
            join: None,
            relation: None,
            index: None,
            details: Vec::new(),
            output: None,
            rows,
            width: 0,
            startup: 0.0,
            total: rows.max(0.0) * 0.01,
            counted: None,
            below: Vec::new(),
        }
    }

    pub(crate) fn detail(&mut self, name: &'static str, text: String) {
        self.details.push((name, text));
    }

    pub(crate) fn add(&mut self, relationship: Relationship, below: Described) {
        if self.width == 0 {
            self.width = below.width;
        } else if matches!(relationship, Relationship::Inner) {
            self.width += below.width;
        }
        self.below.push((relationship, below));
    }

    /// The estimated number of rows, as it is shown.
    fn shown_rows(&self) -> u64 {
        (self.rows.round() as u64).max(1)
    }

    /// Lines of text.
    pub(crate) fn text(&self, options: &ExplainOptions) -> Vec<String> {
        let mut lines = Vec::new();
        self.lines(options, "", 0, &mut lines);
        lines
    }

    /// Appends the node's lines; its text begins in the column `at`.
    fn lines(&self, options: &ExplainOptions, arrow: &str, at: usize, lines: &mut Vec<String>) {
        crate::expression::with_stack(|| self.lines_here(options, arrow, at, lines));
    }

    fn lines_here(
        &self,
        options: &ExplainOptions,
        arrow: &str,
        at: usize,
        lines: &mut Vec<String>,
    ) {
        let mut line = format!("{}{arrow}{}", " ".repeat(at - arrow.len()), self.label);
        if options.costs {
            let (startup, total) = (self.startup, self.total);
            let (rows, width) = (self.shown_rows(), self.width);
            let _ = write!(
                line,
                "  (cost={startup:.2}..{total:.2} rows={rows} width={width})"
            );
        }
        if let Some(counted) = &self.counted {
            line.push_str(&actual(counted, options.timing));
        }
        lines.push(line);
        let indent = " ".repeat(at + 2);
        if let Some(output) = &self.output {
            lines.push(format!("{indent}Output: {output}"));
        }
        for (name, text) in &self.details {
            lines.push(format!("{indent}{name}: {text}"));
        }
        for (relationship, below) in &self.below {
            match relationship {
                Relationship::Named(name) => {
                    lines.push(format!("{indent}{name}"));
                    below.lines(options, "->  ", at + 8, lines);
                }
                Relationship::Outer | Relationship::Inner => {
                    below.lines(options, "->  ", at + 6, lines);
                }
            }
        }
    }

    /// A JSON object, indented by so many blanks.
    pub(crate) fn json(
        &self,
        options: &ExplainOptions,
        relationship: Option<&Relationship>,
        indent: usize,
    ) -> String {
        crate::expression::with_stack(|| self.json_here(options, relationship, indent))
    }

    fn json_here(
        &self,
        options: &ExplainOptions,
        relationship: Option<&Relationship>,
        indent: usize,
    ) -> String {
        let kind = if self.kind.is_empty() {
            self.label.as_str()
        } else {
            self.kind
        };
        let mut fields = vec![("Node Type", quoted(kind))];
        match relationship {
            None => {}
            Some(Relationship::Outer) => fields.push(("Parent Relationship", quoted("Outer"))),
            Some(Relationship::Inner) => fields.push(("Parent Relationship", quoted("Inner"))),
            Some(Relationship::Named(name)) => {
                let init = name.starts_with("InitPlan") || name.starts_with("CTE ");
                let kind = if init { "InitPlan" } else { "SubPlan" };
                fields.push(("Parent Relationship", quoted(kind)));
                fields.push(("Subplan Name", quoted(name)));
            }
        }
        fields.push(("Parallel Aware", "false".to_owned()));
        fields.push(("Async Capable", "false".to_owned()));
        if let Some(join) = self.join {
            fields.push(("Join Type", quoted(join)));
        }
        if let Some(index) = &self.index {
            fields.push(("Index Name", quoted(index)));
        }
        if let Some((relation, alias)) = &self.relation {
            fields.push(("Relation Name", quoted(relation)));
            fields.push(("Alias", quoted(alias)));
        }
        if options.costs {
            fields.push(("Startup Cost", format!("{:.2}", self.startup)));
            fields.push(("Total Cost", format!("{:.2}", self.total)));
            fields.push(("Plan Rows", self.shown_rows().to_string()));
            fields.push(("Plan Width", self.width.to_string()));
        }
        if let Some(counted) = &self.counted {
            let loops = counted.loops.max(1);
            if options.timing {
                let time = milliseconds(counted.time) / loops as f64;
                let startup = milliseconds(counted.startup) / loops as f64;
                fields.push(("Actual Startup Time", format!("{startup:.3}")));
                fields.push(("Actual Total Time", format!("{time:.3}")));
            }
            fields.push(("Actual Rows", (counted.rows / loops).to_string()));
            fields.push(("Actual Loops", counted.loops.to_string()));
        }
        if let Some(output) = &self.output {
            fields.push(("Output", format!("[{}]", quoted(output))));
        }
        for (name, text) in &self.details {
            fields.push((*name, quoted(text)));
        }
        if !self.below.is_empty() {
            let blanks = " ".repeat(indent + 4);
            let below: Vec<String> = self
                .below
                .iter()
                .map(|(relationship, below)| {
                    format!(
                        "{blanks}{}",
                        below.json(options, Some(relationship), indent + 4)
                    )
                })
                .collect();
            let end = " ".repeat(indent + 2);
            fields.push(("Plans", format!("[\n{}\n{end}]", below.join(",\n"))));
        }
        let blanks = " ".repeat(indent + 2);
        let fields: Vec<String> = fields
            .into_iter()
            .map(|(name, value)| format!("{blanks}\"{name}\": {value}"))
            .collect();
        format!("{{\n{}\n{}}}", fields.join(",\n"), " ".repeat(indent))
    }
}

/// What has been counted of a node, for one loop on average.
fn actual(counted: &Counted, timing: bool) -> String {
    if counted.loops == 0 {
        return " (never executed)".to_owned();
    }
    let loops = counted.loops;
    let rows = counted.rows as f64 / loops as f64;
    let startup = milliseconds(counted.startup) / loops as f64;
    let time = milliseconds(counted.time) / loops as f64;
    match timing {
        true => format!(" (actual time={startup:.3}..{time:.3} rows={rows:.0} loops={loops})"),
        false => format!(" (actual rows={rows:.0} loops={loops})"),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
