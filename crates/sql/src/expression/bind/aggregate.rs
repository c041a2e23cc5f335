//! The binder for aggregate functions: resolves calls such as `sum(x) FILTER (…)` to an
//! [`AggregateCall`].

use coeval_sql_syntax::tree::{Arguments, Direction, FunctionCall, SortItem};

use super::{Binder, no_equality};
use crate::expression::coerce::{CastContext, castable};
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
    /// `bit_and(x)`: the bits that all values have.
    BitAnd,
    /// `bit_or(x)`: the bits that any value has.
    BitOr,
    /// `bit_xor(x)`: the bits that an odd number of values has.
    BitXor,
    /// A variance or standard deviation.
    Spread(Spread),
    /// A statistic of pairs of numbers, for linear regression.
    Regression(Regression),
    /// An ordered-set or hypothetical-set aggregate, with WITHIN GROUP.
    OrderedSet(OrderedSet),
}

/// The measures of how far numbers lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Whether the numbers are a sample of others, so that the sum of squares is divided by
    /// one less than their count.
    pub sample: bool,
    /// Whether the result is the standard deviation, the root of the variance.
    pub root: bool,
}

/// The statistics of pairs of numbers; the first argument is Y, the second X.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regression {
    /// `regr_count`: the number of pairs.
    Count,
    /// `regr_sxx`: the sum of squares of X.
    SquaresOfX,
    /// `regr_syy`: the sum of squares of Y.
    SquaresOfY,
    /// `regr_sxy`: the sum of products.
    Products,
    /// `regr_avgx`: the mean of X.
    AverageX,
    /// `regr_avgy`: the mean of Y.
    AverageY,
    /// `regr_r2`: the coefficient of determination.
    Determination,
    /// `regr_slope`: the slope of the line that fits best.
    Slope,
    /// `regr_intercept`: the Y of that line at 0.
    Intercept,
    /// `covar_pop`: the covariance.
    Covariance,
    /// `covar_samp`: the covariance, of a sample.
    CovarianceOfSample,
    /// `corr`: the correlation coefficient.
    Correlation,
}

/// The aggregates over the rows in the order of WITHIN GROUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedSet {
    /// `percentile_cont`: the value at a fraction of the rows, interpolated.
    PercentileContinuous,
    /// `percentile_disc`: the first value whose position reaches a fraction of the rows.
    PercentileDiscrete,
    /// `mode`: the most frequent value.
    Mode,
    /// `rank`: the rank that a hypothetical row would have.
    Rank,
    /// `dense_rank`: its rank without gaps.
    DenseRank,
    /// `percent_rank`: its relative rank.
    PercentRank,
    /// `cume_dist`: the part of the rows up to it.
    CumulativeDistribution,
}

impl OrderedSet {
    /// Whether the aggregate is about a hypothetical row.
    #[must_use]
    pub const fn is_hypothetical(self) -> bool {
        !matches!(
            self,
            Self::PercentileContinuous | Self::PercentileDiscrete | Self::Mode
        )
    }
}

/// A bound call of an aggregate function.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// The aggregate function.
    pub function: AggregateFunction,
    /// The aggregated expression; `None` for `count(*)`, and for an aggregate with WITHIN
    /// GROUP, whose rows [`AggregateCall::order`] has.
    pub argument: Option<Expression>,
    /// The argument's type.
    pub argument_type: ColumnType,
    /// The second argument: the separator that `string_agg` puts between two strings, X of a
    /// regression, or the value that `json_object_agg` gives the key.
    pub second: Option<Expression>,
    /// Whether the call says DISTINCT: the executor aggregates each value once.
    pub distinct: bool,
    /// The FILTER condition: the executor aggregates only rows for which it is true.
    pub filter: Option<Expression>,
    /// The ORDER BY of the call, for aggregates whose result depends on the order of
    /// the rows: sort expression, descending, nulls first.
    pub order: Vec<(Expression, bool, bool)>,
    /// The direct arguments of an ordered-set aggregate, evaluated once for a group, over
    /// its keys.
    pub direct: Vec<Expression>,
    /// Type of the aggregate's result.
    pub result: ColumnType,
}

impl AggregateCall {
    /// Calls `visit` for each expression that is evaluated over the aggregated rows.
    pub fn over_rows<'a>(&'a self, visit: &mut dyn FnMut(&'a Expression)) {
        self.argument
            .iter()
            .chain(&self.second)
            .chain(&self.filter)
            .for_each(&mut *visit);
        self.order.iter().for_each(|(key, ..)| visit(key));
    }

