//! The binder of GROUP BY: binds grouping keys and grouping sets, and rewrites expressions
//! to refer to groups.

use std::sync::Arc;

use coeval_sql_syntax::tree::{Expr, ExprKind, GroupItem};

use super::from::{FromKind, FromNode};
use super::output::{Output, output_by_reference};
use super::query::bare_name;
use crate::catalog::Table;
use crate::expression::{Binder, Expression, Scope, no_equality};
use crate::{Error, Result, SqlState};

/// Bound GROUP BY.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The grouping expressions, each once.
    pub keys: Vec<Expression>,
    /// The grouping sets, by positions of their keys; `None` for the one that has all keys.
    pub sets: Option<Vec<Vec<usize>>>,
}

/// Limit on grouping sets, as in PostgreSQL.
const SETS_AT_MOST: usize = 4096;

/// Limit on the elements of CUBE, as in PostgreSQL.
const CUBE_AT_MOST: usize = 12;

/// Binds GROUP BY; `None` without one.
pub(super) fn bind_groups(
    binder: &mut Binder<'_>,
    list: &[GroupItem],
    distinct: bool,
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Option<Groups>> {
    if list.is_empty() {
        return Ok(None);
    }
    let mut grouping = Grouping {
        binder,
        outputs,
        scope,
        keys: Vec::new(),
    };
    let is_plain = |item: &GroupItem| matches!(item, GroupItem::Expr(_));
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for item in list {
        let own = grouping.sets_of(item)?;
        if sets.len().saturating_mul(own.len()) > SETS_AT_MOST {
            return Err(too_many());
        }
        // The sets of several items are combined, each with each.
        sets = sets
            .iter()
            .flat_map(|left| own.iter().map(|right| union(left, right)))
            .collect();
    }
    let keys = grouping.keys;
    if list.iter().all(is_plain) {
        return Ok(Some(Groups { keys, sets: None }));
    }
    if distinct {
        let mut sorted: Vec<Vec<usize>> = Vec::new();
        sets.retain(|set| {
            let mut set = set.clone();
            set.sort_unstable();
            let is_new = !sorted.contains(&set);
            sorted.push(set);
            is_new
        });
    }
    Ok(Some(Groups {
        keys,
        sets: Some(sets),
    }))
}

fn too_many() -> Error {
    Error::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        format!("too many grouping sets present (maximum {SETS_AT_MOST})"),
    )
}

fn union(left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut both = left.to_vec();
    both.extend(right.iter().filter(|key| !left.contains(key)));
    both
}

struct Grouping<'a, 'b, 'c> {
    binder: &'a mut Binder<'b>,
    outputs: &'a [Output],
    scope: &'a Scope<'c>,
    keys: Vec<Expression>,
}

impl Grouping<'_, '_, '_> {
    /// The grouping sets that an item stands for.
    fn sets_of(&mut self, item: &GroupItem) -> Result<Vec<Vec<usize>>> {
        Ok(match item {
            GroupItem::Empty => vec![Vec::new()],
            GroupItem::Expr(expr) => vec![self.element(expr)?],
            GroupItem::Rollup(elements) => {
                let elements = self.elements(elements)?;
                let prefix = |length: usize| {
                    let elements = elements[..length].iter();
                    elements.fold(Vec::new(), |all, each| union(&all, each))
                };
                (0..=elements.len()).rev().map(prefix).collect()
            }
            GroupItem::Cube(elements) => {
                if elements.len() > CUBE_AT_MOST {
                    return Err(Error::new(
                        SqlState::TOO_MANY_COLUMNS,
                        format!("CUBE is limited to {CUBE_AT_MOST} elements"),
                    ));
                }
                let elements = self.elements(elements)?;
                let subset = |bits: usize| {
                    let chosen = elements
                        .iter()
                        .enumerate()
                        .filter(|(number, _)| bits >> (elements.len() - 1 - number) & 1 == 1);
                    chosen.fold(Vec::new(), |all, (_, each)| union(&all, each))
                };
                (0..1_usize << elements.len()).rev().map(subset).collect()
            }
            GroupItem::Sets(items) => {
                let mut sets = Vec::new();
                for item in items {
                    sets.extend(self.sets_of(item)?);
                    if sets.len() > SETS_AT_MOST {
                        return Err(too_many());
                    }
                }
                sets
            }
        })
    }

    fn elements(&mut self, elements: &[Expr]) -> Result<Vec<Vec<usize>>> {
        elements.iter().map(|each| self.element(each)).collect()
    }

    /// The keys of an expression, or of several in brackets.
    fn element(&mut self, expr: &Expr) -> Result<Vec<usize>> {
        match &expr.kind {
            ExprKind::Row(row) if !row.explicit => {
                let mut keys = Vec::new();
                for field in &row.fields {
                    keys = union(&keys, &self.element(field)?);
                }
                Ok(keys)
            }
            _ => {
                let expression = self.key(expr)?;
                let known = self.keys.iter().position(|known| *known == expression);
                Ok(vec![known.unwrap_or_else(|| {
                    self.keys.push(expression);
                    self.keys.len() - 1
                })])
            }
        }
    }

    fn key(&mut self, expr: &Expr) -> Result<Expression> {
        let binder = &mut *self.binder;
        // In GROUP BY, an input column takes precedence over an output column of the
        // same name.
        let is_input = match bare_name(expr) {
            Some(name) => self.scope.find(&name)?.is_some(),
            None => false,
        };
        let output = if is_input {
            None
        } else {
            output_by_reference(binder, expr, self.outputs, "GROUP BY")?
        };
        let Some(position) = output else {
            let bound = binder.bind(expr, self.scope)?;
            if let Some(error) = no_equality(bound.column_type.data_type) {
                return Err(error.at(bound.position));
            }
            return Ok(binder.settle(bound)?.expression);
        };
        let at = binder.position(expr.at);
        let bound = &self.outputs[position].bound;
        if let Some(error) = no_equality(bound.column_type.data_type) {
            return Err(error.at(at));
        }
        let expression = bound.expression.clone();
        if expression.any(&|each| matches!(each, Expression::Aggregate(_))) {
            return Err(Error::new(
                SqlState::GROUPING_ERROR,
                "aggregate functions are not allowed in GROUP BY",
            )
            .at(at));
        }
        if expression.any(&|each| matches!(each, Expression::Window(_))) {
            return Err(Error::new(
                SqlState::WINDOWING_ERROR,
                "window functions are not allowed in GROUP BY",
            )
            .at(at));
        }
        Ok(expression)
    }
}

