//! Access path selection: chooses the index, or the table scan, through which a table's
//! rows are found.

use std::sync::Arc;

use coeval_txn::Direction;

use crate::catalog::{Index, Table};
use crate::expression::{Comparison, Expression};
use crate::value::{DataType, KeyOrder, NumberType};

/// An access path to a table's rows, and the conditions left to check.
#[derive(Clone, Debug)]
pub struct Access {
    /// The access path.
    pub path: Path,
    /// Conditions that the access path does not ensure. All must be true.
    pub filter: Vec<Expression>,
}

/// An access path to rows of a table.
#[derive(Clone, Debug)]
pub enum Path {
    /// Table scan: all rows, in no particular order.
    Table,
    /// Point lookup: the row with one key of a unique index.
    Key {
        /// Index used by the lookup.
        index: Arc<Index>,
        /// One value per key column. If a value is null, no row matches.
        key: Vec<Expression>,
    },
    /// Range scan: the rows within a range of an index's keys.
    Range {
        /// Index used by the scan.
        index: Arc<Index>,
        /// Values of the leading key columns. If a value is null, no row matches.
        prefix: Vec<Expression>,
        /// Lower limit of the next key column.
        lower: Option<RangeLimit>,
        /// Upper limit of the next key column.
        upper: Option<RangeLimit>,
    },
    /// List lookup: the rows whose key column after `prefix` equals one of a list of
    /// values.
    List {
        /// Index used by the lookup.
        index: Arc<Index>,
        /// Values of the leading key columns. If a value is null, no row matches.
        prefix: Vec<Expression>,
        /// Values of the next key column. A null in the list matches no row.
        list: List,
    },
}

/// Values that a column is compared with for equality.
#[derive(Clone, Debug, PartialEq)]
pub enum List {
    /// The values of an IN list.
    Values(Vec<Expression>),
    /// The elements of an array: `= ANY`.
    Array(Expression),
}

impl List {
    /// The expressions of the list.
    #[must_use]
    pub fn expressions(&self) -> &[Expression] {
        match self {
            Self::Values(values) => values,
            Self::Array(array) => std::slice::from_ref(array),
        }
    }
}

/// One limit of a range scan.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeLimit {
    /// Value of the limit. If it is null, no row matches.
    pub value: Expression,
    /// Whether rows equal to the value match.
    pub inclusive: bool,
}

/// A condition that an index can serve.
struct Usable {
    /// Position of the condition in the list of conditions.
    condition: usize,
    /// Position of the column in the table.
    column: usize,
    test: Test,
}

/// Test that a condition applies to its column.
enum Test {
    Compare(Comparison, Expression),
    OneOf(List),
}

impl Access {
    /// The best access path to the rows of `table` for which all `conditions` are true.
    ///
    /// `offset` is the position of the table's first column in the rows over which the
    /// conditions are evaluated, and `known` decides whether another column of those
    /// rows has a value before the table's row is looked up.
    #[must_use]
    pub fn choose(
        table: &Table,
        offset: usize,
        conditions: Vec<Expression>,
        known: &dyn Fn(usize) -> bool,
    ) -> Self {
        let usable: Vec<Usable> = conditions
            .iter()
            .enumerate()
            .filter_map(|(condition, expression)| {
                usable(table, offset, condition, expression, known)
            })
            .collect();
        let mut best: Option<(u32, Path, Vec<usize>)> = None;
        for index in table.indexes.iter().filter(|index| index.is_built) {
            if let Some((score, path, used)) = path_through(index, &usable)
                && best.as_ref().is_none_or(|(other, ..)| score > *other)
            {
                best = Some((score, path, used));
            }
        }
        let Some((_, path, used)) = best else {
            return Self {
                path: Path::Table,
                filter: conditions,
            };
        };
        let filter = conditions
            .into_iter()
            .enumerate()
            .filter(|(position, _)| !used.contains(position))
            .map(|(_, condition)| condition)
            .collect();
        Self { path, filter }
    }
}