    /// Calls `visit` for each expression that is evaluated over the aggregated rows.
    pub fn over_rows_mut<'a>(&'a mut self, visit: &mut dyn FnMut(&'a mut Expression)) {
        self.argument
            .iter_mut()
            .chain(&mut self.second)
            .chain(&mut self.filter)
            .for_each(&mut *visit);
        self.order.iter_mut().for_each(|(key, ..)| visit(key));
    }

    /// Calls `visit` for each expression of the call.
    pub fn expressions_mut(&mut self, visit: &mut dyn FnMut(&mut Expression)) {
        self.over_rows_mut(visit);
        self.direct.iter_mut().for_each(visit);
    }

    /// Whether `test` holds for an expression of the call or below it.
    pub fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        let mut found = false;
        self.over_rows(&mut |each| found = found || each.any(test));
        found || self.direct.iter().any(|each| each.any(test))
    }
}

impl AggregateFunction {
    /// The function's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CountRows | Self::Count => "count",
            Self::Sum => "sum",
            Self::Average => "avg",
            Self::Minimum => "min",
            Self::Maximum => "max",
            Self::Array => "array_agg",
            Self::String => "string_agg",
            Self::Every => "bool_and",
            Self::Any => "bool_or",
            Self::JsonArray { .. } => "json_agg",
            Self::JsonbArray => "jsonb_agg",
            Self::JsonObject => "json_object_agg",
            Self::JsonbObject => "jsonb_object_agg",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::Spread(spread) => match (spread.sample, spread.root) {
                (true, false) => "var_samp",
                (false, false) => "var_pop",
                (true, true) => "stddev_samp",
                (false, true) => "stddev_pop",
            },
            Self::Regression(statistic) => match statistic {
                Regression::Count => "regr_count",
                Regression::SquaresOfX => "regr_sxx",
                Regression::SquaresOfY => "regr_syy",
                Regression::Products => "regr_sxy",
                Regression::AverageX => "regr_avgx",
                Regression::AverageY => "regr_avgy",
                Regression::Determination => "regr_r2",
                Regression::Slope => "regr_slope",
                Regression::Intercept => "regr_intercept",
                Regression::Covariance => "covar_pop",
                Regression::CovarianceOfSample => "covar_samp",
                Regression::Correlation => "corr",
            },
            Self::OrderedSet(function) => match function {
                OrderedSet::PercentileContinuous => "percentile_cont",
                OrderedSet::PercentileDiscrete => "percentile_disc",
                OrderedSet::Mode => "mode",
                OrderedSet::Rank => "rank",
                OrderedSet::DenseRank => "dense_rank",
                OrderedSet::PercentRank => "percent_rank",
                OrderedSet::CumulativeDistribution => "cume_dist",
            },
        }
    }

    /// Whether nulls are values to it.
    pub(crate) const fn takes_nulls(self) -> bool {
        matches!(self, Self::Array | Self::OrderedSet(_)) || self.is_json()
    }

    /// Whether its result is a JSON document.
    pub(crate) const fn is_json(self) -> bool {
        matches!(
            self,
            Self::JsonArray { .. } | Self::JsonbArray | Self::JsonObject | Self::JsonbObject
        )
    }

    /// Whether it takes so many arguments.
    pub(super) const fn takes(self, arguments: usize) -> bool {
        arguments
            == match self {
                Self::String | Self::Regression(_) | Self::JsonObject | Self::JsonbObject => 2,
                _ => 1,
            }
    }
}

