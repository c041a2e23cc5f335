//! What a column of a result is called when nobody says.

use sqlparser::ast::{Expr, Value as Literal};

use crate::expression::fold_name;

/// The name PostgreSQL gives a column that computes this.
pub(super) fn column_name(expr: &Expr) -> String {
    named(expr).unwrap_or_else(|| "?column?".to_owned())
}

fn named(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::Identifier(name) => fold_name(name),
        Expr::CompoundIdentifier(names) => fold_name(names.last()?),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return named(inner),
        Expr::Function(call) => fold_name(call.name.0.last()?.as_ident()?),
        Expr::Cast {
            expr, data_type, ..
        } => {
            // The column's own name if it has one, else the type's.
            return named(expr)
                .filter(|_| !matches!(**expr, Expr::Value(_)))
                .or_else(|| type_name(data_type));
        }
        Expr::TypedString(typed) => return type_name(&typed.data_type),
        Expr::Case { else_result, .. } => else_result
            .as_ref()
            .and_then(|otherwise| named(otherwise).filter(|_| is_column(otherwise)))
            .unwrap_or_else(|| "case".to_owned()),
        Expr::Exists { .. } => "exists".to_owned(),
        Expr::Array(_) => "array".to_owned(),
        Expr::Extract { .. } => "extract".to_owned(),
        Expr::Position { .. } => "position".to_owned(),
        Expr::Substring { .. } => "substring".to_owned(),
        Expr::Overlay { .. } => "overlay".to_owned(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(sqlparser::ast::TrimWhereField::Leading) => "ltrim",
            Some(sqlparser::ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }
        .to_owned(),
        Expr::Ceil { .. } => "ceil".to_owned(),
        Expr::Floor { .. } => "floor".to_owned(),
        Expr::AtTimeZone { .. } => "timezone".to_owned(),
        Expr::Value(value) => match &value.value {
            Literal::Boolean(_) => "bool".to_owned(),
            _ => return None,
        },
        Expr::CompoundFieldAccess { root, .. } => return named(root),
        Expr::Subquery(query) => {
            let select = query.body.as_select()?;
            match select.projection.first()? {
                sqlparser::ast::SelectItem::UnnamedExpr(expr) => return named(expr),
                sqlparser::ast::SelectItem::ExprWithAlias { alias, .. } => fold_name(alias),
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn is_column(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_)
    )
}

fn type_name(data_type: &sqlparser::ast::DataType) -> Option<String> {
    let resolved = crate::expression::resolve_type(data_type).ok()?;
    Some(resolved.data_type.name().trim_start_matches('_').to_owned())
}
