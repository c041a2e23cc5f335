//! Formatter of result tables, aligned for people.

use std::fmt;

/// A result, aligned when it is displayed.
#[derive(Debug)]
pub(crate) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
    /// Whether a line with the number of rows follows.
    counted: bool,
}

impl Table {
    pub(crate) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().collect(),
            rows: Vec::new(),
            counted: true,
        }
    }

    /// The same table without the line with the number of rows.
    pub(crate) fn uncounted(self) -> Self {
        Self {
            counted: false,
            ..self
        }
    }

    pub(crate) fn push(&mut self, row: Vec<Option<String>>) {
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = |column: usize| {
            let rows = self.rows.iter().filter_map(move |row| row.get(column));
            rows.filter_map(|value| value.as_deref())
        };
        let columns: Vec<_> = (0..self.names.len())
            .map(|column| {
                let name = self.names[column].chars().count();
                let widest = values(column).map(|value| value.chars().count()).max();
                let number = |value: &str| value.parse::<f64>().is_ok();
                let right = values(column).all(number) && values(column).next().is_some();
                (name.max(widest.unwrap_or(0)), right)
            })
            .collect();
        for (name, (width, _)) in self.names.iter().zip(&columns) {
            write!(formatter, " {name:^width$} ")?;
        }
        writeln!(formatter)?;
        for (width, _) in &columns {
            write!(formatter, " {:-<width$} ", "")?;
        }
        writeln!(formatter)?;
        for row in &self.rows {
            for (value, (width, right)) in row.iter().zip(&columns) {
                let value = value.as_deref().unwrap_or("");
                if *right {
                    write!(formatter, " {value:>width$} ")?;
                } else {
                    write!(formatter, " {value:<width$} ")?;
                }
            }
            writeln!(formatter)?;
        }
        if !self.counted {
            return Ok(());
        }
        let rows = self.rows.len();
        writeln!(
            formatter,
            "({rows} row{})",
            if rows == 1 { "" } else { "s" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_right() {
        let mut table = Table::new(["id".to_owned(), "name".to_owned()]);
        table.push(vec![Some("7".into()), Some("Ada".into())]);
        table.push(vec![Some("100".into()), None]);
        let lines: Vec<_> = table
            .to_string()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(
            lines,
            [" id   name", " ---  ----", "   7  Ada", " 100", "(2 rows)"]
        );
    }
}
