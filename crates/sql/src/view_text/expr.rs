//! Printing of expressions.

use coeval_sql_syntax::tree::{
    Case, Comparison, Expr, ExprKind, InList, Like, LikeKind, Quantity, Special, Step, Test,
};
use coeval_sql_syntax::{print, tree};

use super::constant::{Constant, constant, number};
use super::operator::{like_symbol, operand_types};
use super::{ITEM, Level, Printer};
use crate::Result;
use crate::expression::{fold_name, resolve_type, with_stack};
use crate::value::{ColumnType, DataType};

/// What an expression is, as far as brackets depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    /// `+`, `-`
    Sum,
    /// `*`, `/`, `%`
    Product,
    /// Any other operator, and tests such as IS NULL.
    Operator,
    And,
    Or,
    Not,
}

impl NodeKind {
    pub(super) fn operator(symbol: &str) -> Self {
        match symbol {
            "+" | "-" => Self::Sum,
            "*" | "/" | "%" => Self::Product,
            _ => Self::Operator,
        }
    }
}

/// What stands around an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Around {
    /// A clause, or brackets of its own: a function's and the like.
    Top,
    /// An operator, of which it is the left operand or another.
    Operand(NodeKind, bool),
    /// A cast or a step into a value, which bind more than all else.
    Cast,
}

impl Around {
    pub(super) const TOP: Self = Self::Top;

    pub(super) const fn operand(kind: NodeKind, is_left: bool) -> Self {
        Self::Operand(kind, is_left)
    }

    /// Whether an expression of this kind needs no brackets here, when it is printed pretty.
    pub(super) const fn leaves_bare(self, kind: NodeKind) -> bool {
        match (self, kind) {
            (Self::Top, _) => true,
            (Self::Cast, _) => false,
            (Self::Operand(NodeKind::And | NodeKind::Or | NodeKind::Not, _), of) => match of {
                NodeKind::Sum | NodeKind::Product | NodeKind::Operator => true,
                NodeKind::And | NodeKind::Not => {
                    matches!(self, Self::Operand(NodeKind::And | NodeKind::Or, _))
                }
                NodeKind::Or => matches!(self, Self::Operand(NodeKind::Or, _)),
            },
            (Self::Operand(NodeKind::Sum, _), NodeKind::Product) => true,
            (Self::Operand(NodeKind::Sum, is_left), NodeKind::Sum)
            | (Self::Operand(NodeKind::Product, is_left), NodeKind::Product) => is_left,
            (Self::Operand(..), _) => false,
        }
    }
}

impl Printer<'_, '_> {
    /// Prints an expression as it is.
    pub(super) fn expr(&mut self, expr: &Expr, level: &Level<'_>, around: Around) -> Result<()> {
        with_stack(|| self.expr_here(expr, level, around))
    }

    /// Prints an expression where one of a type is wanted: with the cast that is implied.
    pub(super) fn as_type(
        &mut self,
        expr: &Expr,
        level: &Level<'_>,
        wanted: Option<DataType>,
        around: Around,
    ) -> Result<()> {
        let Some(wanted) = wanted.filter(|wanted| *wanted != DataType::Unknown) else {
            return self.expr(expr, level, around);
        };
        match constant(expr) {
            Some(Constant::Text(text)) => {
                let printed = self.typed(text, wanted);
                self.put(&printed);
                return Ok(());
            }
            Some(Constant::Null) => {
                let null = format!("NULL::{}", ColumnType::from(wanted));
                self.put(&null);
                return Ok(());
            }
            _ => {}
        }
        let own = self.operand_type(expr, level);
        let differs = own.is_some_and(|own| {
            let strings = own.is_string() && wanted.is_string();
            let numbers = own.is_number() && wanted.is_number();
            own != wanted && (strings || numbers)
        });
        // In a select list a type of its own is as good as text.
        let is_list = around == Around::TOP && wanted == DataType::Text;
        if !differs || is_list {
            return self.expr(expr, level, around);
        }
        let bare = self.pretty && is_simple(expr);
        self.put(if bare { "" } else { "(" });
        self.expr(expr, level, if bare { Around::Cast } else { Around::TOP })?;
        self.put(if bare { "" } else { ")" });
        let target = format!("::{}", ColumnType::from(wanted));
        self.put(&target);
        Ok(())
    }

