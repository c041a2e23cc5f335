//! Parser for utility commands, in PostgreSQL's syntax.
//!
//! This module hands to the library what that parses well, and reads everything else
//! token by token. It distinguishes a command that PostgreSQL has and this database lacks
//! from a misspelt one: the former gets SQLSTATE 0A000 with its name instead of a syntax
//! error.

use std::sync::Arc;

use coeval_txn::{LockWait, TableLock};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::command::{Argument, Command, DiscardKind, ExplainCommand};
use super::copy::copy;
use super::grant::grant;
use super::role;
use super::role_settings;
use super::setting::{reset, set, setting};
use super::text::Text;
use super::transaction::transaction;
use super::words::{
    Parse, eat, identifier, is, need, next_is, options, unexpected, unsupported, word,
};
use super::{Parsed, Statement};
use crate::error::Error;
use crate::instance::measured;

/// Commands of PostgreSQL that this database does not support at all.
const UNSUPPORTED: [&str; 19] = [
    "call", "cluster", "comment", "declare", "do", "fetch", "import", "listen", "load", "merge",
    "move", "notify", "reassign", "refresh", "reindex", "security", "release", "alter", "create",
];

/// Parses one command.
pub(super) fn command(parser: &mut Parser<'_>, own: &str, text: &Arc<Text>) -> Parse<Command> {
    let token = parser.peek_token();
    let Token::Word(word) = &token.token else {
        return match token.token {
            Token::LParen => Ok(Command::Query(parser.parse_query()?)),
            _ => unexpected(parser, "a statement"),
        };
    };
    let name = word.value.to_ascii_lowercase();
    Ok(match name.as_str() {
        "select" | "with" | "values" | "table" => Command::Query(parser.parse_query()?),
        "insert" | "update" | "delete" => change(parser, text)?,
        "create" => create(parser, text)?,
        "alter" => alter(parser, text)?,
        "drop" => drop_objects(parser, text)?,
        "grant" | "revoke" => grant(parser, text)?,
        "truncate" => truncate(parser)?,
        "copy" => {
            parser.next_token();
            copy(parser)?
        }
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
            parser.next_token();
            transaction(parser, &name)?
        }
        "prepare" if !next_is(parser, 1, "transaction") => {
            parser.next_token();
            prepare(parser, own, text)?
        }
        "execute" => {
            parser.next_token();
            let name = identifier(parser)?;
            let mut arguments = Vec::new();
            if parser.consume_token(&Token::LParen) && !parser.consume_token(&Token::RParen) {
                arguments = parser.parse_comma_separated(Parser::parse_expr)?;
                parser.expect_token(&Token::RParen)?;
            }
            Command::Execute { name, arguments }
        }
        "deallocate" => {
            parser.next_token();
            eat(parser, "prepare");
            Command::Deallocate(if eat(parser, "all") {
                None
            } else {
                Some(identifier(parser)?)
            })
        }
        "set" => {
            parser.next_token();
            set(parser)?
        }
        "reset" => {
            parser.next_token();
            reset(parser)?
        }
        "show" => {
            parser.next_token();
            Command::Show(setting(parser)?)
        }
        "discard" => {
            parser.next_token();
            Command::Discard(if eat(parser, "all") {
                DiscardKind::All
            } else if eat(parser, "plans") {
                DiscardKind::Plans
            } else if eat(parser, "sequences") {
                DiscardKind::Sequences
            } else if eat(parser, "temp") || eat(parser, "temporary") {
                DiscardKind::Temporary
            } else {
                return unexpected(parser, "ALL, PLANS, SEQUENCES or TEMP");
            })
        }
        "explain" => {
            parser.next_token();
            explain(parser, own, text)?
        }
        "vacuum" => {
            parser.next_token();
            vacuum(parser)?
        }
        "analyze" | "analyse" => {
            parser.next_token();
            if parser.peek_token().token == Token::LParen {
                options(parser)?;
            }
            eat(parser, "verbose");
            Command::Analyze(table_list(parser)?)
        }
        "checkpoint" => {
            parser.next_token();
            Command::Checkpoint
        }
        "backup" => {
            parser.next_token();
            need(parser, "to")?;
            need(parser, "stdout")?;
            Command::Backup
        }
        "lock" => {
            parser.next_token();
            lock(parser)?
        }
        "unlisten" => {
            parser.next_token();
            if !parser.consume_token(&Token::Mul) {
                identifier(parser)?;
            }
            Command::NoOperation("UNLISTEN")
        }
        "close" if next_is(parser, 1, "all") => {
            parser.next_token();
            parser.next_token();
            Command::NoOperation("CLOSE CURSOR ALL")
        }
        "close" => return Err(unsupported("CLOSE of a cursor", &token, text)),
        "prepare" => return Err(unsupported("PREPARE TRANSACTION", &token, text)),
        _ if UNSUPPORTED.contains(&name.as_str()) => {
            return Err(unsupported(&name.to_ascii_uppercase(), &token, text));
        }
        _ => return unexpected(parser, "a statement"),
    })
}

