//! The report of a run: a row for each spec that was played, then what differs by name, then
//! the specs that were not played, with what they lack.

use std::collections::BTreeMap;
use std::fmt;

use super::{Comparison, Row, Turn, Verdict};

/// A way in which a permutation differs, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// The server under test commits what PostgreSQL refuses.
    OnlyPostgresAborts,
    /// Neither refuses anything, and they answer differently.
    OtherRows,
    /// Only the server under test refuses it, with an error after which a client tries again.
    OnlyOursAborts,
    /// Only the server under test refuses it, with another error.
    OnlyOursFails,
    /// A session of the server under test waits for a later step of another one.
    Stuck,
    /// A step waits on one server only.
    OtherWaits,
}

impl Finding {
    const fn title(self) -> &'static str {
        match self {
            Self::OnlyPostgresAborts => "Unsafe: committed here, refused by PostgreSQL",
            Self::OtherRows => "Unsafe: other answers, refused by neither",
            Self::OnlyOursAborts => "Refused here only, to be tried again (class 40)",
            Self::OnlyOursFails => "Refused here only, with another error",
            Self::Stuck => "A session here waits for a step that comes later",
            Self::OtherWaits => "A step waits on one server only",
        }
    }
}

/// What a run has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    total: Row,
    /// Specs of which at least one permutation was compared.
    played: u32,
    findings: BTreeMap<Finding, Vec<String>>,
    /// Specs that were not played, and why.
    missing: Vec<(String, String)>,
}

impl Report {
    /// Notes how a permutation differs, if it does.
    pub fn note(&mut self, spec: &str, turns: &[Turn], comparison: &Comparison) {
        let steps: Vec<&str> = turns.iter().map(|turn| &*turn.step).collect();
        let steps = steps.join(" ");
        let refused = comparison.refused.as_deref().unwrap_or_default();
        let of_verdict = match comparison.verdict {
            Verdict::OnlyPostgresAborts => Some(Finding::OnlyPostgresAborts),
            Verdict::OnlyOursAborts if refused.contains(": 40") => Some(Finding::OnlyOursAborts),
            Verdict::OnlyOursAborts => Some(Finding::OnlyOursFails),
            Verdict::Stuck => Some(Finding::Stuck),
            Verdict::BothCommit | Verdict::BothAbort | Verdict::Unsupported => None,
        };
        let rows = comparison.answers.as_deref();
        let waits = comparison.waits.as_deref();
        let found = [
            of_verdict.map(|finding| (finding, refused)),
            rows.map(|step| (Finding::OtherRows, step)),
            waits.map(|step| (Finding::OtherWaits, step)),
        ];
        for (finding, why) in found.into_iter().flatten() {
            let line = format!("{spec}: {steps} ({why})");
            self.findings.entry(finding).or_default().push(line);
        }
    }

    /// Adds a spec's row. Returns the line of the table, if the spec was played.
    pub fn add(&mut self, spec: &str, row: &Row) -> Option<String> {
        for (sum, count) in self.total.verdicts.iter_mut().zip(row.verdicts) {
            *sum += count;
        }
        self.total.waits += row.waits;
        self.total.answers += row.answers;
        if row.is_played() {
            self.played += 1;
            return Some(format!("{spec:<34}{row}"));
        }
        let missing = row.missing.as_deref().unwrap_or("no permutation goes on");
        self.missing.push((spec.to_owned(), missing.to_owned()));
        None
    }

    /// Whether no permutation was compared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.played == 0
    }

    /// Whether the server under test commits what PostgreSQL refuses, or answers otherwise.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.total.is_bad()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let played = format!("{} specs played", self.played);
        writeln!(formatter, "{played:<34}{}", self.total)?;
        for (finding, lines) in &self.findings {
            writeln!(formatter, "\n{}:", finding.title())?;
            for line in lines {
                writeln!(formatter, "  {line}")?;
            }
        }
        if !self.missing.is_empty() {
            writeln!(formatter, "\n{} specs not played:", self.missing.len())?;
        }
        for (spec, why) in &self.missing {
            writeln!(formatter, "  {spec:<32} {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(verdict: Verdict, refused: Option<&str>) -> Comparison {
        Comparison {
            verdict,
            waits: None,
            answers: None,
            refused: refused.map(str::to_owned),
        }
    }

    #[test]
    fn what_differs_is_named_and_only_the_unsafe_is_bad() {
        let turns = ["a", "b"].map(|step| Turn {
            step: step.to_owned(),
            annotated: false,
        });
        let mut report = Report::default();
        let play = |report: &mut Report, spec: &str, comparison: &Comparison| {
            let mut row = Row::default();
            row.add(comparison);
            row.missing.clone_from(&comparison.refused);
            report.note(spec, &turns, comparison);
            report.add(spec, &row)
        };
        let commits = comparison(Verdict::BothCommit, None);
        let retried = comparison(Verdict::OnlyOursAborts, Some("b: 40001 no"));
        let lacks = comparison(Verdict::Unsupported, Some("step a: 0A000 no"));
        let waits = comparison(Verdict::Stuck, Some("b"));
        assert!(report.is_empty());
        assert!(play(&mut report, "one", &commits).is_some());
        assert!(!report.is_empty());
        assert!(play(&mut report, "two", &retried).is_some());
        assert!(play(&mut report, "three", &waits).is_some());
        assert_eq!(play(&mut report, "four", &lacks), None);
        assert!(!report.is_bad());
        let found = report.to_string();
        for line in [
            "3 specs played                          1      0      1      0      1      1      0      0",
            "Refused here only, to be tried again (class 40):\n  two: a b (b: 40001 no)",
            "A session here waits for a step that comes later:\n  three: a b (b)",
            "1 specs not played:\n  four                             step a: 0A000 no",
        ] {
            assert!(found.contains(line), "{found}");
        }
        let theirs = comparison(Verdict::OnlyPostgresAborts, Some("b: 40001 no"));
        play(&mut report, "five", &theirs);
        assert!(report.is_bad());
        let found = report.to_string();
        assert!(found.contains("PostgreSQL:\n  five: a b"), "{found}");
    }
}