/// The aggregate function of this name.
pub(super) fn by_name(name: &str) -> Option<AggregateFunction> {
    let spread = |sample, root| AggregateFunction::Spread(Spread { sample, root });
    let of_pairs = AggregateFunction::Regression;
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
        "bit_and" => AggregateFunction::BitAnd,
        "bit_or" => AggregateFunction::BitOr,
        "bit_xor" => AggregateFunction::BitXor,
        "variance" | "var_samp" => spread(true, false),
        "var_pop" => spread(false, false),
        "stddev" | "stddev_samp" => spread(true, true),
        "stddev_pop" => spread(false, true),
        "regr_count" => of_pairs(Regression::Count),
        "regr_sxx" => of_pairs(Regression::SquaresOfX),
        "regr_syy" => of_pairs(Regression::SquaresOfY),
        "regr_sxy" => of_pairs(Regression::Products),
        "regr_avgx" => of_pairs(Regression::AverageX),
        "regr_avgy" => of_pairs(Regression::AverageY),
        "regr_r2" => of_pairs(Regression::Determination),
        "regr_slope" => of_pairs(Regression::Slope),
        "regr_intercept" => of_pairs(Regression::Intercept),
        "covar_pop" => of_pairs(Regression::Covariance),
        "covar_samp" => of_pairs(Regression::CovarianceOfSample),
        "corr" => of_pairs(Regression::Correlation),
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
        if !call.within_group.is_empty() {
            return self.ordered_set(name, call, position, scope).map(Some);
        }
        let Some(function) = by_name(name) else {
            return Ok(None);
        };
        let (bound, result) = self.at_its_level(position, scope, |binder| {
            binder.aggregate_call(name, function, call, position, scope)
        })?;
        Ok(Some(Bound::new(bound, result).at(position)))
    }

    /// Binds the arguments of an aggregate function.
    pub(super) fn aggregate_call(
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
                order = self.sort_keys(&list.order, position, scope)?;
                (false, list.distinct)
            }
        };
        let filter = match &call.filter {
            Some(filter) => Some(self.in_clause("FILTER", |binder| {
                binder.bind_condition(filter, scope, "FILTER")
            })?),
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
                second: None,
                distinct: false,
                filter,
                order: Vec::new(),
                direct: Vec::new(),
                result: DataType::Int8.into(),
            });
        }
        let types: Vec<DataType> = bounds
            .iter()
            .map(|bound| bound.column_type.data_type)
            .collect();
        let second_type = match function {
            AggregateFunction::String => Some(DataType::Text),
            AggregateFunction::Regression(_) => Some(DataType::Float8),
            _ => None,
        };
        if !function.takes(bounds.len()) {
            if function == AggregateFunction::Count && bounds.is_empty() {
                return Err(Error::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    "count(*) must be used to call a parameterless aggregate function",
                )
                .at(position));
            }
            return Err(wrong_arguments(name, &types).at(position));
        }
        let second = match second_type {
            Some(wanted) => {
                let second = bounds.pop().ok_or_else(|| Error::internal("no argument"))?;
                let given = second.column_type.data_type;
                if castable(given, wanted) != Some(CastContext::Implicit) {
                    return Err(wrong_arguments(name, &types).at(position));
                }
                Some(self.implicit(second, wanted)?.expression)
            }
            None if function.takes(2) => {
                let value = bounds.pop().ok_or_else(|| Error::internal("no value"))?;
                let value = self.settle(value)?;
                let convert = match function {
                    AggregateFunction::JsonObject => "to_json",
                    _ => "to_jsonb",
                };
                Some(self.call_with(convert, vec![value], position)?.expression)
            }
            None => None,
        };
        let argument = bounds.pop().ok_or_else(|| Error::internal("no argument"))?;
        let (argument_type, result) = signature(function, argument.column_type)
            .ok_or_else(|| wrong_arguments(name, &types).at(position))?;
        if distinct && let Some(error) = no_equality(argument_type.data_type) {
            return Err(error.at(position));
        }
        let argument = self
            .cast(argument, argument_type, CastContext::Implicit)?
            .expression;
        let is_argument = |key: &Expression| *key == argument || second.as_ref() == Some(key);
        if distinct && !order.iter().all(|(key, ..)| is_argument(key)) {
            return Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
            )
            .at(position));
        }
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
            second,
            distinct,
            filter,
            order,
            direct: Vec::new(),
            result,
        })
    }

    /// Binds the ORDER BY of a call: sort expression, descending, nulls first.
    fn sort_keys(
        &mut self,
        items: &[SortItem],
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Vec<(Expression, bool, bool)>> {
        let mut order = Vec::with_capacity(items.len());
        for item in items {
            let key = self.bind(&item.expr, scope)?;
            let key = self.settle(key)?.expression;
            let sorted = key_order(item).map_err(|error| error.at(position))?;
            order.push((key, sorted.descending, sorted.nulls_first));
        }
        Ok(order)
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
        AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor => {
            match data_type.number()? {
                N::Int2 | N::Int4 | N::Int8 => same(data_type),
                N::Numeric | N::Float4 | N::Float8 => None,
            }
        }
        // Integers are summed up exactly, as numbers of any length.
        AggregateFunction::Spread(_) => match data_type.number()? {
            N::Int2 | N::Int4 | N::Int8 | N::Numeric => same(T::Numeric),
            N::Float4 | N::Float8 => same(T::Float8),
        },
        AggregateFunction::Regression(statistic) => {
            let fits = data_type.is_number() || data_type == T::Unknown;
            let result = match statistic {
                Regression::Count => T::Int8,
                _ => T::Float8,
            };
            fits.then_some((T::Float8.into(), result.into()))
        }
        // Their arguments are bound apart.
        AggregateFunction::OrderedSet(_) => None,
    }
}

pub(super) fn wrong_arguments(name: &str, types: &[DataType]) -> Error {
    let names: Vec<&str> = types.iter().map(|each| each.sql_name()).collect();
    Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name}({}) does not exist", names.join(", ")),
    )
    .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}