impl Path {
    /// The scan direction in which this path returns rows in the wanted order of the
    /// table's columns; `None` if neither direction does. Columns that the path fixes
    /// may have any position and direction in the wanted order.
    #[must_use]
    pub fn direction_for(&self, wanted: &[(usize, KeyOrder)]) -> Option<Direction> {
        let (index, fixed) = match self {
            Self::Table => return wanted.is_empty().then_some(Direction::Forward),
            Self::Key { .. } => return Some(Direction::Forward),
            Self::Range { index, prefix, .. } => (index, prefix.len()),
            // A list lookup returns the rows of each value separately, so it gives no
            // overall order.
            Self::List { .. } => return wanted.is_empty().then_some(Direction::Forward),
        };
        let is_fixed = |column: usize| {
            index.columns[..fixed]
                .iter()
                .any(|each| each.column == column)
        };
        let mut rest = index.columns[fixed..].iter();
        let mut direction = None;
        for (column, order) in wanted {
            if is_fixed(*column) {
                continue;
            }
            let next = rest.next().filter(|next| next.column == *column)?;
            let this = if next.order == *order {
                Direction::Forward
            } else if next.order.descending != order.descending
                && next.order.nulls_first != order.nulls_first
            {
                Direction::Backward
            } else {
                return None;
            };
            if *direction.get_or_insert(this) != this {
                return None;
            }
            // A whole unique key identifies a row, so further columns of the wanted
            // order change nothing, unless the key can contain nulls.
        }
        Some(direction.unwrap_or(Direction::Forward))
    }

    /// A path over all rows that returns them in the wanted order, if an index has that
    /// order.
    #[must_use]
    pub fn ordered(table: &Table, wanted: &[(usize, KeyOrder)]) -> Option<(Self, Direction)> {
        let mut built = table.indexes.iter().filter(|index| index.is_built);
        built.find_map(|index| {
            let path = Self::Range {
                index: Arc::clone(index),
                prefix: Vec::new(),
                lower: None,
                upper: None,
            };
            let direction = path.direction_for(wanted)?;
            Some((path, direction))
        })
    }

    /// The index that the path uses; `None` for a table scan.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<Index>> {
        match self {
            Self::Table => None,
            Self::Key { index, .. } | Self::Range { index, .. } | Self::List { index, .. } => {
                Some(index)
            }
        }
    }

    /// Whether the path returns at most one row.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Key { .. })
    }
}

/// The path through an index, its score, and the conditions that it ensures.
fn path_through(index: &Arc<Index>, usable: &[Usable]) -> Option<(u32, Path, Vec<usize>)> {
    let mut used = Vec::new();
    let mut prefix = Vec::new();
    for key in &index.columns {
        let equal = usable
            .iter()
            .filter(|each| each.column == key.column)
            .find_map(|each| match &each.test {
                Test::Compare(Comparison::Equal, value) => Some((each.condition, value)),
                _ => None,
            });
        let Some((condition, value)) = equal else {
            break;
        };
        used.push(condition);
        prefix.push(value.clone());
    }
    let fixed = prefix.len();
    if fixed == index.columns.len() && index.is_unique() {
        let path = Path::Key {
            index: Arc::clone(index),
            key: prefix,
        };
        return Some((u32::MAX, path, used));
    }
    let (mut lower, mut upper) = (None, None);
    if let Some(key) = index.columns.get(fixed) {
        let list = usable
            .iter()
            .filter(|each| each.column == key.column)
            .find_map(|each| match &each.test {
                Test::OneOf(list) => Some((each.condition, list)),
                Test::Compare(..) => None,
            });
        if let Some((condition, list)) = list {
            used.push(condition);
            let whole = fixed + 1 == index.columns.len() && index.is_unique();
            let path = Path::List {
                index: Arc::clone(index),
                prefix,
                list: list.clone(),
            };
            // Lookups of a few rows by a unique key are better than any range scan.
            let score = if whole {
                u32::MAX - 1
            } else {
                fixed as u32 * 4 + 3
            };
            return Some((score, path, used));
        }
        for each in usable.iter().filter(|each| each.column == key.column) {
            let (comparison, value) = match &each.test {
                Test::Compare(comparison, value) => (*comparison, value),
                Test::OneOf(_) => continue,
            };
            let (limit, inclusive) = match comparison {
                Comparison::Greater => (&mut lower, false),
                Comparison::GreaterOrEqual => (&mut lower, true),
                Comparison::Less => (&mut upper, false),
                Comparison::LessOrEqual => (&mut upper, true),
                Comparison::Equal | Comparison::NotEqual => continue,
            };
            if limit.is_none() {
                *limit = Some(RangeLimit {
                    value: value.clone(),
                    inclusive,
                });
                used.push(each.condition);
            }
        }
    }
    let limits = u32::from(lower.is_some()) + u32::from(upper.is_some());
    if fixed == 0 && limits == 0 {
        return None;
    }
    let score = fixed as u32 * 4 + limits;
    let path = Path::Range {
        index: Arc::clone(index),
        prefix,
        lower,
        upper,
    };
    Some((score, path, used))
}

