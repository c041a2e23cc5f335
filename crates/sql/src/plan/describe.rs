//! EXPLAIN of an access path.

use coeval_txn::Direction;

use super::Path;
use crate::catalog::{Index, Table};

impl Path {
    /// Lines that describe the path: the kind of scan, then its conditions; `named` is
    /// the table's name with its alias.
    #[must_use]
    pub fn describe(
        &self,
        table: &Table,
        named: &str,
        direction: Direction,
        filtered: bool,
    ) -> Vec<String> {
        let backward = match direction {
            Direction::Forward => "",
            Direction::Backward => " Backward",
        };
        let mut lines = match self {
            Self::Table => vec![format!("Seq Scan on {named}")],
            Self::Key { index, key } => vec![
                format!("Index Lookup using {} on {named}", index.name),
                key_columns(index, key.len()),
            ],
            Self::Range {
                index,
                prefix,
                lower,
                upper,
            } => {
                let mut lines = vec![format!(
                    "Index Scan{backward} using {} on {named}",
                    index.name
                )];
                if !prefix.is_empty() {
                    lines.push(key_columns(index, prefix.len()));
                }
                if lower.is_some() || upper.is_some() {
                    let column = index.columns[prefix.len()].column;
                    lines.push(format!("  Range of: {}", table.columns[column].name));
                }
                lines
            }
            Self::List { index, prefix, .. } => {
                let column = index.columns[prefix.len()].column;
                vec![
                    format!("Index Scan using {} on {named}", index.name),
                    key_columns(index, prefix.len() + 1),
                    format!("  List of: {}", table.columns[column].name),
                ]
            }
        };
        if filtered {
            lines.push("  Filter: remaining conditions".to_owned());
        }
        lines
    }
}

fn key_columns(index: &Index, count: usize) -> String {
    format!("  Key columns: {count} of {}", index.columns.len())
}
