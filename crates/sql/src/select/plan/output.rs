//! The planner of result columns: select lists, and items of ORDER BY and DISTINCT ON, which may
//! name a result column instead of one of FROM.

use coeval_sql_syntax::tree::{Expr, ExprKind, Path as Name, SortItem, Target};

use super::name::column_name;
use super::query::{Untyped, bare_name, by_number};
use crate::expression::{
    Binder, Bound, Expression, Scope, ScopeColumn, fold_name, key_order, no_order,
};
use crate::output::Column;
use crate::value::KeyOrder;
use crate::{Error, Result, SqlState};

/// A result column while the planner binds the select list.
pub(super) struct Output {
    pub name: String,
    pub bound: Bound,
    pub origin: Option<(u32, i16)>,
}

/// A key by which rows are sorted.
pub(super) type SortKey = (Expression, KeyOrder);

pub(super) fn bind_item(
    binder: &mut Binder<'_>,
    item: &Target,
    scope: &Scope<'_>,
    untyped: Untyped,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    match item {
        Target::Expr(
            Expr {
                kind: ExprKind::Column { path, star: true },
                ..
            },
            label,
        ) => {
            if let Some(label) = label {
                // PostgreSQL's grammar permits it, and its analysis does not.
                return Err(Error::unsupported("a name for all columns of a table")
                    .at(binder.position(label.at)));
            }
            all_columns(binder, path, scope, outputs)?;
        }
        Target::Expr(expr, label) => {
            let name = label.as_ref().map_or_else(|| column_name(expr), fold_name);
            outputs.push(bind_output(binder, expr, name, scope, untyped)?);
        }
        Target::Star(at) => {
            if scope.relations.is_empty() {
                return Err(
                    Error::syntax("SELECT * with no tables specified is not valid")
                        .at(binder.position(*at)),
                );
            }
            for relation in &scope.relations {
                for (column, merged) in relation.columns.iter().zip(&relation.merged) {
                    if !merged {
                        binder.views.used(column.origin);
                        outputs.push(star(column));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Appends the columns of the table that `t.*` names.
fn all_columns(
    binder: &mut Binder<'_>,
    path: &Name,
    scope: &Scope<'_>,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    let position = binder.position(path.at());
    let parts: Vec<String> = path.0.iter().map(fold_name).collect();
    let (schema, table) = match parts.as_slice() {
        [table] => (None, table.as_str()),
        [schema, table] => (Some(schema.as_str()), table.as_str()),
        _ => return Err(Error::syntax("improper relation name").at(position)),
    };
    if let Some(relation) = scope.relation(schema, table)? {
        for column in &relation.columns {
            binder.views.used(column.origin);
            outputs.push(star(column));
        }
        return Ok(());
    }
    // The table may be an enclosing query's.
    let mut outside = scope.frame.outside();
    while let Some(outer) = outside {
        if let Some(relation) = outer.relation(schema, table)? {
            for column in &relation.columns {
                binder.views.used(column.origin);
                outputs.push(star(&scope.qualified_column(
                    schema,
                    table,
                    &column.name,
                )?));
            }
            return Ok(());
        }
        outside = outer.frame.outside();
    }
    Err(Error::new(
        SqlState::UNDEFINED_TABLE,
        format!("missing FROM-clause entry for table \"{table}\""),
    )
    .at(position))
}

fn star(column: &ScopeColumn) -> Output {
    Output {
        name: column.name.to_string(),
        bound: Bound::new(column.expression.clone(), column.column_type),
        origin: column.origin,
    }
}

fn bind_output(
    binder: &mut Binder<'_>,
    expr: &Expr,
    name: String,
    scope: &Scope<'_>,
    untyped: Untyped,
) -> Result<Output> {
    let origin = origin_of(expr, scope);
    let mut bound = binder.bind(expr, scope)?;
    if untyped == Untyped::Settle {
        bound = binder.settle(bound)?;
    }
    Ok(Output {
        name,
        bound,
        origin,
    })
}

/// Table and attribute that an expression shows unchanged, if it is a plain column.
fn origin_of(expr: &Expr, scope: &Scope<'_>) -> Option<(u32, i16)> {
    let ExprKind::Column { path, star: false } = &expr.kind else {
        return None;
    };
    let names: Vec<String> = path.0.iter().map(fold_name).collect();
    let column = match names.as_slice() {
        [name] => scope.find(name).ok()?,
        [relation, name] => scope.qualified_column(None, relation, name).ok(),
        _ => None,
    };
    column?.origin
}

/// The output column that an item refers to by number or name.
pub(super) fn output_by_reference(
    binder: &Binder<'_>,
    expr: &Expr,
    outputs: &[Output],
    clause: &str,
) -> Result<Option<usize>> {
    if let Some(position) = by_number(binder, expr, outputs.len(), clause)? {
        return Ok(Some(position));
    }
    let Some(name) = bare_name(expr) else {
        return Ok(None);
    };
    let mut found: Option<usize> = None;
    for (position, output) in outputs.iter().enumerate() {
        if output.name != name {
            continue;
        }
        match found {
            Some(first) if outputs[first].bound.expression != output.bound.expression => {
                return Err(Error::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("{clause} \"{name}\" is ambiguous"),
                )
                .at(binder.position(expr.at)));
            }
            Some(_) => {}
            None => found = Some(position),
        }
    }
    Ok(found)
}

pub(super) fn bind_order(
    binder: &mut Binder<'_>,
    order: &[SortItem],
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Vec<SortKey>> {
    let mut keys: Vec<SortKey> = Vec::with_capacity(order.len());
    for item in order {
        let key_order = key_order(item)?;
        let bound = match output_by_reference(binder, &item.expr, outputs, "ORDER BY")? {
            Some(position) => outputs[position].bound.clone(),
            None => {
                let bound = binder.bind(&item.expr, scope)?;
                binder.settle(bound)?
            }
        };
        if let Some(error) = no_order(bound.column_type.data_type) {
            return Err(error.at(binder.position(item.expr.at)));
        }
        let expression = bound.expression;
        // A repeated sort key changes nothing.
        if !keys.iter().any(|(known, _)| *known == expression) {
            keys.push((expression, key_order));
        }
    }
    Ok(keys)
}

pub(super) fn bind_distinct_on(
    binder: &mut Binder<'_>,
    list: &[Expr],
    outputs: &[Output],
    scope: &Scope<'_>,
) -> Result<Vec<Expression>> {
    list.iter()
        .map(|expr| {
            Ok(
                match output_by_reference(binder, expr, outputs, "DISTINCT ON")? {
                    Some(position) => outputs[position].bound.expression.clone(),
                    None => {
                        let bound = binder.bind(expr, scope)?;
                        binder.settle(bound)?.expression
                    }
                },
            )
        })
        .collect()
}

/// Binds a list of expressions over the rows of `scope`, such as that of RETURNING.
pub fn bind_list(
    binder: &mut Binder<'_>,
    items: &[Target],
    scope: &Scope<'_>,
) -> Result<(Vec<Column>, Vec<Expression>)> {
    let mut outputs = Vec::with_capacity(items.len());
    for item in items {
        bind_item(binder, item, scope, Untyped::Settle, &mut outputs)?;
    }
    Ok(outputs
        .into_iter()
        .map(|output| {
            let (table_oid, attribute) = output.origin.unwrap_or((0, 0));
            let column = Column {
                name: output.name,
                column_type: output.bound.column_type,
                table_oid,
                attribute,
            };
            (column, output.bound.expression)
        })
        .unzip())
}
