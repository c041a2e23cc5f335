//! Expressions: the binder resolves names and types once, the evaluator computes a
//! value for every row.
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
//! The binder resolves types as PostgreSQL does: a quoted literal and a parameter have
//! no type until their context gives them one; implicit casts bring operands to a
//! common type; overload resolution chooses the function whose arguments need the
//! fewest casts.
//!
//! The evaluator knows no types but those of the values themselves, because the binder
//! has inserted every cast. Evaluation is synchronous: a subquery inside an expression
//! reads through the statement's transaction, whose reads never wait.
//!
//! Invariants:
//! - Trees are as deep as the parser admits, which bounds recursion here; chains of AND
//!   and OR become lists.
//! - [`Expression::Aggregate`], [`Expression::SetResult`], [`Expression::Window`] and
//!   [`Expression::Grouping`] exist only while the planner plans a query.

mod bind;
mod cast;
mod coerce;
mod context;
mod correlated;
mod evaluate;
mod function;
mod functions;
mod instrument;
mod interrupts;
mod meter;
pub(crate) mod metered;
mod objects;
mod operator;
mod pattern;
mod regex;
mod scope;
mod show;
mod subquery;
pub(crate) mod suspension;
pub(crate) mod system_columns;
mod table_function;
mod type_name;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use bind::{
    AggregateCall, AggregateFunction, Binder, Locate, OrderedSet, Parameters, Regression, Spread,
    fold_name,
};
pub(crate) use bind::{
    Aggregates, BindChange, FrameLimit, Recursion, WindowCall, WindowDefinition, WindowFrame,
    WindowFunction, WindowList, Windows, check_collation, joined, key_order, no_equality, no_order,
    value_name, with_stack,
};
pub use cast::cast_value;
pub(crate) use cast::is_momentary;
pub use coerce::{CastContext, castable, common_type};
pub(crate) use context::BUDGET;
pub use context::{EvaluationContext, ListedCursor, SessionInfo, SessionSettings, ShownSetting};
pub(crate) use evaluate::heap_bytes;
pub use evaluate::is_true;
pub use function::{ArgumentKind, Arguments, Body, Function, Place};
#[cfg(test)]
pub(crate) use functions::all as all_functions;
pub(crate) use functions::json;
pub(crate) use functions::split_string;
pub use instrument::{Counted, Instrument};
pub(crate) use interrupts::Interrupts;
pub(crate) use meter::ROW;
pub use meter::WorkMeter;
pub use objects::SystemObjects;
pub use operator::{ArithmeticOperator, Comparison};
pub use pattern::LikePattern;
pub use regex::RegexPattern;
pub use scope::{Frame, Scope, ScopeColumn, ScopeRelation};
pub(crate) use show::{Names, column_name};
pub use subquery::{HashedSubquery, Subquery, SubqueryKind};
pub use table_function::TableFunction;
pub use type_name::resolve_type;

use crate::Value;
use crate::value::ColumnType;

/// A bound expression: names and types are resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant value.
    Constant(Value),
    /// A column of the input row, by position.
    Column(usize),
    /// A value of the enclosing query's row, by position in [`Subquery::correlations`].
    Outer(usize),
    /// A parameter of the statement, counted from 0.
    Parameter(usize),
    /// The result of an aggregate of the query being planned, by position.
    Aggregate(usize),
    /// The row's result of a set-returning function in the select list being planned,
    /// by position.
    SetResult(usize),
    /// The result of a window function of the query being planned, by position.
    Window(usize),
    /// The result of a GROUPING operation of the query being planned, by position.
    Grouping(usize),
    /// Arithmetic on two values of compatible types.
    Arithmetic(ArithmeticOperator, Box<[Expression; 2]>),
    /// The negation of a number.
    Negate(Box<Expression>),
    /// A comparison of two values of one type.
    Compare(Comparison, Box<[Expression; 2]>),
    /// Conjunction: true if all operands are.
    And(Vec<Expression>),
    /// Disjunction: true if any operand is.
    Or(Vec<Expression>),
    /// Logical NOT.
    Not(Box<Expression>),
    /// The predicate IS NULL.
    IsNull(Box<Expression>),
    /// The predicates IS TRUE and IS FALSE.
    IsTruth(Box<Expression>, bool),
    /// The predicate IS DISTINCT FROM.
    Distinct(Box<[Expression; 2]>),
    /// Searched CASE: the result of the first condition that is true, or else the last
    /// expression.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
    /// COALESCE: the first operand that is not null.
    Coalesce(Vec<Expression>),
    /// GREATEST or LEAST: the greatest or least operand that is not null.
    Extreme {
        /// True for GREATEST, false for LEAST.
        greatest: bool,
        /// The compared expressions.
        operands: Vec<Expression>,
    },
    /// NULLIF: null if the condition (both are equal) is true, else the second element
    /// here, which is the first argument.
    NullIf(Box<[Expression; 2]>),
    /// IN with a list of values.
    InList(Box<Expression>, Vec<Expression>),
    /// A comparison with ANY or ALL elements of an array.
    Quantified {
        /// The comparison applied to each element.
        comparison: Comparison,
        /// True for ALL, false for ANY.
        all: bool,
        /// The compared value and the array.
        operands: Box<[Expression; 2]>,
    },
    /// LIKE and ILIKE: the string and the pattern.
    Like(Box<[Expression; 2]>, Arc<LikePattern>),
    /// The regular expression matches `~`, `~*` and their negations: the string and the
    /// pattern.
    Regex(Box<[Expression; 2]>, Arc<RegexPattern>),
    /// A cast to another type.
    Cast(Box<Cast>),
    /// A function call.
    Call(Box<Call>),
    /// An array constructor with these elements.
    Array(Vec<Expression>),
    /// An element of an array: the array and the subscript.
    Subscript(Box<[Expression; 2]>),
    /// A subquery inside the expression.
    Subquery(Box<Subquery>),
}

