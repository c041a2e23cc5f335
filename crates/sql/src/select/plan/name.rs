//! Default names of result columns without an alias, as PostgreSQL chooses them.
//!
//! An expression around a column or a function inherits its name; a cast names its
//! column after its type only if the operand has no name to inherit, and CASE takes the
//! name of its ELSE expression.

use sqlparser::ast::{AccessExpr, Expr};

use crate::expression::fold_name;

/// The name that PostgreSQL gives a column computed by this expression.
pub(super) fn column_name(expr: &Expr) -> String {
    match named(expr) {
        Some(Name::Lent(name) | Name::Makeshift(name)) => name,
        None => "?column?".to_owned(),
    }
}

/// A candidate name, and whether an enclosing expression inherits it.
enum Name {
    Lent(String),
    Makeshift(String),
}

fn named(expr: &Expr) -> Option<Name> {
    Some(Name::Lent(match expr {
        Expr::Identifier(name) => fold_name(name),
        Expr::CompoundIdentifier(names) => fold_name(names.last()?),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return named(inner),
        Expr::Function(call) => fold_name(call.name.0.last()?.as_ident()?),
        Expr::Cast {
            expr, data_type, ..
        } => {
            return match named(expr) {
                Some(Name::Lent(name)) => Some(Name::Lent(name)),
                _ => type_name(data_type).map(Name::Makeshift),
            };
        }
        Expr::TypedString(typed) => return type_name(&typed.data_type).map(Name::Makeshift),
        Expr::Case { else_result, .. } => {
            return Some(match else_result.as_deref().and_then(named) {
                Some(Name::Lent(name)) => Name::Lent(name),
                _ => Name::Makeshift("case".to_owned()),
            });
        }
        Expr::Exists { negated: false, .. } => "exists".to_owned(),
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
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(fold_name(name)),
                _ => None,
            });
            match field {
                Some(field) => field,
                None => return named(root),
            }
        }
        Expr::Subquery(query) => {
            let select = query.body.as_select()?;
            match select.projection.first()? {
                sqlparser::ast::SelectItem::UnnamedExpr(expr) => column_name(expr),
                sqlparser::ast::SelectItem::ExprWithAlias { alias, .. } => fold_name(alias),
                _ => return None,
            }
        }
        _ => return None,
    }))
}

fn type_name(data_type: &sqlparser::ast::DataType) -> Option<String> {
    let resolved = crate::expression::resolve_type(data_type).ok()?;
    Some(resolved.data_type.name().trim_start_matches('_').to_owned())
}
