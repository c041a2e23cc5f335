//! Expressions: names and types resolved once, then evaluated for every row.
//!
//! ```text
//!   balance + $1 > 100           syntax tree, from the parser
//!        │ bind: names to columns, operators to types, $1 : integer
//!        ▼
//!   Compare > (Arithmetic + (Column 2, Parameter 0), Constant 100)
//!        │ evaluate, over rows of values
//!        ▼
//!   true | false | null
//! ```
//!
//! Types are resolved as PostgreSQL resolves them: a quoted literal and a
//! parameter have no type until their context gives them one; operands are brought
//! to a common type by implicit casts; a function is chosen among those of its
//! name by how few casts its arguments need.
//!
//! Evaluation knows nothing of types but what the values are, because binding has
//! put every cast in its place. It is synchronous: a subquery inside an expression
//! reads through the same transaction, whose reads never wait.
//!
//! Invariants:
//! - Trees are as deep as the parser admits, which bounds recursion here; chains of
//!   AND and OR become lists.
//! - [`Expression::Aggregate`] and [`Expression::SetResult`] exist only while a
//!   query is planned.

mod bind;
mod cast;
mod coerce;
mod context;
mod evaluate;
mod function;
mod functions;
mod objects;
mod operator;
mod pattern;
mod scope;
mod subquery;
mod type_name;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use bind::{AggregateCall, AggregateFunction, Binder, Locate, Parameters, fold_name};
pub(crate) use bind::{Aggregates, with_stack};
pub use cast::cast_value;
pub use coerce::{CastContext, castable, common_type};
pub(crate) use context::BUDGET;
pub use context::{EvaluationContext, SessionInfo, SessionSettings, ShownSetting};
pub(crate) use evaluate::heap_bytes;
pub use evaluate::is_true;
pub use function::{Arguments, Body, Function, Kind};
pub use objects::SystemObjects;
pub use operator::{ArithmeticOperator, Comparison};
pub use pattern::{LikePattern, RegexPattern};
pub use scope::{Frame, Scope, ScopeColumn, ScopeRelation};
pub use subquery::{Subquery, SubqueryKind};
pub use type_name::resolve_type;

use crate::Value;
use crate::value::ColumnType;

/// A bound expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Always this.
    Constant(Value),
    /// A column of the row it is evaluated over.
    Column(usize),
    /// A value of an enclosing query's row, handed in by position.
    Outer(usize),
    /// A parameter of the statement, from 0.
    Parameter(usize),
    /// The result of an aggregate of the query being bound, by position.
    Aggregate(usize),
    /// What a set-returning function in the list of the query being bound gives for
    /// the row, by position.
    SetResult(usize),
    /// Arithmetic on two values of types that fit.
    Arithmetic(ArithmeticOperator, Box<[Expression; 2]>),
    /// The negative of a number.
    Negate(Box<Expression>),
    /// A comparison of two values of one type.
    Compare(Comparison, Box<[Expression; 2]>),
    /// True when all are.
    And(Vec<Expression>),
    /// True when any is.
    Or(Vec<Expression>),
    /// The opposite.
    Not(Box<Expression>),
    /// IS NULL.
    IsNull(Box<Expression>),
    /// IS TRUE, IS FALSE.
    IsTruth(Box<Expression>, bool),
    /// IS DISTINCT FROM.
    Distinct(Box<[Expression; 2]>),
    /// The first result whose condition is true, or the last one.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
    /// The first that is not null.
    Coalesce(Vec<Expression>),
    /// The greatest (or least) that is not null.
    Extreme {
        /// Whether the greatest.
        greatest: bool,
        /// Of these.
        operands: Vec<Expression>,
    },
    /// Null when both are equal, else the first: its condition and the first.
    NullIf(Box<[Expression; 2]>),
    /// IN a list of values.
    InList(Box<Expression>, Vec<Expression>),
    /// A comparison with ANY (or ALL) elements of an array.
    Quantified {
        /// How each is compared.
        comparison: Comparison,
        /// Whether it must hold for all.
        all: bool,
        /// The value and the array.
        operands: Box<[Expression; 2]>,
    },
    /// LIKE and ILIKE: the string, and the pattern.
    Like(Box<[Expression; 2]>, Arc<LikePattern>),
    /// `~` and its like: the string, and the pattern.
    Regex(Box<[Expression; 2]>, Arc<RegexPattern>),
    /// A cast.
    Cast(Box<Cast>),
    /// A function's result.
    Call(Box<Call>),
    /// An array of these.
    Array(Vec<Expression>),
    /// An element of an array: the array, and the subscript from 1.
    Subscript(Box<[Expression; 2]>),
    /// A query inside the expression.
    Subquery(Box<Subquery>),
}

/// A cast.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// Of what.
    pub input: Expression,
    /// From which type.
    pub from: ColumnType,
    /// To which.
    pub to: ColumnType,
    /// Whether it was asked for, so that strings may be cut.
    pub explicit: bool,
}

/// A call of a function.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which.
    pub function: &'static Function,
    /// Of what.
    pub arguments: Vec<Expression>,
    /// The arguments' types.
    pub types: Vec<ColumnType>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function, other.function) && self.arguments == other.arguments
    }
}

/// An expression and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The expression.
    pub expression: Expression,
    /// Its type.
    pub column_type: ColumnType,
    /// Where it stands in the statement.
    pub position: Option<u32>,
}

impl Expression {
    /// The constant null.
    pub const NULL: Self = Self::Constant(Value::Null);

