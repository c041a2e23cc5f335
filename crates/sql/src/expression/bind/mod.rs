//! The binder: resolves the names and types of a parsed statement's expressions.
//!
//! The binder walks the parser's tree once and turns each node into a [`Bound`]: an
//! expression and its type. It also does the rewrites that PostgreSQL does during
//! analysis: BETWEEN becomes comparisons, simple CASE becomes searched CASE, a row
//! comparison becomes comparisons of its columns.

mod aggregate;
mod call;
mod json;
mod level;
mod operator;
mod ordered_set;
mod predicate;
mod query;
mod time_operator;
mod window;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use coeval_sql_syntax::tree::{self, Expr, ExprKind, Literal, Name, Path, Step};

use coeval_txn::Engine;
use coeval_types::StorageId;

pub(crate) use aggregate::key_order;
pub use aggregate::{AggregateCall, AggregateFunction, OrderedSet, Regression, Spread};
pub(crate) use call::value_name;
pub(crate) use json::{no_equality, no_order};
pub(crate) use window::{
    FrameLimit, WindowCall, WindowDefinition, WindowFrame, WindowFunction, WindowList, Windows,
};

use super::coerce::{CastContext, common_type};
use super::{Bound, Expression, Interrupts, Scope, SessionInfo, resolve_type};
use crate::access::Privileges;
use crate::catalog::{Catalog, Needs};
use crate::instance::StatementMemory;
use crate::output::Column;
use crate::route::Route;
use crate::select::SetFunction;
use crate::statement::PLANNED;
use crate::value::{ColumnType, DataType, Numeric, Value};
use crate::{Error, Result, SqlState};

/// Converts a byte of the text that was parsed to a position in characters.
pub type Locate<'a> = &'a dyn Fn(u32) -> Option<u32>;

/// The binder checks for cancellation and memory each time it has bound this many
/// expressions.
const LOOK_AFTER: usize = 256;

/// Maximum depth of a bound expression or plan. Operators in a row are one node of the tree,
/// and one below the other here.
const DEEPEST: usize = 2_500;

/// Bytes of stack that must be left before the binder recurses; with fewer it allocates
/// a new segment of the size below.
const RED_ZONE: usize = 512 * 1024;
const MORE_STACK: usize = 4 * 1024 * 1024;

/// Runs `deeper`, on a new stack segment if the current one is nearly full.
pub(crate) fn with_stack<T>(deeper: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, MORE_STACK, deeper)
}

