//! The binder for aggregate functions: resolves calls such as `sum(x) FILTER (…)` to an
//! [`AggregateCall`].

use coeval_sql_syntax::tree::{Arguments, Direction, FunctionCall, SortItem};

use super::{Aggregates, Binder, no_equality};
use crate::expression::json::is_structured;
use crate::expression::{Bound, Expression, Scope};
use crate::value::{ColumnType, DataType, Extremes, KeyOrder, NumberType};
use crate::{Error, Result, SqlState};

/// Sort order of an ORDER BY item.
pub(crate) fn key_order(item: &SortItem) -> Result<KeyOrder> {
    let descending = match item.direction {
        Direction::Default | Direction::Ascending => false,
        Direction::Descending => true,
        Direction::Using(_) => return Err(Error::unsupported("ORDER BY USING")),
    };
    Ok(KeyOrder {
        descending,
        nulls_first: item.nulls.is_first(descending),
    })
}

/// An aggregate function that the executor can compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// `count(*)`: the number of rows.
    CountRows,
    /// `count(x)`: the number of values that are not null.
    Count,
    /// `sum(x)`: the sum of the values.
    Sum,
    /// `avg(x)`: the mean of the values.
    Average,
    /// `min(x)`: the smallest value.
    Minimum,
    /// `max(x)`: the largest value.
    Maximum,
    /// `array_agg(x)`: all values as one array.
    Array,
    /// `string_agg(x, separator)`: all values concatenated, with a separator between
    /// them.
    String,
    /// `bool_and(x)` and `every(x)`: whether all values are true.
    Every,
    /// `bool_or(x)`: whether any value is true.
    Any,
    /// `json_agg(x)`: all values as an array of type `json`.
    JsonArray {
        /// Whether each element but the first stands on a line of its own.
        lines: bool,
    },
    /// `jsonb_agg(x)`: all values as an array of type `jsonb`.
    JsonbArray,
    /// `json_object_agg(key, x)`: all pairs as an object of type `json`.
    JsonObject,
    /// `jsonb_object_agg(key, x)`: all pairs as an object of type `jsonb`.
    JsonbObject,
}

impl AggregateFunction {
    /// Whether nulls are values to it.
    pub(crate) const fn takes_nulls(self) -> bool {
        matches!(self, Self::Array) || self.is_json()
    }

    /// Whether its result is a JSON document.
    pub(crate) const fn is_json(self) -> bool {
        matches!(
            self,
            Self::JsonArray { .. } | Self::JsonbArray | Self::JsonObject | Self::JsonbObject
        )
    }

    /// Number of its arguments.
    const fn arguments(self) -> usize {
        match self {
            Self::String | Self::JsonObject | Self::JsonbObject => 2,
            _ => 1,
        }
    }
}

/// A bound call of an aggregate function.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The aggregate function.
    pub function: AggregateFunction,
    /// The aggregated expression; `None` for `count(*)`.
    pub argument: Option<Expression>,
    /// The argument's type.
    pub argument_type: ColumnType,
    /// Separator that `string_agg` puts between two strings, or the value that
    /// `json_object_agg` gives the key.
    pub separator: Option<Expression>,
    /// Whether the call says DISTINCT: the executor aggregates each value once.
    pub distinct: bool,
    /// The FILTER condition: the executor aggregates only rows for which it is true.
    pub filter: Option<Expression>,
    /// The ORDER BY of the call, for aggregates whose result depends on the order of
    /// the rows: sort expression, descending, nulls first.
    pub order: Vec<(Expression, bool, bool)>,
    /// Type of the aggregate's result.
    pub result: ColumnType,
}

