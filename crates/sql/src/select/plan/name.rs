//! Default names of result columns without an alias, as PostgreSQL chooses them.
//!
//! An expression around a column or a function inherits its name; a cast names its
//! column after its type only if the operand has no name to inherit, and CASE takes the
//! name of its ELSE expression.

use coeval_sql_syntax::tree::{Body, Expr, ExprKind, Query, Special, Step, Target, TrimSide, Xml};

use crate::expression::{fold_name, value_name};

/// The name that PostgreSQL gives a column computed by this expression.
pub(crate) fn column_name(expr: &Expr) -> String {
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
    let word = |word: &str| Some(Name::Lent(word.to_owned()));
    match &expr.kind {
        ExprKind::Column { path, star: false } => path.0.last().map(fold_name).map(Name::Lent),
        ExprKind::Indirection(base, steps) => {
            let field = steps.iter().rev().find_map(|step| match step {
                Step::Field(name) => Some(fold_name(name)),
                _ => None,
            });
            field.map_or_else(|| named(base), |field| Some(Name::Lent(field)))
        }
        ExprKind::Collate(operand, _) => named(operand),
        ExprKind::Function(call) => call.name.0.last().map(fold_name).map(Name::Lent),
        ExprKind::Cast(cast) => match named(&cast.operand) {
            Some(Name::Lent(name)) => Some(Name::Lent(name)),
            _ => type_name(&cast.target).map(Name::Makeshift),
        },
        ExprKind::Case(case) => Some(match case.otherwise.as_ref().and_then(named) {
            Some(Name::Lent(name)) => Name::Lent(name),
            _ => Name::Makeshift("case".to_owned()),
        }),
        ExprKind::Exists(_) => word("exists"),
        ExprKind::Array(_) | ExprKind::ArrayQuery(_) => word("array"),
        ExprKind::Row(_) => word("row"),
        ExprKind::Grouping(_) => word("grouping"),
        ExprKind::AtTimeZone(..) => word("timezone"),
        ExprKind::Overlaps(..) => word("overlaps"),
        ExprKind::Special(special) => of_special(special),
        ExprKind::Subquery(query) => of_query(query),
        _ => None,
    }
}

fn of_special(special: &Special) -> Option<Name> {
    Some(Name::Lent(
        match special {
            Special::Value(value, _) => value_name(*value),
            Special::Coalesce(_) => "coalesce",
            Special::Greatest(_) => "greatest",
            Special::Least(_) => "least",
            Special::NullIf(..) => "nullif",
            Special::CollationFor(_) => "pg_collation_for",
            Special::Extract(..) => "extract",
            Special::Normalize(..) => "normalize",
            Special::Overlay { .. } => "overlay",
            Special::Position(..) => "position",
            Special::Substring(_) => "substring",
            Special::Plain(name, _) => name,
            Special::Trim(TrimSide::Both, _) => "btrim",
            Special::Trim(TrimSide::Leading, _) => "ltrim",
            Special::Trim(TrimSide::Trailing, _) => "rtrim",
            Special::Treat(_, target) => return type_name(target).map(Name::Lent),
            Special::Xml(Xml::Serialize { .. }) => "xmlserialize",
            Special::Xml(_) => "xml",
        }
        .to_owned(),
    ))
}

/// A subquery is named as its column is.
fn of_query(query: &Query) -> Option<Name> {
    let mut query = query;
    while let Body::Set(first, _) = &query.body {
        query = first;
    }
    match &query.body {
        Body::Select(select) => match select.targets.first()? {
            Target::Expr(_, Some(label)) => Some(Name::Lent(fold_name(label))),
            Target::Expr(expr, None) => Some(Name::Lent(column_name(expr))),
            Target::Star(_) => None,
        },
        Body::Values(_) => Some(Name::Lent("column1".to_owned())),
        _ => None,
    }
}

fn type_name(name: &coeval_sql_syntax::tree::TypeName) -> Option<String> {
    let resolved = crate::expression::resolve_type(name).ok()?;
    Some(resolved.data_type.name().trim_start_matches('_').to_owned())
}
