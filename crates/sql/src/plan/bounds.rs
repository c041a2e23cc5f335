//! Computation of an access path's keys for one execution.

use std::ops::Bound;

use coeval_txn::Bounds;

use super::access_path::{List, Path, RangeLimit};
use crate::catalog::{Index, KeyColumn};
use crate::expression::{EvaluationContext, Expression};
use crate::value::{DataType, NumberType};
use crate::{Result, Value};

/// The encoded keys that an access path reads in one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All rows.
    All,
    /// No row: the path compares with null, or with a value that the column's type
    /// cannot hold.
    None,
    /// The row with this key.
    One(Vec<u8>),
    /// The rows whose keys are in this range.
    Range(KeyRange),
    /// The rows with these keys of a unique index, sorted and without duplicates.
    Some(Vec<Vec<u8>>),
    /// The rows whose keys begin with one of these prefixes, sorted and without
    /// duplicates.
    Prefixes(Vec<Vec<u8>>),
}

/// A range of encoded keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower bound of the range.
    pub lower: Bound<Vec<u8>>,
    /// Upper bound of the range.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The range of keys that begin with `prefix`.
    #[must_use]
    pub fn of_prefix(prefix: Vec<u8>) -> Self {
        Self {
            lower: Bound::Included(prefix.clone()),
            upper: Bound::Included(prefix),
        }
    }

    /// The range of all keys.
    pub const ALL: Self = Self {
        lower: Bound::Unbounded,
        upper: Bound::Unbounded,
    };

    /// The range in the form that a scan request takes.
    #[must_use]
    pub fn bounds(&self) -> Bounds<'_> {
        Bounds {
            lower: self.lower.as_ref().map(Vec::as_slice),
            upper: self.upper.as_ref().map(Vec::as_slice),
        }
    }
}

/// Result of a cast to a key column's type.
enum Fitted {
    Value(Value),
    Null,
    /// The value is less than all values of the type.
    Below,
    /// The value is greater than all values of the type.
    Above,
}

impl Path {
    /// Computes the path's keys. `row` holds the values known before: it is empty, or
    /// the row of the tables that were read earlier in the join.
    pub fn keys(&self, context: &mut EvaluationContext<'_>, row: &[Value]) -> Result<Keys> {
        match self {
            Self::Table => Ok(Keys::All),
            Self::Key { index, key } => Ok(match write_prefix(index, key, context, row)? {
                Some(key) => Keys::One(key),
                None => Keys::None,
            }),
            Self::Range {
                index,
                prefix,
                lower,
                upper,
            } => {
                let Some(key) = write_prefix(index, prefix, context, row)? else {
                    return Ok(Keys::None);
                };
                match index.columns.get(prefix.len()) {
                    Some(next) if lower.is_some() || upper.is_some() => {
                        range(&key, next, lower.as_ref(), upper.as_ref(), context, row)
                    }
                    _ if key.is_empty() => Ok(Keys::Range(KeyRange::ALL)),
                    _ => Ok(Keys::Range(KeyRange::of_prefix(key))),
                }
            }
            Self::List {
                index,
                prefix,
                list,
            } => {
                let Some(start) = write_prefix(index, prefix, context, row)? else {
                    return Ok(Keys::None);
                };
                let keys = list_keys(&start, &index.columns[prefix.len()], list, context, row)?;
                let whole = prefix.len() + 1 == index.columns.len();
                Ok(if keys.is_empty() {
                    Keys::None
                } else if whole && index.is_unique() {
                    Keys::Some(keys)
                } else {
                    Keys::Prefixes(keys)
                })
            }
        }
    }
}