/// Parses INSERT, UPDATE or DELETE.
fn change(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.peek_token();
    Ok(match parser.parse_statement()? {
        ast::Statement::Insert(insert) => Command::Insert(Box::new(insert)),
        ast::Statement::Update(update) => Command::Update(Box::new(update)),
        ast::Statement::Delete(delete) => Command::Delete(Box::new(delete)),
        _ => return Err(unsupported("this form of the statement", &token, text)),
    })
}

/// Words that do not suffice to name the kind of object that follows.
const HALF_KINDS: [&str; 13] = [
    "access",
    "constraint",
    "default",
    "event",
    "foreign",
    "foreign data",
    "large",
    "materialized",
    "procedural",
    "recursive",
    "text",
    "text search",
    "trusted",
];

/// Kind of the object that is named `ahead` tokens ahead, such as `MATERIALIZED VIEW`.
fn kind_of_object(parser: &Parser<'_>, ahead: usize) -> String {
    let mut kind = String::new();
    for ahead in ahead..ahead + 3 {
        let token = parser.peek_nth_token(ahead).token;
        let Some(word) = word(&token) else { break };
        if !kind.is_empty() {
            kind.push(' ');
        }
        kind.push_str(&word.to_ascii_lowercase());
        if !HALF_KINDS.contains(&kind.as_str()) {
            break;
        }
    }
    kind.to_ascii_uppercase()
}

fn create(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.peek_token();
    let mut ahead = 1;
    while let Some(
        "or" | "replace" | "global" | "local" | "temp" | "temporary" | "unlogged" | "unique",
    ) = word(&parser.peek_nth_token(ahead).token)
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        ahead += 1;
    }
    let kind = parser.peek_nth_token(ahead).token;
    if ahead == 1 && word(&kind).is_some_and(role::is_role) && !next_is(parser, 2, "mapping") {
        parser.next_token();
        return role::create(parser);
    }
    if !is(&kind, "table") && !is(&kind, "index") {
        return match word(&kind) {
            None => unexpected(parser, "what to create"),
            Some(_) => {
                let feature = format!("CREATE {}", kind_of_object(parser, ahead));
                Err(unsupported(&feature, &token, text))
            }
        };
    }
    Ok(match parser.parse_statement()? {
        ast::Statement::CreateTable(table) => Command::CreateTable(Box::new(table)),
        ast::Statement::CreateIndex(index) => Command::CreateIndex(Box::new(index)),
        _ => return Err(unsupported("this form of CREATE", &token, text)),
    })
}

