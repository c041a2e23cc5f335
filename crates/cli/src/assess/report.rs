//! The report on a script: writes each finding at once, and a summary at the end.
//!
//! The report keeps no findings in memory, so that a script may have any number of them.
//! As text:
//!
//! ```text
//! dump.sql:12: 0A000: CREATE TYPE is not supported
//!     CREATE TYPE public.mood AS ENUM ( 'sad', 'ok', 'happy' );
//! dump.sql:40: 42P01: relation "public.active" does not exist; follows from line 12
//!     SELECT pg_catalog.count(*) FROM public.active
//! ```
//!
//! As JSON, one object: `findings`, an array, and after it the numbers of the summary.

use std::collections::BTreeMap;
use std::io::{self, Write};

use coeval_sql::Error;
use coeval_sql::statement::loggable;
use serde_json::{Value, json};

use super::causes::feature;

/// Maximum length of a shown statement, in characters.
const SHOWN: usize = 100;
/// Maximum number of features that are counted separately.
const MAX_FEATURES: usize = 1000;
/// The name under which further features are counted.
const FURTHER: &str = "others";

/// The format of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// A location in the scripts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptLocation<'script> {
    /// The file.
    pub(super) file: &'script str,
    /// The line, from 1.
    pub(super) line: u64,
    /// The statement there.
    pub(super) statement: &'script str,
}

/// The counts of the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of statements.
    pub(super) statements: u64,
    /// Number of statements that would not run.
    pub(super) failing: u64,
    /// Number of failures that follow from earlier ones.
    pub(super) following: u64,
    /// Number of statements and commands that could not be judged.
    pub(super) not_judged: u64,
    /// Number of rows of data that were checked.
    pub(super) rows: u64,
    /// Number of rows that would be refused.
    pub(super) rows_refused: u64,
    /// Lines of data that were not checked, because their COPY would not run.
    pub(super) lines_passed_over: u64,
}

/// Writes findings and counts them.
pub(super) struct Report<W: Write> {
    out: W,
    form: Form,
    counts: Counts,
    /// For each feature, its number of failures and the line of the first.
    features: BTreeMap<String, (u64, u64)>,
    findings: u64,
}

impl<W: Write> Report<W> {
    pub(super) fn new(out: W, form: Form) -> io::Result<Self> {
        let mut report = Self {
            out,
            form,
            counts: Counts::default(),
            features: BTreeMap::new(),
            findings: 0,
        };
        if form == Form::Json {
            write!(report.out, "{{\"findings\":[")?;
        }
        Ok(report)
    }

    /// The counts so far.
    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Reports a statement that would not run, and the line of its root cause.
    pub(super) fn fails(
        &mut self,
        place: ScriptLocation<'_>,
        error: &Error,
        cause: Option<u64>,
    ) -> io::Result<()> {
        self.counts.failing += 1;
        match cause {
            Some(_) => self.counts.following += 1,
            None => self.count(feature(place.statement, error), place.line),
        }
        self.write("would not run", place, Some(error), None, cause)
    }

    /// Reports a row of data that would be refused.
    pub(super) fn row_refused(
        &mut self,
        place: ScriptLocation<'_>,
        error: &Error,
    ) -> io::Result<()> {
        self.counts.rows_refused += 1;
        self.count(format!("data ({})", error.state().0), place.line);
        self.write("row refused", place, Some(error), None, None)
    }

    /// Reports a statement or command that cannot be judged, and why.
    pub(super) fn not_judged(&mut self, place: ScriptLocation<'_>, why: &str) -> io::Result<()> {
        self.counts.not_judged += 1;
        self.write("not judged", place, None, Some(why), None)
    }

    fn count(&mut self, feature: String, line: u64) {
        let known = self.features.contains_key(&feature);
        let feature = if known || self.features.len() < MAX_FEATURES {
            feature
        } else {
            FURTHER.to_owned()
        };
        self.features.entry(feature).or_insert((0, line)).0 += 1;
    }