/// A name for lookup: as the parser has folded it, cut to at most 63 bytes.
#[must_use]
pub fn fold_name(name: &Name) -> String {
    crate::value::truncate_name(&name.text).to_owned()
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

/// Whether a recursive query may refer to itself where the binder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recursion {
    Permitted,
    /// It must not, within what the text says.
    Within(&'static str),
}

/// Plans an INSERT, UPDATE or DELETE in WITH, and puts its plan to [`Binder::changes`].
/// Returns the columns of RETURNING; an error for a statement of another kind.
pub(crate) type BindChange =
    fn(&mut Binder<'_>, &tree::StatementKind) -> Result<Option<Vec<Column>>>;

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
    /// The same of the queries around the present one, the outermost first, and their
    /// GROUPING operations.
    pub(crate) levels: Vec<(Aggregates, Vec<Vec<Expression>>)>,
    /// How window functions are treated.
    pub(crate) windows: Windows,
    /// Arguments of the GROUPING operations of the query being bound.
    pub(crate) groupings: Vec<Vec<Expression>>,
    /// Set-returning functions of the select list being bound; `None` in clauses that
    /// must not contain any.
    pub(crate) sets: Option<Vec<SetFunction>>,
    pub(crate) with: Vec<crate::select::CommonTable>,
    /// Whether the query that is planned next is asked for its logical form.
    pub(crate) wants_shape: bool,
    /// Logical forms of the subqueries in expressions, by the subquery's number.
    pub(crate) shapes: BTreeMap<usize, crate::select::Shape>,
    /// The storage engine, which knows how many rows a table has; `None` where plans do
    /// not depend on that.
    pub(crate) engine: Option<&'a dyn Engine>,
    /// The row counts that plans depend on.
    pub(crate) counted: BTreeMap<StorageId, u64>,
    /// The views that are being planned.
    pub(crate) views: crate::select::Views,
    /// The tables of WITH that are being planned, the outermost first.
    pub(crate) tables_planned: Vec<usize>,
    /// The table of WITH RECURSIVE whose query is planned next.
    pub(crate) recursive_body: Option<usize>,
    /// Where in a recursive query a reference to the query itself would stand.
    pub(crate) recursion: Recursion,
    /// The plans of the changes in WITH, which a layer above makes and runs.
    pub(crate) changes: Vec<Box<dyn Any + Send + Sync>>,
    /// Plans a change in WITH; `None` where WITH may change nothing, which is everywhere but
    /// at the top of a statement.
    pub(crate) bind_change: Option<BindChange>,
    subqueries: usize,
    /// Number of expressions bound.
    bound: usize,
    /// Levels of the plan above what is being bound.
    depth: usize,
    /// Number of expressions for which the caller has reserved memory.
    foreseen: usize,
    memory: StatementMemory<'a>,
    /// Privileges that the role running the statement needs.
    pub(crate) needs: Needs,
    /// Where what has been bound can run.
    pub(crate) route: Route,
    /// The sessions that it interrupts.
    pub(crate) interrupts: Interrupts,
    /// Whether the query that is planned next is a cursor's; see
    /// [`crate::select::plan_cursor`].
    pub(crate) wants_records: bool,
    /// The tables whose records the rows of that query have, by OID.
    pub(crate) records: Vec<u32>,
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
            levels: Vec::new(),
            windows: Windows::Forbidden,
            groupings: Vec::new(),
            sets: None,
            with: Vec::new(),
            wants_shape: false,
            shapes: BTreeMap::new(),
            engine: None,
            counted: BTreeMap::new(),
            views: crate::select::Views::default(),
            tables_planned: Vec::new(),
            recursive_body: None,
            recursion: Recursion::Permitted,
            changes: Vec::new(),
            bind_change: None,
            subqueries: 0,
            bound: 0,
            depth: 0,
            foreseen: usize::MAX,
            memory: StatementMemory::new(usize::MAX, session.around.budget()),
            needs: Needs::default(),
            route: Route::Anywhere,
            interrupts: Interrupts::default(),
            wants_records: false,
            records: Vec::new(),
        }
    }

    /// Records that the caller has reserved `bytes` of memory for the plan. For more
    /// than that, as when a WITH query is planned repeatedly, the binder takes memory
    /// from the budget itself.
    pub(crate) fn foresee(&mut self, bytes: u64) {
        self.foreseen = usize::try_from(bytes / PLANNED).unwrap_or(usize::MAX);
    }

    /// The position of a byte of the text.
    pub(crate) fn position(&self, at: u32) -> Option<u32> {
        (self.locate)(at)
    }

    /// Binds or plans what is `levels` below the present level of the plan; fails with 54001
    /// if that is too deep.
    pub(crate) fn below<T>(
        &mut self,
        levels: usize,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let above = self.descend(levels)?;
        let result = with_stack(|| bind(self));
        self.ascend(above);
        result
    }

    /// Goes so many levels down, for a binder that has this one in it. Returns where to
    /// [ascend](Self::ascend) to.
    pub(crate) fn descend(&mut self, levels: usize) -> Result<usize> {
        let above = self.depth;
        if above + levels > DEEPEST {
            return Err(Error::too_complex());
        }
        self.depth += levels;
        Ok(above)
    }

    pub(crate) const fn ascend(&mut self, above: usize) {
        self.depth = above;
    }

    pub(crate) fn next_subquery(&mut self) -> usize {
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
        self.below(1, |binder| binder.bind_here(expr, scope))
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
        let position = self.position(expr.at);
        match &expr.kind {
            ExprKind::Literal(literal) => constant(literal)
                .map(|bound| bound.at(position))
                .map_err(|error| error.at(position)),
            ExprKind::Column { path, star: false } => self.column(path, scope),
            ExprKind::Column { star: true, .. } => Err(Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "row expansion via \"*\" is not supported here",
            )
            .at(position)),
            ExprKind::Parameter(number) => self
                .parameter(*number)
                .map(|bound| bound.at(position))
                .map_err(|error| error.at(position)),
            ExprKind::Default => {
                Err(Error::syntax("DEFAULT is not allowed in this context").at(position))
            }
            ExprKind::Indirection(base, steps) => self.indirection(base, steps, scope),
            ExprKind::Binary(first, rest) => self.operators(first, rest, scope),
            ExprKind::Prefix(operator, operand) => self.prefix(operator, operand, scope),
            ExprKind::Not(operand) => self.not(operand, scope),
            ExprKind::And(operands) => self.chain(operands, true, scope),
            ExprKind::Or(operands) => self.chain(operands, false, scope),
            ExprKind::Is(test) => self.is(test, position, scope),
            ExprKind::Distinct(test) => {
                self.distinct(&test.left, &test.right, test.negated, position, scope)
            }
            ExprKind::Like(test) => self.like(test, position, scope),
            ExprKind::Between(test) => self.between(test, position, scope),
            ExprKind::InList(test) => self.in_list(test, position, scope),
            ExprKind::InQuery(test) => {
                self.in_subquery(&test.operand, &test.query, test.negated, position, scope)
            }
            ExprKind::Quantified(test) => self.quantified(test, position, scope),
            ExprKind::Overlaps(left, right) => {
                let ends = left.iter().chain(right);
                let ends: Result<Vec<Bound>> = ends.map(|end| self.bind(end, scope)).collect();
                self.call_with("overlaps", ends?, position)
            }
            ExprKind::Exists(query) => self.exists(query, scope),
            ExprKind::Subquery(query) => self.scalar_subquery(query, scope),
            ExprKind::Array(elements) => self.array(elements, scope),
            ExprKind::ArrayQuery(query) => self.array_subquery(query, scope),
            ExprKind::Row(row) => self.row(&row.fields, position, scope),
            ExprKind::Case(case) => self.case(case, scope),
            ExprKind::Cast(cast) => self.explicit_cast(cast, scope),
            ExprKind::Collate(operand, collation) => {
                check_collation(collation).map_err(|error| error.at(position))?;
                self.bind(operand, scope)
            }
            ExprKind::AtTimeZone(time, zone) => {
                let zone = self.bind(zone, scope)?;
                let time = self.bind(time, scope)?;
                self.call_with("timezone", vec![zone, time], position)
            }
            ExprKind::Function(call) => self.function(call, position, scope),
            ExprKind::Special(special) => self.special(special, position, scope),
            ExprKind::Grouping(arguments) => self.grouping(arguments, position, scope),
        }
    }

    /// Binds a GROUPING operation; the planner checks its arguments.
    fn grouping(
        &mut self,
        arguments: &[Expr],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        if arguments.len() > 31 {
            return Err(Error::new(
                SqlState::TOO_MANY_ARGUMENTS,
                "GROUPING must have fewer than 32 arguments",
            )
            .at(position));
        }
        let taken_before = scope.frame.counts();
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bound.push(self.bind(argument, scope)?.expression);
        }
        let operation = self.place_grouping(bound, position, scope, &taken_before)?;
        Ok(Bound::new(operation, DataType::Int4).at(position))
    }

    fn parameter(&mut self, number: u32) -> Result<Bound> {
        let number = usize::try_from(number)
            .ok()
            .filter(|number| (1..=Parameters::MOST).contains(number))
            .ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_PARAMETER,
                    format!("there is no parameter ${number}"),
                )
            })?;
        let known = self.parameters.known(number - 1);
        Ok(Bound::new(
            Expression::Parameter(number - 1),
            known.unwrap_or(DataType::Unknown),
        ))
    }

    fn column(&mut self, path: &Path, scope: &Scope<'_>) -> Result<Bound> {
        let position = self.position(path.at());
        let folded: Vec<String> = path.0.iter().map(fold_name).collect();
        let found = match folded.as_slice() {
            [name] => scope.column(name),
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
            self.views.used(column.origin);
        }
        Ok(Bound {
            expression: column.expression,
            column_type: column.column_type,
            position,
        })
    }

    fn explicit_cast(&mut self, cast: &tree::Cast, scope: &Scope<'_>) -> Result<Bound> {
        let bound = self.bind(&cast.operand, scope)?;
        let to =
            resolve_type(&cast.target).map_err(|error| error.at(self.position(cast.target.at)))?;
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

    /// Binds ROW(…) as a value.
    fn row(&mut self, fields: &[Expr], position: Option<u32>, scope: &Scope<'_>) -> Result<Bound> {
        let mut values = Vec::with_capacity(fields.len());
        for field in fields {
            let bound = self.bind(field, scope)?;
            values.push(self.settle(bound)?.expression);
        }
        Ok(Bound::new(Expression::Array(values), DataType::Record).at(position))
    }

    fn case(&mut self, case: &tree::Case, scope: &Scope<'_>) -> Result<Bound> {
        let operand = match &case.operand {
            Some(operand) => Some(self.bind(operand, scope)?),
            None => None,
        };
        let mut tests = Vec::with_capacity(case.branches.len());
        let mut results = Vec::with_capacity(case.branches.len() + 1);
        for (condition, result) in &case.branches {
            tests.push(match &operand {
                None => self.bind_condition(condition, scope, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.bind(condition, scope)?;
                    self.compare(super::Comparison::Equal, operand.clone(), value, None)?
                        .expression
                }
            });
            results.push(self.bind(result, scope)?);
        }
        results.push(match &case.otherwise {
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

    fn indirection(&mut self, base: &Expr, steps: &[Step], scope: &Scope<'_>) -> Result<Bound> {
        let mut steps = steps;
        let mut bound = match steps {
            [Step::Field(field), rest @ ..] => {
                match self.field_of_set(base, &fold_name(field), scope)? {
                    Some(bound) => {
                        steps = rest;
                        bound
                    }
                    None => self.bind(base, scope)?,
                }
            }
            _ => self.bind(base, scope)?,
        };
        for step in steps {
            if let (Step::Field(field), DataType::Record) = (step, bound.column_type.data_type) {
                let position = bound.position;
                let found =
                    call::field_of_row(bound.column_type, &fold_name(field), self.session.system);
                let (place, data_type) = found.map_err(|error| error.at(position))?;
                let place = Expression::Constant(Value::Int4(place as i32 + 1));
                let field = Expression::Subscript(Box::new([bound.expression, place]));
                bound = Bound::new(field, data_type).at(position);
                continue;
            }
            let Step::Index(index) = step else {
                return Err(Error::unsupported("a field or a slice of a value").at(bound.position));
            };
            let position = bound.position;
            let data_type = bound.column_type.data_type;
            if data_type == DataType::Jsonb {
                bound = self.jsonb_subscript(bound, index, scope)?;
                continue;
            }
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

/// The value of a literal. A string has no type until its context gives it one.
fn constant(literal: &Literal) -> Result<Bound> {
    Ok(match literal {
        Literal::Integer(value) => {
            Bound::new(Expression::Constant(Value::Int4(*value)), DataType::Int4)
        }
        Literal::Number(digits) => number(digits)?,
        Literal::Boolean(truth) => {
            Bound::new(Expression::Constant(Value::Bool(*truth)), DataType::Bool)
        }
        Literal::Null => Bound::new(Expression::NULL, DataType::Unknown),
        Literal::String(text) => {
            crate::value::check_text(text)?;
            Bound::new(Expression::Constant(Value::text(text)), DataType::Unknown)
        }
        Literal::Bits(_) | Literal::HexBits(_) => {
            return Err(Error::unsupported("the type bit"));
        }
    })
}

/// Binds a numeric literal with the smallest type that holds it.
fn number(digits: &str) -> Result<Bound> {
    let plain;
    let digits = match digits.contains('_') {
        true => {
            plain = digits.replace('_', "");
            plain.as_str()
        }
        false => digits,
    };
    let (sign, magnitude) = match digits.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", digits),
    };
    // The value of `0x…`, `0o…` or `0b…`.
    let based = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => Some(16),
        [b'0', b'o' | b'O', ..] => Some(8),
        [b'0', b'b' | b'B', ..] => Some(2),
        _ => None,
    };
    let decimal;
    let digits = match based {
        None => digits,
        Some(base) => {
            let value = u128::from_str_radix(&magnitude[2..], base);
            let value = value.map_err(|_| Error::unsupported("a number of more than 128 bits"))?;
            decimal = format!("{sign}{value}");
            decimal.as_str()
        }
    };
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

/// A qualified name as it is shown in messages.
pub(crate) fn joined(path: &Path) -> String {
    let parts: Vec<&str> = path.0.iter().map(|name| name.text.as_str()).collect();
    parts.join(".")
}

/// Refuses a collation that does not compare strings by their bytes, as all here do.
pub(crate) fn check_collation(collation: &Path) -> Result<()> {
    const KNOWN: [&str; 4] = ["C", "POSIX", "default", "ucs_basic"];
    let is_known = |name: &Name| {
        KNOWN
            .iter()
            .any(|known| name.text.eq_ignore_ascii_case(known))
    };
    let is_known = match collation.0.as_slice() {
        [name] => is_known(name),
        [schema, name] => schema.text == "pg_catalog" && is_known(name),
        _ => false,
    };
    match is_known {
        true => Ok(()),
        false => {
            let name = joined(collation);
            Err(Error::unsupported(format_args!("the collation {name}")))
        }
    }
}
