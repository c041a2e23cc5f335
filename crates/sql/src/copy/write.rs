//! Formatting of COPY TO lines.

use super::options::{CopyFormat, Layout};
use crate::output::Column;
use crate::value::{Style, Value};

/// Formats rows as lines of COPY data.
#[derive(Debug)]
pub(crate) struct LineWriter<'plan> {
    format: &'plan CopyFormat,
    columns: &'plan [Column],
    style: Style,
    field: Vec<u8>,
    line: Vec<u8>,
}

impl<'plan> LineWriter<'plan> {
    pub(crate) fn new(format: &'plan CopyFormat, columns: &'plan [Column], style: Style) -> Self {
        Self {
            format,
            columns,
            style,
            field: Vec::new(),
            line: Vec::new(),
        }
    }

    /// The header line with the column names.
    pub(crate) fn header(&mut self) -> &[u8] {
        self.line.clear();
        for (position, column) in self.columns.iter().enumerate() {
            self.field.clear();
            self.field.extend_from_slice(column.name.as_bytes());
            self.append(position, false);
        }
        self.line.push(b'\n');
        &self.line
    }

    /// The line of a row.
    pub(crate) fn row(&mut self, values: &[Value]) -> &[u8] {
        self.line.clear();
        for (position, (column, value)) in self.columns.iter().zip(values).enumerate() {
            self.field.clear();
            if value.write_text(column.column_type, &self.style, &mut self.field) {
                let force = self.format.force_quote[position];
                self.append(position, force);
            } else {
                self.separate(position);
                self.line.extend_from_slice(self.format.null.as_bytes());
            }
        }
        self.line.push(b'\n');
        &self.line
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.line.push(self.format.delimiter);
        }
    }

    fn append(&mut self, position: usize, force: bool) {
        self.separate(position);
        match self.format.layout {
            Layout::Text => {
                for &byte in &self.field {
                    let escape = match byte {
                        8 => b'b',
                        12 => b'f',
                        b'\n' => b'n',
                        b'\r' => b'r',
                        b'\t' => b't',
                        11 => b'v',
                        b'\\' => b'\\',
                        _ if byte == self.format.delimiter => byte,
                        _ => {
                            self.line.push(byte);
                            continue;
                        }
                    };
                    self.line.extend_from_slice(&[b'\\', escape]);
                }
            }
            Layout::Csv => {
                let (quote, escape) = (self.format.quote, self.format.escape);
                let special = |byte: &u8| {
                    matches!(byte, b'\n' | b'\r')
                        || *byte == self.format.delimiter
                        || *byte == quote
                };
                let quoted = force
                    || self.field == self.format.null.as_bytes()
                    || self.field.iter().any(special)
                    // Quotes `\.`, which on a line of its own would end the data.
                    || (self.columns.len() == 1 && self.field == b"\\.");
                if !quoted {
                    self.line.extend_from_slice(&self.field);
                    return;
                }
                self.line.push(quote);
                for &byte in &self.field {
                    if byte == quote || byte == escape {
                        self.line.push(escape);
                    }
                    self.line.push(byte);
                }
                self.line.push(quote);
            }
        }
    }
}
