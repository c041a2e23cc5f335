//! CREATE TABLE and what it is made of; CREATE INDEX.

use super::{
    Expr, ListedOption, Name, NullsOrder, Operator, Path, Persistence, Query, Relation,
    SequenceOption, TypeName,
};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub name: Path,
    pub shape: TableShape,
    pub inherits: Vec<Path>,
    pub partition_by: Option<PartitionBy>,
    pub storage: Storage,
    /// CREATE FOREIGN TABLE: its server and options.
    pub foreign: Option<(Name, Vec<GenericOption>)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableShape {
    Columns(Vec<TableElement>),
    OfType(Path, Vec<TableElement>),
    PartitionOf(Path, Vec<TableElement>, PartitionBound),
}

/// What stands behind the shape of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub access_method: Option<Name>,
    pub options: Vec<ListedOption>,
    pub on_commit: Option<OnCommit>,
    pub tablespace: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCommit {
    Drop,
    DeleteRows,
    PreserveRows,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GenericOption {
    pub name: Name,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableElement {
    Column(ColumnDefinition),
    Constraint(TableConstraint),
    Like(Path, Vec<(LikeOption, bool)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeOption {
    Comments,
    Compression,
    Constraints,
    Defaults,
    Identity,
    Generated,
    Indexes,
    Statistics,
    Storage,
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    pub name: Name,
    /// None in a table OF a type, or in a partition.
    pub kind: Option<TypeName>,
    pub compression: Option<Name>,
    pub options: Vec<GenericOption>,
    pub collation: Option<Path>,
    pub constraints: Vec<ColumnConstraint>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnConstraint {
    pub at: u32,
    pub name: Option<Name>,
    pub kind: ColumnConstraintKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ColumnConstraintKind {
    NotNull,
    Null,
    Unique {
        nulls_not_distinct: bool,
        index: IndexStorage,
    },
    PrimaryKey(IndexStorage),
    Check {
        condition: Expr,
        no_inherit: bool,
    },
    Default(Expr),
    Identity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    Generated(Expr),
    References(References),
    Deferrable(bool),
    InitiallyDeferred(bool),
}

/// The index behind a constraint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexStorage {
    pub options: Vec<ListedOption>,
    pub tablespace: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct References {
    pub table: Path,
    pub columns: Vec<Name>,
    pub full: bool,
    pub on_update: KeyAction,
    pub on_delete: KeyAction,
}

#[derive(Clone, Debug, PartialEq)]
pub enum KeyAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull(Vec<Name>),
    SetDefault(Vec<Name>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableConstraint {
    pub at: u32,
    pub name: Option<Name>,
    pub kind: TableConstraintKind,
    pub attributes: Attributes,
}

/// What may stand behind a constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub deferrable: bool,
    pub not_deferrable: bool,
    pub initially_deferred: bool,
    pub initially_immediate: bool,
    pub not_valid: bool,
    pub no_inherit: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableConstraintKind {
    Check(Expr),
    Unique {
        nulls_not_distinct: bool,
        key: Key,
    },
    PrimaryKey(Key),
    /// UNIQUE USING INDEX
    UniqueIndex(Name),
    PrimaryKeyIndex(Name),
    Exclude {
        method: Option<Name>,
        items: Vec<(IndexItem, Operator)>,
        include: Vec<Name>,
        index: IndexStorage,
        filter: Option<Expr>,
    },
    ForeignKey {
        columns: Vec<Name>,
        references: References,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub columns: Vec<Name>,
    pub include: Vec<Name>,
    pub index: IndexStorage,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartitionBy {
    pub strategy: Name,
    pub items: Vec<IndexItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PartitionBound {
    Default,
    Hash { modulus: i32, remainder: i32 },
    In(Vec<Expr>),
    Range(Vec<Expr>, Vec<Expr>),
}

/// A column or an expression of an index, a partition's key or ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexItem {
    pub key: IndexKey,
    pub collation: Option<Path>,
    pub class: Option<Path>,
    pub class_options: Vec<ListedOption>,
    /// ASC is Some(false), DESC is Some(true).
    pub descending: Option<bool>,
    pub nulls: NullsOrder,
}

#[derive(Clone, Debug, PartialEq)]
pub enum IndexKey {
    Column(Name),
    /// A function's call, without brackets, or any expression in them.
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    pub unique: bool,
    pub concurrently: bool,
    pub if_not_exists: bool,
    pub name: Option<Name>,
    pub table: Relation,
    pub method: Option<Name>,
    pub items: Vec<IndexItem>,
    pub include: Vec<IndexItem>,
    pub nulls_not_distinct: bool,
    pub options: Vec<ListedOption>,
    pub tablespace: Option<Name>,
    pub filter: Option<Expr>,
}

/// CREATE TABLE AS and CREATE MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTableAs {
    pub materialized_view: bool,
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub name: Path,
    pub columns: Vec<Name>,
    pub storage: Storage,
    pub source: TableSource,
    pub with_data: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableSource {
    Query(Box<Query>),
    Execute(super::Execute),
}