fn by_name(name: &str) -> Option<AggregateFunction> {
    Some(match name {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Average,
        "min" => AggregateFunction::Minimum,
        "max" => AggregateFunction::Maximum,
        "array_agg" => AggregateFunction::Array,
        "string_agg" => AggregateFunction::String,
        "bool_and" | "every" => AggregateFunction::Every,
        "bool_or" => AggregateFunction::Any,
        "json_agg" => AggregateFunction::JsonArray { lines: false },
        "jsonb_agg" => AggregateFunction::JsonbArray,
        "json_object_agg" => AggregateFunction::JsonObject,
        "jsonb_object_agg" => AggregateFunction::JsonbObject,
        _ => return None,
    })
}

impl Binder<'_> {
    /// Binds the call if its name is the name of an aggregate.
    pub(super) fn aggregate(
        &mut self,
        name: &str,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Option<Bound>> {
        let Some(function) = by_name(name) else {
            return Ok(None);
        };
        let clause = match &self.aggregates {
            Aggregates::Forbidden(clause) => Some(*clause),
            Aggregates::Collected(_) => None,
        };
        if let Some(clause) = clause {
            let message = if clause == "aggregate" {
                "aggregate function calls cannot be nested".to_owned()
            } else {
                format!("aggregate functions are not allowed in {clause}")
            };
            return Err(Error::new(SqlState::GROUPING_ERROR, message).at(position));
        }
        let outer = std::mem::replace(&mut self.aggregates, Aggregates::Forbidden("aggregate"));
        let bound = self.aggregate_call(name, function, call, position, scope);
        self.aggregates = outer;
        let bound = bound?;
        let result = bound.result;
        let Aggregates::Collected(calls) = &mut self.aggregates else {
            return Err(Error::internal("aggregates are not collected here"));
        };
        let number = match calls.iter().position(|known| *known == bound) {
            Some(number) => number,
            None => {
                calls.push(bound);
                calls.len() - 1
            }
        };
        Ok(Some(
            Bound::new(Expression::Aggregate(number), result).at(position),
        ))
    }

    fn aggregate_call(
        &mut self,
        name: &str,
        mut function: AggregateFunction,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<AggregateCall> {
        let mut bounds = Vec::new();
        let mut order = Vec::new();
        let (wildcard, distinct) = match &call.arguments {
            Arguments::Star => (true, false),
            Arguments::List(list) => {
                if list.variadic {
                    return Err(Error::unsupported("VARIADIC").at(position));
                }
                for argument in &list.arguments {
                    if argument.name.is_some() {
                        return Err(Error::unsupported("a named argument").at(position));
                    }
                    let (bound, is_row) = match function.is_json() {
                        true => self.value_or_row(&argument.value, scope)?,
                        false => (self.bind(&argument.value, scope)?, false),
                    };
                    if let AggregateFunction::JsonArray { lines } = &mut function {
                        *lines |= is_row || is_structured(bound.column_type.data_type);
                    }
                    bounds.push(bound);
                }
                for item in &list.order {
                    let key = self.bind(&item.expr, scope)?;
                    let key = self.settle(key)?.expression;
                    let sorted = key_order(item).map_err(|error| error.at(position))?;
                    order.push((key, sorted.descending, sorted.nulls_first));
                }
                (false, list.distinct)
            }
        };
        let filter = match &call.filter {
            Some(filter) => Some(self.bind_condition(filter, scope, "FILTER")?),
            None => None,
        };
        if wildcard {
            if function != AggregateFunction::Count {
                return Err(wrong_arguments(name, &[]).at(position));
            }
            return Ok(AggregateCall {
                function: AggregateFunction::CountRows,
                argument: None,
                argument_type: DataType::Int8.into(),
                separator: None,
                distinct: false,
                filter,
                order: Vec::new(),
                result: DataType::Int8.into(),
            });
        }
        let types: Vec<DataType> = bounds
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        if bounds.len() != function.arguments() {
            if function == AggregateFunction::Count && bounds.is_empty() {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "count(*) must be used to call a parameterless aggregate function",
                )
                .at(position));
            }
            return Err(wrong_arguments(name, &types).at(position));
        }
        let separator = if function == AggregateFunction::String {
            let separator = bounds
                .pop()
                .ok_or_else(|| Error::internal("no separator"))?;
            Some(self.implicit(separator, DataType::Text)?.expression)
        } else if function.arguments() == 2 {
            let value = bounds.pop().ok_or_else(|| Error::internal("no value"))?;
            let value = self.settle(value)?;
            let convert = match function {
                AggregateFunction::JsonObject => "to_json",
                _ => "to_jsonb",
            };
            Some(self.call_with(convert, vec![value], position)?.expression)
        } else {
            None
        };
        let argument = bounds.pop().ok_or_else(|| Error::internal("no argument"))?;
        let (argument_type, result) = signature(function, argument.column_type)
            .ok_or_else(|| wrong_arguments(name, &types).at(position))?;
        if distinct && let Some(error) = no_equality(argument_type.data_type) {
            return Err(error.at(position));
        }
        let argument = self
            .cast(
                argument,
                argument_type,
                crate::expression::CastContext::Implicit,
            )?
            .expression;
        if function == AggregateFunction::Count
            && matches!(argument, Expression::Constant(ref value) if !value.is_null())
            && !distinct
        {
            function = AggregateFunction::CountRows;
        }
        Ok(AggregateCall {
            function,
            argument: Some(argument),
            argument_type,
            separator,
            distinct,
            filter,
            order,
            result,
        })
    }
}

