//! The binder of the FROM list: builds the join tree, and the scope of names that the
//! list defines.

use std::sync::Arc;

use coeval_sql_syntax::tree::{
    self, Alias, Join, JoinCondition, Query, Relation, TableFactor, TableRef,
};
use smol_str::SmolStr;

use super::node::{Node, SetFunction, SetKind};
use super::query::plan_with_shape;
use super::relation::{Resolved, resolve_relation};
use super::shape::Shape;
use super::view::plan_view;
use super::with::plan_common_table;
use crate::access::Privileges;
use crate::catalog::{Object, PUBLIC, Table};
use crate::expression::{
    Aggregates, Binder, Call, Comparison, Expression, Frame, Recursion, Scope, ScopeColumn,
    ScopeRelation, fold_name,
};
use crate::output::Column;
use crate::route::{Reason, Route};
use crate::system::{self, SystemTable};
use crate::value::{ColumnType, DataType};
use crate::{Error, Result, SqlState, Value};

/// A relation or join of the FROM list, with its column range in the row. Of a join, the
/// range is known only once the tree has its layout.
#[derive(Clone, Debug)]
pub(super) struct FromNode {
    /// Kind of the relation or join.
    pub kind: FromKind,
    /// Position of its first column.
    pub start: usize,
    /// Position after its last column.
    pub end: usize,
    /// What the planner expects of it.
    pub expected: Expected,
}

impl FromNode {
    /// A relation of one row without columns.
    pub(super) fn nothing(at: usize) -> Self {
        Self {
            kind: FromKind::Nothing,
            start: at,
            end: at,
            expected: Expected::default(),
        }
    }
}

/// What the planner expects of a relation or join, and has decided by that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expected {
    /// Number of rows that it returns, of a relation for each row of the left side.
    pub rows: f64,
    /// Whether the rows are collected and found by hash keys, though an index could find
    /// them.
    pub hashed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum FromKind {
    /// A single row without columns.
    Nothing,
    /// A table, with its alias.
    Table(Arc<Table>, SmolStr),
    /// A system table, with its alias.
    System(&'static SystemTable, SmolStr),
    /// A subquery; with its correlations if it is LATERAL.
    Derived(Node, Option<Vec<Expression>>, Source),
    /// A set-returning function.
    Function(SetFunction),
    /// A join of two items, with its ON conditions.
    Join(JoinKind, Box<[FromNode; 2]>, Vec<Expression>),
}

/// Where the rows of a subquery in FROM come from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Name of the subquery.
    pub alias: SmolStr,
    /// Names of its columns.
    pub columns: Vec<SmolStr>,
    /// Its logical form, if the query around it may take it apart.
    pub shape: Option<Box<Shape>>,
}

/// Kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Left rows that have a match, without the right columns.
    Semi,
    /// Left rows that have no match, without the right columns.
    Anti,
}

/// An aggregate in a LATERAL subquery whose arguments are columns beside it.
const OF_ITS_LEVEL: Aggregates = Aggregates::Forbidden("FROM clause of their own query level");

/// Limit on joins in a row: planning them takes more than a step for each.
const JOINS_AT_MOST: usize = 1000;

/// Binds a FROM list: fills the scope and returns the join tree; `None` without a list.
pub(super) fn bind_from<'a>(
    binder: &mut Binder<'_>,
    list: &[TableRef],
    frame: &'a Frame<'a>,
    with_records: bool,
) -> Result<(Scope<'a>, Option<FromNode>)> {
    let mut from = From::new(binder, frame, with_records);
    let tree = from.list(list)?;
    Ok((from.scope, tree))
}

/// The scope of names that a FROM list defines.
pub(crate) fn from_scope<'a>(
    binder: &mut Binder<'_>,
    list: &[TableRef],
    frame: &'a Frame<'a>,
) -> Result<Scope<'a>> {
    bind_from(binder, list, frame, false).map(|(scope, _)| scope)
}

/// A join of two items.
pub(super) fn joined(
    kind: JoinKind,
    left: FromNode,
    right: FromNode,
    on: Vec<Expression>,
) -> FromNode {
    FromNode {
        start: left.start,
        end: right.end,
        kind: FromKind::Join(kind, Box::new([left, right]), on),
        expected: Expected::default(),
    }
}

