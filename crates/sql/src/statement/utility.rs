//! The commands around queries, in PostgreSQL's syntax.
//!
//! What the library parses well goes to it; everything here is read token by
//! token. A command that PostgreSQL has and this database has not is told from a
//! misspelt one: it gets 0A000 with its name, not a syntax error.

use std::sync::Arc;

use coeval_txn::{Isolation, TableLock};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::command::{
    Argument, Command, CopyCommand, CopyOption, CopySource, DiscardKind, ExplainCommand, Modes,
    SetCommand, SettingName,
};
use super::text::Text;
use super::{Failure, Parsed, Statement};
use crate::error::Error;

type Parse<T> = Result<T, Failure>;

/// Commands of PostgreSQL that are not here at all.
const UNSUPPORTED: [&str; 21] = [
    "call", "cluster", "comment", "declare", "do", "fetch", "grant", "import", "listen", "load",
    "merge", "move", "notify", "reassign", "refresh", "reindex", "revoke", "security", "release",
    "alter", "create",
];

/// Reads one command.
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
            Command::Reset(setting(parser)?)
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

fn unsupported(feature: &str, token: &TokenWithSpan, text: &Text) -> Failure {
    Error::unsupported(feature)
        .at(text.position(token.span.start))
        .into()
}

fn unexpected<T>(parser: &Parser<'_>, expected: &str) -> Parse<T> {
    Ok(parser.expected(expected, parser.peek_token())?)
}

/// The word of a token, if it is one without quotes.
fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(Word {
            value,
            quote_style: None,
            ..
        }) => Some(value),
        _ => None,
    }
}

fn is(token: &Token, expected: &str) -> bool {
    word(token).is_some_and(|word| word.eq_ignore_ascii_case(expected))
}

fn next_is(parser: &Parser<'_>, ahead: usize, expected: &str) -> bool {
    is(&parser.peek_nth_token(ahead).token, expected)
}

/// Takes the next token if it is this word.
fn eat(parser: &mut Parser<'_>, expected: &str) -> bool {
    let found = next_is(parser, 0, expected);
    if found {
        parser.next_token();
    }
    found
}

fn need(parser: &mut Parser<'_>, expected: &str) -> Parse<()> {
    if eat(parser, expected) {
        Ok(())
    } else {
        unexpected(parser, expected)
    }
}

