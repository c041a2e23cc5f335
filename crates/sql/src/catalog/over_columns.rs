//! Expressions over the columns of a table, as the catalog keeps them: with bare names.

use coeval_sql_syntax::tree::{Expr, ExprKind};

use super::{Table, fold};

/// The expression with bare names of columns, so that it does not depend on the name of its
/// table, and the positions of the columns in it, in order of appearance.
pub(crate) fn over_columns(mut expr: Expr, table: &Table) -> (Expr, Vec<usize>) {
    let mut columns = Vec::new();
    expr.walk_mut(&mut |each| {
        if let ExprKind::Column { path, star: false } = &mut each.kind {
            path.0.drain(..path.0.len() - 1);
            let position = table.column(&fold(&path.0[0]));
            columns.extend(position.filter(|position| !columns.contains(position)));
        }
    });
    (expr, columns)
}