fn alter(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.peek_token();
    if next_is(parser, 1, "index") {
        parser.next_token();
        parser.next_token();
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let name = parser.parse_object_name(false)?;
        if !eat(parser, "rename") {
            return Err(unsupported("ALTER INDEX other than RENAME", &token, text));
        }
        need(parser, "to")?;
        return Ok(Command::RenameIndex {
            name,
            if_exists,
            new_name: parser.parse_identifier()?,
        });
    }
    let kind = parser.peek_nth_token(1).token;
    if word(&kind).is_some_and(role::is_role) && !next_is(parser, 2, "mapping") {
        parser.next_token();
        return role::alter(parser, text);
    }
    if is(&kind, "database") {
        parser.next_token();
        return role_settings::of_database(parser, text);
    }
    if is(&kind, "schema") {
        parser.next_token();
        parser.next_token();
        let schema = identifier(parser)?;
        if !eat(parser, "owner") {
            return Err(unsupported(
                "ALTER SCHEMA other than OWNER TO",
                &token,
                text,
            ));
        }
        need(parser, "to")?;
        let owner = role::role_name(parser)?;
        return Ok(Command::SchemaOwner { schema, owner });
    }
    if !next_is(parser, 1, "table") {
        let feature = format!("ALTER {}", kind_of_object(parser, 1));
        return Err(unsupported(feature.trim_end(), &token, text));
    }
    Ok(match parser.parse_statement()? {
        ast::Statement::AlterTable(table) => Command::AlterTable(Box::new(table)),
        _ => return Err(unsupported("this form of ALTER TABLE", &token, text)),
    })
}

fn drop_objects(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.next_token();
    let kind = parser.peek_token();
    if word(&kind.token).is_some_and(role::is_role) && !next_is(parser, 1, "mapping") {
        return role::drop_roles(parser);
    }
    parser.next_token();
    let indexes = is(&kind.token, "index");
    if !indexes && !is(&kind.token, "table") {
        return match word(&kind.token) {
            None => Ok(parser.expected("what to drop", kind)?),
            Some(kind) => {
                let feature = format!("DROP {}", kind.to_ascii_uppercase());
                Err(unsupported(&feature, &token, text))
            }
        };
    }
    if indexes && eat(parser, "concurrently") {
        return Err(unsupported("DROP INDEX CONCURRENTLY", &token, text));
    }
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
    // Only objects that are dropped with it anyway depend on a table or an index.
    let _ = eat(parser, "cascade") || eat(parser, "restrict");
    Ok(Command::Drop {
        indexes,
        names,
        if_exists,
    })
}

fn truncate(parser: &mut Parser<'_>) -> Parse<Command> {
    parser.next_token();
    eat(parser, "table");
    let names = parser.parse_comma_separated(|parser| {
        eat(parser, "only");
        let name = parser.parse_object_name(false)?;
        let _ = parser.consume_token(&Token::Mul);
        Ok(name)
    })?;
    if eat(parser, "restart") || eat(parser, "continue") {
        need(parser, "identity")?;
    }
    let _ = eat(parser, "cascade") || eat(parser, "restrict");
    Ok(Command::Truncate(names))
}

/// Parses a statement that is part of another one.
fn inner(parser: &mut Parser<'_>, own: &str, text: &Arc<Text>) -> Parse<Statement> {
    let tokens = super::size::tokens(own);
    let (command, bytes) = measured(super::size::TREE * tokens as u64, || {
        command(parser, own, text)
    });
    Ok(Statement(Arc::new(Parsed {
        command: command?,
        text: own.into(),
        tokens,
        bytes: bytes + own.len() as u64,
        lines: Arc::clone(text),
    })))
}

fn prepare(parser: &mut Parser<'_>, own: &str, text: &Arc<Text>) -> Parse<Command> {
    let name = identifier(parser)?;
    let mut types = Vec::new();
    if parser.consume_token(&Token::LParen) {
        types = parser.parse_comma_separated(Parser::parse_data_type)?;
        parser.expect_token(&Token::RParen)?;
    }
    need(parser, "as")?;
    let token = parser.peek_token();
    let statement = inner(parser, own, text)?;
    match statement.command() {
        Command::Query(_) | Command::Insert(_) | Command::Update(_) | Command::Delete(_) => {
            Ok(Command::Prepare {
                name,
                types,
                statement,
            })
        }
        _ => Ok(parser.expected("SELECT, INSERT, UPDATE, DELETE or VALUES", token)?),
    }
}

