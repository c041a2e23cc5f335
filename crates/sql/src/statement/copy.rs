//! COPY, in its present and its former syntax, from its tree.

use coeval_sql_syntax::tree::{self, CopyValue, Literal, StatementKind};

use super::command::{Argument, Command, CopyCommand, CopyOption, CopySource};
use super::lower::{Lower, names};
use crate::catalog::fold;
use crate::error::Result;

pub(super) fn copy(lower: &Lower<'_>, copy: tree::Copy) -> Result<Command> {
    let source = match copy.source {
        tree::CopySource::Table(name, columns) => CopySource::Table { name, columns },
        tree::CopySource::Query(StatementKind::Query(query)) => CopySource::Query(query),
        tree::CopySource::Query(_) => {
            return Err(lower.unsupported("COPY of a statement that changes rows"));
        }
    };
    if copy.program || copy.file.is_some() {
        let what = if copy.program { "program" } else { "file" };
        return Err(lower
            .unsupported(format_args!("COPY from or to a {what} of the server"))
            .with_hint("Use STDIN or STDOUT, or psql's \\copy."));
    }
    if copy.filter.is_some() {
        return Err(lower.unsupported("COPY FROM … WHERE"));
    }
    let options = copy.options.into_iter();
    Ok(Command::Copy(Box::new(CopyCommand {
        source,
        from: copy.from,
        options: options.map(|option| option_of(option, lower.at)).collect(),
    })))
}

/// An option of the present syntax. One of the former has the position of its statement.
fn option_of(option: tree::CopyOption, statement: u32) -> CopyOption {
    use tree::CopyOption as O;
    let text = |text: &str| Argument::Text(text.to_owned());
    let list = |columns: &Option<Vec<tree::Name>>| match columns {
        Some(columns) => Argument::List(names(columns)),
        None => Argument::Star,
    };
    let (name, argument) = match option {
        O::Listed(name, value) => {
            return CopyOption {
                name: fold(&name),
                argument: match value {
                    CopyValue::Omitted => Argument::None,
                    CopyValue::Word(word) => Argument::Text(word),
                    CopyValue::Number(number) => Argument::Text(number_text(&number)),
                    CopyValue::Star => Argument::Star,
                    CopyValue::List(list) => Argument::List(list),
                },
                at: name.at,
            };
        }
        O::Binary => ("format", text("binary")),
        O::Csv => ("format", text("csv")),
        O::Freeze => ("freeze", Argument::None),
        O::Header => ("header", Argument::None),
        O::Delimiter(value) => ("delimiter", Argument::Text(value)),
        O::Null(value) => ("null", Argument::Text(value)),
        O::Quote(value) => ("quote", Argument::Text(value)),
        O::Escape(value) => ("escape", Argument::Text(value)),
        O::Encoding(value) => ("encoding", Argument::Text(value)),
        O::ForceQuote(columns) => ("force_quote", list(&columns)),
        O::ForceNotNull(columns) => ("force_not_null", Argument::List(names(&columns))),
        O::ForceNull(columns) => ("force_null", Argument::List(names(&columns))),
    };
    CopyOption {
        name: name.to_owned(),
        argument,
        at: statement,
    }
}

/// A number as it is written.
pub(super) fn number_text(number: &Literal) -> String {
    match number {
        Literal::Integer(number) => number.to_string(),
        Literal::Number(number) => number.to_string(),
        Literal::String(text) => text.clone(),
        _ => String::new(),
    }
}
