//! The binder for function calls, and for SQL syntax that is shorthand for a function
//! call.

use coeval_sql_syntax::tree::{
    Argument, Arguments, Expr, ExprKind, FunctionCall, Special, SqlValue, SubstringCall, TrimSide,
};

use smol_str::SmolStr;

use super::window::is_window_function;
use super::{Aggregates, Binder, fold_name, json};
use crate::expression::function::{self, Place};
use crate::expression::{
    Bound, Call, Comparison, EvaluationContext, Expression, Scope, SystemObjects, TableFunction,
};
use crate::route::{Reason, Route};
use crate::select::{SetKind, SetPlace, bind_set_function, is_set_function};
use crate::value::{ColumnType, DataType, Value};
use crate::{Error, Result, SqlState};

/// Names of a function's parameters.
struct ParameterNames {
    names: &'static [&'static str],
    /// Whether a parameter that a call leaves out is zero.
    zero_by_default: bool,
}

/// The names of the parameters of those functions that are called with names.
fn parameter_names(function: &str) -> Option<&'static ParameterNames> {
    Some(match function {
        "make_interval" => &ParameterNames {
            names: &["years", "months", "weeks", "days", "hours", "mins", "secs"],
            zero_by_default: true,
        },
        "make_date" => &ParameterNames {
            names: &["year", "month", "day"],
            zero_by_default: false,
        },
        "make_time" => &ParameterNames {
            names: &["hour", "min", "sec"],
            zero_by_default: false,
        },
        "make_timestamp" => &ParameterNames {
            names: &["year", "month", "mday", "hour", "min", "sec"],
            zero_by_default: false,
        },
        "make_timestamptz" => &ParameterNames {
            names: &["year", "month", "mday", "hour", "min", "sec", "timezone"],
            zero_by_default: false,
        },
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds a call with a syntax of its own, such as EXTRACT.
    pub(super) fn special(
        &mut self,
        special: &Special,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let int4 = |value| Bound::new(Expression::Constant(Value::Int4(value)), DataType::Int4);
        let (name, arguments) = match special {
            Special::Value(value, precision) => {
                let digits = precision.iter().map(|digits| int4(*digits));
                (value_name(*value), digits.collect())
            }
            Special::Coalesce(operands) => ("coalesce", self.bind_all(operands, scope)?),
            Special::Greatest(operands) => ("greatest", self.bind_all(operands, scope)?),
            Special::Least(operands) => ("least", self.bind_all(operands, scope)?),
            Special::NullIf(left, right) => ("nullif", self.bind_all([left, right], scope)?),
            Special::Extract(field, source) => {
                let field = field.to_lowercase();
                let field = Bound::new(Expression::Constant(Value::text(&field)), DataType::Text);
                ("extract", vec![field, self.bind(source, scope)?])
            }
            Special::Position(part, text) => {
                let arguments = self.bind_all([text, part], scope)?;
                let is_bytes = |bound: &Bound| bound.column_type.data_type == DataType::Bytea;
                match arguments.iter().any(is_bytes) {
                    true => ("position", arguments),
                    false => ("strpos", arguments),
                }
            }
            Special::Substring(SubstringCall {
                similar: Some(_), ..
            }) => return Err(Error::unsupported("SUBSTRING … SIMILAR").at(position)),
            Special::Substring(call) => {
                let mut arguments = vec![self.bind(&call.text, scope)?];
                arguments.push(match &call.from {
                    Some(from) => self.bind(from, scope)?,
                    None => int4(1),
                });
                if let Some(length) = &call.length {
                    arguments.push(self.bind(length, scope)?);
                }
                ("substring", arguments)
            }
            Special::Overlay {
                text,
                placing,
                from,
                length,
            } => {
                let operands = [text, placing, from].into_iter().chain(length);
                ("overlay", self.bind_all(operands, scope)?)
            }
            Special::Plain(name, arguments) => {
                let arguments = self.positional(arguments, position, scope)?;
                (*name, arguments)
            }
            Special::Trim(side, arguments) => {
                let name = match side {
                    TrimSide::Both => "btrim",
                    TrimSide::Leading => "ltrim",
                    TrimSide::Trailing => "rtrim",
                };
                (name, self.bind_all(arguments, scope)?)
            }
            Special::CollationFor(_) => {
                return Err(Error::unsupported("COLLATION FOR").at(position));
            }
            Special::Normalize(..) => return Err(Error::unsupported("NORMALIZE").at(position)),
            Special::Treat(..) => return Err(Error::unsupported("TREAT").at(position)),
            Special::Xml(_) => return Err(Error::unsupported("the type xml").at(position)),
        };
        self.call_with(name, arguments, position)
    }

    fn bind_all<'expr>(
        &mut self,
        operands: impl IntoIterator<Item = &'expr coeval_sql_syntax::tree::Expr>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Bound>> {
        operands
            .into_iter()
            .map(|each| self.bind(each, scope))
            .collect()
    }

    /// Binds arguments that have no names.
    pub(crate) fn positional(
        &mut self,
        arguments: &[Argument],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Bound>> {
        if arguments.iter().any(|argument| argument.name.is_some()) {
            return Err(Error::unsupported("a named argument of a function").at(position));
        }
        self.bind_all(arguments.iter().map(|argument| &argument.value), scope)
    }

    pub(super) fn function(
        &mut self,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let parts: Vec<String> = call.name.0.iter().map(fold_name).collect();
        let name = match parts.as_slice() {
            [name] => name.clone(),
            [schema, name] if schema == "pg_catalog" || schema == "information_schema" => {
                name.clone()
            }
            // Functions that PostgreSQL does not have are called by a name that
            // includes their schema.
            [schema, _] if schema == "coeval" => parts.join("."),
            _ => {
                return Err(Error::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {} does not exist", parts.join(".")),
                )
                .at(position));
            }
        };
        if let Some(over) = &call.over {
            return self.window_call(&name, call, over, position, scope);
        }
        if let Some(aggregate) = self.aggregate(&name, call, position, scope)? {
            return Ok(aggregate);
        }
        let count = match &call.arguments {
            Arguments::List(list) => list.arguments.len(),
            Arguments::Star => 0,
        };
        Self::require_order(&name, count, position)?;
        if is_window_function(&name) {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("window function {name} requires an OVER clause"),
            )
            .at(position));
        }
        if call.filter.is_some() {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("FILTER specified, but {name} is not an aggregate function"),
            )
            .at(position));
        }
        let list = match &call.arguments {
            Arguments::Star => {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("{name}(*) specified, but {name} is not an aggregate function"),
                )
                .at(position));
            }
            Arguments::List(list) => list,
        };
        let refused = match (list.distinct, list.order.is_empty(), list.variadic) {
            (true, ..) => Some("DISTINCT"),
            (_, false, _) => Some("ORDER BY"),
            // These take their path as an array, too.
            (_, _, true) if name.contains("_extract_path") => None,
            (_, _, true) => return Err(Error::unsupported("VARIADIC").at(position)),
            _ => None,
        };
        if let Some(clause) = refused {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{clause} specified, but {name} is not an aggregate function"),
            )
            .at(position));
        }
        let arguments = match parameter_names(&name) {
            Some(names) => self.by_name(&name, names, &list.arguments, position, scope)?,
            None if json::takes_rows(&name) => {
                self.arguments_or_rows(&list.arguments, position, scope)?
            }
            None => self.positional(&list.arguments, position, scope)?,
        };
        json::check_known(&name, &arguments).map_err(|error| error.at(position))?;
        self.call_with(&name, arguments, position)
    }

    /// Binds arguments of a function whose parameters have names. One that is left out has its
    /// default, if the parameters have some.
    fn by_name(
        &mut self,
        function: &str,
        parameters: &ParameterNames,
        arguments: &[Argument],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Bound>> {
        let mut bounds: Vec<Option<Bound>> = Vec::new();
        let mut given = Vec::with_capacity(arguments.len());
        let none_such = |given: &[String]| {
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {function}({}) does not exist", given.join(", ")),
            )
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
            .at(position)
        };
        let mut has_name = false;
        for argument in arguments {
            let bound = self.bind(&argument.value, scope)?;
            let data_type = bound.column_type.data_type;
            given.push(match &argument.name {
                Some(name) => format!("{} => {data_type}", fold_name(name)),
                None => data_type.to_string(),
            });
            let Some(name) = &argument.name else {
                if has_name {
                    let message = "positional argument cannot follow named argument";
                    return Err(Error::syntax(message).at(position));
                }
                bounds.push(Some(bound));
                continue;
            };
            has_name = true;
            let name = fold_name(name);
            let place = parameters.names.iter().position(|known| *known == name);
            let Some(place) = place else {
                return Err(none_such(&given));
            };
            if bounds.len() <= place {
                bounds.resize(place + 1, None);
            }
            if bounds[place].replace(bound).is_some() {
                return Err(
                    Error::syntax(format!("argument name \"{name}\" used more than once"))
                        .at(position),
                );
            }
        }
        if parameters.zero_by_default {
            let count = parameters.names.len();
            bounds.resize(bounds.len().max(count), None);
        }
        let zero = || Bound::new(Expression::Constant(Value::Int4(0)), DataType::Int4);
        let all: Option<Vec<Bound>> = bounds
            .into_iter()
            .map(|bound| bound.or_else(|| parameters.zero_by_default.then(zero)))
            .collect();
        all.ok_or_else(|| none_such(&given))
    }

    /// Overload resolution: calls the function `name` whose parameters fit the bound
    /// arguments best.
    pub(crate) fn call_with(
        &mut self,
        name: &str,
        mut arguments: Vec<Bound>,
        position: Option<u32>,
    ) -> Result<Bound> {
        let position = position.or_else(|| arguments.first().and_then(|bound| bound.position));
        match name {
            "coalesce" => {
                let (operands, column_type) = self.unify(arguments, "COALESCE")?;
                return Ok(Bound::new(Expression::Coalesce(operands), column_type).at(position));
            }
            "greatest" | "least" => {
                let (operands, column_type) = self.unify(arguments, &name.to_uppercase())?;
                let expression = Expression::Extreme {
                    greatest: name == "greatest",
                    operands,
                };
                return Ok(Bound::new(expression, column_type).at(position));
            }
            "nullif" => return self.null_if(arguments, position),
            // A literal has no type yet, and that is the answer.
            "pg_typeof"
                if matches!(arguments.as_slice(), [only]
                    if only.column_type.data_type == DataType::Unknown
                        && matches!(only.expression, Expression::Constant(_))) =>
            {
                let types = [DataType::Unknown];
                let function = function::resolve(name, &types, self.session.system)?;
                let arguments = arguments
                    .into_iter()
                    .map(|bound| bound.expression)
                    .collect();
                let types = vec![DataType::Unknown.into()];
                let call = Expression::Call(Box::new(Call {
                    function,
                    arguments,
                    types,
                }));
                return Ok(Bound::new(call, DataType::Regtype).at(position));
            }
            "octet_length" => {
                for argument in std::mem::take(&mut arguments) {
                    arguments.push(self.padded(argument)?);
                }
            }
            name if is_set_function(name, self.session.system) => {
                return self.set_result(name, arguments, position);
            }
            _ => {}
        }
        if self.is_cast_by_call(name, &arguments) {
            return self.cast_by_call(name, arguments, position);
        }
        let types: Vec<DataType> = arguments
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        let function = function::resolve(name, &types, self.session.system)
            .map_err(|error| error.at(position))?;
        self.route = self.route.and(match function.place {
            Place::Anywhere => Route::Anywhere,
            Place::Leader => Route::Leader(Reason::Function),
            Place::Interrupts => Route::Leader(Reason::Interrupts),
            Place::Session => Route::Leader(Reason::Setting),
        });
        let (wanted, result) = function.signature(&types);
        let first_at = arguments.first().and_then(|bound| bound.position);
        let mut bound_arguments = Vec::with_capacity(arguments.len());
        let mut bound_types: Vec<ColumnType> = Vec::with_capacity(arguments.len());
        for (argument, wanted) in arguments.into_iter().zip(wanted) {
            let given = argument.column_type;
            let cast = if given.data_type == wanted {
                argument
            } else {
                self.implicit(argument, wanted)?
            };
            bound_types.push(cast.column_type);
            bound_arguments.push(cast.expression);
        }
        if matches!(function.name, "nextval" | "setval" | "currval")
            && let Some(first) = bound_arguments.first_mut()
        {
            self.name_sequence(first, function.name != "currval")
                .map_err(|error| error.at(first_at))?;
        }
        if function.place == Place::Interrupts {
            self.interrupts.note(bound_arguments.first());
        }
        let call = Expression::Call(Box::new(Call {
            function,
            arguments: bound_arguments,
            types: bound_types,
        }));
        Ok(Bound::new(call, result).at(position))
    }

    /// Looks up the sequence that a literal names, as PostgreSQL does when it analyzes a
    /// statement, so that the statement can lock it before it runs.
    fn name_sequence(&mut self, argument: &mut Expression, locks: bool) -> Result<()> {
        if let Expression::Cast(cast) = argument
            && let Expression::Constant(Value::Text(text)) = &cast.input
            && cast.to.data_type == DataType::Regclass
        {
            let context = EvaluationContext::new(self.session, self.catalog, &[], None);
            let found = (self.session.system.by_name)(DataType::Regclass, text, &context)?;
            *argument = Expression::Constant(found);
        }
        if let Expression::Constant(Value::Object(oid, _)) = argument
            && locks
        {
            self.needs.sequence(*oid);
        }
        Ok(())
    }

    /// Binds a set-returning function outside FROM.
    fn set_result(
        &mut self,
        name: &str,
        arguments: Vec<Bound>,
        position: Option<u32>,
    ) -> Result<Bound> {
        let unsupported = |what: &str| {
            Error::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("set-returning functions are not allowed {what}"),
            )
            .at(position)
        };
        let nested = arguments.iter().any(|bound| {
            bound
                .expression
                .any(&|each| matches!(each, Expression::SetResult(_)))
        });
        if nested {
            return Err(unsupported("in the arguments of others"));
        }
        let (function, columns) =
            bind_set_function(self, name, arguments, SetPlace::List, position)?;
        let column_type = match (function.kind, columns.as_slice()) {
            (SetKind::Packed(table), columns) => row_type(table, columns),
            (_, [(_, data_type)]) => (*data_type).into(),
            _ => return Err(Error::unsupported("a row as a value").at(position)),
        };
        let Some(sets) = &mut self.sets else {
            let place = match &self.aggregates {
                Aggregates::Forbidden(clause) => format!("in {clause}"),
                Aggregates::Collected(_) => "in HAVING".to_owned(),
            };
            return Err(unsupported(&place));
        };
        sets.push(function);
        let number = sets.len() - 1;
        Ok(Bound::new(Expression::SetResult(number), column_type).at(position))
    }

    /// Binds `(f(…)).field`, where `f` returns rows; `None` if it does not.
    pub(super) fn field_of_set(
        &mut self,
        base: &Expr,
        field: &str,
        scope: &Scope<'_>,
    ) -> Result<Option<Bound>> {
        let ExprKind::Function(call) = &base.kind else {
            return Ok(None);
        };
        let name = call.name.0.last().map(fold_name).unwrap_or_default();
        if self.session.system.table_functions(&name).next().is_none() {
            return Ok(None);
        }
        let bound = self.bind(base, scope)?;
        let position = bound.position;
        let (Expression::SetResult(number), Some(sets)) = (&bound.expression, &mut self.sets)
        else {
            return Ok(None);
        };
        let set = &mut sets[*number];
        let SetKind::Packed(table) = set.kind else {
            return Ok(None);
        };
        let element = DataType::from_oid(bound.column_type.modifier.max(0).unsigned_abs());
        let Some((column, data_type)) = table.field(field, element) else {
            return Err(no_field(field).at(position));
        };
        set.kind = SetKind::Field(table, column);
        Ok(Some(Bound::new(bound.expression, data_type).at(position)))
    }

    fn null_if(&mut self, arguments: Vec<Bound>, position: Option<u32>) -> Result<Bound> {
        let [left, right]: [Bound; 2] = arguments
            .try_into()
            .map_err(|_| Error::syntax("NULLIF takes two arguments").at(position))?;
        // A literal takes the type in which the two operands are compared.
        let left = match (left.column_type.data_type, right.column_type.data_type) {
            (DataType::Unknown, DataType::Unknown) => self.settle(left)?,
            (DataType::Unknown, other) => self.implicit(left, other)?,
            _ => left,
        };
        // The value has the type that the operator `=` takes on its left, so that a value
        // and what it is compared with cannot differ in a digit that the type lacks.
        let (from, to) = (left.column_type.data_type, right.column_type.data_type);
        let value = match super::operator::left_operand_type(from, to) {
            Some(operand) if operand != from => self.implicit(left.clone(), operand)?,
            _ => left.clone(),
        };
        let equal = self.compare(Comparison::Equal, left, right, position)?;
        Ok(Bound::new(
            Expression::NullIf(Box::new([equal.expression, value.expression])),
            value.column_type,
        )
        .at(position))
    }

    /// Whether the call is a cast such as `int4('7')`: the name is the name of a type,
    /// and no function has that name.
    fn is_cast_by_call(&self, name: &str, arguments: &[Bound]) -> bool {
        arguments.len() == 1
            && !function::exists(name, self.session.system)
            && DataType::ALL.iter().any(|known| known.name() == name)
    }

    fn cast_by_call(
        &mut self,
        name: &str,
        arguments: Vec<Bound>,
        position: Option<u32>,
    ) -> Result<Bound> {
        let target = DataType::ALL
            .iter()
            .find(|known| known.name() == name)
            .copied()
            .ok_or_else(|| Error::internal("not a type"))?;
        let argument = arguments
            .into_iter()
            .next()
            .ok_or_else(|| Error::internal("no argument"))?;
        self.cast(
            argument,
            target.into(),
            crate::expression::CastContext::Explicit,
        )
        .map_err(|error| error.at(position))
    }
}

