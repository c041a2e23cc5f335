//! Printing of calls: functions, aggregates, windows, and what has a syntax of its own.

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{
    self, Arguments, Expr, ExprKind, Frame, FrameBound, FrameUnit, FunctionCall, Over, Special,
    SqlValue, TrimSide, Window,
};

use super::constant::{Constant, constant};
use super::expr::{Around, NodeKind, is_simple};
use super::operator::operand_types;
use super::{Level, Printer};
use crate::Result;
use crate::expression::{Expression, fold_name};
use crate::value::DataType;

impl Printer<'_, '_> {
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        call: &FunctionCall,
        level: &Level<'_>,
    ) -> Result<()> {
        if let Some(name) = call.name.0.last() {
            self.identifier(&fold_name(name));
        }
        self.put("(");
        match &call.arguments {
            Arguments::Star => self.put("*"),
            Arguments::List(list) => {
                self.put(if list.distinct { "DISTINCT " } else { "" });
                let wanted = self.argument_types(expr, level);
                // Of aggregates these take any type, and the others none of varchar.
                let any = ["count", "array_agg"];
                let name = call.name.0.last().map(fold_name).unwrap_or_default();
                let as_text = !any.contains(&name.as_str());
                let last = list.arguments.len().saturating_sub(1);
                for (at, argument) in list.arguments.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    self.put(if list.variadic && at == last {
                        "VARIADIC "
                    } else {
                        ""
                    });
                    let wanted = wanted
                        .get(at)
                        .copied()
                        .or_else(|| as_text.then_some(DataType::Text));
                    let wanted = wanted.or(match constant(&argument.value) {
                        Some(Constant::Text(_)) => Some(DataType::Text),
                        _ => None,
                    });
                    self.argument(&argument.value, level, wanted)?;
                }
                for (at, item) in list.order.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { " ORDER BY " });
                    self.expr(&item.expr, level, Around::Top)?;
                    self.direction(item)?;
                }
            }
        }
        self.put(")");
        for (at, item) in call.within_group.iter().enumerate() {
            self.put(if at > 0 {
                ", "
            } else {
                " WITHIN GROUP (ORDER BY "
            });
            self.expr(&item.expr, level, Around::Top)?;
            self.direction(item)?;
        }
        self.put(if call.within_group.is_empty() {
            ""
        } else {
            ")"
        });
        if let Some(filter) = &call.filter {
            self.put(" FILTER (WHERE ");
            self.expr(filter, level, Around::Top)?;
            self.put(")");
        }
        match &call.over {
            None => {}
            Some(Over::Named(name)) => {
                self.put(" OVER ");
                self.identifier(&fold_name(name));
            }
            Some(Over::Window(window)) => {
                self.put(" OVER ");
                self.window(window, level)?;
            }
        }
        Ok(())
    }

    /// An argument of a function, with the cast to the parameter's type.
    fn argument(&mut self, expr: &Expr, level: &Level<'_>, wanted: Option<DataType>) -> Result<()> {
        // As an operand: the type matters, and no brackets are due.
        let own = self.operand_type(expr, level);
        let text_of_varchar = own == Some(DataType::VarChar) && wanted == Some(DataType::Text);
        match text_of_varchar {
            true => {
                let bare = self.pretty && is_simple(expr);
                self.put(if bare { "" } else { "(" });
                self.expr(expr, level, Around::Top)?;
                self.put(if bare { "::text" } else { ")::text" });
                Ok(())
            }
            false => self.as_type(expr, level, wanted, Around::Top),
        }
    }

    /// The types of the parameters of the function that a call was resolved to.
    fn argument_types(&mut self, call: &Expr, level: &Level<'_>) -> Vec<DataType> {
        let bound = self.bound(call, level).map(|bound| bound.expression);
        match bound {
            Some(Expression::Call(call)) => call.types.iter().map(|each| each.data_type).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn window(&mut self, window: &Window, level: &Level<'_>) -> Result<()> {
        self.put("(");
        let mut separator = "";
        if let Some(base) = &window.base {
            self.identifier(&fold_name(base));
            separator = " ";
        }
        for (at, expr) in window.partition.iter().enumerate() {
            self.put(if at > 0 { ", " } else { separator });
            self.put(if at > 0 { "" } else { "PARTITION BY " });
            self.expr(expr, level, Around::Top)?;
            separator = " ";
        }
        for (at, item) in window.order.iter().enumerate() {
            self.put(if at > 0 { ", " } else { separator });
            self.put(if at > 0 { "" } else { "ORDER BY " });
            self.expr(&item.expr, level, Around::Top)?;
            self.direction(item)?;
            separator = " ";
        }
        if let Some(frame) = &window.frame {
            self.put(separator);
            self.frame(frame, level)?;
        }
        self.put(")");
        Ok(())
    }

    fn frame(&mut self, frame: &Frame, level: &Level<'_>) -> Result<()> {
        self.put(match frame.unit {
            FrameUnit::Range => "RANGE ",
            FrameUnit::Rows => "ROWS ",
            FrameUnit::Groups => "GROUPS ",
        });
        self.put(if frame.end.is_some() { "BETWEEN " } else { "" });
        self.frame_bound(&frame.start, level)?;
        if let Some(end) = &frame.end {
            self.put(" AND ");
            self.frame_bound(end, level)?;
        }
        self.put(match frame.exclude {
            tree::Exclude::Nothing => "",
            tree::Exclude::CurrentRow => " EXCLUDE CURRENT ROW",
            tree::Exclude::Group => " EXCLUDE GROUP",
            tree::Exclude::Ties => " EXCLUDE TIES",
        });
        Ok(())
    }

    fn frame_bound(&mut self, bound: &FrameBound, level: &Level<'_>) -> Result<()> {
        match bound {
            FrameBound::UnboundedPreceding => self.put("UNBOUNDED PRECEDING"),
            FrameBound::UnboundedFollowing => self.put("UNBOUNDED FOLLOWING"),
            FrameBound::CurrentRow => self.put("CURRENT ROW"),
            FrameBound::Preceding(offset) => {
                self.expr(offset, level, Around::Top)?;
                self.put(" PRECEDING");
            }
            FrameBound::Following(offset) => {
                self.expr(offset, level, Around::Top)?;
                self.put(" FOLLOWING");
            }
        }
        Ok(())
    }

    /// Words, each with an expression behind it.
    fn clauses(&mut self, clauses: &[(&str, &Expr)], level: &Level<'_>) -> Result<()> {
        for (words, expr) in clauses {
            self.put(words);
            self.expr(expr, level, Around::Top)?;
        }
        self.put(")");
        Ok(())
    }

    pub(super) fn special(&mut self, special: &Special, level: &Level<'_>) -> Result<()> {
        match special {
            Special::Value(value, precision) => {
                self.put(value_word(*value));
                if let Some(precision) = precision {
                    let precision = format!("({precision})");
                    self.put(&precision);
                }
                Ok(())
            }
            Special::Coalesce(exprs) => self.alike("COALESCE(", exprs, level),
            Special::Greatest(exprs) => self.alike("GREATEST(", exprs, level),
            Special::Least(exprs) => self.alike("LEAST(", exprs, level),
            Special::NullIf(left, right) => {
                let types = (
                    self.operand_type(left, level),
                    self.operand_type(right, level),
                );
                let (of_left, of_right) = operand_types("=", types.0, types.1);
                self.put("NULLIF(");
                self.as_type(
                    left,
                    level,
                    of_left,
                    Around::operand(NodeKind::Operator, true),
                )?;
                self.put(", ");
                self.as_type(
                    right,
                    level,
                    of_right,
                    Around::operand(NodeKind::Operator, true),
                )?;
                self.put(")");
                Ok(())
            }
            Special::Extract(field, from) => {
                let words = format!("EXTRACT({} FROM ", field.to_lowercase());
                self.clauses(&[(&words, from)], level)
            }
            Special::Position(part, text) => {
                self.put("POSITION((");
                self.argument(part, level, Some(DataType::Text))?;
                self.put(") IN (");
                self.argument(text, level, Some(DataType::Text))?;
                self.put("))");
                Ok(())
            }
            Special::Substring(call) => {
                self.put("SUBSTRING(");
                self.argument(&call.text, level, Some(DataType::Text))?;
                let one = Expr {
                    at: 0,
                    kind: ExprKind::Literal(tree::Literal::Integer(1)),
                };
                let from = call.from.as_ref().unwrap_or(&one);
                let mut clauses = vec![(" FROM ", from)];
                clauses.extend(call.length.as_ref().map(|length| (" FOR ", length)));
                self.clauses(&clauses, level)
            }
            Special::Overlay {
                text,
                placing,
                from,
                length,
            } => {
                self.put("OVERLAY(");
                self.argument(text, level, Some(DataType::Text))?;
                self.put(" PLACING ");
                self.argument(placing, level, Some(DataType::Text))?;
                let mut clauses = vec![(" FROM ", from)];
                clauses.extend(length.as_ref().map(|length| (" FOR ", length)));
                self.clauses(&clauses, level)
            }
            Special::Plain(name, arguments) => {
                self.identifier(name);
                self.put("(");
                for (at, argument) in arguments.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    let wanted = (at == 0).then_some(DataType::Text);
                    self.argument(&argument.value, level, wanted)?;
                }
                self.put(")");
                Ok(())
            }
            Special::Trim(side, arguments) => {
                self.put(match side {
                    TrimSide::Both => "TRIM(BOTH ",
                    TrimSide::Leading => "TRIM(LEADING ",
                    TrimSide::Trailing => "TRIM(TRAILING ",
                });
                if let Some(characters) = arguments.get(1) {
                    self.argument(characters, level, Some(DataType::Text))?;
                    self.put(" ");
                }
                self.put("FROM ");
                if let Some(text) = arguments.first() {
                    self.argument(text, level, Some(DataType::Text))?;
                }
                self.put(")");
                Ok(())
            }
            other => {
                let expr = Expr {
                    at: 0,
                    kind: ExprKind::Special(Box::new(other.clone())),
                };
                self.put(&print::expr(&expr));
                Ok(())
            }
        }
    }

    /// A call whose arguments are brought to one type.
    fn alike(&mut self, words: &str, exprs: &[Expr], level: &Level<'_>) -> Result<()> {
        let common = self.unified(exprs, level);
        self.put(words);
        for (at, expr) in exprs.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.argument(expr, level, common)?;
        }
        self.put(")");
        Ok(())
    }
}

fn value_word(value: SqlValue) -> &'static str {
    match value {
        SqlValue::CurrentDate => "CURRENT_DATE",
        SqlValue::CurrentTime => "CURRENT_TIME",
        SqlValue::CurrentTimestamp => "CURRENT_TIMESTAMP",
        SqlValue::Localtime => "LOCALTIME",
        SqlValue::Localtimestamp => "LOCALTIMESTAMP",
        SqlValue::CurrentRole => "CURRENT_ROLE",
        SqlValue::CurrentUser => "CURRENT_USER",
        SqlValue::SessionUser => "SESSION_USER",
        SqlValue::User => "USER",
        SqlValue::CurrentCatalog => "CURRENT_CATALOG",
        SqlValue::CurrentSchema => "CURRENT_SCHEMA",
    }
}
