//! Printing of operators, with the casts that they imply and the brackets around them.

use coeval_sql_syntax::tree::{Expr, ExprKind, LikeKind, Operator};

use super::constant::{Constant, constant, number_type};
use super::expr::{Around, NodeKind};
use super::{Level, Printer};
use crate::Result;
use crate::value::DataType;

/// The types that an operator takes its operands as; `None` leaves an operand as it is.
pub(super) fn operand_types(
    symbol: &str,
    left: Option<DataType>,
    right: Option<DataType>,
) -> (Option<DataType>, Option<DataType>) {
    use DataType as T;
    let (Some(left), Some(right)) = (left, right) else {
        return (left, right);
    };
    // There are operators for text, and none for varchar.
    let as_text = |data_type| match data_type {
        T::VarChar => T::Text,
        other => other,
    };
    match (left, right) {
        (T::Unknown, T::Unknown) => (Some(T::Text), Some(T::Text)),
        (T::Unknown, other) => {
            let other = as_text(other);
            (Some(literal_type(symbol, other)), Some(other))
        }
        (other, T::Unknown) => {
            let other = as_text(other);
            (Some(other), Some(literal_type(symbol, other)))
        }
        (left, right) if left.is_number() && right.is_number() => {
            let integer = |each| matches!(each, T::Int2 | T::Int4 | T::Int8);
            let float = |each| matches!(each, T::Float4 | T::Float8);
            match (left, right) {
                _ if left == right || (integer(left) && integer(right)) => {
                    (Some(left), Some(right))
                }
                _ if float(left) && float(right) => (Some(left), Some(right)),
                _ if float(left) || float(right) => (Some(T::Float8), Some(T::Float8)),
                _ => (Some(T::Numeric), Some(T::Numeric)),
            }
        }
        (left, right) if left.is_string() && right.is_string() => match (left, right) {
            (T::Char, T::Char) => (Some(T::Char), Some(T::Char)),
            (T::Name, T::Name) => (Some(T::Name), Some(T::Name)),
            (T::Name, other) => (Some(T::Name), Some(as_text(other))),
            (other, T::Name) => (Some(as_text(other)), Some(T::Name)),
            _ => (Some(T::Text), Some(T::Text)),
        },
        (left, right) => (Some(as_text(left)), Some(as_text(right))),
    }
}

/// The type that a literal has beside an operand of this type.
fn literal_type(symbol: &str, other: DataType) -> DataType {
    match (symbol, other) {
        ("||", other) if !other.is_string() && other.element().is_none() => DataType::Text,
        ("~~" | "!~~" | "~~*" | "!~~*" | "~" | "!~" | "~*" | "!~*", _) => DataType::Text,
        (_, other) => other,
    }
}

/// Symbol of LIKE and its like.
pub(super) fn like_symbol(kind: LikeKind, negated: bool) -> &'static str {
    match (kind, negated) {
        (LikeKind::Like, false) => "~~",
        (LikeKind::Like, true) => "!~~",
        (LikeKind::Ilike, false) => "~~*",
        (LikeKind::Ilike, true) => "!~~*",
        (LikeKind::SimilarTo, false) => "~",
        (LikeKind::SimilarTo, true) => "!~",
    }
}

impl Printer<'_, '_> {
    /// Type of an expression for an operator: an untyped literal has none.
    pub(super) fn operand_type(&mut self, expr: &Expr, level: &Level<'_>) -> Option<DataType> {
        match constant(expr) {
            Some(Constant::Text(_) | Constant::Null) => Some(DataType::Unknown),
            Some(Constant::Truth(_)) => Some(DataType::Bool),
            Some(Constant::Number(digits)) => Some(number_type(&digits)),
            None => self.type_of(expr, level).map(|found| found.data_type),
        }
    }

    /// Operators of one precedence: `((a + b) - c)`.
    pub(super) fn chain(
        &mut self,
        first: &Expr,
        rest: &[(Operator, Expr)],
        level: &Level<'_>,
        around: Around,
    ) -> Result<()> {
        let Some(((operator, right), before)) = rest.split_last() else {
            return self.expr(first, level, around);
        };
        let nested;
        let left = match before {
            [] => first,
            before => {
                nested = Expr {
                    at: first.at,
                    kind: ExprKind::Binary(Box::new(first.clone()), before.to_vec()),
                };
                &nested
            }
        };
        self.binary(left, &operator.symbol, right, level, around)
    }

    /// `(left symbol right)`
    pub(super) fn binary(
        &mut self,
        left: &Expr,
        symbol: &str,
        right: &Expr,
        level: &Level<'_>,
        around: Around,
    ) -> Result<()> {
        if let (ExprKind::Row(left), ExprKind::Row(right)) = (&left.kind, &right.kind)
            && left.fields.len() == right.fields.len()
            && matches!(symbol, "=" | "<>")
        {
            return self.rows(&left.fields, symbol, &right.fields, level, around);
        }
        let types = (
            self.operand_type(left, level),
            self.operand_type(right, level),
        );
        let (of_left, of_right) = operand_types(symbol, types.0, types.1);
        let kind = NodeKind::operator(symbol);
        let enclosed = self.open(kind, around);
        self.as_type(left, level, of_left, Around::operand(kind, true))?;
        self.put(" ");
        self.put(symbol);
        self.put(" ");
        self.as_type(right, level, of_right, Around::operand(kind, false))?;
        self.close(enclosed);
        Ok(())
    }

    /// Rows are equal if their fields are.
    fn rows(
        &mut self,
        left: &[Expr],
        symbol: &str,
        right: &[Expr],
        level: &Level<'_>,
        around: Around,
    ) -> Result<()> {
        let (kind, word) = match symbol {
            "=" => (NodeKind::And, " AND "),
            _ => (NodeKind::Or, " OR "),
        };
        let enclosed = self.open(kind, around);
        for (at, (left, right)) in left.iter().zip(right).enumerate() {
            self.put(if at > 0 { word } else { "" });
            self.binary(left, symbol, right, level, Around::operand(kind, at == 0))?;
        }
        self.close(enclosed);
        Ok(())
    }

    /// Opens a bracket where one is due around a node of this kind.
    pub(super) fn open(&mut self, kind: NodeKind, around: Around) -> bool {
        let enclosed = !self.pretty || !around.leaves_bare(kind);
        self.put(if enclosed { "(" } else { "" });
        enclosed
    }

    pub(super) fn close(&mut self, enclosed: bool) {
        self.put(if enclosed { ")" } else { "" });
    }
}
