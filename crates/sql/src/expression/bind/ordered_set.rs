//! The binder for ordered-set and hypothetical-set aggregates: calls with WITHIN GROUP.

use coeval_sql_syntax::tree::{Arguments, FunctionCall};

use super::aggregate::{by_name, wrong_arguments};
use super::{Binder, key_order};
use crate::expression::coerce::common_type;
use crate::expression::{AggregateCall, AggregateFunction, Bound, Expression, OrderedSet, Scope};
use crate::value::{ColumnType, DataType};
use crate::{Error, Result, SqlState};

/// The aggregate of this name that needs WITHIN GROUP, or may have it.
fn ordered_set(name: &str) -> Option<OrderedSet> {
    Some(match name {
        "percentile_cont" => OrderedSet::PercentileContinuous,
        "percentile_disc" => OrderedSet::PercentileDiscrete,
        "mode" => OrderedSet::Mode,
        "rank" => OrderedSet::Rank,
        "dense_rank" => OrderedSet::DenseRank,
        "percent_rank" => OrderedSet::PercentRank,
        "cume_dist" => OrderedSet::CumulativeDistribution,
        _ => return None,
    })
}

/// Direct arguments, sort keys, and type of the result.
type Parts = (Vec<Expression>, Vec<Expression>, ColumnType);

fn wrong(message: String, position: Option<u32>) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, message).at(position)
}

