//! Options of the COPY command.

use crate::error::{Error, Result, SqlState};
use crate::expression::Locate;
use crate::statement::{Argument, CopyOption};
use crate::value::Encoding;

/// Data format of COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Format `text`, with backslash escapes.
    Text,
    /// Format `csv`, with quotes.
    Csv,
}

/// Format options of COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFormat {
    pub(crate) layout: Layout,
    pub(crate) delimiter: u8,
    /// String that represents a null.
    pub(crate) null: String,
    /// Whether the first line is a header with the column names.
    pub(crate) header: bool,
    /// Whether the header must match the columns' names.
    pub(crate) match_header: bool,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    /// For each column of a line, whether its values are always quoted, except nulls.
    pub(crate) force_quote: Vec<bool>,
    /// For each column of a line, whether unquoted values are never null.
    pub(crate) force_not_null: Vec<bool>,
    /// For each column of a line, whether quoted values may be null.
    pub(crate) force_null: Vec<bool>,
    /// Encoding of the data; `None` for the client's.
    pub(crate) encoding: Option<Encoding>,
}

impl CopyFormat {
    /// Parses the options. `columns` are the columns of a line.
    pub(crate) fn new(
        options: &[CopyOption],
        from: bool,
        columns: &[String],
        locate: Locate<'_>,
    ) -> Result<Self> {
        for (position, option) in options.iter().enumerate() {
            if options[..position]
                .iter()
                .any(|other| other.name == option.name)
            {
                return Err(Error::syntax("conflicting or redundant options").at(locate(option.at)));
            }
        }
        let layout = match options.iter().find(|option| option.name == "format") {
            None => Layout::Text,
            Some(option) => match text(option)? {
                "text" => Layout::Text,
                "csv" => Layout::Csv,
                "binary" => return Err(Error::unsupported("COPY in binary format")),
                other => {
                    return Err(Error::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("COPY format \"{other}\" not recognized"),
                    )
                    .at(locate(option.at)));
                }
            },
        };
        let csv = layout == Layout::Csv;
        let none = vec![false; columns.len()];
        let mut format = Self {
            layout,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_owned() },
            header: false,
            match_header: false,
            quote: b'"',
            escape: b'"',
            force_quote: none.clone(),
            force_not_null: none.clone(),
            force_null: none,
            encoding: None,
        };
        let mut escape = None;
        for option in options {
            let only_csv = |what: &str| {
                if csv {
                    Ok(())
                } else {
                    Err(Error::unsupported(format!("COPY {what} outside CSV mode")))
                }
            };
            match option.name.as_str() {
                "format" => {}
                // FREEZE needs no action, because Coeval has no later freezing of rows.
                "freeze" => {
                    switch(option)?;
                }
                "delimiter" => format.delimiter = byte(option)?,
                "null" => format.null = text(option)?.to_owned(),
                "header" => match &option.argument {
                    Argument::Text(word) if word.eq_ignore_ascii_case("match") => {
                        if !from {
                            return Err(Error::unsupported("HEADER MATCH with COPY TO"));
                        }
                        format.header = true;
                        format.match_header = true;
                    }
                    _ => format.header = switch(option)?,
                },
                "quote" => {
                    only_csv("QUOTE")?;
                    format.quote = byte(option)?;
                }
                "escape" => {
                    only_csv("ESCAPE")?;
                    escape = Some(byte(option)?);
                }
                "force_quote" => {
                    only_csv("FORCE_QUOTE")?;
                    format.force_quote = column_set(option, columns)?;
                }
                "force_not_null" => {
                    only_csv("FORCE_NOT_NULL")?;
                    format.force_not_null = column_set(option, columns)?;
                }
                "force_null" => {
                    only_csv("FORCE_NULL")?;
                    format.force_null = column_set(option, columns)?;
                }
                "encoding" => {
                    let name = text(option)?;
                    let found = Encoding::named(name).ok_or_else(|| {
                        Error::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            "argument to option \"encoding\" must be a valid encoding name",
                        )
                        .at(locate(option.at))
                    })?;
                    format.encoding = Some(found?);
                }
                other => {
                    return Err(Error::syntax(format!("option \"{other}\" not recognized"))
                        .at(locate(option.at)));
                }
            }
        }
        format.escape = escape.unwrap_or(format.quote);
        format.check()?;
        Ok(format)
    }

    fn check(&self) -> Result<()> {
        let wrong = |message: &str| {
            Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                message.to_owned(),
            ))
        };
        if matches!(self.delimiter, b'\n' | b'\r') {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if self.null.contains(['\n', '\r']) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        if self.layout == Layout::Text
            && (self.delimiter.is_ascii_lowercase()
                || self.delimiter.is_ascii_digit()
                || matches!(self.delimiter, b'\\' | b'.'))
        {
            return wrong(&format!(
                "COPY delimiter cannot be \"{}\"",
                char::from(self.delimiter)
            ));
        }
        if self.null.as_bytes().contains(&self.delimiter) {
            return wrong("COPY delimiter must not appear in the NULL specification");
        }
        if self.layout == Layout::Csv {
            if self.delimiter == self.quote {
                return wrong("COPY delimiter and quote must be different");
            }
            if self.null.as_bytes().contains(&self.quote) {
                return wrong("CSV quote character must not appear in the NULL specification");
            }
        }
        Ok(())
    }
}

fn text(option: &CopyOption) -> Result<&str> {
    match &option.argument {
        Argument::Text(text) => Ok(text),
        _ => Err(Error::syntax(format!(
            "option \"{}\" requires a parameter",
            option.name
        ))),
    }
}

fn byte(option: &CopyOption) -> Result<u8> {
    match text(option)?.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(Error::unsupported(format!(
            "a COPY {} that is not a single one-byte character",
            option.name
        ))),
    }
}

fn switch(option: &CopyOption) -> Result<bool> {
    match &option.argument {
        Argument::None => Ok(true),
        Argument::Text(word) => match word.to_ascii_lowercase().as_str() {
            "on" | "true" | "1" | "yes" => Ok(true),
            "off" | "false" | "0" | "no" => Ok(false),
            _ => Err(Error::syntax(format!(
                "{} requires a Boolean value",
                option.name
            ))),
        },
        _ => Err(Error::syntax(format!(
            "{} requires a Boolean value",
            option.name
        ))),
    }
}

fn column_set(option: &CopyOption, columns: &[String]) -> Result<Vec<bool>> {
    let names = match &option.argument {
        Argument::Star => return Ok(vec![true; columns.len()]),
        Argument::List(names) => names,
        _ => {
            return Err(Error::syntax(format!(
                "argument to option \"{}\" must be a list of column names",
                option.name
            )));
        }
    };
    let mut set = vec![false; columns.len()];
    for name in names {
        let position = columns.iter().position(|column| column == name);
        let position = position.ok_or_else(|| {
            Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{} column \"{name}\" not referenced by COPY", option.name),
            )
        })?;
        set[position] = true;
    }
    Ok(set)
}
