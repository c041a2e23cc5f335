//! Expressions.

use smol_str::SmolStr;

use super::{Name, Operator, Path, Query, SortItem, TypeName};

/// An expression, with the position that an error about it shows: of an operator, the
/// operator's.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub at: u32,
    pub kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    Integer(i32),
    /// Any other number, as written; with a minus if it had one.
    Number(SmolStr),
    String(String),
    /// Binary digits.
    Bits(String),
    /// Hexadecimal digits.
    HexBits(String),
    Boolean(bool),
    Null,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Literal(Literal),
    /// A column, perhaps of a table, or with `star` all columns of one.
    Column {
        path: Path,
        star: bool,
    },
    Parameter(u32),
    Default,
    /// `(x).field`, `x[1]`
    Indirection(Box<Expr>, Vec<Step>),
    /// Operators of one precedence, from the left: `((first op x) op y) …`.
    Binary(Box<Expr>, Vec<(Operator, Expr)>),
    Prefix(Operator, Box<Expr>),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Is(Box<Is>),
    Distinct(Box<Distinct>),
    Like(Box<Like>),
    Between(Box<Between>),
    InList(Box<InList>),
    /// `x IN (SELECT …)`
    InQuery(Box<InQuery>),
    Quantified(Box<Quantified>),
    Overlaps(Vec<Expr>, Vec<Expr>),
    Exists(Box<Query>),
    Subquery(Box<Query>),
    Array(Vec<Expr>),
    ArrayQuery(Box<Query>),
    Row(Row),
    Case(Box<Case>),
    Cast(Box<Cast>),
    Collate(Box<Expr>, Path),
    AtTimeZone(Box<Expr>, Box<Expr>),
    Function(Box<FunctionCall>),
    Special(Box<Special>),
    Grouping(Vec<Expr>),
}

/// One step into a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Field(Name),
    Star,
    Index(Expr),
    Slice(Option<Expr>, Option<Expr>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whether ROW was written.
    pub explicit: bool,
    pub fields: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Is {
    pub operand: Expr,
    pub negated: bool,
    pub test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Null,
    True,
    False,
    Unknown,
    Document,
    Normalized(NormalForm),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalForm {
    /// None was written.
    Default,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Distinct {
    pub left: Expr,
    pub right: Expr,
    /// IS NOT DISTINCT FROM.
    pub negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeKind {
    Like,
    Ilike,
    SimilarTo,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    pub kind: LikeKind,
    pub negated: bool,
    pub operand: Expr,
    pub pattern: Expr,
    pub escape: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Between {
    pub operand: Expr,
    pub negated: bool,
    pub symmetric: bool,
    pub low: Expr,
    pub high: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InList {
    pub operand: Expr,
    pub negated: bool,
    pub list: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InQuery {
    pub operand: Expr,
    pub negated: bool,
    pub query: Query,
}

/// `x = ANY (…)`
#[derive(Clone, Debug, PartialEq)]
pub struct Quantified {
    pub left: Expr,
    pub comparison: Comparison,
    /// ALL rather than ANY.
    pub all: bool,
    pub right: Quantity,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    Operator(Operator),
    Like(LikeKind, bool),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    Query(Box<Query>),
    Array(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub operand: Option<Expr>,
    pub branches: Vec<(Expr, Expr)>,
    pub otherwise: Option<Expr>,
}

/// `CAST(x AS t)`, `x::t` and `t 'x'`, which mean the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    pub operand: Expr,
    pub target: TypeName,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    pub name: Path,
    pub arguments: Arguments,
    pub within_group: Vec<SortItem>,
    pub filter: Option<Expr>,
    pub over: Option<Over>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// `count(*)`
    Star,
    List(ArgumentList),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentList {
    pub distinct: bool,
    pub arguments: Vec<Argument>,
    /// Whether the last argument is VARIADIC.
    pub variadic: bool,
    pub order: Vec<SortItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// `name => value`
    pub name: Option<Name>,
    pub value: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    Named(Name),
    Window(Box<Window>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The window it begins with.
    pub base: Option<Name>,
    pub partition: Vec<Expr>,
    pub order: Vec<SortItem>,
    pub frame: Option<Frame>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameBound,
    pub end: Option<FrameBound>,
    pub exclude: Exclude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Range,
    Rows,
    Groups,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclude {
    Nothing,
    CurrentRow,
    Group,
    Ties,
}

/// Calls with a syntax of their own.
#[derive(Clone, Debug, PartialEq)]
pub enum Special {
    /// CURRENT_DATE and the like, with a precision if one was given.
    Value(SqlValue, Option<i32>),
    Coalesce(Vec<Expr>),
    Greatest(Vec<Expr>),
    Least(Vec<Expr>),
    NullIf(Expr, Expr),
    CollationFor(Expr),
    /// The field is a word or a string.
    Extract(String, Expr),
    Normalize(Expr, NormalForm),
    Overlay {
        text: Expr,
        placing: Expr,
        from: Expr,
        length: Option<Expr>,
    },
    /// `POSITION(part IN text)`
    Position(Expr, Expr),
    Substring(SubstringCall),
    /// OVERLAY or SUBSTRING with plain arguments.
    Plain(&'static str, Vec<Argument>),
    Trim(TrimSide, Vec<Expr>),
    Treat(Expr, TypeName),
    Xml(Xml),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValue {
    CurrentDate,
    CurrentTime,
    CurrentTimestamp,
    Localtime,
    Localtimestamp,
    CurrentRole,
    CurrentUser,
    SessionUser,
    User,
    CurrentCatalog,
    CurrentSchema,
}

impl SqlValue {
    /// The key word that calls it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CurrentDate => "CURRENT_DATE",
            Self::CurrentTime => "CURRENT_TIME",
            Self::CurrentTimestamp => "CURRENT_TIMESTAMP",
            Self::Localtime => "LOCALTIME",
            Self::Localtimestamp => "LOCALTIMESTAMP",
            Self::CurrentRole => "CURRENT_ROLE",
            Self::CurrentUser => "CURRENT_USER",
            Self::SessionUser => "SESSION_USER",
            Self::User => "USER",
            Self::CurrentCatalog => "CURRENT_CATALOG",
            Self::CurrentSchema => "CURRENT_SCHEMA",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct SubstringCall {
    pub text: Expr,
    pub from: Option<Expr>,
    pub length: Option<Expr>,
    /// SIMILAR and ESCAPE.
    pub similar: Option<(Expr, Expr)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimSide {
    Both,
    Leading,
    Trailing,
}

/// The functions of SQL/XML.
#[derive(Clone, Debug, PartialEq)]
pub enum Xml {
    Concat(Vec<Expr>),
    Element {
        name: Name,
        attributes: Vec<(Expr, Option<Name>)>,
        content: Vec<Expr>,
    },
    Exists(Expr, Expr),
    Forest(Vec<(Expr, Option<Name>)>),
    Parse {
        document: bool,
        text: Expr,
        preserve: bool,
    },
    Instruction(Name, Option<Expr>),
    Root {
        document: Expr,
        version: Option<Expr>,
        standalone: Standalone,
    },
    Serialize {
        document: bool,
        value: Expr,
        target: TypeName,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standalone {
    Omitted,
    Yes,
    No,
    NoValue,
}
