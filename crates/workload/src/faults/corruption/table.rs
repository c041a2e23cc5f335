//! The results of the corruption test, as a table.

use std::collections::BTreeMap;
use std::fmt;

use super::trial::Outcome;
use super::{Edit, Error, FileKind};

/// A cell of the table: one edit of one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    /// Whether the directory's server was killed.
    pub(super) killed: bool,
    pub(super) kind: FileKind,
    pub(super) edit: Edit,
}

/// How often each outcome occurred.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    refused: u32,
    whole: u32,
    shorter: u32,
    wrong: u32,
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.refused, "refused"),
            (self.whole, "whole"),
            (self.shorter, "shorter"),
            (self.wrong, "WRONG"),
        ];
        let there = counts.iter().filter(|(count, _)| *count > 0);
        let many = self.refused + self.whole + self.shorter + self.wrong > 1;
        let said: Vec<String> = there
            .map(|(count, name)| match many {
                true => format!("{name} {count}"),
                false => (*name).to_owned(),
            })
            .collect();
        formatter.write_str(&said.join(", "))
    }
}

/// Results of all edits. Its `Display` is a table in Markdown.
#[derive(Clone, Debug, Default)]
pub struct Report {
    cells: BTreeMap<Cell, Counts>,
    /// Edits with a forbidden outcome, and that outcome.
    pub wrong: Vec<String>,
    /// Number of edits made.
    pub trials: u32,
}

impl Report {
    pub(super) fn add(&mut self, cell: Cell, what: &str, outcome: Outcome) {
        let counts = self.cells.entry(cell).or_default();
        self.trials += 1;
        match outcome {
            Outcome::Refused => counts.refused += 1,
            Outcome::Whole => counts.whole += 1,
            Outcome::Shorter => counts.shorter += 1,
            Outcome::Wrong(why) => {
                counts.wrong += 1;
                let killed = if cell.killed { " after a kill" } else { "" };
                let kind = cell.kind.name();
                self.wrong.push(format!("{kind}{killed}: {what}: {why}"));
            }
        }
    }

    /// Checks that a file of every listed kind was edited. A spare segment exists only at
    /// times, and an origin only in a restored directory.
    pub(super) fn see_all_kinds(&self) -> Result<(), Error> {
        for (kind, name) in FileKind::ALL {
            let seen = self.cells.keys().any(|cell| cell.kind == kind);
            let is_optional = matches!(kind, FileKind::SpareSegment | FileKind::Origin);
            if !seen && !is_optional {
                return Err(Error::Absent(name));
            }
        }
        Ok(())
    }

    /// How many edits of a kind of file were refused.
    #[must_use]
    pub fn refused(&self, kind: FileKind) -> u32 {
        let cells = self.cells.iter().filter(|(cell, _)| cell.kind == kind);
        cells.map(|(_, counts)| counts.refused).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edits: Vec<&str> = Edit::ALL.iter().map(|(_, name)| *name).collect();
        writeln!(formatter, "| file | {} |", edits.join(" | "))?;
        writeln!(formatter, "| --- |{}", " --- |".repeat(edits.len()))?;
        for killed in [false, true] {
            for (kind, name) in FileKind::ALL {
                let counts = |edit| self.cells.get(&Cell { killed, kind, edit });
                if !Edit::ALL.iter().any(|(edit, _)| counts(*edit).is_some()) {
                    continue;
                }
                let after = if killed { ", after a kill" } else { "" };
                write!(formatter, "| {name}{after} |")?;
                for (edit, _) in Edit::ALL {
                    let said = counts(edit).map_or("–".to_owned(), ToString::to_string);
                    write!(formatter, " {said} |")?;
                }
                writeln!(formatter)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_and_what_was_wrong() {
        let mut report = Report::default();
        let cell = Cell {
            killed: false,
            kind: FileKind::Control,
            edit: Edit::Flip,
        };
        report.add(cell, "CONTROL, a bit flipped", Outcome::Refused);
        report.add(cell, "CONTROL, a bit flipped", Outcome::Refused);
        assert_eq!(report.refused(FileKind::Control), 2);
        let wrong = Outcome::Wrong("serves commit 3 instead of 4".to_owned());
        report.add(cell, "CONTROL, a bit flipped", wrong);
        let text = report.to_string();
        assert!(
            text.contains("| CONTROL | refused 2, WRONG 1 | – |"),
            "{text}"
        );
        assert_eq!(report.wrong.len(), 1);
        assert!(matches!(report.see_all_kinds(), Err(Error::Absent("LOCK"))));
    }
}
