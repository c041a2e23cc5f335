//! Estimates: how many rows a relation has, and which part of them a condition keeps.
//!
//! Numbers of rows are those that the engine counts. Of the values of a column the planner
//! knows whether an index has each of them once; statistics say the rest, where there are
//! some ([`crate::statistics`]), and rules of thumb where not: PostgreSQL's, so that what is
//! known of its planner holds here.

use std::sync::Arc;

use super::from::{FromKind, FromNode};
use super::node::{Matching, Node, SetKind};
use super::shape::{Shape, leaves};
use crate::catalog::Table;
use crate::expression::{Binder, Comparison, Expression};
use crate::statistics::{ColumnStatistics, TableStatistics};
use crate::value::{DataType, Value};

/// Rows of a table that the engine knows nothing of.
const UNKNOWN_ROWS: f64 = 1000.0;
/// Rows of a system table, and of a function.
const SYSTEM_ROWS: f64 = 100.0;
/// Rows of a working table of a recursive query.
const WORKING_ROWS: f64 = 100.0;
/// Factor by which a recursive query has more rows than it begins with.
const RECURSION: f64 = 10.0;
/// Distinct values of a column of which nothing is known.
const DISTINCT: f64 = 200.0;
/// Part of the rows that a comparison with a limit keeps.
const RANGE: f64 = 1.0 / 3.0;
/// Part that a range with two limits keeps.
const BETWEEN: f64 = 0.1;
/// Part that an equality of which nothing is known keeps.
const EQUAL: f64 = 0.005;
/// Part of the values that are null.
const NULL: f64 = 0.01;
/// Part that LIKE and regular expressions keep.
const MATCH: f64 = 0.05;
/// Limit on conditions among which two limits of one expression are looked for.
const RANGES_AT_MOST: usize = 50;
/// Part that any other condition keeps.
const OTHER: f64 = 0.5;

/// Numbers of rows of tables, as the planner has asked for them.
pub(super) struct Estimator<'a, 'b> {
    binder: &'a mut Binder<'b>,
}

/// What a virtual column is, for estimates.
#[derive(Clone, Debug)]
pub(super) struct ColumnFacts {
    /// Number of distinct values.
    pub distinct: f64,
    /// Part of the rows in which the column is null.
    pub nulls: f64,
    /// Statistics of the column, with the number of rows of its table.
    statistics: Option<(ColumnStatistics, f64)>,
}

/// The columns of a join tree, by virtual number.
#[derive(Debug, Default)]
pub(super) struct Facts {
    columns: Vec<Option<ColumnFacts>>,
}

impl<'a, 'b> Estimator<'a, 'b> {
    pub(super) fn new(binder: &'a mut Binder<'b>) -> Self {
        Self { binder }
    }

    /// Number of rows of a table.
    pub(super) fn table_rows(&mut self, table: &Table) -> f64 {
        let Some(engine) = self.binder.engine else {
            return UNKNOWN_ROWS;
        };
        let counted = &mut self.binder.counted;
        let rows = *counted
            .entry(table.storage)
            .or_insert_with(|| engine.estimated_rows(table.storage));
        (rows as f64).max(1.0)
    }

    /// Statistics of a table.
    fn statistics(&self, table: &Table) -> Option<Arc<TableStatistics>> {
        let cache = &self.binder.session.around.statistics;
        cache.of(self.binder.engine?, table.oid)
    }

    /// Number of rows of a relation, before any condition.
    pub(super) fn rows(&mut self, node: &FromNode) -> f64 {
        match &node.kind {
            FromKind::Nothing => 1.0,
            FromKind::Table(table, _) => self.table_rows(table),
            FromKind::System(..) => SYSTEM_ROWS,
            FromKind::Derived(plan, ..) => rows_of(plan),
            FromKind::Function(function) => function_rows(function.kind, &function.arguments),
            FromKind::Join(_, sides, _) => {
                let [left, right] = &**sides;
                let (left, right) =
                    crate::expression::with_stack(|| (self.rows(left), self.rows(right)));
                left.max(right)
            }
        }
    }

