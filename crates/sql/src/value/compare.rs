//! The order of values.

use std::cmp::Ordering;

use super::Value;

impl Value {
    /// Which of two values of one type comes first. Nulls come last and equal
    /// each other; NaN equals itself and follows every number; strings compare by
    /// their bytes (the C collation).
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Int2(left), Self::Int2(right)) => left.cmp(right),
            (Self::Int4(left), Self::Int4(right)) => left.cmp(right),
            (Self::Int8(left), Self::Int8(right)) => left.cmp(right),
            (Self::Float4(left), Self::Float4(right)) => {
                order_floats(f64::from(*left), f64::from(*right))
            }
            (Self::Float8(left), Self::Float8(right)) => order_floats(*left, *right),
            (Self::Numeric(left), Self::Numeric(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Self::Date(left), Self::Date(right)) => left.cmp(right),
            (Self::Timestamp(left), Self::Timestamp(right))
            | (Self::TimestampTz(left), Self::TimestampTz(right)) => left.cmp(right),
            (
                Self::Oid(left) | Self::Object(left, _),
                Self::Oid(right) | Self::Object(right, _),
            ) => left.cmp(right),
            (Self::Char(left), Self::Char(right)) => left.cmp(right),
            (Self::Array(left), Self::Array(right)) => {
                for (left, right) in left.iter().zip(right.iter()) {
                    let order = left.order(right);
                    if order != Ordering::Equal {
                        return order;
                    }
                }
                left.len().cmp(&right.len())
            }
            // Of different types: the binder does not let them meet.
            _ => self.rank().cmp(&other.rank()),
        }
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
            Self::Null => 14,
        }
    }
}

fn order_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right)
        .unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Not SQL's `=`: nulls equal each other here.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Value {}
