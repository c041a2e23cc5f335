//! The binder for function calls, and for SQL syntax that is shorthand for a function
//! call.

use sqlparser::ast::{
    self, CeilFloorKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TrimWhereField,
};

use super::{Aggregates, Binder, fold_name, span_of};
use crate::expression::function::{self, Place};
use crate::expression::{Bound, Call, Comparison, Expression, Scope};
use crate::route::{Reason, Route};
use crate::select::{bind_set_function, is_set_function};
use crate::value::{ColumnType, DataType, Value};
use crate::{Error, Result, SqlState};

impl Binder<'_> {
    /// Binds an expression whose syntax is shorthand for a function call, such as
    /// EXTRACT.
    pub(super) fn call_syntax(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<Bound> {
        match expression {
            Expr::Function(call) => self.function(call, scope),
            Expr::Extract { field, expr, .. } => {
                let field = field.to_string().to_lowercase();
                let field = Bound::new(
                    Expression::Constant(Value::text(field.trim_matches('\'').trim_matches('"'))),
                    DataType::Text,
                );
                let source = self.bind(expr, scope)?;
                self.call_with("extract", vec![field, source], None)
            }
            Expr::Ceil { expr, field } | Expr::Floor { expr, field } => {
                if !matches!(
                    field,
                    CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)
                ) {
                    return Err(Error::unsupported("rounding to a field"));
                }
                let name = if matches!(expression, Expr::Ceil { .. }) {
                    "ceil"
                } else {
                    "floor"
                };
                self.call_by_name(name, &[expr], scope)
            }
            Expr::Position { expr, r#in } => {
                let needle = self.bind(expr, scope)?;
                let haystack = self.bind(r#in, scope)?;
                self.call_with("strpos", vec![haystack, needle], None)
            }
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let mut arguments = vec![self.bind(expr, scope)?];
                match (substring_from, substring_for) {
                    (from, length) if from.is_some() || length.is_some() => {
                        arguments.push(match from {
                            Some(from) => self.bind(from, scope)?,
                            None => {
                                Bound::new(Expression::Constant(Value::Int4(1)), DataType::Int4)
                            }
                        });
                        if let Some(length) = length {
                            arguments.push(self.bind(length, scope)?);
                        }
                    }
                    _ => {}
                }
                self.call_with("substring", arguments, None)
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut arguments = vec![self.bind(expr, scope)?];
                if let Some(what) = trim_what {
                    arguments.push(self.bind(what, scope)?);
                }
                for what in trim_characters.iter().flatten() {
                    arguments.push(self.bind(what, scope)?);
                }
                self.call_with(name, arguments, None)
            }
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let mut arguments = vec![
                    self.bind(expr, scope)?,
                    self.bind(overlay_what, scope)?,
                    self.bind(overlay_from, scope)?,
                ];
                if let Some(length) = overlay_for {
                    arguments.push(self.bind(length, scope)?);
                }
                self.call_with("overlay", arguments, None)
            }
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let zone = self.bind(time_zone, scope)?;
                let time = self.bind(timestamp, scope)?;
                self.call_with("timezone", vec![zone, time], None)
            }
            other => {
                let shown: String = other.to_string().chars().take(60).collect();
                Err(Error::unsupported(format_args!("the expression {shown}"))
                    .at(self.position(span_of(other))))
            }
        }
    }

    /// Binds a function that SQL calls without parentheses, such as `current_user`.
    pub(super) fn bare_function(&mut self, name: &str) -> Option<Bound> {
        const BARE: [&str; 10] = [
            "current_date",
            "current_timestamp",
            "localtimestamp",
            "current_user",
            "session_user",
            "current_role",
            "user",
            "current_catalog",
            "current_schema",
            "localtime",
        ];
        if !BARE.contains(&name) {
            return None;
        }
        self.call_with(name, Vec::new(), None).ok()
    }

    fn function(&mut self, call: &ast::Function, scope: &Scope<'_>) -> Result<Bound> {
        use sqlparser::ast::Spanned;
        let position = self.position(call.name.span());
        let parts: Vec<String> = call
            .name
            .0
            .iter()
            .filter_map(|part| part.as_ident().map(fold_name))
            .collect();
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
        if call.over.is_some() {
            return Err(Error::unsupported("a window function").at(position));
        }
        if !call.within_group.is_empty() || call.null_treatment.is_some() {
            return Err(Error::unsupported("WITHIN GROUP or a treatment of nulls").at(position));
        }
        if let Some(aggregate) = self.aggregate(&name, call, position, scope)? {
            return Ok(aggregate);
        }
        if call.filter.is_some() {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("FILTER specified, but {name} is not an aggregate function"),
            )
            .at(position));
        }
        let list = match &call.args {
            FunctionArguments::None => &[][..],
            FunctionArguments::List(list) => {
                if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                    return Err(Error::new(
                        SqlState::WRONG_OBJECT_TYPE,
                        format!("{name} is not an aggregate function"),
                    )
                    .at(position));
                }
                &list.args
            }
            FunctionArguments::Subquery(query) if name == "array" => {
                return self.array_subquery(query, scope);
            }
            FunctionArguments::Subquery(query) => {
                let argument = self.scalar_subquery(query, scope)?;
                return self.call_with(&name, vec![argument], position);
            }
        };
        let mut arguments = Vec::with_capacity(list.len());
        for argument in list {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    arguments.push(self.bind(expr, scope)?);
                }
                _ => {
                    return Err(
                        Error::unsupported("a named argument or * of a function").at(position)
                    );
                }
            }
        }
        self.call_with(&name, arguments, position)
    }

    /// Binds argument expressions and calls the function `name` with them.
    pub(super) fn call_by_name(
        &mut self,
        name: &str,
        arguments: &[&Expr],
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let mut bounds = Vec::with_capacity(arguments.len());
        for argument in arguments {
            bounds.push(self.bind(argument, scope)?);
        }
        self.call_with(name, bounds, None)
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
            "coalesce" | "greatest" | "least" if arguments.is_empty() => {
                return Err(Error::syntax("syntax error at or near \")\"").at(position));
            }
            "row" => return Err(Error::unsupported("ROW(…)").at(position)),
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
            "octet_length" => {
                for argument in std::mem::take(&mut arguments) {
                    arguments.push(self.padded(argument)?);
                }
            }
            name if is_set_function(name) => return self.set_result(name, arguments, position),
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
            Place::Session => Route::Leader(Reason::Setting),
        });
        let (wanted, result) = function.signature(&types);
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
        let call = Expression::Call(Box::new(Call {
            function,
            arguments: bound_arguments,
            types: bound_types,
        }));
        Ok(Bound::new(call, result).at(position))
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
        let (function, mut columns) = bind_set_function(self, name, arguments, position)?;
        let Some((_, data_type)) = columns.pop() else {
            return Err(Error::internal("a set of no column"));
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
        Ok(Bound::new(Expression::SetResult(number), data_type).at(position))
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
        let equal = self.compare(Comparison::Equal, left, right)?;
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
