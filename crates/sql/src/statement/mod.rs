//! From the text of a query to statements.
//!
//! A query string may hold several statements. It is split and parsed as a whole
//! before anything runs, so a mistake in the last statement keeps the first from
//! running, as in PostgreSQL.
//!
//! ```text
//!   "begin; update t set a = a + 1 where b = 2; commit"
//!      │
//!   tokens ──┬── begin                      ── Command::Begin(modes)
//!            ├── update t set … where b = 2 ── Command::Update(tree)
//!            └── commit                     ── Command::Commit
//! ```
//!
//! Queries, changes of rows and definitions are parsed by the sqlparser library;
//! the commands around them ([`utility`]), whose syntax is PostgreSQL's own, here,
//! over the same tokens.
//!
//! Invariants: positions in errors count characters of the whole query string,
//! from 1. No tree is deeper than [`MOST_DEPTH`], which is what makes it safe to
//! walk, and to drop, by recursion.

mod command;
mod copy;
mod elide;
mod grant;
mod kind;
mod redact;
mod role;
mod sequence;
mod setting;
mod size;
mod text;
mod transaction;
mod utility;
mod words;

use std::sync::Arc;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

pub(crate) use command::{
    Argument, Command, CopyCommand, CopyOption, CopySource, DiscardKind, ExplainCommand,
    GrantCommand, GrantObjects, Granted, Modes, RoleCommand, RoleName, RoleOptions, SetCommand,
    SettingName,
};
pub use elide::elide;
pub use kind::StatementKind;
pub use redact::loggable;
pub use sequence::Statements;
pub(crate) use size::PLANNED;
use text::{Cursor, Text};

use crate::error::{Error, Result};
use crate::instance::Room;

/// How deep an expression may nest, in parentheses and operators together.
const MOST_DEPTH: usize = 1000;

/// How deep the library may recurse; it counts several levels a parenthesis.
const MOST_RECURSION: usize = 300;

/// One parsed statement. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    command: Command,
    /// The statement's own text, without the semicolon.
    text: Box<str>,
    /// How many tokens it has, blanks included.
    tokens: usize,
    lines: Arc<Text>,
}

impl Statement {
    /// The statement that does nothing: what an empty query string means to the
    /// extended protocol.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new(Parsed {
            command: Command::Empty,
            text: "".into(),
            tokens: 0,
            lines: Arc::new(Text::new("")),
        }))
    }

    /// Whether the other is this very statement, not only one of the same text.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its text. Of a statement with a password, only what comes before that.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether it ends or undoes a transaction, and so may run in one that has
    /// failed.
    #[must_use]
    pub fn is_transaction_exit(&self) -> bool {
        matches!(
            self.0.command,
            Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_)
        )
    }

    /// What it does, if it changes the schema, roles or privileges: what an audit
    /// wants to know of.
    #[must_use]
    pub fn definition(&self) -> Option<&'static str> {
        Some(match self.command() {
            Command::CreateTable(_) => "CREATE TABLE",
            Command::CreateIndex(_) => "CREATE INDEX",
            Command::AlterTable(_) => "ALTER TABLE",
            Command::RenameIndex { .. } => "ALTER INDEX",
            Command::Drop { indexes: true, .. } => "DROP INDEX",
            Command::Drop { indexes: false, .. } => "DROP TABLE",
            Command::Truncate(_) => "TRUNCATE TABLE",
            Command::Role(RoleCommand::Create { .. }) => "CREATE ROLE",
            Command::Role(RoleCommand::Alter { .. } | RoleCommand::Rename { .. }) => "ALTER ROLE",
            Command::Role(RoleCommand::Drop { .. }) => "DROP ROLE",
            Command::Grant(grant) if grant.revoke => "REVOKE",
            Command::Grant(_) => "GRANT",
            Command::SchemaOwner { .. } => "ALTER SCHEMA",
            Command::SetRole { .. } => "SET ROLE",
            Command::SetAuthorization { .. } => "SET SESSION AUTHORIZATION",
            _ => return None,
        })
    }

    /// Whether its text says all of it: not that of a statement with a password.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self.command(), Command::Role(_)) || !self.text().ends_with('…')
    }

    /// Whether it is the statement in a PREPARE, whose text it has.
    pub(crate) fn is_within_prepare(&self) -> bool {
        let word = self.text().get(.."prepare".len());
        word.is_some_and(|word| word.eq_ignore_ascii_case("prepare"))
            && !matches!(self.command(), Command::Prepare { .. })
    }

    /// The statement in a PREPARE.
    pub(crate) fn within_prepare(&self) -> Option<Self> {
        match self.command() {
            Command::Prepare { statement, .. } => Some(statement.clone()),
            _ => None,
        }
    }

    /// What it asks for.
    pub(crate) fn command(&self) -> &Command {
        &self.0.command
    }

    /// About how many bytes its plan will take.
    pub(crate) fn plan_bytes(&self) -> u64 {
        self.0.tokens as u64 * size::PLANNED
    }

    /// A place the library reported, in characters of the query string.
    pub(crate) fn position(&self, location: Location) -> Option<u32> {
        self.0.lines.position(location)
    }
}