    /// Number of rows that all tables of a SELECT have together.
    pub(super) fn read_rows(&mut self, shape: &Shape) -> f64 {
        let mut relations = Vec::new();
        if let Some(tree) = &shape.tree {
            leaves(tree, &mut relations);
        }
        relations.iter().map(|relation| self.rows(relation)).sum()
    }

    /// What is known of the columns of a join tree.
    pub(super) fn facts(&mut self, tree: &FromNode, width: usize) -> Facts {
        let mut columns = vec![None; width];
        let mut relations = Vec::new();
        leaves(tree, &mut relations);
        for relation in relations {
            let rows = self.rows(relation);
            let statistics = match &relation.kind {
                FromKind::Table(table, _) => self.statistics(table),
                _ => None,
            };
            for position in relation.start..relation.end {
                let Some(place) = columns.get_mut(position) else {
                    continue;
                };
                *place = Some(match &relation.kind {
                    FromKind::Table(table, _)
                        if position - relation.start < table.columns.len() =>
                    {
                        let known = statistics.as_deref();
                        column_facts(table, known, position - relation.start, rows)
                    }
                    FromKind::Derived(..) => ColumnFacts {
                        distinct: rows.max(1.0),
                        nulls: 0.0,
                        statistics: None,
                    },
                    _ => ColumnFacts {
                        distinct: rows.clamp(1.0, DISTINCT),
                        nulls: 0.0,
                        statistics: None,
                    },
                });
            }
        }
        Facts { columns }
    }
}

/// What the indexes and the statistics of a table say of a column.
fn column_facts(
    table: &Table,
    statistics: Option<&TableStatistics>,
    column: usize,
    rows: f64,
) -> ColumnFacts {
    let definition = &table.columns[column];
    let data_type = definition.column_type.data_type;
    if let Some(known) = statistics.and_then(|all| all.column(definition.attribute, data_type)) {
        return ColumnFacts {
            distinct: known.distinct_in(rows),
            nulls: f64::from(known.nulls),
            statistics: Some((known.clone(), rows)),
        };
    }
    let nulls = if definition.not_null { 0.0 } else { NULL };
    let mut distinct = match data_type {
        DataType::Bool => 2.0_f64,
        _ => DISTINCT,
    }
    .min(rows);
    for index in &table.indexes {
        let Some(place) = index.columns.iter().position(|key| key.column == column) else {
            continue;
        };
        let here = if index.is_unique() && index.columns.len() == 1 {
            rows
        } else {
            // Of several key columns, the first ones are taken to have fewer values.
            let of_parts = (place + 1) as f64 / index.columns.len() as f64;
            match index.is_unique() {
                true => rows.powf(of_parts),
                false => (rows / 10.0).min(rows.powf(of_parts)),
            }
        };
        distinct = distinct.max(here);
    }
    ColumnFacts {
        distinct: distinct.max(1.0),
        nulls,
        statistics: None,
    }
}

impl ColumnFacts {
    /// Part of the rows whose column equals a value.
    fn equals(&self, value: &Expression) -> f64 {
        match (&self.statistics, value) {
            (Some((known, rows)), Expression::Constant(value)) if !value.is_null() => {
                known.part_equal(value, *rows)
            }
            _ => (1.0 - self.nulls) / self.distinct,
        }
    }
}

impl Facts {
    pub(super) fn column(&self, expression: &Expression) -> Option<&ColumnFacts> {
        match expression {
            Expression::Column(position) => self.columns.get(*position)?.as_ref(),
            Expression::Cast(cast) => self.column(&cast.input),
            _ => None,
        }
    }