/// A name, folded to lower case unless quoted.
fn fold(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

fn identifier(parser: &mut Parser<'_>) -> Parse<String> {
    Ok(fold(&parser.parse_identifier()?))
}

/// INSERT, UPDATE, DELETE.
fn change(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.peek_token();
    Ok(match parser.parse_statement()? {
        ast::Statement::Insert(insert) => Command::Insert(Box::new(insert)),
        ast::Statement::Update(update) => Command::Update(Box::new(update)),
        ast::Statement::Delete(delete) => Command::Delete(Box::new(delete)),
        _ => return Err(unsupported("this form of the statement", &token, text)),
    })
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
    if !is(&kind, "table") && !is(&kind, "index") {
        return match word(&kind) {
            None => unexpected(parser, "what to create"),
            Some(kind) => {
                let feature = format!("CREATE {}", kind.to_ascii_uppercase());
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
    if !next_is(parser, 1, "table") {
        let kind = parser.peek_nth_token(1).token;
        let feature = format!("ALTER {}", word(&kind).unwrap_or("").to_ascii_uppercase());
        return Err(unsupported(feature.trim_end(), &token, text));
    }
    Ok(match parser.parse_statement()? {
        ast::Statement::AlterTable(table) => Command::AlterTable(Box::new(table)),
        _ => return Err(unsupported("this form of ALTER TABLE", &token, text)),
    })
}

fn drop_objects(parser: &mut Parser<'_>, text: &Text) -> Parse<Command> {
    let token = parser.next_token();
    let kind = parser.next_token();
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
    // Nothing depends on a table or an index but what goes with it anyway.
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

/// Statements about transactions; their first word has been read.
fn transaction(parser: &mut Parser<'_>, first: &str) -> Parse<Command> {
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

fn modes(parser: &mut Parser<'_>) -> Parse<Modes> {
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

/// What follows SET.
fn set(parser: &mut Parser<'_>) -> Parse<Command> {
    if next_is(parser, 0, "session") && next_is(parser, 1, "characteristics") {
        parser.next_token();
        parser.next_token();
        need(parser, "as")?;
        need(parser, "transaction")?;
        return Ok(Command::SetCharacteristics(modes(parser)?));
    }
    let local = eat(parser, "local");
    if !local {
        eat(parser, "session");
    }
    if eat(parser, "transaction") {
        if eat(parser, "snapshot") {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT").into());
        }
        return Ok(Command::SetTransaction(modes(parser)?));
    }
    for word in ["authorization", "role", "constraints"] {
        if next_is(parser, 0, word) {
            let feature = format!("SET {}", word.to_uppercase());
            return Err(Error::unsupported(feature).into());
        }
    }
    let name = if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        "timezone".to_owned()
    } else if eat(parser, "names") {
        "client_encoding".to_owned()
    } else {
        let name = setting_name(parser)?;
        if !parser.consume_token(&Token::Eq) {
            need(parser, "to")?;
        }
        name
    };
    let values = if eat(parser, "default") || (name == "timezone" && eat(parser, "local")) {
        None
    } else {
        Some(parser.parse_comma_separated(value)?)
    };
    Ok(Command::Set(SetCommand {
        local,
        name,
        values,
    }))
}

/// A word, a string or a signed number.
fn value(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) {
        "-"
    } else {
        let _ = parser.consume_token(&Token::Plus);
        ""
    };
    let token = parser.next_token();
    match &token.token {
        Token::Number(number, _) => Ok(format!("{sign}{number}")),
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
            if sign.is_empty() =>
        {
            Ok(text.clone())
        }
        Token::DollarQuotedString(text) if sign.is_empty() => Ok(text.value.clone()),
        Token::Word(word) if sign.is_empty() => Ok(match word.quote_style {
            None => word.value.to_lowercase(),
            Some(_) => word.value.clone(),
        }),
        _ => parser.expected("a value", token),
    }
}

fn setting_name(parser: &mut Parser<'_>) -> Parse<String> {
    let mut name = identifier(parser)?.to_lowercase();
    while parser.consume_token(&Token::Period) {
        name.push('.');
        name.push_str(&identifier(parser)?.to_lowercase());
    }
    Ok(name)
}

/// What follows SHOW and RESET.
fn setting(parser: &mut Parser<'_>) -> Parse<SettingName> {
    if eat(parser, "all") {
        return Ok(SettingName::All);
    }
    if next_is(parser, 0, "time") && next_is(parser, 1, "zone") {
        parser.next_token();
        parser.next_token();
        return Ok(SettingName::One("timezone".to_owned()));
    }
    if next_is(parser, 0, "transaction") && next_is(parser, 1, "isolation") {
        parser.next_token();
        parser.next_token();
        need(parser, "level")?;
        return Ok(SettingName::One("transaction_isolation".to_owned()));
    }
    Ok(SettingName::One(setting_name(parser)?))
}

/// Parses a statement within another one.
fn inner(parser: &mut Parser<'_>, own: &str, text: &Arc<Text>) -> Parse<Statement> {
    Ok(Statement(Arc::new(Parsed {
        command: command(parser, own, text)?,
        text: own.into(),
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

/// A list of options in parentheses: `(name [argument], …)`.
fn options(parser: &mut Parser<'_>) -> Parse<Vec<CopyOption>> {
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let location = parser.peek_token().span.start;
        let name = value(parser)?;
        let argument = match parser.peek_token().token {
            Token::Comma | Token::RParen => Argument::None,
            Token::Mul => {
                parser.next_token();
                Argument::Star
            }
            Token::LParen => {
                parser.next_token();
                let list = parser.parse_comma_separated(|parser| {
                    parser.parse_identifier().map(|ident| fold(&ident))
                })?;
                parser.expect_token(&Token::RParen)?;
                Argument::List(list)
            }
            _ => Argument::Text(value(parser)?),
        };
        Ok(CopyOption {
            name,
            argument,
            location,
        })
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(options)
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
        parser.parse_object_name(false)
    })?;
    let mut mode = String::from("access exclusive");
    if eat(parser, "in") {
        mode.clear();
        while !eat(parser, "mode") {
            if !mode.is_empty() {
                mode.push(' ');
            }
            mode.push_str(&identifier(parser)?);
        }
    }
    let mode = match mode.as_str() {
        "access share" | "row share" => None,
        "row exclusive" | "share update exclusive" => Some(TableLock::Write),
        "share" | "share row exclusive" | "exclusive" | "access exclusive" => {
            Some(TableLock::Exclusive)
        }
        _ => return unexpected(parser, "a lock mode"),
    };
    if eat(parser, "nowait") {
        return Err(Error::unsupported("LOCK TABLE … NOWAIT").into());
    }
    Ok(Command::Lock { tables, mode })
}

/// What follows COPY.
fn copy(parser: &mut Parser<'_>) -> Parse<Command> {
    let binary = eat(parser, "binary");
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        CopySource::Query(query)
    } else {
        let name = parser.parse_object_name(false)?;
        let mut columns = Vec::new();
        if parser.consume_token(&Token::LParen) {
            columns = parser.parse_comma_separated(Parser::parse_identifier)?;
            parser.expect_token(&Token::RParen)?;
        }
        CopySource::Table { name, columns }
    };
    let from = eat(parser, "from");
    if !from {
        need(parser, "to")?;
    } else if matches!(source, CopySource::Query(_)) {
        return unexpected(parser, "TO");
    }
    if !eat(parser, "stdin") && !eat(parser, "stdout") {
        return Err(match parser.peek_token().token {
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => {
                Error::unsupported("COPY from or to a file of the server")
                    .with_hint("Use STDIN or STDOUT, or psql's \\copy.")
                    .into()
            }
            ref token if is(token, "program") => {
                Error::unsupported("COPY from or to a program of the server")
                    .with_hint("Use STDIN or STDOUT, or psql's \\copy.")
                    .into()
            }
            _ => return unexpected(parser, "STDIN or STDOUT"),
        });
    }
    eat(parser, "with");
    let mut list = if parser.peek_token().token == Token::LParen {
        options(parser)?
    } else {
        old_copy_options(parser)?
    };
    if binary {
        list.push(CopyOption {
            name: "format".to_owned(),
            argument: Argument::Text("binary".to_owned()),
            location: parser.peek_token().span.start,
        });
    }
    if next_is(parser, 0, "where") {
        return Err(Error::unsupported("COPY FROM … WHERE").into());
    }
    Ok(Command::Copy(Box::new(CopyCommand {
        source,
        from,
        options: list,
    })))
}

/// The options of COPY as they were written before they had parentheses.
fn old_copy_options(parser: &mut Parser<'_>) -> Parse<Vec<CopyOption>> {
    let mut list = Vec::new();
    loop {
        let location = parser.peek_token().span.start;
        let token = parser.peek_token().token;
        let Some(name) = word(&token).map(str::to_ascii_lowercase) else {
            return Ok(list);
        };
        let (name, argument) = match name.as_str() {
            "binary" | "csv" => {
                parser.next_token();
                ("format".to_owned(), Argument::Text(name))
            }
            "freeze" | "header" => {
                parser.next_token();
                (name, Argument::None)
            }
            "delimiter" | "delimiters" | "null" | "quote" | "escape" | "encoding" => {
                parser.next_token();
                eat(parser, "as");
                let name = if name == "delimiters" {
                    "delimiter".to_owned()
                } else {
                    name
                };
                (name, Argument::Text(value(parser)?))
            }
            "force" => {
                parser.next_token();
                let name = if eat(parser, "quote") {
                    "force_quote"
                } else if eat(parser, "null") {
                    "force_null"
                } else {
                    need(parser, "not")?;
                    need(parser, "null")?;
                    "force_not_null"
                };
                let argument = if parser.consume_token(&Token::Mul) {
                    Argument::Star
                } else {
                    Argument::List(parser.parse_comma_separated(|parser| {
                        parser.parse_identifier().map(|ident| fold(&ident))
                    })?)
                };
                (name.to_owned(), argument)
            }
            _ => return Ok(list),
        };
        list.push(CopyOption {
            name,
            argument,
            location,
        });
    }
}
