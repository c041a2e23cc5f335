//! The binder: resolves the names and types of a parsed statement's expressions.
//!
//! The binder walks the parser's tree once and turns each node into a [`Bound`]: an
//! expression and its type. It also does the rewrites that PostgreSQL does during
//! analysis: BETWEEN becomes comparisons, simple CASE becomes searched CASE, a row
//! comparison becomes comparisons of its columns.

mod aggregate;
mod call;
mod operator;
mod predicate;
mod query;

use std::sync::Arc;

use sqlparser::ast::{self, Expr, Ident, Spanned, Value as Literal};
use sqlparser::tokenizer::{Location, Span};

pub use aggregate::{AggregateCall, AggregateFunction};

use super::coerce::{CastContext, common_type};
use super::{Bound, Expression, Scope, SessionInfo, resolve_type};
use crate::access::Privileges;
use crate::catalog::{Catalog, Needs};
use crate::instance::StatementMemory;
use crate::route::Route;
use crate::select::SetFunction;
use crate::statement::PLANNED;
use crate::value::{ColumnType, DataType, Numeric, Value};
use crate::{Error, Result, SqlState};

/// Converts a line and column of the statement's text to a character offset.
pub type Locate<'a> = &'a dyn Fn(Location) -> Option<u32>;

/// The binder checks for cancellation and memory each time it has bound this many
/// expressions.
const LOOK_AFTER: usize = 256;

/// Bytes of stack that must be left before the binder recurses; with fewer it allocates
/// a new segment of the size below.
const RED_ZONE: usize = 512 * 1024;
const MORE_STACK: usize = 4 * 1024 * 1024;

/// Runs `deeper`, on a new stack segment if the current one is nearly full.
pub(crate) fn with_stack<T>(deeper: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, deeper)
}

/// Normalises an identifier for lookup: lower case unless quoted, cut to at most 63
/// bytes.
#[must_use]
pub fn fold_name(identifier: &Ident) -> String {
    let name = if identifier.quote_style.is_some() {
        identifier.value.clone()
    } else {
        identifier.value.to_lowercase()
    };
    crate::value::truncate_name(&name).to_owned()
}

/// The types of a statement's parameters, as far as the binder has inferred them.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    types: Vec<Option<DataType>>,
    /// Whether the statement contains a literal whose meaning depends on the time it is
    /// parsed, such as `'now'`.
    pub(super) momentary: bool,
}

impl Parameters {
    /// Maximum number of parameters of a statement: the protocol counts them in 16
    /// bits.
    const MOST: usize = 65_535;

    /// Parameters with the type OIDs that the client has declared; OID 0 leaves a type
    /// undeclared.
    pub fn new(oids: &[u32]) -> Result<Self> {
        let types: Result<Vec<Option<DataType>>> = oids
            .iter()
            .map(|oid| match oid {
                0 => Ok(None),
                oid => match DataType::from_oid(*oid) {
                    Some(DataType::Unknown) => Ok(None),
                    Some(data_type) => Ok(Some(data_type)),
                    None => Err(Error::unsupported(format_args!(
                        "a parameter of the type with number {oid}"
                    ))),
                },
            })
            .collect();
        Ok(Self {
            types: types?,
            momentary: false,
        })
    }

    /// Whether the statement contains a literal whose meaning depends on the time it is
    /// parsed, so that its plan is valid for one execution only.
    #[must_use]
    pub fn is_momentary(&self) -> bool {
        self.momentary
    }

    /// Type of a parameter (counted from 0), if it is declared or inferred.
    fn known(&mut self, number: usize) -> Option<DataType> {
        if number >= self.types.len() {
            self.types.resize(number + 1, None);
        }
        self.types[number]
    }

    /// Type of a parameter used where the context wants `wanted`; infers it if it is
    /// unknown.
    pub(super) fn infer(&mut self, number: usize, wanted: DataType) -> DataType {
        match self.known(number) {
            Some(known) => known,
            None => {
                self.types[number] = Some(wanted);
                wanted
            }
        }
    }