    /// Calls `visit` for every expression right below this one, those that a
    /// subquery takes from this query's rows included.
    pub fn children<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Constant(_)
            | Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_) => {}
            Self::Arithmetic(_, operands)
            | Self::Compare(_, operands)
            | Self::Distinct(operands)
            | Self::NullIf(operands)
            | Self::Like(operands, _)
            | Self::Regex(operands, _)
            | Self::Subscript(operands)
            | Self::Quantified { operands, .. } => operands.iter().for_each(visit),
            Self::Negate(operand)
            | Self::Not(operand)
            | Self::IsNull(operand)
            | Self::IsTruth(operand, _) => visit(operand),
            Self::And(operands)
            | Self::Or(operands)
            | Self::Coalesce(operands)
            | Self::Array(operands)
            | Self::Extreme { operands, .. } => operands.iter().for_each(visit),
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Self::InList(operand, list) => {
                visit(operand);
                list.iter().for_each(visit);
            }
            Self::Cast(cast) => visit(&cast.input),
            Self::Call(call) => call.arguments.iter().for_each(visit),
            Self::Subquery(subquery) => {
                if let Some(operand) = &subquery.operand {
                    visit(operand);
                }
                subquery.correlations.iter().for_each(visit);
            }
        }
    }

    /// [`Expression::children`], to change them.
    pub fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        match self {
            Self::Constant(_)
            | Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_) => {}
            Self::Arithmetic(_, operands)
            | Self::Compare(_, operands)
            | Self::Distinct(operands)
            | Self::NullIf(operands)
            | Self::Like(operands, _)
            | Self::Regex(operands, _)
            | Self::Subscript(operands)
            | Self::Quantified { operands, .. } => operands.iter_mut().for_each(visit),
            Self::Negate(operand)
            | Self::Not(operand)
            | Self::IsNull(operand)
            | Self::IsTruth(operand, _) => visit(operand),
            Self::And(operands)
            | Self::Or(operands)
            | Self::Coalesce(operands)
            | Self::Array(operands)
            | Self::Extreme { operands, .. } => operands.iter_mut().for_each(visit),
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    visit(condition);
                    visit(result);
                }
                visit(otherwise);
            }
            Self::InList(operand, list) => {
                visit(operand);
                list.iter_mut().for_each(visit);
            }
            Self::Cast(cast) => visit(&mut cast.input),
            Self::Call(call) => call.arguments.iter_mut().for_each(visit),
            Self::Subquery(subquery) => {
                if let Some(operand) = &mut subquery.operand {
                    visit(operand);
                }
                subquery.correlations.iter_mut().for_each(visit);
            }
        }
    }

    /// Whether `test` holds for this expression or any below it.
    #[must_use]
    pub fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.children(&mut |child| found = found || child.any(test));
        found
    }

    /// Whether it depends on the row it is evaluated over.
    #[must_use]
    pub fn uses_row(&self) -> bool {
        self.any(&|each| {
            matches!(
                each,
                Self::Column(_) | Self::Aggregate(_) | Self::SetResult(_)
            )
        })
    }

    /// Whether two evaluations may differ though nothing they read does.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.any(&|each| matches!(each, Self::Call(call) if call.function.volatile))
    }

    /// Whether evaluation needs nothing but the expression.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        !self.any(&|each| match each {
            Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_)
            | Self::Subquery(_) => true,
            Self::Call(call) => !call.function.immutable,
            Self::Cast(cast) => !cast.is_immutable(),
            _ => false,
        })
    }

    /// Whether its value may depend on more than the row, the parameters and the types:
    /// on what is in the database above all.
    #[must_use]
    pub fn looks(&self) -> bool {
        self.any(&|each| match each {
            Self::Subquery(_) => true,
            Self::Call(call) => !call.function.immutable,
            Self::Cast(cast) => !cast.is_immutable(),
            _ => false,
        })
    }

    /// The conditions that must all be true for this one to be.
    #[must_use]
    pub fn conjuncts(self) -> Vec<Expression> {
        match self {
            Self::And(operands) => operands.into_iter().flat_map(Self::conjuncts).collect(),
            other => vec![other],
        }
    }

    /// True when all of these are.
    #[must_use]
    pub fn all_of(mut conditions: Vec<Expression>) -> Expression {
        match conditions.len() {
            0 => Self::Constant(Value::Bool(true)),
            1 => conditions.remove(0),
            _ => Self::And(conditions),
        }
    }
}

impl Cast {
    /// Whether the result depends on the two types alone: reading and printing
    /// moments takes the session's time zone, names the catalog.
    fn is_immutable(&self) -> bool {
        use crate::value::DataType as T;
        let fixed = |data_type| {
            !matches!(
                data_type,
                T::TimestampTz
                    | T::TimestampTzArray
                    | T::Regclass
                    | T::Regtype
                    | T::Regproc
                    | T::Regnamespace
                    | T::Regrole
            )
        };
        let reads_now =
            self.from.data_type.is_string() && matches!(self.to.data_type, T::Date | T::Timestamp);
        fixed(self.from.data_type) && fixed(self.to.data_type) && !reads_now
    }
}

impl Bound {
    /// An expression of a type.
    pub fn new(expression: Expression, column_type: impl Into<ColumnType>) -> Self {
        Self {
            expression,
            column_type: column_type.into(),
            position: None,
        }
    }

    /// Says where it stands.
    #[must_use]
    pub fn at(mut self, position: Option<u32>) -> Self {
        self.position = position;
        self
    }
}
