//! Queries.

use std::sync::Arc;

use super::{Expr, Name, Operator, Path, Relation, StatementKind, Step, TypeName, Window};

/// A query with all that may stand around it: WITH, ORDER BY, LIMIT, FOR UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub at: u32,
    pub with: Option<With>,
    pub body: Body,
    pub order: Vec<SortItem>,
    pub limit: Option<Limit>,
    pub offset: Option<Expr>,
    pub locking: Vec<Locking>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Table(Relation),
    /// Set operations of one precedence, from the left.
    Set(Box<Query>, Vec<SetStep>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SetStep {
    pub operation: SetOperation,
    pub all: bool,
    pub query: Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub distinct: Distinctness,
    pub targets: Vec<Target>,
    pub into: Option<IntoTable>,
    pub from: Vec<TableRef>,
    pub filter: Option<Expr>,
    pub group: Vec<GroupItem>,
    /// GROUP BY DISTINCT.
    pub group_distinct: bool,
    pub having: Option<Expr>,
    pub windows: Vec<(Name, Window)>,
}

impl Select {
    /// SELECT targets FROM a relation.
    #[must_use]
    pub fn from_relation(relation: Relation, targets: Vec<Target>) -> Self {
        Self {
            distinct: Distinctness::All,
            targets,
            into: None,
            from: vec![TableRef {
                first: TableFactor::Table {
                    relation,
                    alias: None,
                    sample: None,
                },
                joins: Vec::new(),
            }],
            filter: None,
            group: Vec::new(),
            group_distinct: false,
            having: None,
            windows: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Distinctness {
    All,
    Distinct,
    On(Vec<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// `*`
    Star(u32),
    Expr(Expr, Option<Name>),
}

/// SELECT … INTO
#[derive(Clone, Debug, PartialEq)]
pub struct IntoTable {
    pub persistence: Persistence,
    pub name: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    Permanent,
    Temporary,
    Unlogged,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GroupItem {
    Expr(Expr),
    Empty,
    Rollup(Vec<Expr>),
    Cube(Vec<Expr>),
    Sets(Vec<GroupItem>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct With {
    pub at: u32,
    pub recursive: bool,
    pub tables: Vec<CommonTable>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CommonTable {
    pub name: Name,
    pub columns: Vec<Name>,
    /// MATERIALIZED or NOT MATERIALIZED.
    pub materialized: Option<bool>,
    /// Shared, because who reads the table keeps it.
    pub statement: Arc<StatementKind>,
    pub search: Option<SearchClause>,
    pub cycle: Option<CycleClause>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SearchClause {
    pub breadth_first: bool,
    pub columns: Vec<Name>,
    pub sequence: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CycleClause {
    pub columns: Vec<Name>,
    pub mark: Name,
    /// The values of the mark, TO and DEFAULT.
    pub values: Option<(Expr, Expr)>,
    pub path: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SortItem {
    pub expr: Expr,
    pub direction: Direction,
    pub nulls: NullsOrder,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Direction {
    Default,
    Ascending,
    Descending,
    Using(Operator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullsOrder {
    Default,
    First,
    Last,
}

impl NullsOrder {
    /// Whether nulls are first: by default where the order is descending.
    #[must_use]
    pub const fn is_first(self, descending: bool) -> bool {
        match self {
            Self::Default => descending,
            Self::First => true,
            Self::Last => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// None is ALL.
    pub count: Option<Expr>,
    pub with_ties: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Locking {
    pub strength: LockStrength,
    /// None means all of them.
    pub tables: Vec<Path>,
    pub wait: LockWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStrength {
    Update,
    NoKeyUpdate,
    Share,
    KeyShare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    Wait,
    NoWait,
    SkipLocked,
}

/// An item of FROM: a table, and what is joined to it, from the left.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRef {
    pub first: TableFactor,
    pub joins: Vec<Join>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub at: u32,
    pub kind: JoinKind,
    pub right: TableRef,
    pub condition: JoinCondition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JoinCondition {
    None,
    Natural,
    Using(Vec<Name>, Option<Name>),
    On(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableFactor {
    Table {
        relation: Relation,
        alias: Option<Alias>,
        sample: Option<Sample>,
    },
    Query {
        lateral: bool,
        query: Box<Query>,
        alias: Option<Alias>,
    },
    Functions(FunctionTable),
    Xml(Box<XmlTable>),
    /// A joined table in brackets.
    Joined(Box<TableRef>, Option<Alias>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    pub name: Name,
    pub columns: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub method: Path,
    pub arguments: Vec<Expr>,
    pub repeatable: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTable {
    pub lateral: bool,
    /// ROWS FROM: several functions side by side.
    pub rows_from: bool,
    pub functions: Vec<(Expr, Vec<ColumnType>)>,
    pub ordinality: bool,
    pub alias: Option<Alias>,
    /// `AS (a int, b text)`, behind the alias if there is one.
    pub columns: Vec<ColumnType>,
}

/// A column in the result of a function, or an attribute of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnType {
    pub name: Name,
    pub kind: TypeName,
    pub collation: Option<Path>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct XmlTable {
    pub lateral: bool,
    /// `value AS name`, or DEFAULT.
    pub namespaces: Vec<(Expr, Option<Name>)>,
    pub row: Expr,
    pub document: Expr,
    pub columns: Vec<XmlColumn>,
    pub alias: Option<Alias>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct XmlColumn {
    pub name: Name,
    /// None is FOR ORDINALITY.
    pub kind: Option<TypeName>,
    pub path: Option<Expr>,
    pub default: Option<Expr>,
    /// NOT NULL or NULL.
    pub not_null: Option<bool>,
}

/// A column that is assigned to, with subscripts and fields.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignTarget {
    pub name: Name,
    pub steps: Vec<Step>,
}