    /// Part of the rows for which a condition is true.
    pub(super) fn selectivity(&self, condition: &Expression) -> f64 {
        let part = match condition {
            Expression::Constant(Value::Bool(true)) => 1.0,
            Expression::Constant(_) => 0.0,
            Expression::And(operands) => self.of_all(operands),
            Expression::Or(operands) => {
                let none: f64 = operands
                    .iter()
                    .map(|each| 1.0 - self.selectivity(each))
                    .product();
                1.0 - none
            }
            Expression::Not(operand) => match &**operand {
                Expression::IsNull(operand) => {
                    1.0 - self.column(operand).map_or(NULL, |column| column.nulls)
                }
                operand => 1.0 - self.selectivity(operand),
            },
            Expression::IsNull(operand) => self.column(operand).map_or(NULL, |column| column.nulls),
            Expression::Compare(comparison, operands) => {
                self.comparison(*comparison, &operands[0], &operands[1])
            }
            Expression::InList(operand, list) => {
                list.iter().map(|value| self.equals(operand, value)).sum()
            }
            Expression::Quantified {
                comparison: Comparison::Equal,
                all: false,
                operands,
            } => self.equals(&operands[0], &Expression::NULL) * 10.0,
            Expression::Like(..) | Expression::Regex(..) => MATCH,
            Expression::Quantified { .. } => RANGE,
            _ => OTHER,
        };
        part.clamp(0.0, 1.0)
    }

    /// Part of the rows for which all conditions are true.
    pub(super) fn of_all(&self, conditions: &[Expression]) -> f64 {
        let mut part = 1.0;
        let mut lower: Vec<(&Expression, f64)> = Vec::new();
        let mut upper: Vec<(&Expression, f64)> = Vec::new();
        for condition in conditions {
            if let Expression::Compare(comparison, operands) = condition {
                let limit = match comparison {
                    Comparison::Less | Comparison::LessOrEqual => Some(&mut upper),
                    Comparison::Greater | Comparison::GreaterOrEqual => Some(&mut lower),
                    Comparison::Equal | Comparison::NotEqual => None,
                };
                if let Some(limit) = limit
                    && !operands[1].uses_row()
                {
                    limit.push((&operands[0], self.selectivity(condition)));
                }
            }
            part *= self.selectivity(condition);
        }
        // Two limits of one expression are a range: what is above the one and below the
        // other.
        let several = lower.len().max(upper.len()) > RANGES_AT_MOST;
        for (each, above) in lower.iter().filter(|_| !several) {
            let Some((_, below)) = upper.iter().find(|(other, _)| other == each) else {
                continue;
            };
            let both = match self
                .column(each)
                .is_some_and(|column| column.statistics.is_some())
            {
                true => (above + below - 1.0).max(0.005),
                false => BETWEEN,
            };
            part *= both / (above * below).max(0.000_001);
        }
        part.clamp(0.0, 1.0)
    }

    fn comparison(&self, comparison: Comparison, left: &Expression, right: &Expression) -> f64 {
        match comparison {
            Comparison::Equal => self.equals(left, right),
            Comparison::NotEqual => 1.0 - self.equals(left, right),
            _ => self
                .range(comparison, left, right)
                .or_else(|| self.range(comparison.swapped(), right, left))
                .unwrap_or(RANGE),
        }
    }

    /// Part of the rows whose column is beyond a constant, by statistics.
    fn range(&self, comparison: Comparison, left: &Expression, right: &Expression) -> Option<f64> {
        let Expression::Constant(value) = right else {
            return None;
        };
        let (known, rows) = self.column(left)?.statistics.as_ref()?;
        let sample = known
            .bounds
            .first()
            .or(known.common.first().map(|(value, _)| value))?;
        if std::mem::discriminant(sample) != std::mem::discriminant(value) {
            return None;
        }
        let below = known.part_below(value);
        let equal = known.part_equal(value, *rows);
        let present = 1.0 - f64::from(known.nulls);
        let part = match comparison {
            Comparison::Less => below,
            Comparison::LessOrEqual => below + equal,
            Comparison::Greater => present - below - equal,
            Comparison::GreaterOrEqual => present - below,
            Comparison::Equal | Comparison::NotEqual => return None,
        };
        Some(part.clamp(0.0001, 1.0))
    }

    fn equals(&self, left: &Expression, right: &Expression) -> f64 {
        match (self.column(left), self.column(right)) {
            (Some(left), Some(right)) => {
                (1.0 - left.nulls) * (1.0 - right.nulls) / left.distinct.max(right.distinct)
            }
            (Some(column), None) => column.equals(right),
            (None, Some(column)) => column.equals(left),
            (None, None) => EQUAL,
        }
    }
}

