//! What came of it: workload × level against class of faults.

use std::collections::BTreeMap;
use std::fmt;

use super::Record;
use crate::Class;
use crate::scenario::level;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    runs: u64,
    refused: u64,
    failed: u64,
}

/// Runs by scenario.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: BTreeMap<String, BTreeMap<Class, Cell>>,
    committed: u64,
}

impl Table {
    /// That of a record.
    #[must_use]
    pub fn new(record: &Record) -> Self {
        let mut table = Self::default();
        for (scenario, tally) in record.tallies() {
            let row = format!(
                "{:<7} {:<12} {}",
                scenario.engine.name(),
                scenario.load.name(),
                level(scenario.isolation)
            );
            let cell = table.rows.entry(row).or_default();
            let cell = cell.entry(scenario.class).or_default();
            cell.runs += tally.seeds.len() as u64;
            cell.refused += tally.refused;
            cell.failed += tally.failed.len() as u64;
            table.committed += tally.committed;
        }
        table
    }
}

impl fmt::Display for Table {
    /// Each cell says how many runs there were; `r` refused to start after damage, `F`
    /// failed.
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
            "{runs} runs, {} transactions committed, {failed} runs failed",
            self.committed
        )
    }
}