/// For an argument of type `given`: the type to which the binder casts the argument,
/// and the type of the result.
fn signature(function: AggregateFunction, given: ColumnType) -> Option<(ColumnType, ColumnType)> {
    use DataType as T;
    use NumberType as N;
    let data_type = given.data_type;
    let same = |data_type: T| Some((ColumnType::from(data_type), ColumnType::from(data_type)));
    let to = |from: T, result: T| Some((from.into(), result.into()));
    let settled = if data_type == T::Unknown {
        T::Text
    } else {
        data_type
    };
    match function {
        AggregateFunction::CountRows | AggregateFunction::Count => to(settled, T::Int8),
        AggregateFunction::Sum | AggregateFunction::Average
            if matches!(data_type, T::Interval | T::Time) =>
        {
            same(T::Interval)
        }
        AggregateFunction::Sum => match data_type.number()? {
            N::Int2 | N::Int4 => to(data_type, T::Int8),
            N::Int8 => to(T::Int8, T::Numeric),
            N::Numeric | N::Float4 | N::Float8 => same(data_type),
        },
        AggregateFunction::Average => match data_type.number()? {
            N::Int2 | N::Int4 | N::Int8 | N::Numeric => to(data_type, T::Numeric),
            N::Float4 => to(T::Float8, T::Float8),
            N::Float8 => same(data_type),
        },
        AggregateFunction::Minimum | AggregateFunction::Maximum => {
            match data_type.facts().extremes {
                Extremes::None => None,
                // Keeps the length modifier; a bare `char` would cut the value to one
                // character.
                Extremes::Same if data_type == T::Char => Some((given, T::Char.into())),
                Extremes::Same => same(data_type),
                Extremes::Of(other) => same(other),
            }
        }
        AggregateFunction::Array => to(settled, settled.array()?),
        AggregateFunction::String => match data_type {
            T::Unknown => to(T::Text, T::Text),
            data_type if data_type.is_string() => to(T::Text, T::Text),
            _ => None,
        },
        AggregateFunction::JsonArray { .. } | AggregateFunction::JsonObject => to(settled, T::Json),
        AggregateFunction::JsonbArray | AggregateFunction::JsonbObject => to(settled, T::Jsonb),
        AggregateFunction::Every | AggregateFunction::Any => match data_type {
            T::Bool | T::Unknown => to(T::Bool, T::Bool),
            _ => None,
        },
    }
}

fn wrong_arguments(name: &str, types: &[DataType]) -> Error {
    let names: Vec<&str> = types.iter().map(|each| each.sql_name()).collect();
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", names.join(", ")),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
