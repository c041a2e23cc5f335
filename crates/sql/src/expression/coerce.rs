//! Which type becomes which, and when nobody asked for it.

use super::bind::Parameters;
use super::{Bound, Cast, Expression, cast};
use crate::value::{ColumnType, DataType, Style, Value};
use crate::{Error, Result, SqlState};

/// When a cast happens: by itself in any expression, by itself only when a value
/// is stored in a column, or only when written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// In any expression.
    Implicit,
    /// When a value is stored in a column.
    Assignment,
    /// When written.
    Explicit,
}

const fn is_object(data_type: DataType) -> bool {
    data_type.object().is_some()
}

/// The least that must happen for one type to become the other; `None` when it
/// never does.
#[must_use]
pub fn castable(from: DataType, to: DataType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType as T;
    if from == to || from == T::Unknown {
        return Some(Implicit);
    }
    if let (Some(from), Some(to)) = (from.number(), to.number()) {
        return Some(if from < to { Implicit } else { Assignment });
    }
    if let (Some(from), Some(to)) = (from.element(), to.element()) {
        // Vectors read as arrays by themselves, other arrays as their elements do.
        return castable(from, to);
    }
    Some(match (from, to) {
        (T::Text | T::VarChar, T::Regclass) => Implicit,
        (from, to) if from.is_string() && to.is_string() => Implicit,
        (T::InternalChar, T::Text) => Implicit,
        (T::InternalChar, T::VarChar | T::Char) => Assignment,
        (T::Text | T::VarChar | T::Char, T::InternalChar) => Assignment,
        (T::Int2 | T::Int4 | T::Int8, T::Oid) => Implicit,
        (T::Int2 | T::Int4 | T::Int8, to) if is_object(to) => Implicit,
        (T::Oid, to) if is_object(to) => Implicit,
        (from, T::Oid) if is_object(from) => Implicit,
        (from, T::Int4 | T::Int8) if is_object(from) => Assignment,
        (T::Oid, T::Int8) => Implicit,
        (T::Oid, T::Int4) => Assignment,
        (T::Int4, T::Bool) | (T::Bool, T::Int4) => Explicit,
        (T::Int4, T::InternalChar) | (T::InternalChar, T::Int4) => Explicit,
        (T::Date, T::Timestamp | T::TimestampTz) => Implicit,
        (T::Timestamp, T::TimestampTz) => Implicit,
        (T::Timestamp | T::TimestampTz, T::Date) => Assignment,
        (T::TimestampTz, T::Timestamp) => Assignment,
        // Everything prints; everything that prints can be read.
        (T::Void, _) | (_, T::Void) => return None,
        (_, T::Text | T::VarChar | T::Char) => Assignment,
        (_, T::Name) => Explicit,
        (from, _) if from.is_string() => Explicit,
        _ => return None,
    })
}

/// The type that operands of several types are brought to, as in CASE, UNION and
/// IN; `None` when there is none.
#[must_use]
pub fn common_type(types: &[DataType]) -> Option<DataType> {
    let mut common = DataType::Unknown;
    for &each in types {
        if each == common || each == DataType::Unknown {
            continue;
        }
        if common == DataType::Unknown || castable(common, each) == Some(CastContext::Implicit) {
            // Of two that become each other, the first stays, but for text, which
            // every string prefers.
            let both = castable(each, common) == Some(CastContext::Implicit)
                && common != DataType::Unknown;
            if !both || each == DataType::Text {
                common = each;
            }
        } else if castable(each, common) != Some(CastContext::Implicit) {
            return None;
        }
    }
    Some(if common == DataType::Unknown {
        DataType::Text
    } else {
        common
    })
}

impl Bound {
    /// Casts it, if it may be cast like that.
    pub fn cast(
        self,
        to: ColumnType,
        context: CastContext,
        parameters: &mut Parameters,
        style: &Style,
    ) -> Result<Self> {
        let from = self.column_type;
        let position = self.position;
        if from.data_type == DataType::Unknown {
            return self.resolve_unknown(to, context, parameters, style);
        }
        let allowed = castable(from.data_type, to.data_type).is_some_and(|least| least <= context);
        if !allowed {
            return Err(Error::new(
                SqlState::CANNOT_COERCE,
                format!("cannot cast type {} to {}", from.data_type, to.data_type),
            )
            .at(position));
        }
        let fits = to.modifier < 0 || to.modifier == from.modifier;
        let same = from.data_type == to.data_type;
        if same && fits {
            // A wider modifier is none at all.
            return Ok(self);
        }
        // Strings and numbers that need no change but in name.
        let renamed = from.data_type.is_string()
            && matches!(to.data_type, DataType::Text | DataType::VarChar)
            && to.modifier < 0;
        if renamed {
            return Ok(Self {
                column_type: to,
                ..self
            });
        }
        let explicit = context == CastContext::Explicit;
        let expression = match self.expression {
            Expression::Constant(value) if cast::is_pure(from.data_type, to.data_type) => {
                match cast::cast_pure(value.clone(), from, to, explicit, style) {
                    Ok(value) => Expression::Constant(value),
                    // An error only if it is ever evaluated.
                    Err(_) => Expression::Cast(Box::new(Cast {
                        input: Expression::Constant(value),
                        from,
                        to,
                        explicit,
                    })),
                }
            }
            input => Expression::Cast(Box::new(Cast {
                input,
                from,
                to,
                explicit,
            })),
        };
        Ok(Self {
            expression,
            column_type: to,
            position,
        })
    }

    /// Gives a literal or a parameter the type its context asks for.
    fn resolve_unknown(
        self,
        to: ColumnType,
        context: CastContext,
        parameters: &mut Parameters,
        style: &Style,
    ) -> Result<Self> {
        let position = self.position;
        let explicit = context == CastContext::Explicit;
        let expression = match self.expression {
            Expression::Parameter(number) => {
                let known = parameters.infer(number, to.data_type);
                let bound = Self {
                    expression: Expression::Parameter(number),
                    column_type: known.into(),
                    position,
                };
                return bound.cast(to, context, parameters, style);
            }
            Expression::Constant(Value::Null) => Expression::NULL,
            Expression::Constant(value) if cast::is_pure(DataType::Unknown, to.data_type) => {
                if let Value::Text(text) = &value
                    && cast::is_momentary(text, to.data_type)
                {
                    parameters.momentary = true;
                }
                Expression::Constant(
                    cast::cast_pure(value, DataType::Unknown.into(), to, explicit, style)
                        .map_err(|error| error.at(position))?,
                )
            }
            input => Expression::Cast(Box::new(Cast {
                input,
                from: DataType::Unknown.into(),
                to,
                explicit,
            })),
        };
        Ok(Self {
            expression,
            column_type: to,
            position,
        })
    }

    /// Casts it to a column's type, as storing it does; error 42804.
    pub fn assign(
        self,
        column: &str,
        to: ColumnType,
        parameters: &mut Parameters,
        style: &Style,
    ) -> Result<Self> {
        let from = self.column_type.data_type;
        let position = self.position;
        if from != DataType::Unknown
            && castable(from, to.data_type).is_none_or(|least| least > CastContext::Assignment)
        {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{column}\" is of type {} but expression is of type {from}",
                    to.data_type
                ),
            )
            .with_hint("You will need to rewrite or cast the expression.")
            .at(position));
        }
        self.cast(to, CastContext::Assignment, parameters, style)
    }
}