fn function_rows(kind: SetKind, arguments: &[Expression]) -> f64 {
    let number = |expression: Option<&Expression>| match expression {
        Some(Expression::Constant(Value::Int4(number))) => Some(f64::from(*number)),
        Some(Expression::Constant(Value::Int8(number))) => Some(*number as f64),
        _ => None,
    };
    match kind {
        SetKind::Scalar | SetKind::Packed(_) | SetKind::Field(..) => 1.0,
        SetKind::Table(_) | SetKind::Changed(_) => SYSTEM_ROWS,
        SetKind::Series(_) => match (number(arguments.first()), number(arguments.get(1))) {
            (Some(first), Some(last)) => {
                let step = number(arguments.get(2)).unwrap_or(1.0);
                ((last - first) / step + 1.0).floor().max(0.0)
            }
            _ => 1000.0,
        },
        SetKind::Unnest | SetKind::Subscripts => 10.0,
        SetKind::Json(set) => set.estimate(),
    }
}

/// Number of rows that a node returns, by what its scans and joins expect.
pub(super) fn rows_of(node: &Node) -> f64 {
    crate::expression::with_stack(|| rows_of_here(node))
}

fn rows_of_here(node: &Node) -> f64 {
    match node {
        Node::One => 1.0,
        Node::Values { rows } => rows.len() as f64,
        Node::Scan(scan) => scan.rows,
        Node::System(_) => SYSTEM_ROWS,
        Node::Function(function) => function_rows(function.kind, &function.arguments),
        Node::Filter { input, condition } => {
            let known = Facts::default();
            (rows_of(input) * known.selectivity(condition)).max(1.0)
        }
        Node::Join(join) => join.rows,
        Node::FullJoin(join) => join.rows,
        Node::Cache(cache) => rows_of(&cache.input),
        Node::Derived(derived) => rows_of(&derived.plan),
        Node::Plan(plan) => rows_of(&plan.root),
        Node::Project { input, .. } => rows_of(input),
        Node::ProjectSet(project) => rows_of(&project.input) * 10.0,
        Node::Aggregate(aggregate) if aggregate.keys.is_empty() => aggregate.sets.len() as f64,
        Node::Aggregate(aggregate) => {
            groups_of(rows_of(&aggregate.input)) * aggregate.sets.len() as f64
        }
        Node::Sort(sort) => match &sort.fetch {
            Some((limit, _)) => limited(rows_of(&sort.input), limit),
            None => rows_of(&sort.input),
        },
        Node::Distinct { input, .. } => groups_of(rows_of(input)),
        Node::Limit { input, limit, .. } => match limit {
            Some(limit) => limited(rows_of(input), limit),
            None => rows_of(input),
        },
        Node::Append(inputs) => inputs.iter().map(rows_of).sum(),
        Node::SetOperation(operation) => rows_of(&operation.left),
        Node::Lock(lock) => rows_of(&lock.input),
        Node::WithTies(limit) => match &limit.limit {
            Some(number) => limited(rows_of(&limit.input), number),
            None => rows_of(&limit.input),
        },
        Node::Window(window) => rows_of(&window.input),
        Node::With(with) => rows_of(&with.input),
        Node::Common(common) => rows_of(&common.plan.root),
        Node::Recursive(recursive) => rows_of(&recursive.base) * RECURSION,
        Node::Working(_) => WORKING_ROWS,
    }
}

/// Number of groups of so many rows.
fn groups_of(rows: f64) -> f64 {
    rows.min((rows / 3.0).max(DISTINCT))
}

fn limited(rows: f64, limit: &Expression) -> f64 {
    match limit {
        Expression::Constant(Value::Int8(number)) => rows.min(*number as f64),
        _ => rows,
    }
}

/// Number of rows of a join whose right side has so many rows for each left one.
pub(super) fn joined_rows(kind: Matching, left: f64, matches: f64) -> f64 {
    match kind {
        Matching::Inner => left * matches,
        Matching::Left(_) => left * matches.max(1.0),
        Matching::Semi => left * met(matches),
        Matching::Anti => left * (1.0 - met(matches)),
    }
}

/// Part of the left rows that have a match.
fn met(matches: f64) -> f64 {
    matches.clamp(0.05, 0.9)
}
