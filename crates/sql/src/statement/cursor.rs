//! DECLARE, FETCH, MOVE and CLOSE, from their trees.

use coeval_sql_syntax::tree;

use super::command::Command;
use super::lower::Lower;
use super::{Statement, StatementKind};
use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};

/// Whether a cursor can move backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scroll {
    /// NO SCROLL: it cannot.
    No,
    /// The statement does not say so: it can, as far as the cursor has kept its rows.
    Unsaid,
    /// SCROLL: it can.
    Yes,
}

/// A DECLARE statement.
#[derive(Clone, Debug)]
pub(crate) struct DeclareCommand {
    /// Name of the cursor.
    pub name: String,
    /// Whether the rows are sent in binary format.
    pub binary: bool,
    /// Whether the cursor can move backwards.
    pub scroll: Scroll,
    /// INSENSITIVE, which every cursor is.
    pub insensitive: bool,
    /// WITH HOLD: whether the cursor outlives its transaction.
    pub hold: bool,
    /// The query, a statement with the text of the DECLARE.
    pub query: Statement,
}

/// A FETCH or MOVE statement.
#[derive(Clone, Debug)]
pub(crate) struct FetchCommand {
    /// MOVE: whether the rows are passed over, and not returned.
    pub only_move: bool,
    /// What `count` counts.
    pub direction: tree::FetchDirection,
    /// Number of rows, or of a row; `None` for ALL.
    pub count: Option<i64>,
    /// Name of the cursor.
    pub cursor: String,
}

/// SQLSTATE 42P11: a cursor that contradicts itself.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState("42P11"), message)
}

pub(super) fn declare(lower: &Lower<'_>, declare: tree::Declare) -> Result<Command> {
    let both = |one, other| Err(invalid(format!("cannot specify both {one} and {other}")));
    if declare.scroll && declare.no_scroll {
        return both("SCROLL", "NO SCROLL");
    }
    if declare.insensitive && declare.asensitive {
        return both("ASENSITIVE", "INSENSITIVE");
    }
    Ok(Command::Declare(Box::new(DeclareCommand {
        name: fold(&declare.name),
        binary: declare.binary,
        scroll: match (declare.scroll, declare.no_scroll) {
            (true, _) => Scroll::Yes,
            (_, true) => Scroll::No,
            (false, false) => Scroll::Unsaid,
        },
        insensitive: declare.insensitive,
        hold: declare.hold,
        query: lower.inner(tree::StatementKind::Query(Box::new(declare.query)))?,
    })))
}

pub(super) fn fetch(fetch: &tree::Fetch) -> Command {
    Command::Fetch(FetchCommand {
        only_move: fetch.only_move,
        direction: fetch.direction,
        count: fetch.count.map(i64::from),
        cursor: fold(&fetch.cursor),
    })
}

impl Statement {
    /// Name of the cursor that the statement moves; `None` unless it is a FETCH or MOVE.
    #[must_use]
    pub fn moved_cursor(&self) -> Option<&str> {
        match self.command() {
            Command::Fetch(fetch) => Some(&fetch.cursor),
            _ => None,
        }
    }

    /// Whether this is the query of a DECLARE, and has the text of that DECLARE.
    pub(crate) fn is_within_declare(&self) -> bool {
        let word = self.text().get(.."declare".len());
        word.is_some_and(|word| word.eq_ignore_ascii_case("declare"))
            && self.kind() == StatementKind::Select
    }
}