    /// The types of all parameters; error 42P18 for a parameter whose type the binder
    /// could not infer.
    pub fn finish(&self) -> Result<Vec<DataType>> {
        self.types
            .iter()
            .enumerate()
            .map(|(position, known)| {
                known.ok_or_else(|| {
                    Error::new(
                        SqlState::INDETERMINATE_DATATYPE,
                        format!(
                            "could not determine data type of parameter ${}",
                            position + 1
                        ),
                    )
                })
            })
            .collect()
    }
}

/// How the binder treats an aggregate in the clause it is binding.
#[derive(Clone, Debug)]
pub(crate) enum Aggregates {
    /// The named clause must not contain aggregates; the binder reports an error.
    Forbidden(&'static str),
    /// The binder collects the aggregates of the clause here.
    Collected(Vec<AggregateCall>),
}

/// The binder for the expressions of one statement.
pub struct Binder<'a> {
    /// The catalog as the statement's snapshot shows it.
    pub catalog: &'a Arc<Catalog>,
    /// The session that runs the statement.
    pub session: &'a SessionInfo,
    /// Converts a source location to a character offset, for error positions.
    pub locate: Locate<'a>,
    /// The statement's parameters and their inferred types.
    pub parameters: Parameters,
    pub(crate) aggregates: Aggregates,
    /// Set-returning functions of the select list being bound; `None` in clauses that
    /// must not contain any.
    pub(crate) sets: Option<Vec<SetFunction>>,
    pub(crate) with: Vec<crate::select::CommonTable>,
    /// Number of times the binder has planned a WITH query.
    pub(crate) tables_planned: usize,
    subqueries: usize,
    /// Number of expressions bound.
    bound: usize,
    /// Number of expressions for which the caller has reserved memory.
    foreseen: usize,
    memory: StatementMemory<'a>,
    /// Privileges that the role running the statement needs.
    pub(crate) needs: Needs,
    /// Where what has been bound can run.
    pub(crate) route: Route,
}

impl<'a> Binder<'a> {
    /// A binder for a statement with `parameters`.
    pub fn new(
        catalog: &'a Arc<Catalog>,
        session: &'a SessionInfo,
        locate: Locate<'a>,
        parameters: Parameters,
    ) -> Self {
        Self {
            catalog,
            session,
            locate,
            parameters,
            aggregates: Aggregates::Forbidden("this expression"),
            sets: None,
            with: Vec::new(),
            tables_planned: 0,
            subqueries: 0,
            bound: 0,
            foreseen: usize::MAX,
            memory: StatementMemory::new(usize::MAX, session.around.budget()),
            needs: Needs::default(),
            route: Route::Anywhere,
        }
    }

    /// Records that the caller has reserved `bytes` of memory for the plan. For more
    /// than that, as when a WITH query is planned repeatedly, the binder takes memory
    /// from the budget itself.
    pub(crate) fn foresee(&mut self, bytes: u64) {
        self.foreseen = usize::try_from(bytes / PLANNED).unwrap_or(usize::MAX);
    }

    /// Character offset at which a span begins.
    pub(crate) fn position(&self, span: Span) -> Option<u32> {
        if span.start.line == 0 {
            return None;
        }
        (self.locate)(span.start)
    }

    fn next_subquery(&mut self) -> usize {
        self.subqueries += 1;
        self.subqueries
    }

    /// Casts a bound expression, with this statement's parameters and session.
    pub fn cast(&mut self, bound: Bound, to: ColumnType, context: CastContext) -> Result<Bound> {
        bound.cast(to, context, &mut self.parameters, &self.session.style)
    }

    /// Applies an assignment cast to the type of the column that stores the value;
    /// error 42804.
    pub fn assign(&mut self, bound: Bound, column: &str, to: ColumnType) -> Result<Bound> {
        bound.assign(column, to, &mut self.parameters, &self.session.style)
    }

    /// Applies an implicit cast.
    pub(crate) fn implicit(&mut self, bound: Bound, to: DataType) -> Result<Bound> {
        self.cast(bound, to.into(), CastContext::Implicit)
    }

    /// Resolves a literal or parameter whose type is still unknown to text.
    pub fn settle(&mut self, bound: Bound) -> Result<Bound> {
        if bound.column_type.data_type == DataType::Unknown {
            return self.implicit(bound, DataType::Text);
        }
        Ok(bound)
    }

