//! Parser for transaction control statements.

use coeval_txn::Isolation;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Command, Modes};
use super::words::{Parse, eat, identifier, need, next_is, unexpected};
use crate::error::Error;

/// Parses the rest of a transaction control statement, whose first word is `first`.
pub(super) fn transaction(parser: &mut Parser<'_>, first: &str) -> Parse<Command> {
    match first {
        "start" => {
            need(parser, "transaction")?;
            return Ok(Command::Begin {
                modes: modes(parser)?,
                tag: "START TRANSACTION",
            });
        }
        "savepoint" => return Ok(Command::Savepoint(identifier(parser)?)),
        "release" => {
            eat(parser, "savepoint");
            return Ok(Command::Release(identifier(parser)?));
        }
        _ => {}
    }
    let _ = eat(parser, "work") || eat(parser, "transaction");
    match first {
        "begin" => Ok(Command::Begin {
            modes: modes(parser)?,
            tag: "BEGIN",
        }),
        "rollback" if eat(parser, "to") => {
            eat(parser, "savepoint");
            Ok(Command::RollbackTo(identifier(parser)?))
        }
        _ => {
            if eat(parser, "prepared") {
                return Err(Error::unsupported("two-phase commit").into());
            }
            let chain = if eat(parser, "and") {
                let chain = !eat(parser, "no");
                need(parser, "chain")?;
                chain
            } else {
                false
            };
            Ok(if matches!(first, "commit" | "end") {
                Command::Commit { chain }
            } else {
                Command::Rollback { chain }
            })
        }
    }
}

pub(super) fn modes(parser: &mut Parser<'_>) -> Parse<Modes> {
    let mut modes = Modes::default();
    loop {
        if eat(parser, "isolation") {
            need(parser, "level")?;
            modes.isolation = Some(isolation(parser)?);
        } else if eat(parser, "read") {
            modes.read_only = Some(eat(parser, "only"));
            if modes.read_only == Some(false) {
                need(parser, "write")?;
            }
        } else if eat(parser, "deferrable") {
            modes.deferrable = Some(true);
        } else if next_is(parser, 0, "not") {
            parser.next_token();
            need(parser, "deferrable")?;
            modes.deferrable = Some(false);
        } else {
            return Ok(modes);
        }
        if parser.consume_token(&Token::Comma)
            && !["isolation", "read", "deferrable", "not"]
                .iter()
                .any(|word| next_is(parser, 0, word))
        {
            return unexpected(parser, "a transaction mode");
        }
    }
}

fn isolation(parser: &mut Parser<'_>) -> Parse<Isolation> {
    Ok(if eat(parser, "serializable") {
        Isolation::Serializable
    } else if eat(parser, "repeatable") {
        need(parser, "read")?;
        Isolation::SnapshotIsolation
    } else {
        need(parser, "read")?;
        if !eat(parser, "uncommitted") {
            need(parser, "committed")?;
        }
        Isolation::ReadCommitted
    })
}
