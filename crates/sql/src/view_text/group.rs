//! Printing of GROUP BY, and of keys that may name a result column.

use coeval_sql_syntax::tree::{Expr, ExprKind, GroupItem, Literal, Select};

use super::expr::Around;
use super::query::Output;
use super::{Level, Printer, STANDARD};
use crate::Result;
use crate::expression::fold_name;
use crate::select;
use crate::value::DataType;

/// What a key of a clause may name before all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefers {
    /// GROUP BY: a column of FROM.
    From,
    /// ORDER BY and DISTINCT ON: a result column.
    Outputs,
}

impl Printer<'_, '_> {
    pub(super) fn groups(
        &mut self,
        select: &Select,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        // The empty set says nothing beside others.
        let is_empty = |item: &&GroupItem| matches!(item, GroupItem::Empty);
        let all_empty = select.group.iter().all(|item| is_empty(&item));
        let shown = select
            .group
            .iter()
            .filter(|item| !is_empty(item))
            .chain(select.group.first().filter(|_| all_empty));
        for (at, item) in shown.enumerate() {
            match at {
                0 => self.line(" GROUP BY ", -STANDARD, STANDARD, 1),
                _ => self.put(", "),
            }
            if at == 0 && select.group_distinct {
                self.put("DISTINCT ");
            }
            self.group_item(item, outputs, level)?;
        }
        Ok(())
    }

    fn group_item(
        &mut self,
        item: &GroupItem,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        let (word, exprs) = match item {
            GroupItem::Expr(expr) => {
                // (a, b) is a, b.
                for (at, expr) in fields(expr).iter().enumerate() {
                    self.put(if at > 0 { ", " } else { "" });
                    self.group_key(expr, outputs, level)?;
                }
                return Ok(());
            }
            GroupItem::Empty => {
                self.put("()");
                return Ok(());
            }
            GroupItem::Rollup(exprs) => ("ROLLUP(", exprs),
            GroupItem::Cube(exprs) => ("CUBE(", exprs),
            GroupItem::Sets(items) => {
                self.put("GROUPING SETS (");
                self.sets(items, true, outputs, level)?;
                self.put(")");
                return Ok(());
            }
        };
        self.put(word);
        for (at, expr) in exprs.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.set(expr, false, outputs, level)?;
        }
        self.put(")");
        Ok(())
    }

    /// The items of GROUPING SETS; those of one within another are its own.
    fn sets(
        &mut self,
        items: &[GroupItem],
        is_first: bool,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        for (at, item) in items.iter().enumerate() {
            let is_first = is_first && at == 0;
            if let GroupItem::Sets(inner) = item {
                self.sets(inner, is_first, outputs, level)?;
                continue;
            }
            self.put(if is_first { "" } else { ", " });
            match item {
                GroupItem::Expr(expr) => self.set(expr, true, outputs, level)?,
                other => self.group_item(other, outputs, level)?,
            }
        }
        Ok(())
    }

    /// One set of keys, in brackets if it has not one only, or if they are wanted.
    fn set(
        &mut self,
        expr: &Expr,
        enclosed: bool,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        let keys = fields(expr);
        let enclosed = enclosed || keys.len() != 1;
        self.put(if enclosed { "(" } else { "" });
        for (at, key) in keys.iter().enumerate() {
            self.put(if at > 0 { ", " } else { "" });
            self.group_key(key, outputs, level)?;
        }
        self.put(if enclosed { ")" } else { "" });
        Ok(())
    }

    fn group_key(&mut self, expr: &Expr, outputs: &[Output<'_>], level: &Level<'_>) -> Result<()> {
        self.key_of(expr, Prefers::From, outputs, level)
    }

    /// A key of ORDER BY or DISTINCT ON, which may name an output by its number or its name.
    pub(super) fn key(
        &mut self,
        expr: &Expr,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        self.key_of(expr, Prefers::Outputs, outputs, level)
    }

    fn key_of(
        &mut self,
        expr: &Expr,
        prefers: Prefers,
        outputs: &[Output<'_>],
        level: &Level<'_>,
    ) -> Result<()> {
        let meant = match &expr.kind {
            ExprKind::Literal(Literal::Integer(number)) => {
                let position = usize::try_from(*number - 1).ok();
                position.and_then(|position| outputs.get(position))
            }
            ExprKind::Column { path, star: false } if path.0.len() == 1 => {
                let name = fold_name(&path.0[0]);
                let is_column = || level.own(std::slice::from_ref(&name)).is_some();
                match prefers == Prefers::From && is_column() {
                    true => None,
                    false => outputs.iter().find(|output| match output {
                        Output::Column(_, own) => *own == name,
                        Output::Expr(expr, label) => match label {
                            Some(label) => *label == name,
                            None => select::column_name(expr) == name,
                        },
                    }),
                }
            }
            _ => None,
        };
        match meant {
            Some(Output::Column(column, _)) => {
                self.column(column);
                Ok(())
            }
            Some(Output::Expr(expr, _)) => self.sort_key(expr, None, level),
            None => self.sort_key(expr, None, level),
        }
    }

    /// An expression by which rows are sorted, grouped or partitioned, brought to a type if one
    /// is given. Calls stand in brackets there.
    pub(super) fn sort_key(
        &mut self,
        expr: &Expr,
        wanted: Option<DataType>,
        level: &Level<'_>,
    ) -> Result<()> {
        let own = match wanted {
            Some(_) => self.operand_type(expr, level),
            None => None,
        };
        let is_cast = own
            .zip(wanted)
            .is_some_and(|(own, wanted)| own != wanted && own.is_number() && wanted.is_number());
        let enclosed = match &expr.kind {
            _ if is_cast => true,
            ExprKind::Column { .. } | ExprKind::Literal(_) => false,
            ExprKind::Function(_) | ExprKind::Special(_) => true,
            _ => self.pretty,
        };
        self.put(if enclosed { "(" } else { "" });
        let wanted = wanted.unwrap_or(DataType::Text);
        self.as_type(expr, level, Some(wanted), Around::Top)?;
        self.put(if enclosed { ")" } else { "" });
        Ok(())
    }
}

/// The keys that an element of GROUP BY stands for.
fn fields(expr: &Expr) -> &[Expr] {
    match &expr.kind {
        ExprKind::Row(row) if !row.explicit => &row.fields,
        _ => std::slice::from_ref(expr),
    }
}
