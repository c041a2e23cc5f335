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
//! The crate `sql-syntax` turns the text into a tree of PostgreSQL's grammar; [`lower`] sorts
//! its statements into commands, and refuses those that this database does not have.
//!
//! Invariants: positions in errors count characters of the whole query string, from 1. No
//! syntax tree is deeper than [`MAX_DEPTH`], so it is safe to drop a tree by recursion; code
//! that walks it looks at the stack.

mod command;
mod copy;
mod cursor;
mod grant;
mod kind;
mod lower;
mod name;
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
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_sql_syntax::tree::{Expr, Query, StatementKind as StatementTree, TypeName};
use coeval_sql_syntax::{Fault, Limits, SyntaxError};

pub(crate) use command::{
    Argument, Command, CopyCommand, CopyOption, CopySource, CreateExtension, DiscardKind,
    ExplainCommand, ExplainOptions, GrantCommand, GrantObjects, Granted, Modes, RoleCommand,
    RoleName, RoleOptions, SequenceChange, SetCommand, SettingName, TruncateCommand,
};
pub(crate) use cursor::{DeclareCommand, FetchCommand, Scroll, invalid as invalid_cursor};
pub use kind::StatementKind;
pub use redact_passwords::loggable;
pub use redact_values::redact_values;
pub(crate) use role::role_name;
pub(crate) use role_settings::{RoleSettingsCommand, SettingChange};
pub use sequence::Statements;
pub(crate) use size::PLANNED;
use text::{Text, characters_of};
pub(crate) use view::{RowSource, TableAs, ViewAction, ViewCommand, not_here};

use crate::error::{Error, Result, SqlState};
use crate::instance::{MemoryBudget, measured};

/// Maximum depth of a tree: brackets, subqueries, operators and the like within each other.
const MAX_DEPTH: u32 = 1000;

/// Bounds on a text. The session bounds its length before it is parsed.
const LIMITS: Limits = Limits {
    bytes: 1 << 30,
    tokens: 1 << 28,
    depth: MAX_DEPTH,
};

/// One parsed statement. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    command: Command,
    /// Text of the statement, without the semicolon.
    text: Box<str>,
    /// Number of tokens of the statement.
    tokens: usize,
    /// Memory that the command and the text take, in bytes.
    bytes: u64,
    lines: Arc<Text>,
}

/// An expression that is a whole text, such as a column's default.
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    coeval_sql_syntax::parse_expression(text, &LIMITS).map_err(|error| refusal(error, text, 0))
}

/// A query that is a whole text, such as a view's.
pub(crate) fn parse_query(text: &str) -> Result<Query> {
    let parse = || {
        let refused = |error| refusal(error, text, 0);
        let mut statements = coeval_sql_syntax::statements(text, &LIMITS).map_err(refused)?;
        let first = statements.next().transpose().map_err(refused)?;
        match (first.map(|statement| statement.kind), statements.next()) {
            (Some(StatementTree::Query(query)), None) => Ok(*query),
            _ => Err(Error::syntax("it is no query")),
        }
    };
    match text.len() > PARSED_IN_A_STEP {
        true => coeval_env::block_in_place(parse),
        false => parse(),
    }
}