/// Recognises a condition of the form `column comparison value`, in either order, or
/// `column is one of values`.
fn usable(
    table: &Table,
    offset: usize,
    condition: usize,
    expression: &Expression,
    known: &dyn Fn(usize) -> bool,
) -> Option<Usable> {
    let is_known = |value: &Expression| {
        !value.is_volatile()
            && !value.any(&|each| match each {
                Expression::Column(position) => !known(*position),
                Expression::Aggregate(_) => true,
                _ => false,
            })
    };
    let found = |column, test| {
        Some(Usable {
            condition,
            column,
            test,
        })
    };
    match expression {
        Expression::Compare(comparison, operands) if *comparison != Comparison::NotEqual => {
            let [left, right] = &**operands;
            for (column, value, comparison) in [
                (left, right, *comparison),
                (right, left, comparison.swapped()),
            ] {
                if let Some(column) = plain_column(table, offset, column)
                    && is_known(value)
                {
                    return found(column, Test::Compare(comparison, value.clone()));
                }
            }
            None
        }
        Expression::InList(operand, values) if values.iter().all(is_known) => found(
            plain_column(table, offset, operand)?,
            Test::OneOf(List::Values(values.clone())),
        ),
        Expression::Quantified {
            comparison: Comparison::Equal,
            all: false,
            operands,
        } if is_known(&operands[1]) => found(
            plain_column(table, offset, &operands[0])?,
            Test::OneOf(List::Array(operands[1].clone())),
        ),
        _ => None,
    }
}

/// The column that an expression consists of, or casts in a way that preserves order
/// and distinctness.
fn plain_column(table: &Table, offset: usize, expression: &Expression) -> Option<usize> {
    match expression {
        Expression::Column(position) => {
            let column = position.checked_sub(offset)?;
            (column < table.columns.len()).then_some(column)
        }
        Expression::Cast(cast)
            if cast.to.modifier < 0 && keeps_order(cast.from.data_type, cast.to.data_type) =>
        {
            plain_column(table, offset, &cast.input)
        }
        _ => None,
    }
}

/// Whether values compare after a cast as before it, with keys that [`super::bounds`]
/// can cast back to the column's type.
fn keeps_order(from: DataType, to: DataType) -> bool {
    let width = |data_type: DataType| match data_type.number()? {
        NumberType::Int2 => Some(2),
        NumberType::Int4 => Some(4),
        NumberType::Int8 => Some(8),
        NumberType::Numeric | NumberType::Float4 | NumberType::Float8 => None,
    };
    match (width(from), width(to)) {
        (Some(from), Some(to)) => from <= to,
        // A cast to `char` drops trailing blanks, and a cast to `name` truncates, so
        // neither preserves distinctness.
        _ => from.is_string() && matches!(to, DataType::Text | DataType::VarChar),
    }
}
