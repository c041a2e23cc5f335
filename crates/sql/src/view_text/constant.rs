//! Printing of literals: with their type, where a bare one would have another.

use coeval_sql_syntax::tree::{Cast, Expr, ExprKind, Literal};

use super::Printer;
use crate::Value;
use crate::expression::{Bound, CastContext, Expression};
use crate::value::{ColumnType, DataType};

/// What a literal is.
pub(super) enum Constant<'q> {
    /// A number as it is written, with its sign.
    Number(String),
    /// A string without a type.
    Text(&'q str),
    Truth(bool),
    Null,
}

/// The literal that an expression is; a minus belongs to a number.
pub(super) fn constant(expr: &Expr) -> Option<Constant<'_>> {
    match &expr.kind {
        ExprKind::Literal(literal) => Some(match literal {
            Literal::Integer(value) => Constant::Number(value.to_string()),
            Literal::Number(digits) => Constant::Number(digits.to_string()),
            Literal::String(text) => Constant::Text(text),
            Literal::Boolean(truth) => Constant::Truth(*truth),
            Literal::Null => Constant::Null,
            Literal::Bits(_) | Literal::HexBits(_) => return None,
        }),
        ExprKind::Prefix(operator, operand)
            if operator.symbol == "-" && operator.schema.is_empty() =>
        {
            match constant(operand)? {
                Constant::Number(digits) => {
                    Some(Constant::Number(match digits.strip_prefix('-') {
                        Some(digits) => digits.to_owned(),
                        None => format!("-{digits}"),
                    }))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The type of a number, by its spelling.
pub(super) fn number_type(digits: &str) -> DataType {
    if digits.parse::<i32>().is_ok() {
        DataType::Int4
    } else if digits.parse::<i64>().is_ok() {
        DataType::Int8
    } else {
        DataType::Numeric
    }
}

/// A number as a constant of its own type.
pub(super) fn number(digits: &str) -> String {
    let data_type = number_type(digits);
    // A numeric without a point would be read as an integer.
    let bare = match data_type {
        DataType::Int4 => true,
        DataType::Numeric => digits.contains(['.', 'e', 'E']),
        _ => false,
    };
    match bare && !digits.starts_with('-') {
        true => digits.to_owned(),
        false => format!("'{digits}'::{data_type}"),
    }
}

/// A string in quotes.
pub(super) fn quoted(text: &str) -> String {
    let text = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\")),
        false => format!("'{text}'"),
    }
}

impl Printer<'_, '_> {
    /// A string as a constant of a type, in the form in which the type prints it.
    pub(super) fn typed(&mut self, text: &str, data_type: DataType) -> String {
        let column_type = ColumnType::from(data_type);
        let bound = Bound::new(Expression::Constant(Value::text(text)), DataType::Unknown);
        let cast = self.binder.cast(bound, column_type, CastContext::Implicit);
        let style = self.binder.session.style;
        let printed = match cast.map(|cast| cast.expression) {
            Ok(Expression::Constant(value)) => value
                .to_text(column_type, &style)
                .map_or_else(|| text.to_owned(), String::from),
            _ => text.to_owned(),
        };
        match data_type {
            DataType::Bool if printed == "t" => "true".to_owned(),
            DataType::Bool if printed == "f" => "false".to_owned(),
            DataType::Int4 | DataType::Numeric if number_type(&printed) == data_type => {
                number(&printed)
            }
            // `bpchar` has no blanks at its end by itself.
            DataType::Char => format!("{}::bpchar", quoted(text)),
            _ => format!("{}::{column_type}", quoted(&printed)),
        }
    }

    /// A cast of a literal; `None` if it is printed like other casts.
    pub(super) fn cast_constant(&mut self, cast: &Cast, to: ColumnType) -> Option<String> {
        let from = constant(&cast.operand)?;
        let plain = ColumnType::from(to.data_type);
        let of_type = match from {
            Constant::Text(text) => self.typed(text, to.data_type),
            Constant::Null => format!("NULL::{plain}"),
            Constant::Truth(truth) if to.data_type == DataType::Bool => truth.to_string(),
            Constant::Number(digits) if number_type(&digits) == to.data_type => number(&digits),
            Constant::Truth(_) | Constant::Number(_) => return None,
        };
        match to == plain {
            true => Some(of_type),
            false => Some(format!("({of_type})::{to}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_their_types() {
        for (digits, printed) in [
            ("1", "1"),
            ("-1", "'-1'::integer"),
            ("5000000000", "'5000000000'::bigint"),
            ("1.50", "1.50"),
            ("-1.5", "'-1.5'::numeric"),
            ("99999999999999999999", "'99999999999999999999'::numeric"),
        ] {
            assert_eq!(number(digits), printed);
        }
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(quoted("a\\b"), "E'a\\\\b'");
    }
}