/// A type that is a whole text.
pub(crate) fn parse_type(text: &str) -> Result<TypeName> {
    coeval_sql_syntax::parse_type(text, &LIMITS).map_err(|error| refusal(error, text, 0))
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
            lines: Arc::default(),
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
            Command::AlterTable(_) | Command::RenameTable { .. } => "ALTER TABLE",
            Command::RenameIndex { .. } => "ALTER INDEX",
            Command::Drop { indexes: true, .. } => "DROP INDEX",
            Command::Drop { indexes: false, .. } => "DROP TABLE",
            Command::Truncate(_) => "TRUNCATE TABLE",
            Command::CreateSequence(_) => "CREATE SEQUENCE",
            Command::AlterSequence(_) | Command::ChangeSequence { .. } => "ALTER SEQUENCE",
            Command::DropSequences { .. } => "DROP SEQUENCE",
            Command::View(command) => command.definition(),
            Command::Role(RoleCommand::Create { .. }) => "CREATE ROLE",
            Command::Role(RoleCommand::Alter { .. } | RoleCommand::Rename { .. }) => "ALTER ROLE",
            Command::Role(RoleCommand::Drop { .. }) => "DROP ROLE",
            Command::Role(RoleCommand::Settings(settings)) => settings.tag(),
            Command::Grant(grant) if grant.revoke => "REVOKE",
            Command::Grant(_) => "GRANT",
            Command::SchemaOwner { .. } => "ALTER SCHEMA",
            Command::CreateExtension(_) => "CREATE EXTENSION",
            Command::DropExtensions { .. } => "DROP EXTENSION",
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
            lines: Arc::default(),
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

    /// Converts a byte of the text that was parsed to a position in the query string, in
    /// characters.
    pub(crate) fn position(&self, at: u32) -> Option<u32> {
        self.0.lines.position(&self.0.text, at)
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
    parse_each(query, 0, budget, stop, &mut |statement, _| {
        statements.push(statement);
    })?;
    Ok(statements)
}

/// Maximum length of a text, in bytes, for parsing on the executor's thread: parsing a
/// longer one would delay other sessions too long.
pub(crate) const PARSED_IN_A_STEP: usize = 64 << 10;

/// Parses a query string and calls `visit` with each statement and its byte range in the
/// string. `before` is the number of characters that precede it.
///
/// A caller on a thread of its own gives a flag that tells it to stop, which is looked at
/// between two statements: the parser cannot be left in the middle of one.
fn parse_each(
    query: &str,
    before: u32,
    budget: &MemoryBudget,
    stop: Option<&AtomicBool>,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    if query.len() > PARSED_IN_A_STEP && stop.is_none() {
        return coeval_env::block_in_place(|| parse_each_here(query, before, budget, stop, visit));
    }
    parse_each_here(query, before, budget, stop, visit)
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
    before: u32,
    budget: &MemoryBudget,
    stop: Option<&AtomicBool>,
    visit: &mut dyn FnMut(Statement, std::ops::Range<usize>),
) -> Result<()> {
    let _reserved = if query.len() > ALWAYS_PARSED {
        let count = size::tokens(query);
        let bytes = count as u64 * size::PARSED + size::KEPT * query.len() as u64;
        budget.reserve(bytes, "Parsing the text")?
    } else {
        None
    };
    let refused = |error| refusal(error, query, before);
    let mut statements = coeval_sql_syntax::statements(query, &LIMITS).map_err(refused)?;
    // Characters of the query string before the byte at `counted`.
    let (mut counted, mut characters) = (0, before);
    loop {
        go_on(stop)?;
        let mut bytes_of_tree = 0;
        let (parsed, start, end) = match statements.take_words(&["backup", "to", "stdout"]) {
            Some((start, end)) => (None, start, end),
            None => {
                let (parsed, bytes) = measured(0, || statements.next());
                bytes_of_tree = bytes;
                match parsed {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(refused(error)),
                    Some(Ok(parsed)) => (Some(parsed.kind), parsed.at, parsed.end),
                }
            }
        };
        let tokens = statements.tokens();
        let range = start as usize..end as usize;
        let own = query.get(range.clone()).unwrap_or(query);
        let between = query.as_bytes().get(counted..range.start);
        characters = characters.saturating_add(characters_of(between.unwrap_or_default()));
        counted = range.start;
        let lower = lower::Lower {
            at: start,
            own,
            tokens,
            bytes: match bytes_of_tree {
                0 => size::TREE * tokens as u64,
                bytes => bytes,
            },
            lines: Arc::new(Text::new(own, start, characters)),
        };
        let command = match parsed {
            Some(kind) => lower.command(kind)?,
            None => Command::Backup,
        };
        visit(lower.statement(command), range);
    }
}

/// Maximum length of a message, in bytes: it shows a token, which may be megabytes.
const LONGEST_MESSAGE: usize = 1024;

fn shortened(mut message: String) -> String {
    if message.len() > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push('…');
    }
    message
}

/// The error of a text that is no statement, in PostgreSQL's words. `before` is the number of
/// characters of the query string that precede the text.
fn refusal(error: SyntaxError, text: &str, before: u32) -> Error {
    let position = u32::try_from(error.character(text)).ok();
    let position = position.and_then(|position| position.checked_add(before));
    let shown = match error.fault {
        Fault::TooDeep => Error::too_complex(),
        // What stands behind the word PASSWORD may be one, without quotes.
        Fault::Syntax if redact_passwords::is_behind_password(text, error.at as usize) => {
            Error::syntax("a string is expected here")
        }
        fault => Error::new(SqlState(fault.sqlstate()), shortened(error.message)),
    };
    let shown = shown.at(position);
    match error.hint {
        Some(hint) if error.fault != Fault::TooDeep => shown.with_hint(hint),
        _ => shown,
    }
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
        assert_eq!(
            error.report().message,
            "unterminated quoted string at or near \"'abc\""
        );
        let error = parse(&format!("select '{}", "ä".repeat(10_000))).unwrap_err();
        assert!(error.report().message.len() < 1100);
        let error = parse("select 1;\n create role a password secret").unwrap_err();
        assert_eq!(error.report().message, "a string is expected here");
    }

    #[test]
    fn deep_statements_are_refused_not_run_into() {
        let brackets = format!("select {}1{}", "(".repeat(300), ")".repeat(300));
        assert_eq!(parse(&brackets).unwrap().len(), 1);
        let parentheses = format!("select {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        let sum = format!("select 1{}", "+1".repeat(500_000));
        let minus = format!("select {}1", "- ".repeat(10_000));
        let not = format!("select {}true", "not ".repeat(10_000));
        for text in [parentheses, minus, not] {
            let error = parse(&text).unwrap_err();
            assert_eq!(error.state(), crate::SqlState::STATEMENT_TOO_COMPLEX);
        }
        // Operators in a row are no deeper than one: the binder refuses them.
        assert_eq!(parse(&sum).unwrap().len(), 1);
        let rows = format!("insert into t values (1){}", ", (1 + 1)".repeat(20_000));
        assert_eq!(parse(&rows).unwrap().len(), 1);
    }
}