    fn write(
        &mut self,
        kind: &str,
        place: ScriptLocation<'_>,
        error: Option<&Error>,
        why: Option<&str>,
        cause: Option<u64>,
    ) -> io::Result<()> {
        let ScriptLocation { file, line, .. } = place;
        let statement = shown(place.statement);
        let first = self.findings == 0;
        self.findings += 1;
        let report = error.map(Error::report);
        let reason = report.map_or(why.unwrap_or_default(), |report| &report.message);
        match self.form {
            Form::Json => {
                let object = json!({
                    "kind": kind,
                    "file": file,
                    "line": line,
                    "statement": statement,
                    "sqlstate": report.map(|report| report.state.0),
                    "reason": reason,
                    "detail": report.and_then(|report| report.detail.as_deref()),
                    "hint": report.and_then(|report| report.hint.as_deref()),
                    "follows_from_line": cause,
                });
                let comma = if first { "" } else { "," };
                write!(self.out, "{comma}\n{object}")
            }
            Form::Text => {
                let state = report.map_or("not judged", |report| report.state.0);
                write!(self.out, "{file}:{line}: {state}: {reason}")?;
                if let Some(cause) = cause {
                    write!(self.out, "; follows from line {cause}")?;
                }
                writeln!(self.out, "\n    {statement}")?;
                let parts =
                    report.map(|report| [("detail", &report.detail), ("hint", &report.hint)]);
                for (name, part) in parts.into_iter().flatten() {
                    // The detail and hint of a chain were printed at its root cause, and
                    // the hint to add type casts does not help with a missing function.
                    let told = cause.is_none() && state != "42883";
                    if let Some(part) = part.as_ref().filter(|_| told) {
                        writeln!(self.out, "    {name}: {}", shown(part))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes the summary. Returns whether everything would run.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        let counts = &self.counts;
        let good = counts.failing + counts.rows_refused + counts.not_judged == 0;
        match self.form {
            Form::Json => {
                let features: Vec<Value> = self
                    .by_number()
                    .map(|(feature, (number, line))| {
                        json!({"feature": feature, "number": number, "first_line": line})
                    })
                    .collect();
                let rest = json!({
                    "statements": counts.statements,
                    "would_not_run": counts.failing,
                    "of_them_following": counts.following,
                    "not_judged": counts.not_judged,
                    "rows": counts.rows,
                    "rows_refused": counts.rows_refused,
                    "data_lines_not_looked_at": counts.lines_passed_over,
                    "features": features,
                });
                // The findings have opened the JSON object.
                let rest = rest.to_string();
                writeln!(self.out, "\n],{}", &rest[1..])?;
            }
            Form::Text => {
                if self.findings > 0 {
                    writeln!(self.out)?;
                }
                write!(self.out, "{}", self.summary())?;
            }
        }
        self.out.flush()?;
        Ok(good)
    }

    /// The features, the most frequent first.
    fn by_number(&self) -> impl Iterator<Item = (&String, &(u64, u64))> {
        let mut features: Vec<_> = self.features.iter().collect();
        features.sort_by_key(|(_, (number, line))| (std::cmp::Reverse(*number), *line));
        features.into_iter()
    }

    fn summary(&self) -> String {
        let counts = &self.counts;
        let mut text = format!("{} statements", counts.statements);
        text.push_str(&match (counts.failing, counts.following) {
            (0, _) => "; all of them would run here\n".to_owned(),
            (failing, 0) => format!(", {failing} would not run here\n"),
            (failing, following) => format!(
                ", {failing} would not run here, {following} of them only because of others\n"
            ),
        });
        if counts.rows + counts.rows_refused + counts.lines_passed_over > 0 {
            text.push_str(&format!(
                "{} rows of data, {} would be refused",
                counts.rows + counts.rows_refused,
                counts.rows_refused
            ));
            if counts.lines_passed_over > 0 {
                let lines = counts.lines_passed_over;
                text.push_str(&format!("; {lines} lines of data not looked at"));
            }
            text.push('\n');
        }
        if counts.not_judged > 0 {
            text.push_str(&format!("{} not judged\n", counts.not_judged));
        }
        for (feature, (number, line)) in self.by_number() {
            text.push_str(&format!("{number:>7}  {feature}, first on line {line}\n"));
        }
        text
    }
}

/// The beginning of a statement on one line, without passwords.
fn shown(statement: &str) -> String {
    let text = loggable(statement);
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * SHOWN {
            break;
        }
    }
    match line.char_indices().nth(SHOWN) {
        None => line,
        Some((end, _)) => format!("{} …", &line[..end]),
    }
}