    /// Binds an expression that must be boolean; the error names `clause`.
    pub fn bind_condition(
        &mut self,
        expr: &Expr,
        scope: &Scope<'_>,
        clause: &str,
    ) -> Result<Expression> {
        let bound = self.bind(expr, scope)?;
        self.truth(bound, clause)
    }

    fn truth(&mut self, bound: Bound, clause: &str) -> Result<Expression> {
        let data_type = bound.column_type.data_type;
        if !matches!(data_type, DataType::Bool | DataType::Unknown) {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {clause} must be type boolean, not type {data_type}"),
            )
            .at(bound.position));
        }
        Ok(self.implicit(bound, DataType::Bool)?.expression)
    }

    /// Binds an expression and, recursively, its operands.
    pub fn bind(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        self.bound += 1;
        if self.bound.is_multiple_of(LOOK_AFTER) {
            self.look_around()?;
        }
        with_stack(|| self.bind_here(expr, scope))
    }

    /// Fails when the statement is canceled, its deadline has passed, or the memory
    /// budget is exhausted.
    fn look_around(&mut self) -> Result<()> {
        self.session.work_meter.tick(&self.session.cancel);
        self.session.check_canceled()?;
        if self.bound > self.foreseen {
            self.memory.take(LOOK_AFTER * PLANNED as usize)?;
        }
        Ok(())
    }

    fn bind_here(&mut self, expr: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        match expr {
            Expr::Nested(inner) => self.bind(inner, scope),
            Expr::Value(literal) => {
                let position = self.position(literal.span);
                self.literal(&literal.value)
                    .map(|bound| bound.at(position))
                    .map_err(|error| error.at(position))
            }
            Expr::Identifier(name) => self.column(std::slice::from_ref(name), scope),
            Expr::CompoundIdentifier(names) => self.column(names, scope),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr, scope),
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, scope),
            Expr::IsNull(_) | Expr::IsNotNull(_) => self.is_null(expr, scope),
            Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotUnknown(_) => self.is_truth(expr, scope),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, false, scope),
            Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, true, scope),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high, scope),
            Expr::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated, scope),
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => self.in_subquery(expr, subquery, *negated, scope),
            Expr::Exists { subquery, negated } => self.exists(subquery, *negated, scope),
            Expr::Subquery(query) => self.scalar_subquery(query, scope),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => self.quantified(left, compare_op, right, false, scope),
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => self.quantified(left, compare_op, right, true, scope),
            Expr::Like {
                negated,
                expr,
                pattern,
                escape_char,
                any: false,
            } => self.like(
                expr,
                pattern,
                escape_char.as_deref(),
                *negated,
                false,
                scope,
            ),
            Expr::ILike {
                negated,
                expr,
                pattern,
                escape_char,
                any: false,
            } => self.like(expr, pattern, escape_char.as_deref(), *negated, true, scope),
            Expr::Cast {
                expr, data_type, ..
            } => self.explicit_cast(expr, data_type, scope),
            Expr::TypedString(typed) => {
                let position = self.position(typed.value.span);
                let to = resolve_type(&typed.data_type).map_err(|error| error.at(position))?;
                let literal = self.literal(&typed.value.value)?.at(position);
                self.cast(literal, to, CastContext::Explicit)
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(
                operand.as_deref(),
                conditions,
                else_result.as_deref(),
                scope,
            ),
            Expr::Collate { expr, collation } => {
                // Every collation compares strings by their bytes, whatever its name.
                let name = collation.to_string().to_lowercase();
                let known = ["c", "posix", "default", "ucs_basic"];
                if !known.contains(&name.rsplit('.').next().unwrap_or("").trim_matches('"')) {
                    return Err(Error::unsupported(format_args!("the collation {name}")));
                }
                self.bind(expr, scope)
            }
            Expr::Array(array) => self.array(&array.elem, scope),
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscripts(root, access_chain, scope)
            }
            Expr::Tuple(_) => {
                Err(Error::unsupported("a row as a value").at(self.position(expr.span())))
            }
            Expr::Interval(_) => {
                Err(Error::unsupported("the type interval").at(self.position(expr.span())))
            }
            _ => self.call_syntax(expr, scope),
        }
    }

    fn literal(&mut self, literal: &Literal) -> Result<Bound> {
        let string = |text: &str| -> Result<Bound> {
            crate::value::check_text(text)?;
            Ok(Bound::new(
                Expression::Constant(Value::text(text)),
                DataType::Unknown,
            ))
        };
        match literal {
            Literal::Number(digits, _) => number(digits),
            Literal::Boolean(truth) => Ok(Bound::new(
                Expression::Constant(Value::Bool(*truth)),
                DataType::Bool,
            )),
            Literal::Null => Ok(Bound::new(Expression::NULL, DataType::Unknown)),
            Literal::SingleQuotedString(text)
            | Literal::EscapedStringLiteral(text)
            | Literal::UnicodeStringLiteral(text)
            | Literal::NationalStringLiteral(text) => string(text),
            Literal::DollarQuotedString(text) => string(&text.value),
            Literal::Placeholder(name) => self.parameter(name),
            other => Err(Error::unsupported(format_args!("the literal {other}"))),
        }
    }

    fn parameter(&mut self, name: &str) -> Result<Bound> {
        let number: usize = name
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok())
            .filter(|number| (1..=Parameters::MOST).contains(number))
            .ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_PARAMETER,
                    format!("there is no parameter {name}"),
                )
            })?;
        let known = self.parameters.known(number - 1);
        Ok(Bound::new(
            Expression::Parameter(number - 1),
            known.unwrap_or(DataType::Unknown),
        ))
    }

    fn column(&mut self, names: &[Ident], scope: &Scope<'_>) -> Result<Bound> {
        let position = self.position(names[0].span);
        let folded: Vec<String> = names.iter().map(fold_name).collect();
        let found = match folded.as_slice() {
            [name] => match scope.find(name) {
                Ok(None) if names[0].quote_style.is_none() => match self.bare_function(name) {
                    Some(bound) => return Ok(bound.at(position)),
                    None => scope.column(name),
                },
                _ => scope.column(name),
            },
            [relation, name] => scope.qualified_column(None, relation, name),
            [schema, relation, name] => scope.qualified_column(Some(schema), relation, name),
            [_, schema, relation, name] => scope.qualified_column(Some(schema), relation, name),
            _ => Err(Error::syntax(format!(
                "improper qualified name (too many dotted names): {}",
                folded.join(".")
            ))),
        };
        let column = found.map_err(|error| error.at(position))?;
        if let Some((table, _)) = column.origin {
            self.needs.table(table, Privileges::SELECT);
        }
        Ok(Bound {
            expression: column.expression,
            column_type: column.column_type,
            position,
        })
    }

    fn explicit_cast(
        &mut self,
        expr: &Expr,
        data_type: &ast::DataType,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let bound = self.bind(expr, scope)?;
        let position = bound.position;
        let to = resolve_type(data_type).map_err(|error| error.at(position))?;
        self.cast(bound, to, CastContext::Explicit)
    }

    /// Casts expressions to their common type; the error names `construct`.
    pub(crate) fn unify(
        &mut self,
        bounds: Vec<Bound>,
        construct: &str,
    ) -> Result<(Vec<Expression>, ColumnType)> {
        let types: Vec<DataType> = bounds
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        let Some(common) = common_type(&types) else {
            let first = types
                .iter()
                .copied()
                .find(|each| *each != DataType::Unknown)
                .unwrap_or(DataType::Text);
            let (other, position) = bounds
                .iter()
                .find(|bound| common_type(&[first, bound.column_type.data_type]).is_none())
                .map_or((first, None), |bound| {
                    (bound.column_type.data_type, bound.position)
                });
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!("{construct} types {first} and {other} cannot be matched"),
            )
            .at(position));
        };
        // Expressions of one type, modifier included, keep that type.
        let first = bounds.first().map(|bound| bound.column_type);
        let shared = first.filter(|first| {
            first.data_type == common && bounds.iter().all(|bound| bound.column_type == *first)
        });
        let mut expressions = Vec::with_capacity(bounds.len());
        for bound in bounds {
            expressions.push(self.implicit(bound, common)?.expression);
        }
        Ok((expressions, shared.unwrap_or(common.into())))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let operand = match operand {
            Some(operand) => Some(self.bind(operand, scope)?),
            None => None,
        };
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for branch in conditions {
            tests.push(match &operand {
                None => self.bind_condition(&branch.condition, scope, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.bind(&branch.condition, scope)?;
                    self.compare(super::Comparison::Equal, operand.clone(), value)?
                        .expression
                }
            });
            results.push(self.bind(&branch.result, scope)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.bind(otherwise, scope)?,
            None => Bound::new(Expression::NULL, DataType::Unknown),
        });
        let (mut results, column_type) = self.unify(results, "CASE")?;
        let otherwise = results.pop().unwrap_or(Expression::NULL);
        let branches = tests.into_iter().zip(results).collect();
        Ok(Bound::new(
            Expression::Case(branches, Box::new(otherwise)),
            column_type,
        ))
    }

    fn array(&mut self, elements: &[Expr], scope: &Scope<'_>) -> Result<Bound> {
        let mut bounds = Vec::with_capacity(elements.len());
        for element in elements {
            bounds.push(self.bind(element, scope)?);
        }
        if bounds.is_empty() {
            return Ok(Bound::new(
                Expression::Array(Vec::new()),
                DataType::TextArray,
            ));
        }
        let (elements, column_type) = self.unify(bounds, "ARRAY")?;
        let Some(array) = column_type.data_type.array() else {
            return Err(Error::unsupported(format_args!(
                "an array of {}",
                column_type.data_type
            )));
        };
        Ok(Bound::new(Expression::Array(elements), array))
    }

    fn subscripts(
        &mut self,
        root: &Expr,
        chain: &[ast::AccessExpr],
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        // The chain of field accesses begins with the qualified name of a column.
        let mut names: Vec<Ident> = match root {
            Expr::Identifier(name) => vec![name.clone()],
            _ => Vec::new(),
        };
        let mut rest = chain;
        while let [ast::AccessExpr::Dot(Expr::Identifier(name)), behind @ ..] = rest
            && !names.is_empty()
        {
            names.push(name.clone());
            rest = behind;
        }
        let mut bound = if names.len() > 1 {
            self.bind(&Expr::CompoundIdentifier(names), scope)?
        } else {
            self.bind(root, scope)?
        };
        for access in rest {
            let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access else {
                return Err(Error::unsupported("a field or a slice of a value").at(bound.position));
            };
            let position = bound.position;
            let data_type = bound.column_type.data_type;
            let Some(element) = data_type.element() else {
                return Err(Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "cannot subscript type {data_type} because it does not support subscripting"
                    ),
                )
                .at(position));
            };
            let subscript = self.bind(index, scope)?;
            let mut subscript = self.implicit(subscript, DataType::Int4)?.expression;
            // Vectors of the system catalogs have subscripts from 0.
            if data_type.is_vector() {
                subscript = Expression::Arithmetic(
                    super::ArithmeticOperator::Add,
                    Box::new([subscript, Expression::Constant(Value::Int4(1))]),
                );
            }
            bound = Bound::new(
                Expression::Subscript(Box::new([bound.expression, subscript])),
                element,
            )
            .at(position);
        }
        Ok(bound)
    }
}

/// Binds a numeric literal with the smallest type that holds it.
fn number(digits: &str) -> Result<Bound> {
    if let Ok(number) = digits.parse::<i32>() {
        return Ok(Bound::new(
            Expression::Constant(Value::Int4(number)),
            DataType::Int4,
        ));
    }
    if let Ok(number) = digits.parse::<i64>() {
        return Ok(Bound::new(
            Expression::Constant(Value::Int8(number)),
            DataType::Int8,
        ));
    }
    match Numeric::parse(digits)? {
        Some(number) => Ok(Bound::new(
            Expression::Constant(Value::Numeric(Box::new(number))),
            DataType::Numeric,
        )),
        None => Err(Error::syntax(format!(
            "trailing junk after numeric literal at or near \"{digits}\""
        ))),
    }
}

/// Source span of an expression.
pub(crate) fn span_of(expr: &Expr) -> Span {
    match expr {
        Expr::Identifier(name) => name.span,
        Expr::CompoundIdentifier(names) => names[0].span,
        Expr::Value(value) => value.span,
        Expr::Function(function) => function.name.span(),
        other => other.span(),
    }
}
