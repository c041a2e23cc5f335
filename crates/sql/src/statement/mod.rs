//! The parser: turns a query string into statements.
//!
//! A query string may hold several statements. The session splits and parses the whole
//! string before it executes anything, so a syntax error in the last statement keeps the
//! first from running, as in PostgreSQL.
//!
//! ```text
//!   "begin; update t set a = a + 1 where b = 2; commit"
//!      │
//!   tokens ──┬── begin                      ── Command::Begin(modes)
//!            ├── update t set … where b = 2 ── Command::Update(tree)
//!            └── commit                     ── Command::Commit
//! ```
//!
//! The sqlparser library parses queries, changes of rows and schema definitions; this
//! module parses the other commands ([`utility`]), whose syntax is PostgreSQL's own, from
//! the same tokens.
//!
//! Invariants: positions in errors count characters of the whole query string, from 1. No
//! syntax tree is deeper than [`MAX_DEPTH`], nor nests more than [`MAX_NESTING`] constructs,
//! so it is safe to drop a tree by recursion; code that walks it looks at the stack.

mod command;
mod copy;
mod grant;
mod kind;
mod locking;
mod redact_passwords;
mod redact_values;
mod role;
mod role_settings;
mod sequence;
mod setting;
mod size;
mod text;
mod transaction;
mod utility;
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError, ParserOptions};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

pub(crate) use command::{
    Argument, Command, CopyCommand, CopyOption, CopySource, DiscardKind, ExplainCommand,
    GrantCommand, GrantObjects, Granted, Modes, RoleCommand, RoleName, RoleOptions, SetCommand,
    SettingName,
};
pub use kind::StatementKind;
pub(crate) use locking::Locking;
pub use redact_passwords::loggable;
pub use redact_values::redact_values;
pub(crate) use role_settings::{RoleSettingsCommand, SettingChange};
pub use sequence::Statements;
pub(crate) use size::PLANNED;
use text::{Cursor, Text};

use crate::error::{Error, Result};
use crate::instance::{MemoryBudget, measured};

/// Maximum depth of an expression, counting nested parentheses and chained operators.
const MAX_DEPTH: usize = 1000;

/// Maximum number of constructs that one token is within: parentheses, brackets, CASE
/// expressions, and a row of prefix operators. Below the library's own limit: there it
/// tries one way after the other, at each level, before it gives up.
const MAX_NESTING: usize = 250;

/// Recursion limit for the library, which counts several levels for some constructs.
const MAX_RECURSION: usize = 300;

/// Stack that the library may take for each level of nesting, in bytes: a hundred joins
/// nested in FROM overflow a stack of 8 MiB in an optimised build, because the library looks
/// at the stack only where an expression or a query begins.
const STACK_OF_LEVEL: usize = 256 << 10;

/// One parsed statement. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    command: Command,
    /// Text of the statement, without the semicolon.
    text: Box<str>,
    /// Number of tokens of the statement, whitespace included.
    tokens: usize,
    /// Memory that the command and the text take, in bytes.
    bytes: u64,
    lines: Arc<Text>,
}

