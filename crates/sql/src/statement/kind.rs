//! Statement kinds: a coarse classification of statements, for metrics.

use super::{Command, Statement};

/// Coarse kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// A query: SELECT, VALUES or TABLE.
    Select,
    /// An INSERT statement.
    Insert,
    /// An UPDATE statement.
    Update,
    /// A DELETE statement.
    Delete,
    /// A COPY statement, in either direction.
    Copy,
    /// A transaction control statement: BEGIN, COMMIT, savepoints and the like.
    Transaction,
    /// A statement that changes the schema, or TRUNCATE.
    Definition,
    /// Any other statement: settings, prepared statements, EXPLAIN and the rest.
    Other,
}

impl StatementKind {
    /// All statement kinds, for iteration.
    pub const ALL: [Self; 8] = [
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Copy,
        Self::Transaction,
        Self::Definition,
        Self::Other,
    ];

    /// Name of the kind in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Copy => "copy",
            Self::Transaction => "transaction",
            Self::Definition => "definition",
            Self::Other => "other",
        }
    }
}

impl Statement {
    /// Kind of the statement.
    #[must_use]
    pub fn kind(&self) -> StatementKind {
        match self.command() {
            Command::Planned { kind, .. } => *kind,
            Command::Query(_) => StatementKind::Select,
            Command::Insert(_) => StatementKind::Insert,
            Command::Update(_) => StatementKind::Update,
            Command::Delete(_) => StatementKind::Delete,
            Command::Copy(_) => StatementKind::Copy,
            Command::Begin { .. }
            | Command::Commit { .. }
            | Command::Rollback { .. }
            | Command::Savepoint(_)
            | Command::RollbackTo(_)
            | Command::Release(_)
            | Command::SetTransaction(_) => StatementKind::Transaction,
            Command::CreateTable(_)
            | Command::CreateIndex(_)
            | Command::AlterTable(_)
            | Command::RenameTable { .. }
            | Command::RenameIndex { .. }
            | Command::Drop { .. }
            | Command::Truncate(_)
            | Command::View(_)
            | Command::CreateSequence(_)
            | Command::AlterSequence(_)
            | Command::ChangeSequence { .. }
            | Command::DropSequences { .. } => StatementKind::Definition,
            _ => StatementKind::Other,
        }
    }
}