fn explain(parser: &mut Parser<'_>, own: &str, text: &Arc<Text>) -> Parse<Command> {
    let (mut analyze, mut timing) = (false, true);
    let query = ["select", "with", "values", "table"]
        .iter()
        .any(|word| next_is(parser, 1, word));
    let nested = query || parser.peek_nth_token(1).token == Token::LParen;
    if parser.peek_token().token == Token::LParen && !nested {
        for option in options(parser)? {
            let on = match &option.argument {
                Argument::None => true,
                Argument::Text(text) => !matches!(text.as_str(), "off" | "false" | "0" | "no"),
                _ => return Err(Error::syntax("EXPLAIN options are on or off").into()),
            };
            match option.name.as_str() {
                "analyze" => analyze = on,
                "timing" => timing = on,
                "buffers" | "costs" | "verbose" | "settings" | "summary" | "wal"
                | "generic_plan" => {}
                "format" if option.argument == Argument::Text("text".to_owned()) => {}
                "format" => return Err(Error::unsupported("EXPLAIN in a format but text").into()),
                other => {
                    return Err(
                        Error::syntax(format!("unrecognized EXPLAIN option \"{other}\""))
                            .at(text.position(option.location))
                            .into(),
                    );
                }
            }
        }
    } else {
        analyze = eat(parser, "analyze") || eat(parser, "analyse");
        eat(parser, "verbose");
    }
    let token = parser.peek_token();
    let statement = inner(parser, own, text)?;
    match statement.command() {
        Command::Query(_)
        | Command::Insert(_)
        | Command::Update(_)
        | Command::Delete(_)
        | Command::Execute { .. } => Ok(Command::Explain(ExplainCommand {
            analyze,
            timing,
            statement,
        })),
        _ => Ok(parser.expected("SELECT, INSERT, UPDATE, DELETE or EXECUTE", token)?),
    }
}

fn table_list(parser: &mut Parser<'_>) -> Parse<Vec<ast::ObjectName>> {
    if parser.peek_token().token == Token::EOF {
        return Ok(Vec::new());
    }
    Ok(parser.parse_comma_separated(|parser| {
        let name = parser.parse_object_name(false)?;
        if parser.consume_token(&Token::LParen) {
            parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        Ok(name)
    })?)
}

fn vacuum(parser: &mut Parser<'_>) -> Parse<Command> {
    if parser.peek_token().token == Token::LParen {
        options(parser)?;
    } else {
        let words = ["analyze", "analyse", "full", "freeze", "verbose"];
        while words.iter().any(|word| eat(parser, word)) {}
    }
    Ok(Command::Vacuum(table_list(parser)?))
}

fn lock(parser: &mut Parser<'_>) -> Parse<Command> {
    eat(parser, "table");
    let tables = parser.parse_comma_separated(|parser| {
        eat(parser, "only");
        let name = parser.parse_object_name(false)?;
        // A star means descendants, of which there are none.
        let _ = parser.consume_token(&Token::Mul);
        Ok(name)
    })?;
    let mut mode = TableLock::AccessExclusive;
    if eat(parser, "in") {
        let mut words = String::new();
        while !eat(parser, "mode") {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&identifier(parser)?);
        }
        let named = TableLock::ALL.into_iter().find(|mode| mode.name() == words);
        let Some(named) = named else {
            return unexpected(parser, "a lock mode");
        };
        mode = named;
    }
    let wait = match eat(parser, "nowait") {
        true => LockWait::NoWait,
        false => LockWait::Wait,
    };
    Ok(Command::Lock { tables, mode, wait })
}