impl Statement {
    /// The statement that does nothing: the extended protocol prepares it for an empty
    /// query string.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new(Parsed {
            command: Command::Empty,
            text: "".into(),
            tokens: 0,
            bytes: 0,
            lines: Arc::new(Text::new("")),
        }))
    }

    /// Whether both are clones of the same statement, and not only of equal text.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Text of the statement. If it contains a password, only the part before that.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Whether the statement ends or rolls back a transaction, and so may run in one that
    /// has failed.
    #[must_use]
    pub fn is_transaction_exit(&self) -> bool {
        matches!(
            self.0.command,
            Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_)
        )
    }

    /// Command tag of a statement that changes the schema, roles or privileges, for the
    /// audit log; `None` for any other statement.
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
            Command::Role(RoleCommand::Settings(settings)) => settings.tag(),
            Command::Grant(grant) if grant.revoke => "REVOKE",
            Command::Grant(_) => "GRANT",
            Command::SchemaOwner { .. } => "ALTER SCHEMA",
            Command::SetRole { .. } => "SET ROLE",
            Command::SetAuthorization { .. } => "SET SESSION AUTHORIZATION",
            _ => return None,
        })
    }

    /// Whether [`Statement::text`] is complete, that is contains no password.
    pub(crate) fn is_whole(&self) -> bool {
        !matches!(self.command(), Command::Role(_)) || !self.text().ends_with('…')
    }

    /// Whether this is the inner statement of a PREPARE, and has the text of that
    /// PREPARE.
    pub(crate) fn is_within_prepare(&self) -> bool {
        let word = self.text().get(.."prepare".len());
        word.is_some_and(|word| word.eq_ignore_ascii_case("prepare"))
            && !matches!(self.command(), Command::Prepare { .. })
    }

    /// The inner statement of a PREPARE; `None` for any other statement.
    pub(crate) fn within_prepare(&self) -> Option<Self> {
        match self.command() {
            Command::Prepare { statement, .. } => Some(statement.clone()),
            _ => None,
        }
    }

    /// The statement without its syntax tree, once it has a plan; as it is if it is of
    /// another kind.
    pub(crate) fn without_tree(&self) -> Self {
        let command = match self.command() {
            Command::Query(_)
            | Command::Insert(_)
            | Command::Update(_)
            | Command::Delete(_)
            | Command::Copy(_) => Command::Planned {
                kind: self.kind(),
                writes: self.command().may_write(),
            },
            _ => return self.clone(),
        };
        Self(Arc::new(Parsed {
            text: self.0.text.clone(),
            tokens: self.0.tokens,
            bytes: (size_of::<Parsed>() + self.0.text.len()) as u64,
            command,
            lines: Arc::new(Text::new("")),
        }))
    }

    /// The statement with its syntax tree, which is parsed again if it was
    /// [dropped](Self::without_tree). Positions in errors then count from the beginning of
    /// the statement.
    pub(crate) fn with_tree(&self, budget: &MemoryBudget) -> Result<Self> {
        if !matches!(self.command(), Command::Planned { .. }) {
            return Ok(self.clone());
        }
        let parsed = parse(self.text(), budget)?.pop();
        let parsed = parsed.ok_or_else(|| Error::internal("a statement that is none again"))?;
        Ok(match self.is_within_prepare() {
            true => parsed.within_prepare().unwrap_or(parsed),
            false => parsed,
        })
    }

    /// The parsed command.
    pub(crate) fn command(&self) -> &Command {
        &self.0.command
    }

    /// Approximate memory that the statement's plan will take, in bytes.
    pub(crate) fn plan_bytes(&self) -> u64 {
        self.0.tokens as u64 * size::PLANNED
    }

    /// Memory that the statement takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Converts a location reported by the library to characters of the query string.
    pub(crate) fn position(&self, location: Location) -> Option<u32> {
        self.0.lines.position(location)
    }
}

/// Maximum length of a text, in bytes, that is parsed without checking the memory budget.
const ALWAYS_PARSED: usize = 4096;

/// Parses a query string. Fails with SQLSTATE 53200 when `memory_budget` lacks the memory for it.
pub(crate) fn parse(query: &str, budget: &MemoryBudget) -> Result<Vec<Statement>> {
    parse_until(query, budget, None)
}

/// [`parse`], on a thread of its own if it can be told to stop.
pub(crate) fn parse_until(
    query: &str,
    budget: &MemoryBudget,
    stop: Option<&AtomicBool>,
) -> Result<Vec<Statement>> {
    let mut statements = Vec::new();
    parse_each(
        query,
        Text::new(query),
        budget,
        stop,
        &mut |statement, _| {
            statements.push(statement);
        },
    )?;
    Ok(statements)
}

/// Maximum length of a text, in bytes, for parsing on the executor's thread: parsing a
/// longer one would delay other sessions too long.
pub(crate) const PARSED_IN_A_STEP: usize = 64 << 10;

/// Parses a query string and calls `visit` with each statement and its byte range in the
/// string. `text` converts the locations that the library reports.
///
/// A caller on a thread of its own gives a flag that tells it to stop, which is looked at
/// between two statements: the library's parser cannot be left in the middle of one.
fn parse_each(
    query: &str,
    text: Text,
    budget: &MemoryBudget,
    stop: Option<&AtomicBool>,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    if query.len() > PARSED_IN_A_STEP && stop.is_none() {
        return coeval_env::block_in_place(|| parse_each_here(query, text, budget, stop, visit));
    }
    parse_each_here(query, text, budget, stop, visit)
}

/// Fails with 57014 if the parser is told to stop.
fn go_on(stop: Option<&AtomicBool>) -> Result<()> {
    match stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        true => Err(Error::canceled()),
        false => Ok(()),
    }
}