/// The tables of a FROM list, with the positions of their first columns.
pub(super) fn tables_of(node: &FromNode, tables: &mut Vec<(usize, Arc<Table>)>) {
    match &node.kind {
        FromKind::Table(table, _) => tables.push((node.start, Arc::clone(table))),
        FromKind::Join(_, sides, _) => {
            for side in &**sides {
                tables_of(side, tables);
            }
        }
        FromKind::Nothing
        | FromKind::System(..)
        | FromKind::Derived(..)
        | FromKind::Function(_) => {}
    }
}

/// Rewrites expressions over the FROM list's rows to expressions over group rows: first
/// the keys, then the aggregates, then the GROUPING operations.
pub(super) struct Regroup<'a> {
    pub groups: &'a mut Groups,
    /// Number of aggregates.
    pub calls: usize,
    pub tables: &'a [(usize, Arc<Table>)],
    pub scope: &'a Scope<'a>,
}

impl Regroup<'_> {
    /// Adds the columns of the expression that follow from the primary keys of their
    /// tables to the keys: the groups stay as they are.
    pub(super) fn add_dependent(&mut self, expression: &Expression) {
        if self.groups.keys.contains(expression) {
            return;
        }
        if let Expression::Column(position) = expression {
            if self.depends_on_keys(*position) {
                self.groups.keys.push(expression.clone());
                let number = self.groups.keys.len() - 1;
                for set in self.groups.sets.iter_mut().flatten() {
                    set.push(number);
                }
            }
            return;
        }
        expression.children(&mut |child| self.add_dependent(child));
    }

    /// Whether the keys that all sets have contain the primary key of the column's table.
    fn depends_on_keys(&self, position: usize) -> bool {
        let of_column = |(start, table): &&(usize, Arc<Table>)| {
            (*start..*start + table.columns.len()).contains(&position)
        };
        let Some((start, table)) = self.tables.iter().find(of_column) else {
            return false;
        };
        let Some(primary) = table.primary_key() else {
            return false;
        };
        primary.columns.iter().all(|column| {
            let key = Expression::Column(start + column.column);
            let Some(number) = self.groups.keys.iter().position(|each| *each == key) else {
                return false;
            };
            let mut sets = self.groups.sets.iter().flatten();
            sets.all(|set| set.contains(&number))
        })
    }

    /// The positions of a GROUPING operation's arguments among the keys.
    pub(super) fn grouping(&self, arguments: &[Expression]) -> Result<Vec<usize>> {
        let number = |argument: &Expression| {
            let found = self.groups.keys.iter().position(|key| key == argument);
            found.ok_or_else(|| {
                Error::new(
                    SqlState::GROUPING_ERROR,
                    "arguments to GROUPING must be grouping expressions of the associated query level",
                )
            })
        };
        arguments.iter().map(number).collect()
    }

    pub(super) fn apply(&self, expression: &mut Expression) -> Result<()> {
        let keys = &self.groups.keys;
        if let Some(position) = keys.iter().position(|key| key == expression) {
            *expression = Expression::Column(position);
            return Ok(());
        }
        match expression {
            Expression::Aggregate(number) => {
                *expression = Expression::Column(keys.len() + *number);
                return Ok(());
            }
            Expression::Grouping(number) => {
                *expression = Expression::Column(keys.len() + self.calls + *number);
                return Ok(());
            }
            Expression::Column(position) => {
                return Err(Error::new(
                    SqlState::GROUPING_ERROR,
                    format!(
                        "column \"{}\" must appear in the GROUP BY clause or be used in an aggregate function",
                        self.name(*position)
                    ),
                ));
            }
            _ => {}
        }
        let mut result = Ok(());
        expression.children_mut(&mut |child| {
            if result.is_ok() {
                result = self.apply(child);
            }
        });
        result
    }

    fn name(&self, position: usize) -> String {
        for relation in &self.scope.relations {
            for column in &relation.columns {
                if column.expression == Expression::Column(position) {
                    return format!("{}.{}", relation.name, column.name);
                }
            }
        }
        "?".to_owned()
    }
}
