//! Transactions, settings, cursors, COPY, maintenance.

use super::{Expr, Literal, Name, Path, Query, Relation, StatementKind, TypeName};

#[derive(Clone, Debug, PartialEq)]
pub enum Transaction {
    Begin(Vec<TransactionMode>),
    /// START TRANSACTION
    Start(Vec<TransactionMode>),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Name),
    Release(Name),
    RollbackTo(Name),
    Prepare(String),
    CommitPrepared(String),
    RollbackPrepared(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionMode {
    Isolation(Isolation),
    ReadOnly(bool),
    Deferrable(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// SET and RESET. What has words of its own (TIME ZONE, NAMES, ROLE) is read as the setting
/// that it sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub local: bool,
    pub action: SettingAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SettingAction {
    Assign(Path, Vec<Expr>),
    Default(Path),
    FromCurrent(Path),
    Transaction(Vec<TransactionMode>),
    SessionCharacteristics(Vec<TransactionMode>),
    Snapshot(String),
    Reset(Path),
    ResetAll,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetConstraints {
    /// Empty is ALL.
    pub names: Vec<Path>,
    pub deferred: bool,
}

/// An option in brackets behind EXPLAIN, VACUUM and the like.
#[derive(Clone, Debug, PartialEq)]
pub struct UtilityOption {
    pub name: Name,
    pub value: UtilityValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum UtilityValue {
    Omitted,
    Word(String),
    Number(Literal),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    pub options: Vec<UtilityOption>,
    pub statement: Box<StatementKind>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    pub name: Name,
    pub types: Vec<TypeName>,
    pub statement: Box<StatementKind>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    pub name: Name,
    pub arguments: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Declare {
    pub name: Name,
    pub binary: bool,
    pub scroll: bool,
    pub no_scroll: bool,
    pub insensitive: bool,
    pub asensitive: bool,
    pub hold: bool,
    pub query: Query,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    /// MOVE
    pub only_move: bool,
    pub direction: FetchDirection,
    /// None is ALL.
    pub count: Option<i32>,
    pub cursor: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    Forward,
    Backward,
    Absolute,
    Relative,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub source: CopySource,
    pub from: bool,
    pub program: bool,
    /// None is STDIN or STDOUT.
    pub file: Option<String>,
    pub options: Vec<CopyOption>,
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    Table(Path, Vec<Name>),
    Query(StatementKind),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopyOption {
    /// In brackets.
    Listed(Name, CopyValue),
    Binary,
    Freeze,
    Csv,
    Header,
    Delimiter(String),
    Null(String),
    Quote(String),
    Escape(String),
    /// None is `*`.
    ForceQuote(Option<Vec<Name>>),
    ForceNotNull(Vec<Name>),
    ForceNull(Vec<Name>),
    Encoding(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CopyValue {
    Omitted,
    Word(String),
    Number(Literal),
    Star,
    List(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    pub tables: Vec<Relation>,
    pub mode: LockMode,
    pub nowait: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// VACUUM and ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct Vacuum {
    pub only_analyze: bool,
    pub options: Vec<UtilityOption>,
    pub tables: Vec<(Path, Vec<Name>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub options: Vec<UtilityOption>,
    pub table: Option<Path>,
    pub index: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reindex {
    pub options: Vec<UtilityOption>,
    pub kind: ReindexKind,
    pub concurrently: bool,
    pub name: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReindexKind {
    Index,
    Table,
    Schema,
    System,
    Database,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    All,
    Temporary,
    Plans,
    Sequences,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Notify {
    pub channel: Name,
    pub payload: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DoItem {
    Code(String),
    Language(String),
}