    fn list(&mut self, exprs: &[Expr], level: &Level<'_>, wanted: Option<DataType>) -> Result<()> {
        for (at, expr) in exprs.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.as_type(expr, level, wanted, Around::Top)?;
        }
        Ok(())
    }

    /// The type that these have in common.
    pub(super) fn unified<'q>(
        &mut self,
        exprs: impl IntoIterator<Item = &'q Expr>,
        level: &Level<'_>,
    ) -> Option<DataType> {
        let mut bounds = Vec::new();
        for expr in exprs {
            bounds.extend(self.bound(expr, level));
        }
        self.common_type(bounds)
    }

    fn expr_here(&mut self, expr: &Expr, level: &Level<'_>, around: Around) -> Result<()> {
        if let Some(constant) = constant(expr) {
            let printed = match constant {
                Constant::Number(digits) => number(&digits),
                Constant::Text(text) => self.typed(text, DataType::Text),
                Constant::Truth(truth) => truth.to_string(),
                Constant::Null => "NULL".to_owned(),
            };
            self.put(&printed);
            return Ok(());
        }
        match &expr.kind {
            ExprKind::Column { path, star: false } => {
                let parts: Vec<String> = path.0.iter().map(fold_name).collect();
                match level.column(&parts) {
                    Some(column) => self.column(&column),
                    None => self.put(&print::expr(expr)),
                }
            }
            ExprKind::Binary(first, rest) => self.chain(first, rest, level, around)?,
            ExprKind::Prefix(operator, operand) => {
                let kind = NodeKind::Operator;
                let enclosed = self.open(kind, around);
                self.put(&operator.symbol);
                self.put(" ");
                self.expr(operand, level, Around::operand(kind, false))?;
                self.close(enclosed);
            }
            ExprKind::Not(operand) => {
                let enclosed = self.open(NodeKind::Not, around);
                self.put("NOT ");
                let side = Around::operand(NodeKind::Not, true);
                self.as_type(operand, level, Some(DataType::Bool), side)?;
                self.close(enclosed);
            }
            ExprKind::And(operands) => self.connected(operands, NodeKind::And, level, around)?,
            ExprKind::Or(operands) => self.connected(operands, NodeKind::Or, level, around)?,
            ExprKind::Is(is) => {
                let enclosed = self.open(NodeKind::Operator, around);
                self.expr(
                    &is.operand,
                    level,
                    Around::operand(NodeKind::Operator, true),
                )?;
                self.put(if is.negated { " IS NOT " } else { " IS " });
                self.put(match is.test {
                    Test::Null => "NULL",
                    Test::True => "TRUE",
                    Test::False => "FALSE",
                    Test::Unknown => "UNKNOWN",
                    Test::Document => "DOCUMENT",
                    Test::Normalized(_) => "NORMALIZED",
                });
                self.close(enclosed);
            }
            ExprKind::Distinct(test) => {
                if test.negated {
                    let enclosed = self.open(NodeKind::Not, around);
                    self.put("NOT ");
                    let inner = Around::operand(NodeKind::Not, true);
                    self.binary(&test.left, "IS DISTINCT FROM", &test.right, level, inner)?;
                    self.close(enclosed);
                } else {
                    self.binary(&test.left, "IS DISTINCT FROM", &test.right, level, around)?;
                }
            }
            ExprKind::Like(like) => self.like(like, level, around)?,
            ExprKind::Between(between) => {
                let operand = &between.operand;
                let (low, high) = (&between.low, &between.high);
                let within = [(low, ">="), (high, "<=")];
                let without = [(low, "<"), (high, ">")];
                let (kind, word, tests) = match between.negated {
                    false => (NodeKind::And, " AND ", within),
                    true => (NodeKind::Or, " OR ", without),
                };
                if between.symmetric {
                    self.put(&print::expr(expr));
                    return Ok(());
                }
                let enclosed = self.open(kind, around);
                for (at, (limit, symbol)) in tests.into_iter().enumerate() {
                    self.put(if at > 0 { word } else { "" });
                    self.binary(
                        operand,
                        symbol,
                        limit,
                        level,
                        Around::operand(kind, at == 0),
                    )?;
                }
                self.close(enclosed);
            }
            ExprKind::InList(test) => self.in_list(test, level, around)?,
            ExprKind::InQuery(test) => {
                let enclosed = test.negated.then(|| self.open(NodeKind::Not, around));
                self.put(if test.negated { "NOT " } else { "" });
                self.put("(");
                self.expr(&test.operand, level, Around::Top)?;
                self.put(" IN (");
                self.subquery(&test.query, Some(level))?;
                self.put("))");
                self.close(enclosed.unwrap_or(false));
            }
            ExprKind::Quantified(test) => {
                let symbol = match &test.comparison {
                    Comparison::Operator(operator) => operator.symbol.as_str(),
                    Comparison::Like(kind, negated) => like_symbol(*kind, *negated),
                };
                let enclosed = self.open(NodeKind::Operator, around);
                let side = Around::operand(NodeKind::Operator, true);
                let element = match &test.right {
                    Quantity::Array(array) => {
                        let array = self.operand_type(array, level);
                        array.and_then(DataType::element)
                    }
                    Quantity::Query(_) => None,
                };
                let own = self.operand_type(&test.left, level);
                let (left, _) = operand_types(symbol, own, element);
                self.as_type(&test.left, level, left, side)?;
                let word = if test.all { "ALL" } else { "ANY" };
                let between = format!(" {symbol} {word} (");
                self.put(&between);
                match &test.right {
                    Quantity::Array(array) => self.expr(array, level, Around::Top)?,
                    Quantity::Query(query) => self.subquery(query, Some(level))?,
                }
                self.put(")");
                self.close(enclosed);
            }
            ExprKind::Exists(query) => {
                self.put("(EXISTS (");
                self.subquery(query, Some(level))?;
                self.put("))");
            }
            ExprKind::Subquery(query) => {
                self.put("(");
                self.subquery(query, Some(level))?;
                self.put(")");
            }
            ExprKind::ArrayQuery(query) => {
                self.put("ARRAY(");
                self.subquery(query, Some(level))?;
                self.put(")");
            }
            ExprKind::Array(elements) => {
                let common = self.unified(elements, level);
                self.put("ARRAY[");
                self.list(elements, level, common)?;
                self.put("]");
            }
            ExprKind::Row(row) => {
                self.put("ROW(");
                self.list(&row.fields, level, None)?;
                self.put(")");
            }
            ExprKind::Case(case) => self.case(case, level)?,
            ExprKind::Cast(cast) => self.cast(cast, level)?,
            ExprKind::Collate(operand, collation) => {
                let enclosed = self.open(NodeKind::Operator, around);
                self.expr(operand, level, Around::operand(NodeKind::Operator, true))?;
                self.put(" COLLATE ");
                if let Some(name) = collation.0.last() {
                    self.identifier(&name.text);
                }
                self.close(enclosed);
            }
            ExprKind::AtTimeZone(time, zone) => {
                self.put("(");
                self.expr(time, level, Around::operand(NodeKind::Operator, true))?;
                self.put(" AT TIME ZONE ");
                self.expr(zone, level, Around::operand(NodeKind::Operator, false))?;
                self.put(")");
            }
            ExprKind::Indirection(base, steps) => {
                let bare = matches!(base.kind, ExprKind::Column { .. });
                self.put(if bare { "" } else { "(" });
                self.expr(base, level, Around::Top)?;
                self.put(if bare { "" } else { ")" });
                for step in steps {
                    match step {
                        Step::Index(index) => {
                            self.put("[");
                            self.expr(index, level, Around::Top)?;
                            self.put("]");
                        }
                        Step::Field(name) => {
                            self.put(".");
                            self.identifier(&fold_name(name));
                        }
                        Step::Star | Step::Slice(..) => {}
                    }
                }
            }
            ExprKind::Function(call) => self.call(expr, call, level)?,
            ExprKind::Special(special) => self.special(special, level)?,
            ExprKind::Grouping(exprs) => {
                self.put("GROUPING(");
                self.list(exprs, level, None)?;
                self.put(")");
            }
            ExprKind::Overlaps(left, right) => {
                self.put("\"overlaps\"(");
                self.list(left, level, None)?;
                self.put(", ");
                self.list(right, level, None)?;
                self.put(")");
            }
            ExprKind::Literal(_)
            | ExprKind::Column { .. }
            | ExprKind::Parameter(_)
            | ExprKind::Default => self.put(&print::expr(expr)),
        }
        Ok(())
    }

    fn connected(
        &mut self,
        operands: &[Expr],
        kind: NodeKind,
        level: &Level<'_>,
        around: Around,
    ) -> Result<()> {
        let word = if kind == NodeKind::And {
            " AND "
        } else {
            " OR "
        };
        let enclosed = self.open(kind, around);
        for (at, operand) in operands.iter().enumerate() {
            self.put(if at > 0 { word } else { "" });
            let side = Around::operand(kind, at == 0);
            self.as_type(operand, level, Some(DataType::Bool), side)?;
        }
        self.close(enclosed);
        Ok(())
    }

    fn like(&mut self, like: &Like, level: &Level<'_>, around: Around) -> Result<()> {
        let symbol = like_symbol(like.kind, like.negated);
        let function = match (like.kind, &like.escape) {
            (LikeKind::SimilarTo, _) => Some("similar_to_escape"),
            (_, Some(_)) => Some("like_escape"),
            (_, None) => None,
        };
        let Some(function) = function else {
            return self.binary(&like.operand, symbol, &like.pattern, level, around);
        };
        let enclosed = self.open(NodeKind::Operator, around);
        let side = Around::operand(NodeKind::Operator, true);
        self.as_type(&like.operand, level, Some(DataType::Text), side)?;
        let between = format!(" {symbol} {function}(");
        self.put(&between);
        self.as_type(&like.pattern, level, Some(DataType::Text), Around::Top)?;
        if let Some(escape) = &like.escape {
            self.put(", ");
            self.as_type(escape, level, Some(DataType::Text), Around::Top)?;
        }
        self.put(")");
        self.close(enclosed);
        Ok(())
    }

    /// `(a = ANY (ARRAY[1, 2]))`; what is no constant is compared by itself.
    fn in_list(&mut self, test: &InList, level: &Level<'_>, around: Around) -> Result<()> {
        let is_fixed = |expr: &&Expr| !names_columns(expr);
        let fixed: Vec<&Expr> = test.list.iter().filter(is_fixed).collect();
        let (symbol, kind, word) = match test.negated {
            false => ("=", NodeKind::Or, " OR "),
            true => ("<>", NodeKind::And, " AND "),
        };
        if fixed.len() < 2 || fixed.len() < test.list.len() {
            let enclosed = (test.list.len() > 1).then(|| self.open(kind, around));
            for (at, each) in test.list.iter().enumerate() {
                self.put(if at > 0 { word } else { "" });
                let inner = match test.list.len() {
                    1 => around,
                    _ => Around::operand(kind, at == 0),
                };
                self.binary(&test.operand, symbol, each, level, inner)?;
            }
            self.close(enclosed.unwrap_or(false));
            return Ok(());
        }
        let own = self.operand_type(&test.operand, level);
        let all = std::iter::once(&test.operand).chain(fixed.iter().copied());
        let common = self.unified(all, level).or(own);
        let (left, _) = operand_types(symbol, own, common);
        let enclosed = self.open(NodeKind::Operator, around);
        self.as_type(
            &test.operand,
            level,
            left,
            Around::operand(NodeKind::Operator, true),
        )?;
        self.put(match test.negated {
            false => " = ANY (",
            true => " <> ALL (",
        });
        // An array of varchar is compared as one of text.
        let cast = common == Some(DataType::VarChar);
        self.put(if cast { "(ARRAY[" } else { "ARRAY[" });
        for (at, each) in fixed.into_iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.as_type(each, level, common, Around::Top)?;
        }
        self.put(if cast { "])::text[])" } else { "])" });
        self.close(enclosed);
        Ok(())
    }

    fn case(&mut self, case: &Case, level: &Level<'_>) -> Result<()> {
        self.line("CASE", 0, ITEM, 0);
        let operand = match &case.operand {
            None => None,
            Some(operand) => {
                self.put(" ");
                self.expr(operand, level, Around::Top)?;
                self.operand_type(operand, level)
            }
        };
        let results = case.branches.iter().map(|(_, result)| result);
        let common = self.unified(results.chain(&case.otherwise), level);
        for (condition, result) in &case.branches {
            self.line("WHEN ", 0, 0, 0);
            let own = self.operand_type(condition, level);
            let (_, wanted) = operand_types("=", operand, own);
            self.as_type(
                condition,
                level,
                wanted.filter(|_| operand.is_some()),
                Around::Top,
            )?;
            self.put(" THEN ");
            self.as_type(result, level, common, Around::Top)?;
        }
        self.line("ELSE ", 0, 0, 0);
        match &case.otherwise {
            Some(otherwise) => self.as_type(otherwise, level, common, Around::Top)?,
            None => {
                let null = format!(
                    "NULL::{}",
                    ColumnType::from(common.unwrap_or(DataType::Text))
                );
                self.put(&null);
            }
        }
        self.line("END", -ITEM, 0, 0);
        Ok(())
    }

    fn cast(&mut self, cast: &tree::Cast, level: &Level<'_>) -> Result<()> {
        let to = resolve_type(&cast.target)?;
        if let Some(printed) = self.cast_constant(cast, to) {
            self.put(&printed);
            return Ok(());
        }
        let own = self.type_of(&cast.operand, level);
        if own == Some(to) {
            return self.expr(&cast.operand, level, Around::Top);
        }
        let bare = self.pretty && is_simple(&cast.operand);
        self.put(if bare { "" } else { "(" });
        self.expr(
            &cast.operand,
            level,
            if bare { Around::Cast } else { Around::Top },
        )?;
        self.put(if bare { "" } else { ")" });
        let target = format!("::{to}");
        self.put(&target);
        Ok(())
    }
}