/// Texts up to this length, in bytes, are parsed without asking whether there is room.
const ALWAYS_PARSED: usize = 4096;

/// Parses a query string; 53200 when `room` has not enough memory for it.
pub(crate) fn parse(query: &str, room: &Room) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    parse_each(query, Text::new(query), room, &mut |statement, _| {
        statements.push(statement);
    })?;
    Ok(statements)
}

/// Longer texts take so long to parse that other sessions shall not wait for it.
const PARSED_IN_A_STEP: usize = 64 << 10;

/// Parses a query string and shows each statement, and which bytes of the string it
/// is. `text` is where the string lies.
fn parse_each(
    query: &str,
    text: Text,
    room: &Room,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    if query.len() > PARSED_IN_A_STEP {
        return coeval_env::block_in_place(|| parse_each_here(query, text, room, visit));
    }
    parse_each_here(query, text, room, visit)
}

fn parse_each_here(
    query: &str,
    text: Text,
    room: &Room,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    let mut tokens = Vec::new();
    let _reserved = if query.len() > ALWAYS_PARSED {
        let count = size::tokens(query);
        let bytes = count as u64 * size::PARSED + size::KEPT * query.len() as u64;
        let reserved = room.reserve(bytes, "Parsing the text")?;
        // Or it would be copied as it grows, and end up to twice as large.
        tokens.reserve_exact(count);
        reserved
    } else {
        None
    };
    let text = Arc::new(text);
    let dialect = PostgreSqlDialect {};
    Tokenizer::new(&dialect, query)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| {
            let message = match error.message.as_str() {
                "Unterminated string literal" => "unterminated quoted string".to_owned(),
                "Unterminated dollar-quoted string" => {
                    "unterminated dollar-quoted string".to_owned()
                }
                other => other.to_lowercase(),
            };
            Error::syntax(message).at(text.position(error.location))
        })?;
    let mut cursor = Cursor::new(query, &text);
    let mut parse = |tokens: Vec<TokenWithSpan>| -> Result<()> {
        if let Some((statement, bytes)) = parse_one(query, &text, &mut cursor, &dialect, tokens)? {
            visit(statement, bytes);
        }
        Ok(())
    };
    let is_end = |token: &TokenWithSpan| token.token == Token::SemiColon;
    let end = tokens.iter().position(is_end).unwrap_or(tokens.len());
    if tokens[end..]
        .iter()
        .all(|token| is_end(token) || !is_solid(token))
    {
        // One statement: its tokens are the parser's, without a copy.
        tokens.truncate(end);
        return parse(tokens);
    }
    tokens
        .split(is_end)
        .try_for_each(|part| parse(part.to_vec()))
}