/// A bound cast.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// The expression being cast.
    pub input: Expression,
    /// Source type.
    pub from: ColumnType,
    /// Target type.
    pub to: ColumnType,
    /// Whether the statement writes the cast, so that strings may be cut to length.
    pub explicit: bool,
}

/// A bound function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function chosen by overload resolution.
    pub function: &'static Function,
    /// The arguments, cast to the function's parameter types.
    pub arguments: Vec<Expression>,
    /// Types of the arguments.
    pub types: Vec<ColumnType>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function, other.function) && self.arguments == other.arguments
    }
}

/// The binder's result for one expression: the bound expression and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound expression.
    pub expression: Expression,
    /// Type of the expression's value.
    pub column_type: ColumnType,
    /// Character offset of the expression in the statement, for errors.
    pub position: Option<u32>,
}

impl Expression {
    /// The constant NULL.
    pub const NULL: Self = Self::Constant(Value::Null);

    /// Calls `visit` for every direct operand, including what a subquery
    /// takes from the row.
    pub fn children<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        match self {
            Self::Constant(_)
            | Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_)
            | Self::Window(_)
            | Self::Grouping(_) => {}
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
                subquery.correlations.iter().for_each(&mut *visit);
                if let Some(hashed) = &subquery.hashed {
                    hashed.keys.iter().for_each(visit);
                }
            }
        }
    }

    /// Like [`Expression::children`], with mutable references.
    pub fn children_mut(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        match self {
            Self::Constant(_)
            | Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_)
            | Self::Window(_)
            | Self::Grouping(_) => {}
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
                subquery.correlations.iter_mut().for_each(&mut *visit);
                if let Some(hashed) = &mut subquery.hashed {
                    hashed.keys.iter_mut().for_each(visit);
                }
            }
        }
    }

    /// Whether `test` holds for this expression or any of its descendants.
    #[must_use]
    pub fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.children(&mut |child| found = found || child.any(test));
        found
    }

    /// Whether the value depends on the input row.
    #[must_use]
    pub fn uses_row(&self) -> bool {
        self.any(&|each| {
            matches!(
                each,
                Self::Column(_)
                    | Self::Aggregate(_)
                    | Self::SetResult(_)
                    | Self::Window(_)
                    | Self::Grouping(_)
            )
        })
    }

    /// Whether two evaluations over equal inputs may give different values.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.any(&Self::is_volatile_here)
    }

    /// Whether that is so without regard to the operands.
    pub(crate) fn is_volatile_here(&self) -> bool {
        match self {
            Self::Call(call) => call.function.volatile,
            Self::Subquery(subquery) => subquery.plan.is_volatile(),
            _ => false,
        }
    }

    /// Whether the value depends on the expression alone, so that the binder can fold
    /// it.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        !self.any(&|each| match each {
            Self::Column(_)
            | Self::Outer(_)
            | Self::Parameter(_)
            | Self::Aggregate(_)
            | Self::SetResult(_)
            | Self::Window(_)
            | Self::Grouping(_)
            | Self::Subquery(_) => true,
            Self::Call(call) => !call.function.immutable,
            Self::Cast(cast) => !cast.is_immutable(),
            _ => false,
        })
    }

    /// Whether the value may depend on more than the row, the parameters and the types:
    /// above all, on the contents of the database.
    #[must_use]
    pub fn looks(&self) -> bool {
        self.any(&|each| match each {
            Self::Subquery(_) => true,
            Self::Call(call) => !call.function.immutable,
            Self::Cast(cast) => !cast.is_immutable(),
            _ => false,
        })
    }

    /// Splits the expression at AND into its conjuncts.
    #[must_use]
    pub fn conjuncts(self) -> Vec<Expression> {
        match self {
            Self::And(operands) => operands.into_iter().flat_map(Self::conjuncts).collect(),
            other => vec![other],
        }
    }

    /// The conjunction of all conditions.
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
    /// Whether the cast's result depends on the value and the two types alone: parsing
    /// and printing dates, times and intervals reads the session's time zone and styles,
    /// and so does what turns local time into moments; parsing object names reads the
    /// catalog.
    fn is_immutable(&self) -> bool {
        use crate::value::DataType as T;
        let base = |data_type: T| data_type.element().unwrap_or(data_type);
        let (from, to) = (base(self.from.data_type), base(self.to.data_type));
        let names = from.object().is_some() || to.object().is_some();
        let zoned = |data_type| matches!(data_type, T::TimestampTz | T::TimeTz);
        let printed = from.is_moment() != to.is_moment();
        // How `bytea` prints is a setting.
        let prints_bytes = from == T::Bytea;
        !(names || zoned(from) || zoned(to) || printed || prints_bytes)
    }
}

impl Bound {
    /// An expression with its type.
    pub fn new(expression: Expression, column_type: impl Into<ColumnType>) -> Self {
        Self {
            expression,
            column_type: column_type.into(),
            position: None,
        }
    }

    /// Sets the character offset of the expression in the statement.
    #[must_use]
    pub fn at(mut self, position: Option<u32>) -> Self {
        self.position = position;
        self
    }
}
