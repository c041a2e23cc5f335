//! Functions, procedures, aggregates and operators: made, and referred to.

use super::{Expr, ListedOption, Literal, Name, Operator, Path, Setting, StatementKind, TypeName};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateRoutine {
    pub or_replace: bool,
    pub procedure: bool,
    pub name: Path,
    pub parameters: Vec<Parameter>,
    pub returns: Option<Returns>,
    pub options: Vec<RoutineOption>,
    pub body: Option<RoutineBody>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub mode: ParameterMode,
    pub name: Option<Name>,
    pub kind: TypeName,
    pub default: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMode {
    Default,
    In,
    Out,
    InOut,
    Variadic,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Returns {
    Type(TypeName),
    Table(Vec<(Name, TypeName)>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum RoutineOption {
    /// The body as a string, or a file and a symbol.
    As(Vec<String>),
    Language(String),
    Transform(Vec<TypeName>),
    Window,
    Strict(bool),
    Volatility(Volatility),
    SecurityDefiner(bool),
    Leakproof(bool),
    Cost(Literal),
    Rows(Literal),
    Support(Path),
    Setting(Setting),
    Parallel(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RoutineBody {
    Return(Expr),
    /// BEGIN ATOMIC … END
    Atomic(Vec<StatementKind>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutineKind {
    Function,
    Procedure,
    Routine,
}

/// A routine that exists, by its name and perhaps its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutineRef {
    pub name: Path,
    pub parameters: Option<Vec<Parameter>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AggregateRef {
    pub name: Path,
    pub arguments: AggregateArguments,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AggregateArguments {
    Star,
    /// Direct ones, and those behind ORDER BY if it is there.
    List(Vec<Parameter>, Option<Vec<Parameter>>),
}

/// An operator that exists, by its operands' types.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorRef {
    pub operator: Operator,
    pub left: Option<TypeName>,
    pub right: Option<TypeName>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    pub or_replace: bool,
    pub name: Path,
    /// None in the old form, where an option names the argument's type.
    pub arguments: Option<AggregateArguments>,
    pub options: Vec<ListedOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AlterRoutine {
    pub kind: RoutineKind,
    pub routine: RoutineRef,
    pub options: Vec<RoutineOption>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateCast {
    pub source: TypeName,
    pub target: TypeName,
    pub method: CastMethod,
    pub context: CastContext,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CastMethod {
    Function(RoutineRef),
    Binary,
    InOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastContext {
    Explicit,
    Assignment,
    Implicit,
}
