//! Sort order of values, for ORDER BY, comparison operators and indexes.

use std::cmp::Ordering;

use super::operations::Representation;
use super::{Value, for_value};

impl Value {
    /// Compares two values of one type. Nulls sort last and equal each other; NaN
    /// equals itself and sorts after every number; strings compare by their bytes (the
    /// C collation).
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        for_value!(self, null => self.order_apart(other), (V, left) => {
            match V::content(other) {
                Some(right) => V::order(left, right),
                None => self.order_apart(other),
            }
        })
    }

    /// Compares two values of different representations: one or both are null, or their
    /// types differ, which the binder rules out.
    #[cold]
    fn order_apart(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int2(_) => 1,
            Self::Int4(_) => 2,
            Self::Int8(_) => 3,
            Self::Float4(_) => 4,
            Self::Float8(_) => 5,
            Self::Numeric(_) => 6,
            Self::Text(_) => 7,
            Self::Date(_) => 8,
            Self::Timestamp(_) => 9,
            Self::TimestampTz(_) => 10,
            Self::Oid(_) | Self::Object(..) => 11,
            Self::Char(_) => 12,
            Self::Array(_) => 13,
            Self::Time(_) => 14,
            Self::TimeTz(..) => 15,
            Self::Interval(_) => 16,
            Self::Bytes(_) => 17,
            Self::Uuid(_) => 18,
            Self::Jsonb(_) => 19,
            Self::Null => u8::MAX,
        }
    }
}

/// Equality for sorting and grouping, not SQL's `=`: two nulls are equal.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Value {}
