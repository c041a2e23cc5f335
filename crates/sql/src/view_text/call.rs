//! Printing of calls: functions, aggregates, and what has a syntax of its own.

use coeval_sql_syntax::print;
use coeval_sql_syntax::tree::{
    self, Arguments, Expr, ExprKind, FunctionCall, Over, Special, TrimSide,
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
                let wanted = self.argument_types(expr, call, level);
                let last = list.arguments.len().saturating_sub(1);
                for (at, argument) in list.arguments.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    self.put(if list.variadic && at == last {
                        "VARIADIC "
                    } else {
                        ""
                    });
                    let wanted = wanted.get(at).copied().flatten();
                    let wanted = wanted.or(match constant(&argument.value) {
                        Some(Constant::Text(_)) => Some(DataType::Text),
                        _ => None,
                    });
                    self.argument(&argument.value, level, wanted)?;
                }
                for (at, item) in list.order.iter().enumerate() {
                    self.put(if at > 0 { ", " } else { " ORDER BY " });
                    self.sort_key(&item.expr, None, level)?;
                    self.direction(item)?;
                }
            }
        }
        self.put(")");
        let keys = self.key_types(call, level);
        for (at, item) in call.within_group.iter().enumerate() {
            self.put(if at > 0 {
                ", "
            } else {
                " WITHIN GROUP (ORDER BY "
            });
            self.sort_key(&item.expr, keys.get(at).copied().flatten(), level)?;
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

    /// The types that the arguments of a call are brought to; none for those that keep theirs.
    fn argument_types(
        &mut self,
        expr: &Expr,
        call: &FunctionCall,
        level: &Level<'_>,
    ) -> Vec<Option<DataType>> {
        const INT4: Option<DataType> = Some(DataType::Int4);
        let name = call.name.0.last().map(fold_name).unwrap_or_default();
        let Arguments::List(list) = &call.arguments else {
            return Vec::new();
        };
        let own = list.arguments.iter().map(|argument| &argument.value);
        if !call.within_group.is_empty() {
            return match name.as_str() {
                "percentile_cont" | "percentile_disc" => own
                    .map(|fraction| match self.operand_type(fraction, level) {
                        Some(given) if given.element().is_some() => Some(DataType::Float8Array),
                        _ => Some(DataType::Float8),
                    })
                    .collect(),
                _ => self.key_types(call, level),
            };
        }
        match name.as_str() {
            "lag" | "lead" if call.over.is_some() && list.arguments.len() == 3 => {
                let values = own.enumerate().filter(|(at, _)| *at != 1);
                let common = self.unified(values.map(|(_, value)| value), level);
                vec![common, INT4, common]
            }
            "lag" | "lead" | "first_value" | "last_value" | "nth_value" if call.over.is_some() => {
                vec![None, INT4]
            }
            "ntile" if call.over.is_some() => vec![INT4],
            "corr" | "covar_pop" | "covar_samp" => vec![Some(DataType::Float8); 2],
            name if name.starts_with("regr_") => vec![Some(DataType::Float8); 2],
            // Of aggregates these take any type, and the others none of varchar.
            "count" | "array_agg" | "json_agg" | "jsonb_agg" | "json_object_agg"
            | "jsonb_object_agg" => Vec::new(),
            _ => {
                let bound = self.bound(expr, level).map(|bound| bound.expression);
                let known = match &bound {
                    Some(Expression::Call(call)) => call.types.as_slice(),
                    _ => &[],
                };
                let types = known.iter().map(|each| Some(each.data_type));
                let others = std::iter::repeat(Some(DataType::Text));
                types.chain(others).take(list.arguments.len()).collect()
            }
        }
    }

    /// The types that the keys of WITHIN GROUP are brought to.
    fn key_types(&mut self, call: &FunctionCall, level: &Level<'_>) -> Vec<Option<DataType>> {
        let name = call.name.0.last().map(fold_name).unwrap_or_default();
        let keys = call.within_group.iter().map(|item| &item.expr);
        match name.as_str() {
            "percentile_cont" => keys.map(|_| Some(DataType::Float8)).collect(),
            "percentile_disc" | "mode" => Vec::new(),
            _ => {
                let direct = match &call.arguments {
                    Arguments::List(list) => list.arguments.as_slice(),
                    Arguments::Star => &[],
                };
                let pairs = keys.zip(direct);
                pairs
                    .map(|(key, direct)| self.unified([key, &direct.value], level))
                    .collect()
            }
        }
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
                self.put(value.word());
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
