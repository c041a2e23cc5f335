//! EXPLAIN, LOCK TABLE, VACUUM and ANALYZE, from their trees.

use coeval_sql_syntax::tree::{self, Literal, LockMode, UtilityOption, UtilityValue};
use coeval_txn::{LockWait, TableLock};

use super::command::{Command, ExplainCommand, ExplainOptions};
use super::lower::{Lower, relations};
use super::view::{RowSource, ViewCommand};
use crate::error::{Error, Result, SqlState};

pub(super) fn explain(lower: &Lower<'_>, explain: tree::Explain) -> Result<Command> {
    let mut options = ExplainOptions::default();
    let mut summary = None;
    for option in &explain.options {
        match option.name.text.as_str() {
            "analyze" => options.analyze = is_on(option, lower)?,
            "costs" => options.costs = is_on(option, lower)?,
            "timing" => options.timing = is_on(option, lower)?,
            "summary" => summary = Some(is_on(option, lower)?),
            "verbose" => options.verbose = is_on(option, lower)?,
            // Rows are in memory: there are no buffers to count, and no other settings.
            "buffers" | "settings" | "wal" | "generic_plan" => {
                is_on(option, lower)?;
            }
            "format" => match &option.value {
                UtilityValue::Word(word) if word == "text" => options.json = false,
                UtilityValue::Word(word) if word == "json" => options.json = true,
                UtilityValue::Word(word) if word == "xml" || word == "yaml" => {
                    let format = word.to_ascii_uppercase();
                    return Err(lower.unsupported(format!("EXPLAIN (FORMAT {format})")));
                }
                UtilityValue::Word(word) => {
                    let message =
                        format!("unrecognized value for EXPLAIN option \"format\": \"{word}\"");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .at(lower.position(option.name.at)));
                }
                _ => {
                    return Err(Error::syntax("format requires a parameter")
                        .at(lower.position(option.name.at)));
                }
            },
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(Error::syntax(message).at(lower.position(option.name.at)));
            }
        }
    }
    options.summary = summary.unwrap_or(options.analyze);
    let statement = lower.inner(*explain.statement)?;
    let declared = match statement.command() {
        Command::Declare(declare) => Some(declare.query.clone()),
        _ => None,
    };
    let statement = declared.unwrap_or(statement);
    match statement.command() {
        Command::Query(_)
        | Command::Insert(_)
        | Command::Update(_)
        | Command::Delete(_)
        | Command::Execute { .. } => Ok(Command::Explain(ExplainCommand { options, statement })),
        // The plan of what makes the rows of the table.
        Command::View(ViewCommand::TableAs(create)) if !options.analyze => match &create.source {
            RowSource::Query(query) => Ok(Command::Explain(ExplainCommand {
                options,
                statement: query.clone(),
            })),
            RowSource::Execute(..) => Err(lower.unsupported("EXPLAIN of this statement")),
        },
        _ => Err(lower.unsupported("EXPLAIN of this statement")),
    }
}

/// Whether an option is on, as PostgreSQL reads a Boolean option.
fn is_on(option: &UtilityOption, lower: &Lower<'_>) -> Result<bool> {
    let word = match &option.value {
        UtilityValue::Omitted => return Ok(true),
        UtilityValue::Number(Literal::Integer(number @ (0 | 1))) => return Ok(*number == 1),
        UtilityValue::Word(word) => word.to_ascii_lowercase(),
        UtilityValue::Number(_) => String::new(),
    };
    match word.as_str() {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(
            Error::syntax(format!("{} requires a Boolean value", option.name.text))
                .at(lower.position(option.name.at)),
        ),
    }
}

pub(super) fn vacuum(vacuum: tree::Vacuum) -> Command {
    let tables = vacuum.tables.into_iter().map(|(name, _)| name).collect();
    if vacuum.only_analyze {
        Command::Analyze(tables)
    } else {
        Command::Vacuum(tables)
    }
}

pub(super) fn lock(lock: tree::Lock) -> Command {
    Command::Lock {
        tables: relations(lock.tables),
        mode: match lock.mode {
            LockMode::AccessShare => TableLock::AccessShare,
            LockMode::RowShare => TableLock::RowShare,
            LockMode::RowExclusive => TableLock::RowExclusive,
            LockMode::ShareUpdateExclusive => TableLock::ShareUpdateExclusive,
            LockMode::Share => TableLock::Share,
            LockMode::ShareRowExclusive => TableLock::ShareRowExclusive,
            LockMode::Exclusive => TableLock::Exclusive,
            LockMode::AccessExclusive => TableLock::AccessExclusive,
        },
        wait: if lock.nowait {
            LockWait::NoWait
        } else {
            LockWait::Wait
        },
    }
}