impl Binder<'_> {
    /// Refuses a call without WITHIN GROUP of an aggregate that needs it, with so many
    /// arguments.
    pub(super) fn require_order(name: &str, arguments: usize, position: Option<u32>) -> Result<()> {
        let exists = ordered_set(name).is_some_and(|function| match function {
            OrderedSet::PercentileContinuous | OrderedSet::PercentileDiscrete => arguments == 2,
            OrderedSet::Mode => arguments == 1,
            _ => arguments > 0,
        });
        match exists {
            false => Ok(()),
            true => Err(wrong(
                format!("WITHIN GROUP is required for ordered-set aggregate {name}"),
                position,
            )),
        }
    }

    /// Binds a call with WITHIN GROUP.
    pub(super) fn ordered_set(
        &mut self,
        name: &str,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Bound> {
        let Some(function) = ordered_set(name) else {
            let arguments = match &call.arguments {
                Arguments::List(list) => list.arguments.len(),
                Arguments::Star => 0,
            };
            let is_aggregate = by_name(name)
                .is_some_and(|function| function.takes(arguments + call.within_group.len()));
            return Err(match is_aggregate {
                true => wrong(
                    format!(
                        "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
                    ),
                    position,
                ),
                false => {
                    let types = self.types_of(call, position, scope)?;
                    wrong_arguments(name, &types).at(position)
                }
            });
        };
        let (expression, result) = self.at_its_level(position, scope, |binder| {
            binder.ordered_set_call(name, function, call, position, scope)
        })?;
        Ok(Bound::new(expression, result).at(position))
    }

    /// The types of the arguments, the sort keys among them.
    fn types_of(
        &mut self,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<Vec<DataType>> {
        let mut bounds = match &call.arguments {
            Arguments::List(list) => self.positional(&list.arguments, position, scope)?,
            Arguments::Star => Vec::new(),
        };
        for item in &call.within_group {
            bounds.push(self.bind(&item.expr, scope)?);
        }
        let types = bounds.iter().map(|bound| bound.column_type.data_type);
        Ok(types.collect())
    }

    fn ordered_set_call(
        &mut self,
        name: &str,
        function: OrderedSet,
        call: &FunctionCall,
        position: Option<u32>,
        scope: &Scope<'_>,
    ) -> Result<AggregateCall> {
        let direct = match &call.arguments {
            Arguments::List(list) => self.positional(&list.arguments, position, scope)?,
            Arguments::Star => return Err(wrong_arguments(name, &[]).at(position)),
        };
        let mut keys = Vec::with_capacity(call.within_group.len());
        let mut orders = Vec::with_capacity(call.within_group.len());
        for item in &call.within_group {
            keys.push(self.bind(&item.expr, scope)?);
            orders.push(key_order(item).map_err(|error| error.at(position))?);
        }
        let filter = match &call.filter {
            Some(filter) => Some(self.in_clause("FILTER", |binder| {
                binder.bind_condition(filter, scope, "FILTER")
            })?),
            None => None,
        };
        let types: Vec<DataType> = direct
            .iter()
            .chain(&keys)
            .map(|bound| bound.column_type.data_type)
            .collect();
        let (direct, keys, result) = if function.is_hypothetical() {
            self.hypothetical(name, function, direct, keys, position)?
        } else {
            self.percentile(function, direct, keys)?
                .ok_or_else(|| wrong_arguments(name, &types).at(position))?
        };
        Ok(AggregateCall {
            function: AggregateFunction::OrderedSet(function),
            argument: None,
            argument_type: DataType::Unknown.into(),
            second: None,
            distinct: false,
            filter,
            order: keys
                .into_iter()
                .zip(orders)
                .map(|(key, order)| (key, order.descending, order.nulls_first))
                .collect(),
            direct,
            result,
        })
    }

    /// Binds the arguments of a percentile or of `mode`; `None` if there is no such
    /// function.
    fn percentile(
        &mut self,
        function: OrderedSet,
        direct: Vec<Bound>,
        keys: Vec<Bound>,
    ) -> Result<Option<Parts>> {
        let Ok([key]) = <[Bound; 1]>::try_from(keys) else {
            return Ok(None);
        };
        let key = match function {
            OrderedSet::PercentileContinuous => {
                let given = key.column_type.data_type;
                if !given.is_number() && given != DataType::Unknown {
                    return Ok(None);
                }
                self.implicit(key, DataType::Float8)?
            }
            _ => self.settle(key)?,
        };
        let of_key = ColumnType::from(key.column_type.data_type);
        if function == OrderedSet::Mode {
            return Ok(direct
                .is_empty()
                .then(|| (Vec::new(), vec![key.expression], of_key)));
        }
        let Ok([fraction]) = <[Bound; 1]>::try_from(direct) else {
            return Ok(None);
        };
        let many = fraction.column_type.data_type.element().is_some();
        let (wanted, result) = if many {
            let Some(array) = of_key.data_type.array() else {
                return Ok(None);
            };
            (DataType::Float8Array, array.into())
        } else {
            (DataType::Float8, of_key)
        };
        let given = fraction.column_type.data_type;
        let is_number = given.element().unwrap_or(given).is_number();
        if !is_number && given != DataType::Unknown {
            return Ok(None);
        }
        let fraction = self.implicit(fraction, wanted)?.expression;
        Ok(Some((vec![fraction], vec![key.expression], result)))
    }

    /// Binds the columns of a hypothetical row and the keys that they are compared with.
    fn hypothetical(
        &mut self,
        name: &str,
        function: OrderedSet,
        direct: Vec<Bound>,
        keys: Vec<Bound>,
        position: Option<u32>,
    ) -> Result<Parts> {
        if direct.len() != keys.len() {
            let types: Vec<DataType> = direct
                .iter()
                .chain(&keys)
                .map(|bound| bound.column_type.data_type)
                .collect();
            return Err(wrong_arguments(name, &types)
                .with_hint(format!(
                    "To use the hypothetical-set aggregate {name}, the number of hypothetical \
                     direct arguments (here {}) must match the number of ordering columns (here {}).",
                    direct.len(),
                    keys.len()
                ))
                .at(position));
        }
        let mut bound = (Vec::new(), Vec::new());
        for (value, key) in direct.into_iter().zip(keys) {
            let types = [key.column_type.data_type, value.column_type.data_type];
            let Some(common) = common_type(&types) else {
                return Err(Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!(
                        "WITHIN GROUP types {} and {} cannot be matched",
                        types[0], types[1]
                    ),
                )
                .at(position));
            };
            bound.0.push(self.implicit(value, common)?.expression);
            bound.1.push(self.implicit(key, common)?.expression);
        }
        let result = match function {
            OrderedSet::PercentRank | OrderedSet::CumulativeDistribution => DataType::Float8,
            _ => DataType::Int8,
        };
        Ok((bound.0, bound.1, result.into()))
    }
}
