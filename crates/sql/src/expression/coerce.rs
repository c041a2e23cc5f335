//! Type coercion: which casts exist, and whether the binder applies them implicitly, on
//! assignment, or only explicitly.

use super::bind::Parameters;
use super::{Bound, Cast, Expression, cast};
use crate::value::{ColumnType, DataType, Style, Value};
use crate::{Error, Result, SqlState};

/// The contexts in which the binder may apply a cast, from least to most explicit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Any expression: the cast is implicit.
    Implicit,
    /// Assignment: the value is stored in a column.
    Assignment,
    /// The statement writes the cast itself.
    Explicit,
}

/// The least explicit context in which the binder may cast `from` to `to`; `None` if no
/// cast exists.
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
        // Vectors cast to arrays implicitly; other arrays cast as their elements do.
        return castable(from, to);
    }
    if let Some((_, context)) = own_casts(from).iter().find(|(other, _)| *other == to) {
        return Some(*context);
    }
    let integer = matches!(from, T::Int2 | T::Int4 | T::Int8 | T::Oid);
    if integer && to.object().is_some() {
        return Some(Implicit);
    }
    // Strings cast to each other, every type casts to strings, and strings cast to
    // every type that can be parsed.
    Some(match (from, to) {
        (from, to) if from.is_string() && to.is_string() => Implicit,
        (T::Void, _) | (_, T::Void) => return None,
        (_, T::Text | T::VarChar | T::Char) => Assignment,
        (_, T::Name) => Explicit,
        (from, _) if from.is_string() => Explicit,
        _ => return None,
    })
}

/// The casts of one type, besides those that all numbers, strings, arrays and printable
/// types have.
#[deny(clippy::wildcard_enum_match_arm)]
const fn own_casts(from: DataType) -> &'static [(DataType, CastContext)] {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType as T;
    match from {
        T::Bool => &[(T::Int4, Explicit)],
        T::InternalChar => &[
            (T::Text, Implicit),
            (T::VarChar, Assignment),
            (T::Char, Assignment),
            (T::Int4, Explicit),
        ],
        T::Int2 | T::Int8 => &[(T::Oid, Implicit)],
        T::Int4 => &[
            (T::Oid, Implicit),
            (T::Bool, Explicit),
            (T::InternalChar, Explicit),
        ],
        T::Text | T::VarChar => &[(T::Regclass, Implicit), (T::InternalChar, Assignment)],
        T::Char => &[(T::InternalChar, Assignment)],
        T::Oid => &[(T::Int8, Implicit), (T::Int4, Assignment)],
        T::Regproc
        | T::Regprocedure
        | T::Regoper
        | T::Regoperator
        | T::Regclass
        | T::Regtype
        | T::Regnamespace
        | T::Regrole => &[
            (T::Oid, Implicit),
            (T::Int4, Assignment),
            (T::Int8, Assignment),
        ],
        T::Xid => &[(T::Oid, Implicit)],
        T::Tid => &[],
        T::Date => &[(T::Timestamp, Implicit), (T::TimestampTz, Implicit)],
        T::Timestamp => &[
            (T::TimestampTz, Implicit),
            (T::Date, Assignment),
            (T::Time, Assignment),
        ],
        T::TimestampTz => &[
            (T::Date, Assignment),
            (T::Timestamp, Assignment),
            (T::Time, Assignment),
            (T::TimeTz, Assignment),
        ],
        T::Time => &[(T::Interval, Implicit), (T::TimeTz, Implicit)],
        T::TimeTz | T::Interval => &[(T::Time, Assignment)],
        T::Json => &[(T::Jsonb, Assignment)],
        T::Jsonb => &[
            (T::Json, Assignment),
            (T::Bool, Explicit),
            (T::Int2, Explicit),
            (T::Int4, Explicit),
            (T::Int8, Explicit),
            (T::Float4, Explicit),
            (T::Float8, Explicit),
            (T::Numeric, Explicit),
        ],
        T::Name | T::Float4 | T::Float8 | T::Numeric | T::Unknown | T::Void => &[],
        T::Bytea | T::Uuid | T::JsonPath => &[],
        T::Int2Vector
        | T::OidVector
        | T::BoolArray
        | T::InternalCharArray
        | T::NameArray
        | T::Int2Array
        | T::Int4Array
        | T::TextArray
        | T::CharArray
        | T::VarCharArray
        | T::Int8Array
        | T::Float4Array
        | T::Float8Array
        | T::OidArray
        | T::AclItemArray
        | T::TimestampArray
        | T::DateArray
        | T::TimestampTzArray
        | T::NumericArray
        | T::RegtypeArray
        | T::TimeArray
        | T::TimeTzArray
        | T::IntervalArray
        | T::JsonArray
        | T::ByteaArray
        | T::UuidArray
        | T::JsonbArray
        | T::JsonPathArray
        | T::TidArray
        | T::Record
        | T::RecordArray => &[],
    }
}

/// The common type of several expressions, as in CASE, UNION and VALUES; `None` if they
/// have none. As in PostgreSQL (`select_common_type`), it is the type of the first, unless a
/// later one is of the same category and what it can be cast to, but not from.
#[must_use]
pub fn common_type(types: &[DataType]) -> Option<DataType> {
    let implicit = |from, to| castable(from, to) == Some(CastContext::Implicit);
    let known = types.iter().filter(|each| **each != DataType::Unknown);
    let mut common = None;
    for &each in known.clone() {
        let before = *common.get_or_insert(each);
        if each == before {
            continue;
        }
        if each.facts().category != before.facts().category {
            return None;
        }
        if !before.facts().preferred && implicit(before, each) && !implicit(each, before) {
            common = Some(each);
        }
    }
    let common = common.unwrap_or(DataType::Text);
    let mut known = known;
    known.all(|each| implicit(*each, common)).then_some(common)
}

/// The type in which operands are compared; `None` if they cannot be.
#[must_use]
pub fn comparable_type(types: &[DataType]) -> Option<DataType> {
    let mut common = DataType::Unknown;
    for &each in types {
        if each == common || each == DataType::Unknown {
            continue;
        }
        if common == DataType::Unknown || castable(common, each) == Some(CastContext::Implicit) {
            // If both types cast to each other, the first one wins, except that text
            // wins over every other string type.
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
    /// Casts the expression, if the cast is allowed in `context`.
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
            // A wider length modifier is the same as no modifier.
            return Ok(self);
        }
        // Casts between types of one representation only relabel the value.
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
                    // The cast fails only if the executor evaluates it.
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

    /// Resolves a literal or a parameter of unknown type to the type that its context
    /// wants.
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

    /// Casts the expression to a column's type with an assignment cast; error 42804.
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