fn is_solid(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

/// Parses the tokens between two semicolons; `None` when there is nothing there.
fn parse_one(
    query: &str,
    text: &Arc<Text>,
    cursor: &mut Cursor<'_>,
    dialect: &PostgreSqlDialect,
    mut tokens: Vec<TokenWithSpan>,
) -> Result<Option<(Statement, std::ops::Range<usize>)>> {
    let (Some(first), Some(last)) = (
        tokens.iter().position(is_solid),
        tokens.iter().rposition(is_solid),
    ) else {
        return Ok(None);
    };
    tokens.truncate(last + 1);
    tokens.drain(..first);
    refuse_deep(&tokens)?;
    let count = tokens.len();
    let start = cursor.offset(tokens[0].span.start);
    let end = cursor.offset(tokens[count - 1].span.end);
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(MOST_RECURSION)
        .with_options(ParserOptions::new())
        .with_tokens_with_locations(tokens);
    let own = query.get(start..end).unwrap_or(query);
    let parsed = utility::command(&mut parser, own, text).and_then(|command| {
        match parser.peek_token().token {
            Token::EOF => Ok(command),
            _ => parser
                .expected("end of statement", parser.peek_token())
                .map_err(Failure::Parser),
        }
    });
    match parsed {
        Ok(command) => {
            let statement = Statement(Arc::new(Parsed {
                text: match &command {
                    Command::Role(_) => redact::without_password(own).into(),
                    _ => own.into(),
                },
                tokens: count,
                command,
                lines: Arc::clone(text),
            }));
            Ok(Some((statement, start..end)))
        }
        Err(Failure::Ours(error)) => Err(error),
        Err(Failure::Parser(error)) => Err(syntax_error(&error, text, query)),
    }
}

/// Why a statement could not be parsed.
enum Failure {
    /// The library says so.
    Parser(ParserError),
    /// We say so.
    Ours(Error),
}

impl From<ParserError> for Failure {
    fn from(error: ParserError) -> Self {
        Self::Parser(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

/// The library's error in PostgreSQL's words. It reports in prose, of the form
/// `Expected: …, found: TOKEN at Line: 1, Column: 5`.
fn syntax_error(error: &ParserError, text: &Text, query: &str) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => return Error::too_complex(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    let (message, position) = match message.rsplit_once(" at Line: ") {
        Some((message, place)) => (message, location(place).and_then(|at| text.position(at))),
        None => (message.as_str(), None),
    };
    match message.rsplit_once("found: ") {
        Some((_, "EOF")) => Error::syntax("syntax error at end of input")
            .at(u32::try_from(query.chars().count() + 1).ok()),
        Some((_, token)) => {
            Error::syntax(format!("syntax error at or near \"{token}\"")).at(position)
        }
        None => Error::syntax(format!("syntax error: {message}")).at(position),
    }
}

/// Reads `1, Column: 5`.
fn location(place: &str) -> Option<Location> {
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location {
        line: line.trim().parse().ok()?,
        column: column.trim().parse().ok()?,
    })
}

/// Refuses a statement whose tree would be deeper than can safely be walked. The
/// library's own limit counts nested calls, but `1 + 1 + …` makes a deep tree in
/// a loop; so operators between two commas or parentheses are counted, nesting
/// included.
fn refuse_deep(tokens: &[TokenWithSpan]) -> Result<()> {
    // Operators met so far at each level of parentheses, since the last comma.
    let mut levels: Vec<usize> = vec![0];
    let mut depth = 0;
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                levels.push(1);
                depth += 1;
            }
            Token::RParen | Token::RBracket => {
                if levels.len() > 1 {
                    depth -= levels.pop().unwrap_or(0);
                }
            }
            Token::Comma => {
                let level = levels.last_mut().expect("never empty");
                depth -= *level;
                *level = 0;
            }
            Token::Whitespace(_)
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::Period => {}
            Token::Word(word) if !joins_expressions(&word.value) => {}
            _ => {
                *levels.last_mut().expect("never empty") += 1;
                depth += 1;
            }
        }
        if depth > MOST_DEPTH {
            return Err(Error::too_complex());
        }
    }
    Ok(())
}

/// Whether this word makes the tree deeper each time it stands in a chain.
fn joins_expressions(word: &str) -> bool {
    const WORDS: [&str; 17] = [
        "and",
        "or",
        "not",
        "is",
        "in",
        "like",
        "ilike",
        "between",
        "union",
        "intersect",
        "except",
        "join",
        "case",
        "select",
        "collate",
        "at",
        "similar",
    ];
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Vec<Statement>> {
        super::parse(query, &Room::default())
    }

    #[test]
    fn splits_and_keeps_each_text() {
        let statements = parse("begin;; select ';' ; -- end\n commit;").unwrap();
        let texts: Vec<&str> = statements.iter().map(Statement::text).collect();
        assert_eq!(texts, ["begin", "select ';'", "commit"]);
        assert!(parse(" ;; -- nothing\n").unwrap().is_empty());
    }

    #[test]
    fn errors_say_where_in_the_whole_string() {
        let error = parse("select 1;\nselect 'ä', from").unwrap_err();
        assert_eq!(error.state(), crate::SqlState::SYNTAX_ERROR);
        let error = parse("selec 1").unwrap_err();
        assert_eq!(error.report().position, Some(1));
        assert_eq!(error.report().message, "syntax error at or near \"selec\"");
        let error = parse("select 1;\n selec 1").unwrap_err();
        assert_eq!(error.report().position, Some(12));
        let error = parse("select 'abc").unwrap_err();
        assert_eq!(error.report().message, "unterminated quoted string");
    }

    #[test]
    fn deep_statements_are_refused_not_run_into() {
        let parentheses = format!("select {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        let sum = format!("select 1{}", "+1".repeat(500_000));
        let minus = format!("select {}1", "- ".repeat(10_000));
        let not = format!("select {}true", "not ".repeat(10_000));
        let unions = format!("select 1{}", " union select 1".repeat(10_000));
        for text in [parentheses, sum, minus, not, unions] {
            let error = parse(&text).unwrap_err();
            assert_eq!(error.state(), crate::SqlState::STATEMENT_TOO_COMPLEX);
        }
        let rows = format!("insert into t values (1){}", ", (1 + 1)".repeat(20_000));
        assert_eq!(parse(&rows).unwrap().len(), 1);
    }
}