pub(super) struct From<'a, 'b, 'c> {
    pub binder: &'b mut Binder<'c>,
    pub scope: Scope<'a>,
    pub width: usize,
    /// Whether scans append each row's record id as a last column.
    with_records: bool,
}

impl<'a, 'b, 'c> From<'a, 'b, 'c> {
    /// An empty list. Scans append each row's record id if `with_records`.
    pub(super) fn new(
        binder: &'b mut Binder<'c>,
        frame: &'a Frame<'a>,
        with_records: bool,
    ) -> Self {
        Self {
            binder,
            scope: Scope::empty(frame),
            width: 0,
            with_records,
        }
    }
}

impl From<'_, '_, '_> {
    /// Binds what is so many joins below the present one.
    fn below<T>(&mut self, levels: usize, bind: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let above = self.binder.descend(levels)?;
        let result = crate::expression::with_stack(|| bind(self));
        self.binder.ascend(above);
        result
    }

    /// Binds a side of a join, whose rows an outer join may replace by nulls.
    fn beside<T>(&mut self, is_filled: bool, bind: impl FnOnce(&mut Self) -> T) -> T {
        let place = self.binder.recursion;
        if is_filled {
            self.binder.recursion = Recursion::Within("an outer join");
        }
        let bound = bind(self);
        self.binder.recursion = place;
        bound
    }

    /// Binds the items of a list, joined with each other; `None` without any.
    pub(super) fn list(&mut self, list: &[TableRef]) -> Result<Option<FromNode>> {
        if list.len() > JOINS_AT_MOST {
            return Err(Error::too_complex());
        }
        let mut tree: Option<FromNode> = None;
        for item in list {
            let node = self.below(list.len() - 1, |from| from.item(item))?;
            tree = Some(match tree {
                None => node,
                Some(left) => joined(JoinKind::Inner, left, node, Vec::new()),
            });
        }
        Ok(tree)
    }

    fn item(&mut self, item: &TableRef) -> Result<FromNode> {
        if item.joins.len() > JOINS_AT_MOST {
            return Err(Error::too_complex());
        }
        let first = self.scope.relations.len();
        let joins = item.joins.len();
        // Up to this join, a RIGHT or FULL one, rows of the left may be replaced by nulls.
        let filled_up_to = item
            .joins
            .iter()
            .rposition(|join| matches!(join_kind(join), JoinKind::Right | JoinKind::Full));
        let mut left = self.below(joins, |from| {
            from.beside(filled_up_to.is_some(), |from| from.factor(&item.first))
        })?;
        for (number, join) in item.joins.iter().enumerate() {
            let middle = self.scope.relations.len();
            let kind = join_kind(join);
            let is_filled = matches!(kind, JoinKind::Left | JoinKind::Full)
                || filled_up_to.is_some_and(|last| number < last);
            let right = self.below(joins, |from| {
                from.beside(is_filled, |from| from.item(&join.right))
            })?;
            let before = self.scope.relations.len();
            let on = self.constraint(kind, &join.condition, first, middle)?;
            // USING puts its columns before the relations.
            let middle = middle + self.scope.relations.len() - before;
            self.fill_up(kind, first, middle);
            left = joined(kind, left, right, on);
        }
        Ok(left)
    }

    /// Notes which relations of a join may be filled up with nulls: on the left those from
    /// `first` on, on the right those from `middle` on.
    fn fill_up(&mut self, kind: JoinKind, first: usize, middle: usize) {
        let (left, right) = match kind {
            JoinKind::Inner | JoinKind::Semi | JoinKind::Anti => return,
            JoinKind::Left => (false, true),
            JoinKind::Right => (true, false),
            JoinKind::Full => (true, true),
        };
        for (at, relation) in self.scope.relations.iter_mut().enumerate().skip(first) {
            relation.nullable |= if at < middle { left } else { right };
        }
    }

    /// Notes that the last relation of the scope is a table, and where its record ids are.
    pub(super) fn is_table(&mut self, oid: u32, record: Option<usize>) {
        if let Some(last) = self.scope.relations.last_mut() {
            last.table = Some(oid);
            last.record = record;
        }
    }

    fn constraint(
        &mut self,
        kind: JoinKind,
        condition: &JoinCondition,
        first: usize,
        middle: usize,
    ) -> Result<Vec<Expression>> {
        match condition {
            JoinCondition::None => Ok(Vec::new()),
            JoinCondition::On(condition) => {
                let scope = &self.scope;
                let bound = self.binder.in_clause("JOIN conditions", |binder| {
                    binder.bind_condition(condition, scope, "JOIN/ON")
                });
                Ok(bound?.conjuncts())
            }
            JoinCondition::Using(_, Some(alias)) => {
                Err(Error::unsupported("JOIN USING … AS").at(self.binder.position(alias.at)))
            }
            JoinCondition::Using(names, None) => {
                let names: Vec<String> = names.iter().map(fold_name).collect();
                self.using(kind, &names, first, middle)
            }
            JoinCondition::Natural => {
                let names: Vec<String> = self
                    .unmerged(first, middle)
                    .into_iter()
                    .filter(|name| {
                        self.unmerged(middle, self.scope.relations.len())
                            .contains(name)
                    })
                    .collect();
                self.using(kind, &names, first, middle)
            }
        }
    }

    /// Names of the columns of some relations that `*` shows, without those already
    /// merged.
    fn unmerged(&self, from: usize, to: usize) -> Vec<String> {
        self.scope.relations[from..to]
            .iter()
            .flat_map(|relation| {
                relation
                    .columns
                    .iter()
                    .zip(&relation.merged)
                    .filter(|(_, merged)| !**merged)
                    .map(|(column, _)| column.name.to_string())
            })
            .collect()
    }

    /// Merges the columns with these names from both sides of a join, as USING does.
    fn using(
        &mut self,
        kind: JoinKind,
        names: &[String],
        first: usize,
        middle: usize,
    ) -> Result<Vec<Expression>> {
        let mut conditions = Vec::new();
        let mut columns = Vec::new();
        for name in names {
            let end = self.scope.relations.len();
            let left = self.take_column(name, first, middle, "left")?;
            let right = self.take_column(name, middle, end, "right")?;
            let bound = |column: &ScopeColumn| {
                crate::expression::Bound::new(column.expression.clone(), column.column_type)
            };
            let equal =
                self.binder
                    .compare(Comparison::Equal, bound(&left), bound(&right), None)?;
            conditions.push(equal.expression);
            let (merged, column_type) = self
                .binder
                .unify(vec![bound(&left), bound(&right)], "JOIN/USING")?;
            let mut merged = merged.into_iter();
            let (of_left, of_right) = (merged.next(), merged.next());
            let expression = match (kind, of_left, of_right) {
                (JoinKind::Right, _, Some(right)) => right,
                (JoinKind::Full, Some(left), Some(right)) => {
                    Expression::Coalesce(vec![left, right])
                }
                (_, Some(left), _) => left,
                _ => return Err(Error::internal("a merged column of nothing")),
            };
            columns.push(ScopeColumn {
                name: SmolStr::from(name.as_str()),
                expression,
                column_type,
                origin: left.origin.filter(|_| kind != JoinKind::Right),
            });
        }
        if !columns.is_empty() {
            // Inserts the merged columns before the joined relations, where `*` shows
            // them.
            self.scope
                .relations
                .insert(first, ScopeRelation::new(SmolStr::default(), None, columns));
        }
        Ok(conditions)
    }

    /// The only column of this name among some relations; marks it as merged.
    fn take_column(
        &mut self,
        name: &str,
        from: usize,
        to: usize,
        side: &str,
    ) -> Result<ScopeColumn> {
        let mut found = None;
        for relation in &mut self.scope.relations[from..to] {
            for (column, merged) in relation.columns.iter().zip(&mut relation.merged) {
                if column.name != name || *merged {
                    continue;
                }
                if found.is_some() {
                    return Err(Error::new(
                        SqlState::AMBIGUOUS_COLUMN,
                        format!(
                            "common column name \"{name}\" appears more than once in {side} table"
                        ),
                    ));
                }
                *merged = true;
                self.binder.views.used(column.origin);
                found = Some(column.clone());
            }
        }
        found.ok_or_else(|| {
            Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" specified in USING clause does not exist in {side} table"
                ),
            )
        })
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<FromNode> {
        crate::expression::with_stack(|| self.factor_here(factor))
    }

    fn factor_here(&mut self, factor: &TableFactor) -> Result<FromNode> {
        match factor {
            TableFactor::Table {
                sample: Some(sample),
                ..
            } => {
                Err(Error::unsupported("TABLESAMPLE").at(self.binder.position(sample.method.at())))
            }
            TableFactor::Table {
                relation,
                alias,
                sample: None,
            } => self.relation(relation, alias.as_ref()),
            TableFactor::Query {
                lateral,
                query,
                alias,
            } => self.derived(*lateral, query, alias.as_ref()),
            TableFactor::Functions(table) => self.functions(table),
            TableFactor::Xml(_) => Err(Error::unsupported("XMLTABLE")),
            TableFactor::Joined(item, None) => self.item(item),
            TableFactor::Joined(_, Some(alias)) => {
                Err(Error::unsupported("an alias of a join")
                    .at(self.binder.position(alias.name.at)))
            }
        }
    }

    /// Adds a relation to the scope.
    pub(super) fn add(
        &mut self,
        name: SmolStr,
        schema: Option<SmolStr>,
        columns: Vec<ScopeColumn>,
        alias: Option<&Alias>,
    ) -> Result<()> {
        let (name, schema) = match alias {
            Some(alias) => (SmolStr::from(fold_name(&alias.name)), None),
            None => (name, schema),
        };
        let mut columns = columns;
        if let Some(alias) = alias {
            if alias.columns.len() > columns.len() {
                return Err(Error::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!(
                        "table \"{name}\" has {} columns available but {} columns specified",
                        columns.len(),
                        alias.columns.len()
                    ),
                ));
            }
            for (column, renamed) in columns.iter_mut().zip(&alias.columns) {
                column.name = SmolStr::from(fold_name(renamed));
            }
        }
        let taken = self
            .scope
            .relations
            .iter()
            .any(|known| known.name == name && known.schema == schema && !name.is_empty());
        if taken {
            return Err(Error::new(
                SqlState::DUPLICATE_ALIAS,
                format!("table name \"{name}\" specified more than once"),
            ));
        }
        self.scope
            .relations
            .push(ScopeRelation::new(name, schema, columns));
        Ok(())
    }

    pub(super) fn place(&mut self, kind: FromKind, width: usize) -> FromNode {
        let start = self.width;
        self.width += width;
        FromNode {
            kind,
            start,
            end: self.width,
            expected: Expected::default(),
        }
    }

    fn relation(&mut self, relation: &Relation, alias: Option<&Alias>) -> Result<FromNode> {
        let position = self.binder.position(relation.name.at());
        let parts: Vec<String> = relation.name.0.iter().map(fold_name).collect();
        let (schema, table_name) = match parts.as_slice() {
            [table] => (None, table.as_str()),
            [schema, table] | [_, schema, table] => (Some(schema.as_str()), table.as_str()),
            _ => return Err(Error::syntax("improper relation name").at(position)),
        };
        if schema.is_none()
            && let Some(node) = self.common_table(table_name, position, alias)?
        {
            return Ok(node);
        }
        match resolve_relation(self.binder, schema, table_name)
            .map_err(|error| error.at(position))?
        {
            Resolved::Table(table) => {
                self.binder.needs.table(table.oid, Privileges::SELECT);
                let start = self.width;
                let columns = table
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(position, column)| ScopeColumn {
                        name: SmolStr::from(column.name.as_str()),
                        expression: Expression::Column(start + position),
                        column_type: column.column_type,
                        origin: Some((table.oid, column.attribute)),
                    })
                    .collect();
                let columns = self.as_named(schema, table_name, table.oid, columns);
                let shown = SmolStr::from(
                    alias.map_or_else(|| table.name.clone(), |alias| fold_name(&alias.name)),
                );
                self.add(
                    SmolStr::from(table_name),
                    Some(SmolStr::from(PUBLIC)),
                    columns,
                    alias,
                )
                .map_err(|error| error.at(position))?;
                let record = self.with_records.then_some(start + table.columns.len());
                self.is_table(table.oid, record);
                let width = table.columns.len() + usize::from(self.with_records);
                Ok(self.place(FromKind::Table(table, shown), width))
            }
            Resolved::Sequence(object) => self
                .sequence(&object, schema, table_name, alias)
                .map_err(|error| error.at(position)),
            Resolved::View(object) => self
                .view(&object, schema, table_name, alias)
                .map_err(|error| error.at(position)),
            Resolved::System(table) => {
                let none = std::iter::empty();
                self.binder.views.named(schema, table_name, table.oid, none);
                if table.is_secret() {
                    self.binder.needs.secret(table.name);
                }
                if table.is_of_leader() {
                    let route = Route::Leader(Reason::SystemTable);
                    self.binder.route = self.binder.route.and(route);
                }
                let start = self.width;
                let columns = table
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(position, (name, data_type))| ScopeColumn {
                        name: SmolStr::new_static(name),
                        expression: Expression::Column(start + position),
                        column_type: ColumnType::from(*data_type),
                        origin: Some((table.oid, position as i16 + 1)),
                    })
                    .collect();
                let shown = alias.map_or(SmolStr::new_static(table.name), |alias| {
                    SmolStr::from(fold_name(&alias.name))
                });
                self.add(
                    SmolStr::new_static(table.name),
                    Some(SmolStr::new_static(table.schema())),
                    columns,
                    alias,
                )
                .map_err(|error| error.at(position))?;
                self.is_table(table.oid, None);
                Ok(self.place(FromKind::System(table, shown), table.columns.len()))
            }
        }
    }

    /// A sequence, which is read as a table of one row.
    fn sequence(
        &mut self,
        object: &Object,
        schema: Option<&str>,
        name: &str,
        alias: Option<&Alias>,
    ) -> Result<FromNode> {
        let route = Route::Leader(Reason::SystemTable);
        self.binder.route = self.binder.route.and(route);
        self.binder.needs.table(object.oid, Privileges::SELECT);
        let start = self.width;
        let columns = system::SEQUENCE_COLUMNS.iter().zip(1..);
        let columns = columns.map(|((name, data_type, _), attribute)| ScopeColumn {
            name: SmolStr::new_static(name),
            expression: Expression::Column(start + attribute as usize - 1),
            column_type: ColumnType::from(*data_type),
            origin: Some((object.oid, attribute)),
        });
        let columns = self.as_named(schema, name, object.oid, columns.collect());
        let public = Some(SmolStr::new_static(PUBLIC));
        self.add(SmolStr::from(name), public, columns, alias)?;
        let arguments = system::SEQUENCE_COLUMNS.iter().map(|(_, _, function)| {
            Expression::Call(Box::new(Call {
                function,
                arguments: vec![Expression::Constant(Value::Oid(object.oid))],
                types: vec![DataType::Oid.into()],
            }))
        });
        let function = SetFunction {
            kind: SetKind::Scalar,
            arguments: arguments.collect(),
            ordinality: false,
        };
        let width = function.arguments.len();
        Ok(self.place(FromKind::Function(function), width))
    }

    /// Adds a view: its query, as a subquery.
    fn view(
        &mut self,
        object: &Arc<Object>,
        schema: Option<&str>,
        name: &str,
        alias: Option<&Alias>,
    ) -> Result<FromNode> {
        let Some(view) = object.view() else {
            return Err(Error::internal("a view that is none"));
        };
        self.binder.needs.table(object.oid, Privileges::SELECT);
        let (plan, shape, columns) = plan_view(self.binder, object, view)?;
        let start = self.width;
        let source = Source {
            alias: SmolStr::from(
                alias.map_or_else(|| name.to_owned(), |alias| fold_name(&alias.name)),
            ),
            columns: columns
                .iter()
                .map(|column| SmolStr::from(column.name.as_str()))
                .collect(),
            shape: shape.map(Box::new),
        };
        let shown = columns
            .iter()
            .enumerate()
            .map(|(position, column)| ScopeColumn {
                name: SmolStr::from(column.name.as_str()),
                expression: Expression::Column(start + position),
                column_type: column.column_type,
                origin: Some((column.table_oid, column.attribute)),
            })
            .collect();
        let shown = self.as_named(schema, name, object.oid, shown);
        let (name, schema) = (SmolStr::from(name), Some(SmolStr::from(PUBLIC)));
        self.add(name, schema, shown, alias)?;
        Ok(self.place(FromKind::Derived(plan, None, source), columns.len()))
    }

    /// The columns of a relation as what is being bound may name them: in a view, those of
    /// the time when it was made.
    fn as_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
        oid: u32,
        columns: Vec<ScopeColumn>,
    ) -> Vec<ScopeColumn> {
        let views = &mut self.binder.views;
        let numbered = columns.iter().filter_map(|column| {
            let (_, attribute) = column.origin?;
            Some((attribute, column.name.to_string()))
        });
        views.named(schema, name, oid, numbered);
        let Some(definition) = &views.definition else {
            return columns;
        };
        let Some(reference) = definition.reference(schema, name) else {
            return columns;
        };
        let of_then = columns.into_iter().filter_map(|mut column| {
            let (_, attribute) = column.origin?;
            column.name = SmolStr::from(reference.column(attribute)?);
            Some(column)
        });
        of_then.collect()
    }

    fn common_table(
        &mut self,
        name: &str,
        position: Option<u32>,
        alias: Option<&Alias>,
    ) -> Result<Option<FromNode>> {
        let Some((node, columns)) =
            plan_common_table(self.binder, name, position, self.scope.frame)?
        else {
            return Ok(None);
        };
        self.subquery(node, &columns, None, SmolStr::from(name), alias)
            .map(Some)
    }

    fn derived(&mut self, lateral: bool, query: &Query, alias: Option<&Alias>) -> Result<FromNode> {
        let ((plan, shape), correlations) = if lateral {
            let frame = Frame::inside(&self.scope);
            let aggregates = std::mem::replace(&mut self.binder.aggregates, OF_ITS_LEVEL);
            let planned = self
                .binder
                .one_level_down(|binder| plan_with_shape(binder, query, &frame));
            self.binder.aggregates = aggregates;
            (planned?, Some(frame.into_taken()))
        } else {
            let planned = plan_with_shape(self.binder, query, self.scope.frame)?;
            (planned, None)
        };
        let columns = plan.columns().to_vec();
        let name = SmolStr::default();
        let mut node = self.subquery(plan.root, &columns, correlations, name, alias)?;
        if let FromKind::Derived(_, _, source) = &mut node.kind {
            source.shape = shape.map(Box::new);
        }
        Ok(node)
    }

    fn subquery(
        &mut self,
        plan: Node,
        columns: &[Column],
        correlations: Option<Vec<Expression>>,
        name: SmolStr,
        alias: Option<&Alias>,
    ) -> Result<FromNode> {
        let start = self.width;
        let shown = alias.map_or_else(
            || name.clone(),
            |alias| SmolStr::from(fold_name(&alias.name)),
        );
        let source = Source {
            alias: shown,
            columns: columns
                .iter()
                .map(|column| SmolStr::from(column.name.as_str()))
                .collect(),
            shape: None,
        };
        let scope_columns = columns
            .iter()
            .enumerate()
            .map(|(position, column)| ScopeColumn {
                name: SmolStr::from(column.name.as_str()),
                expression: Expression::Column(start + position),
                column_type: column.column_type,
                origin: (column.table_oid != 0).then_some((column.table_oid, column.attribute)),
            })
            .collect();
        self.add(name, None, scope_columns, alias)?;
        let width = columns.len();
        Ok(self.place(FromKind::Derived(plan, correlations, source), width))
    }
}

fn join_kind(join: &Join) -> JoinKind {
    match join.kind {
        tree::JoinKind::Cross | tree::JoinKind::Inner => JoinKind::Inner,
        tree::JoinKind::Left => JoinKind::Left,
        tree::JoinKind::Right => JoinKind::Right,
        tree::JoinKind::Full => JoinKind::Full,
    }
}
