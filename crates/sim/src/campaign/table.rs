//! The result table of a campaign: workload × level against class of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Record;
use super::record::Tally;
use crate::Class;
use crate::scenario::level;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    runs: u64,
    refused: u64,
    failed: u64,
}

/// Results of one build and length by scenario, and the number of all others.
#[derive(Clone, Debug, Default)]
pub struct Table {
    build: String,
    length_ms: u64,
    rows: BTreeMap<String, BTreeMap<Class, Cell>>,
    committed: u64,
    /// Results of other builds and lengths.
    history: Cell,
    /// Names of the other builds.
    others: BTreeSet<String>,
}

impl Table {
    /// The table of a build and a length.
    #[must_use]
    pub fn new(record: &Record, build: &str, length_ms: u64) -> Self {
        let mut table = Self {
            build: build.to_owned(),
            length_ms,
            ..Self::default()
        };
        for (scenario, of, length, tally) in record.tallies() {
            if (of, length) != (build, length_ms) {
                table.history.add(tally);
                table.others.insert(of.to_owned());
                continue;
            }
            let row = format!(
                "{:<7} {:<12} {}",
                scenario.engine.name(),
                scenario.load.name(),
                level(scenario.isolation)
            );
            let cell = table.rows.entry(row).or_default();
            cell.entry(scenario.class).or_default().add(tally);
            table.committed += tally.committed;
        }
        table
    }
}

impl Cell {
    fn add(&mut self, tally: &Tally) {
        self.runs += tally.seeds.len() as u64;
        self.refused += tally.refused;
        self.failed += tally.failed.len() as u64;
    }
}

impl fmt::Display for Table {
    /// Each cell has the number of runs; `r` counts those that refused to start after
    /// damage, `F` failures.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.keys().map(String::len).max().unwrap_or(0);
        write!(formatter, "{:width$}", "")?;
        for class in Class::ALL {
            write!(formatter, " {:>10}", class.name())?;
        }
        writeln!(formatter)?;
        let (mut runs, mut failed) = (0, 0);
        for (row, cells) in &self.rows {
            write!(formatter, "{row:width$}")?;
            for class in Class::ALL {
                let text = cells.get(class).map_or_else(
                    || "·".to_owned(),
                    |cell| {
                        runs += cell.runs;
                        failed += cell.failed;
                        let mut text = cell.runs.to_string();
                        if cell.refused > 0 {
                            text.push_str(&format!(" {}r", cell.refused));
                        }
                        if cell.failed > 0 {
                            text.push_str(&format!(" {}F", cell.failed));
                        }
                        text
                    },
                );
                write!(formatter, " {text:>10}")?;
            }
            writeln!(formatter)?;
        }
        write!(
            formatter,
            "build {}, {} ms: {runs} runs, {} transactions committed, {failed} runs failed",
            self.build, self.length_ms, self.committed
        )?;
        if self.history.runs > 0 {
            let builds: Vec<&str> = self.others.iter().map(String::as_str).collect();
            write!(
                formatter,
                "\non record beside them: {} runs of {}, {} failed",
                self.history.runs,
                builds.join(", "),
                self.history.failed
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_of_one_build_and_names_the_others() {
        let text = "occ/bank/serializable/power abc 600 1-5 4 1 80 -\n\
                    occ/bank/serializable/power abc 1500 1-2 2 0 80 -\n\
                    occ/bank/serializable/kill old 600 1-3 2 0 70 2\n";
        let record = Record::read(text).unwrap();
        let table = Table::new(&record, "abc", 600).to_string();
        assert!(table.contains(" 5 1r "), "{table}");
        let end = "build abc, 600 ms: 5 runs, 80 transactions committed, 0 runs failed\n\
                   on record beside them: 5 runs of abc, old, 1 failed";
        assert!(table.ends_with(end), "{table}");
        let table = Table::new(&record, "old", 600).to_string();
        assert!(table.contains(" 3 1F "), "{table}");
    }
}