fn parse_each_here(
    query: &str,
    text: Text,
    budget: &MemoryBudget,
    stop: Option<&AtomicBool>,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    let mut tokens = Vec::new();
    let _reserved = if query.len() > ALWAYS_PARSED {
        let count = size::tokens(query);
        let bytes = count as u64 * size::PARSED + size::KEPT * query.len() as u64;
        let reserved = budget.reserve(bytes, "Parsing the text")?;
        // The exact capacity avoids copying the tokens and up to twice the memory.
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
        go_on(stop)?;
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
        // The string holds one statement, so the parser takes its tokens without a copy.
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

/// Parses the tokens between two semicolons; `None` when there are only blanks.
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
    let nesting = nesting(&tokens);
    if nesting > MAX_NESTING {
        return Err(Error::too_complex());
    }
    let count = tokens.len();
    let start = cursor.offset(tokens[0].span.start);
    let end = cursor.offset(tokens[count - 1].span.end);
    locking::rewrite(&mut tokens)?;
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(MAX_RECURSION)
        .with_options(ParserOptions::new())
        .with_tokens_with_locations(tokens);
    let own = query.get(start..end).unwrap_or(query);
    let (parsed, bytes) = measured(size::TREE * count as u64, || {
        with_stack_for(nesting, || {
            utility::command(&mut parser, own, text).and_then(|command| {
                match parser.peek_token().token {
                    Token::EOF => Ok(command),
                    _ => parser
                        .expected("end of statement", parser.peek_token())
                        .map_err(Failure::Parser),
                }
            })
        })
    });
    match parsed {
        Ok(command) => {
            let statement = Statement(Arc::new(Parsed {
                text: match &command {
                    Command::Role(_) => redact_passwords::without_password(own).into(),
                    _ => own.into(),
                },
                tokens: count,
                bytes: bytes + own.len() as u64,
                command,
                lines: Arc::clone(text),
            }));
            Ok(Some((statement, start..end)))
        }
        Err(Failure::Ours(error)) => Err(error),
        Err(Failure::Parser(error)) => Err(syntax_error(&error, text, query)),
    }
}

/// Reason why a statement could not be parsed.
enum Failure {
    /// An error of the sqlparser library.
    Parser(ParserError),
    /// An error of this module.
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

/// Converts the library's error to PostgreSQL's wording. The library's messages have the
/// form `Expected: …, found: TOKEN at Line: 1, Column: 5`.
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

/// Parses `1, Column: 5`.
fn location(place: &str) -> Option<Location> {
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location {
        line: line.trim().parse().ok()?,
        column: column.trim().parse().ok()?,
    })
}

/// Refuses a statement whose syntax tree would be too deep to walk by recursion. The
/// library's own limit counts nested calls, but it parses `1 + 1 + …` in a loop into a
/// deep tree; so this function counts the operators between two commas or parentheses,
/// nesting included.
fn refuse_deep(tokens: &[TokenWithSpan]) -> Result<()> {
    // Number of operators since the last comma, for each level of parentheses.
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
        if depth > MAX_DEPTH {
            return Err(Error::too_complex());
        }
    }
    Ok(())
}

/// The largest number of constructs that a token is within, see [`MAX_NESTING`].
fn nesting(tokens: &[TokenWithSpan]) -> usize {
    let (mut open, mut cases, mut prefixes, mut most) = (0_usize, 0_usize, 0, 0);
    for token in tokens {
        let is_prefix = match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket => {
                open += 1;
                false
            }
            Token::RParen | Token::RBracket => {
                open = open.saturating_sub(1);
                false
            }
            Token::Minus | Token::Plus | Token::Tilde => true,
            Token::Word(word) if word.quote_style.is_none() => {
                if word.value.eq_ignore_ascii_case("case") {
                    cases += 1;
                } else if word.value.eq_ignore_ascii_case("end") {
                    cases = cases.saturating_sub(1);
                }
                word.value.eq_ignore_ascii_case("not")
            }
            _ => false,
        };
        prefixes = if is_prefix { prefixes + 1 } else { 0 };
        most = most.max(open + cases + prefixes);
    }
    most
}

/// Runs the parser with room for this many levels of nesting.
fn with_stack_for<T>(nesting: usize, parse: impl FnOnce() -> T) -> T {
    let room = (nesting + 4) * STACK_OF_LEVEL;
    stacker::maybe_grow(room, room, parse)
}

/// Whether this word makes the tree deeper each time it occurs in a chain.
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
        super::parse(query, &MemoryBudget::default())
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