/// Whether an expression may stand in front of `::` as it is.
pub(super) fn is_simple(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Column { .. } | ExprKind::Function(_) | ExprKind::Case(_) | ExprKind::Literal(_)
    )
}

/// Whether a column of a query may stand in an expression of a list.
fn names_columns(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Parameter(_) => false,
        ExprKind::Cast(cast) => names_columns(&cast.operand),
        ExprKind::Prefix(_, operand) => names_columns(operand),
        ExprKind::Binary(first, rest) => {
            names_columns(first) || rest.iter().any(|(_, right)| names_columns(right))
        }
        ExprKind::Special(special) => !matches!(&**special, Special::Value(..)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_follow_precedence_where_it_is_plain() {
        let product = Around::operand(NodeKind::Product, true);
        assert!(!product.leaves_bare(NodeKind::Sum));
        assert!(product.leaves_bare(NodeKind::Product));
        assert!(!Around::operand(NodeKind::Product, false).leaves_bare(NodeKind::Product));
        assert!(Around::operand(NodeKind::Sum, false).leaves_bare(NodeKind::Product));
        assert!(Around::operand(NodeKind::Or, true).leaves_bare(NodeKind::And));
        assert!(!Around::operand(NodeKind::And, true).leaves_bare(NodeKind::Or));
        assert!(!Around::operand(NodeKind::Operator, true).leaves_bare(NodeKind::Operator));
    }
}
