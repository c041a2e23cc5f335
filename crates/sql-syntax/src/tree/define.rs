//! What CREATE makes besides tables and routines.

use super::{
    Attributes, ColumnConstraint, ColumnType, Expr, IndexKey, Literal, Name, Operator, Path,
    Persistence, Query, Role, StatementKind, TableRef, TypeName,
};

/// `name = value` in a list of options.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedOption {
    pub namespace: Option<Name>,
    pub name: Name,
    pub value: OptionValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    Omitted,
    /// A word that is no type: NONE, or a reserved one.
    Word(&'static str),
    /// Any other word or words.
    Type(TypeName),
    Operator(Operator),
    Number(Literal),
    String(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SequenceOption {
    As(TypeName),
    Cache(Literal),
    Cycle(bool),
    Increment(Literal),
    Logged(bool),
    MaxValue(Option<Literal>),
    MinValue(Option<Literal>),
    OwnedBy(Path),
    SequenceName(Path),
    Start(Literal),
    Restart(Option<Literal>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateSequence {
    pub persistence: Persistence,
    pub if_not_exists: bool,
    pub name: Path,
    pub options: Vec<SequenceOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateSchema {
    pub if_not_exists: bool,
    pub name: Option<Name>,
    pub owner: Option<Role>,
    pub elements: Vec<StatementKind>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateDatabase {
    pub name: Name,
    pub options: Vec<DatabaseOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseOption {
    pub name: Name,
    pub value: DatabaseValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseValue {
    Default,
    Number(Literal),
    Word(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateDomain {
    pub name: Path,
    pub kind: TypeName,
    pub collation: Option<Path>,
    pub constraints: Vec<ColumnConstraint>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CreateType {
    Shell(Path),
    Composite(Path, Vec<ColumnType>),
    Enum(Path, Vec<String>),
    Range(Path, Vec<ListedOption>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    pub or_replace: bool,
    pub persistence: Persistence,
    pub recursive: bool,
    pub name: Path,
    pub columns: Vec<Name>,
    pub options: Vec<ListedOption>,
    pub query: Query,
    pub check: CheckOption,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    None,
    Local,
    Cascaded,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RefreshView {
    pub concurrently: bool,
    pub name: Path,
    pub with_data: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateTrigger {
    pub or_replace: bool,
    pub constraint: bool,
    pub name: Name,
    pub time: TriggerTime,
    pub events: Vec<TriggerEvent>,
    pub table: Path,
    /// The other table of a constraint trigger.
    pub from: Option<Path>,
    pub attributes: Attributes,
    pub transitions: Vec<Transition>,
    pub for_each_row: bool,
    pub when: Option<Expr>,
    pub function: Path,
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerTime {
    Before,
    After,
    InsteadOf,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TriggerEvent {
    Insert,
    Delete,
    Update(Vec<Name>),
    Truncate,
}

/// REFERENCING
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    pub new: bool,
    pub table: bool,
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRule {
    pub or_replace: bool,
    pub name: Name,
    pub event: RuleEvent,
    pub table: Path,
    pub filter: Option<Expr>,
    pub instead: bool,
    pub actions: Vec<StatementKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleEvent {
    Select,
    Insert,
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreatePolicy {
    pub name: Name,
    pub table: Path,
    pub restrictive: bool,
    /// None is all.
    pub command: Option<RuleEvent>,
    pub roles: Vec<Role>,
    pub using: Option<Expr>,
    pub check: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterPolicy {
    pub name: Name,
    pub table: Path,
    pub roles: Vec<Role>,
    pub using: Option<Expr>,
    pub check: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateStatistics {
    pub if_not_exists: bool,
    pub name: Path,
    pub kinds: Vec<Name>,
    pub items: Vec<IndexKey>,
    pub from: Vec<TableRef>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateExtension {
    pub if_not_exists: bool,
    pub name: Name,
    pub options: Vec<ExtensionOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExtensionOption {
    Schema(Name),
    Version(String),
    Cascade,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateCollation {
    pub if_not_exists: bool,
    pub name: Path,
    pub source: CollationSource,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CollationSource {
    From(Path),
    Options(Vec<ListedOption>),
}

/// What a list of options defines.
#[derive(Clone, Debug, PartialEq)]
pub struct Define {
    pub what: Defined,
    pub options: Vec<ListedOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Defined {
    Operator(Operator),
    Type(Path),
    TextSearchParser(Path),
    TextSearchDictionary(Path),
    TextSearchTemplate(Path),
    TextSearchConfiguration(Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleWord {
    Role,
    User,
    Group,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    pub word: RoleWord,
    pub name: Name,
    pub options: Vec<RoleOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RoleOption {
    Password(Option<String>),
    ConnectionLimit(i32),
    ValidUntil(String),
    /// SUPERUSER, NOLOGIN and so on, in lower case.
    Flag(Name),
    SysId(i32),
    /// USER or ROLE: the members.
    Members(Vec<Role>),
    Admin(Vec<Role>),
    InRole(Vec<Role>),
}