/// Keys of a list lookup: `prefix` followed by each value of the list, sorted and
/// without duplicates.
fn list_keys(
    prefix: &[u8],
    next: &KeyColumn,
    list: &List,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    let mut add = |value: Value| {
        if let Fitted::Value(value) = fit(value, next.column_type.data_type) {
            let mut key = prefix.to_vec();
            value.write_key(next.order, &mut key);
            keys.push(key);
        }
    };
    match list {
        List::Values(values) => {
            for value in values {
                add(value.evaluate(context, row)?);
            }
        }
        List::Array(array) => {
            if let Value::Array(elements) = array.evaluate(context, row)? {
                elements.iter().cloned().for_each(add);
            }
        }
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Encodes the values of the leading key columns; `None` if no row can match them.
fn write_prefix(
    index: &Index,
    values: &[Expression],
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::with_capacity(values.len() * 12);
    for (column, value) in index.columns.iter().zip(values) {
        match fit(value.evaluate(context, row)?, column.column_type.data_type) {
            Fitted::Value(value) => value.write_key(column.order, &mut key),
            Fitted::Null | Fitted::Below | Fitted::Above => return Ok(None),
        }
    }
    Ok(Some(key))
}

/// Range of the keys that begin with `prefix` and whose next column lies between the
/// limits. Nulls are in no such range.
fn range(
    prefix: &[u8],
    next: &KeyColumn,
    lower: Option<&RangeLimit>,
    upper: Option<&RangeLimit>,
    context: &mut EvaluationContext<'_>,
    row: &[Value],
) -> Result<Keys> {
    let data_type = next.column_type.data_type;
    let with = |value: &Value| {
        let mut key = prefix.to_vec();
        value.write_key(next.order, &mut key);
        key
    };
    // Bounds that include all values but no nulls, first computed as if the column were
    // ascending.
    let mut least = if next.order.nulls_first != next.order.descending {
        Bound::Excluded(with(&Value::Null))
    } else {
        Bound::Included(prefix.to_vec())
    };
    let mut greatest = if next.order.nulls_first == next.order.descending {
        Bound::Excluded(with(&Value::Null))
    } else {
        Bound::Included(prefix.to_vec())
    };
    let bound = |value: &Value, inclusive| {
        if inclusive {
            Bound::Included(with(value))
        } else {
            Bound::Excluded(with(value))
        }
    };
    if let Some(limit) = lower {
        match fit(limit.value.evaluate(context, row)?, data_type) {
            Fitted::Value(value) => least = bound(&value, limit.inclusive),
            Fitted::Below => {}
            Fitted::Null | Fitted::Above => return Ok(Keys::None),
        }
    }
    if let Some(limit) = upper {
        match fit(limit.value.evaluate(context, row)?, data_type) {
            Fitted::Value(value) => greatest = bound(&value, limit.inclusive),
            Fitted::Above => {}
            Fitted::Null | Fitted::Below => return Ok(Keys::None),
        }
    }
    let (lower, upper) = if next.order.descending {
        (greatest, least)
    } else {
        (least, greatest)
    };
    let bytes = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.clone(),
        Bound::Unbounded => Vec::new(),
    };
    // Handles `a > 5 and a < 3`: the engine may rely on a lower bound that does not
    // exceed the upper one.
    let (first, last) = (bytes(&lower), bytes(&upper));
    let excluded = matches!(lower, Bound::Excluded(_)) || matches!(upper, Bound::Excluded(_));
    if (first == last && excluded) || (first > last && !first.starts_with(&last)) {
        return Ok(Keys::None);
    }
    Ok(Keys::Range(KeyRange { lower, upper }))
}

/// Casts a value to a key column's type. The condition compares in the wider of both
/// types, so a value that does not fit is less or greater than all values of the
/// column.
fn fit(value: Value, data_type: DataType) -> Fitted {
    let wide = match &value {
        Value::Null => return Fitted::Null,
        Value::Int2(number) => i64::from(*number),
        Value::Int4(number) => i64::from(*number),
        Value::Int8(number) => *number,
        Value::Bool(_)
        | Value::Float4(_)
        | Value::Float8(_)
        | Value::Numeric(_)
        | Value::Text(_)
        | Value::Date(_)
        | Value::Timestamp(_)
        | Value::TimestampTz(_)
        | Value::Time(_)
        | Value::TimeTz(..)
        | Value::Interval(_)
        | Value::Oid(_)
        | Value::Object(..)
        | Value::Char(_)
        | Value::Array(_)
        | Value::Bytes(_)
        | Value::Uuid(_)
        | Value::Jsonb(_) => return Fitted::Value(value),
    };
    let narrow = match data_type.number() {
        Some(NumberType::Int2) => i16::try_from(wide).map(Value::Int2).ok(),
        Some(NumberType::Int4) => i32::try_from(wide).map(Value::Int4).ok(),
        Some(NumberType::Int8) => Some(Value::Int8(wide)),
        Some(NumberType::Numeric | NumberType::Float4 | NumberType::Float8) | None => {
            return Fitted::Value(value);
        }
    };
    match narrow {
        Some(value) => Fitted::Value(value),
        None if wide < 0 => Fitted::Below,
        None => Fitted::Above,
    }
}