/// The type of a row that a table function returns. The type of an element stands for the
/// pair of `_pg_expandarray`.
fn row_type(table: &TableFunction, columns: &[(SmolStr, DataType)]) -> ColumnType {
    let modifier = match (table.name, columns) {
        (PAIRS, [(_, element), _]) => i32::try_from(element.oid()).unwrap_or(-1),
        _ => -1,
    };
    ColumnType {
        data_type: DataType::Record,
        modifier,
    }
}

/// The field of a row: its position and its type; error 42703.
pub(super) fn field_of_row(
    row: ColumnType,
    field: &str,
    system: &SystemObjects,
) -> Result<(usize, DataType)> {
    let element = DataType::from_oid(row.modifier.max(0).unsigned_abs());
    let pairs = system.table_functions(PAIRS).next();
    let found = pairs.filter(|_| row.modifier > 0);
    found
        .and_then(|pairs| pairs.field(field, element))
        .ok_or_else(|| no_field(field))
}

/// The function whose rows have fields wherever they are.
const PAIRS: &str = "_pg_expandarray";

fn no_field(field: &str) -> Error {
    Error::new(
        SqlState::UNDEFINED_COLUMN,
        format!("could not identify column \"{field}\" in record data type"),
    )
}

/// The name of a value that SQL writes as a word, which is its function's and its column's.
pub(crate) fn value_name(value: SqlValue) -> &'static str {
    match value {
        SqlValue::CurrentDate => "current_date",
        SqlValue::CurrentTime => "current_time",
        SqlValue::CurrentTimestamp => "current_timestamp",
        SqlValue::Localtime => "localtime",
        SqlValue::Localtimestamp => "localtimestamp",
        SqlValue::CurrentRole => "current_role",
        SqlValue::CurrentUser => "current_user",
        SqlValue::SessionUser => "session_user",
        SqlValue::User => "user",
        SqlValue::CurrentCatalog => "current_catalog",
        SqlValue::CurrentSchema => "current_schema",
    }
}
