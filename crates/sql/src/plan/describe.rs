//! EXPLAIN of an access path.

use coeval_txn::Direction;

use super::Path;
use super::access_path::{List, RangeLimit};
use crate::catalog::Table;
use crate::expression::{Expression, Names};

/// An access path in words.
pub(crate) struct Described {
    /// Kind of the scan, with the index and the table.
    pub label: String,
    /// Kind of the scan, as PostgreSQL's JSON names it.
    pub kind: &'static str,
    /// Name of the index.
    pub index: Option<String>,
    /// Condition that the index ensures.
    pub condition: Option<String>,
}

impl Path {
    /// The path in words. `named` is the table's name with its alias, `columns` are the names
    /// of its columns, `driving` those of the row over which the keys are computed.
    pub(crate) fn describe<'a>(
        &'a self,
        table: &Table,
        named: &str,
        direction: Direction,
        columns: &dyn Fn(usize) -> String,
        (names, driving): (&mut Names<'a>, &[String]),
    ) -> Described {
        let Some(index) = self.index() else {
            return Described {
                label: format!("Seq Scan on {named}"),
                kind: "Seq Scan",
                index: None,
                condition: None,
            };
        };
        let backward = match direction {
            Direction::Forward => "",
            Direction::Backward => " Backward",
        };
        let column = |place: usize| {
            let place = index.columns.get(place);
            let column = place.map(|key| key.column);
            let known = column.filter(|column| *column < table.columns.len());
            known.map_or_else(|| "?".to_owned(), columns)
        };
        let mut conditions = Vec::new();
        let mut equal = |names: &mut Names<'a>, values: &'a [Expression]| {
            for (place, value) in values.iter().enumerate() {
                let value = names.show(value, driving);
                conditions.push(format!("({} = {value})", column(place)));
            }
        };
        match self {
            Self::Table => {}
            Self::Key { key, .. } => equal(names, key),
            Self::Range {
                prefix,
                lower,
                upper,
                ..
            } => {
                equal(names, prefix);
                let mut limit = |limit: &'a RangeLimit, symbols: [&str; 2]| {
                    let symbol = symbols[usize::from(limit.inclusive)];
                    let value = names.show(&limit.value, driving);
                    conditions.push(format!("({} {symbol} {value})", column(prefix.len())));
                };
                if let Some(lower) = lower {
                    limit(lower, [">", ">="]);
                }
                if let Some(upper) = upper {
                    limit(upper, ["<", "<="]);
                }
            }
            Self::List { prefix, list, .. } => {
                equal(names, prefix);
                let values = match list {
                    List::Values(values) => {
                        format!("ARRAY[{}]", names.list(values, driving, ", "))
                    }
                    List::Array(array) => names.show(array, driving),
                };
                conditions.push(format!("({} = ANY ({values}))", column(prefix.len())));
            }
        }
        let condition = match conditions.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("({})", several.join(" AND "))),
        };
        let scan = match self {
            Self::Key { .. } => "Index Lookup",
            Self::Table | Self::Range { .. } | Self::List { .. } => "Index Scan",
        };
        Described {
            label: format!("{scan}{backward} using {} on {named}", index.name),
            kind: "Index Scan",
            index: Some(index.name.clone()),
            condition,
        }
    }
}
