//! Sorting statements, for those who count them.

use super::{Command, Statement};

/// What a statement is for, coarsely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// SELECT, VALUES, TABLE.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// COPY, in either direction.
    Copy,
    /// BEGIN, COMMIT, savepoints and their like.
    Transaction,
    /// What changes the schema; TRUNCATE too.
    Definition,
    /// Settings, prepared statements, EXPLAIN and the rest.
    Other,
}

impl StatementKind {
    /// All of them.
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

    /// Its name, for metrics.
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
    /// What it is for.
    #[must_use]
    pub fn kind(&self) -> StatementKind {
        match self.command() {
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
            | Command::RenameIndex { .. }
            | Command::Drop { .. }
            | Command::Truncate(_) => StatementKind::Definition,
            _ => StatementKind::Other,
        }
    }
}
