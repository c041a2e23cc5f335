//! System tables of what ANALYZE has found: `pg_stats`.

use std::sync::Arc;

use crate::Value;
use crate::access::{ObjectKind, Privileges};
use crate::catalog::Table;
use crate::expression::EvaluationContext;
use crate::statistics::ColumnStatistics;
use crate::system::table::system_table;
use crate::system::{PUBLIC as PUBLIC_NAMESPACE, listed, schema_name};
use crate::value::ColumnType;

/// Statistics of the columns of tables that the role may read: they show values.
fn columns(context: &EvaluationContext<'_>) -> Vec<(Arc<Table>, String, ColumnStatistics)> {
    let Some(engine) = context.engine else {
        return Vec::new();
    };
    let access = context.catalog.access();
    let role = context.session.role;
    let may_read = |table: &Table| {
        let may = access.privileges(role, &table.owned, ObjectKind::Table);
        access.is_superuser(role) || may.include(Privileges::SELECT)
    };
    let mut found = Vec::new();
    for table in listed(context.catalog).filter(|table| may_read(table)) {
        let Some(known) = context.session.around.statistics.of(engine, table.oid) else {
            continue;
        };
        for column in &table.columns {
            let data_type = column.column_type.data_type;
            if let Some(known) = known.column(column.attribute, data_type) {
                found.push((Arc::clone(table), column.name.clone(), known.clone()));
            }
        }
    }
    found
}

/// Values as the text of an array; null for none.
fn texts<'a>(
    values: impl ExactSizeIterator<Item = &'a Value>,
    column: &ColumnStatistics,
    context: &EvaluationContext<'_>,
) -> Value {
    if values.len() == 0 {
        return Value::Null;
    }
    let style = &context.session.style;
    let shown: Vec<String> = values
        .map(|value| {
            let text = value.to_text(ColumnType::from(column.data_type), style);
            let text = text.unwrap_or_default();
            let quoted = text.is_empty()
                || text.eq_ignore_ascii_case("null")
                || text.contains(['"', '\\', '{', '}', ',', ' ', '\t', '\n']);
            match quoted {
                true => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
                false => text.to_string(),
            }
        })
        .collect();
    Value::text(format!("{{{}}}", shown.join(",")))
}

system_table! {
    /// Statistics of columns. Values are shown as the text of an array.
    PG_STATS = PG_CATALOG 12058 View pg_stats;
    context => columns(context).into_iter().map(|row| (row, context));
    ((table, name, column), context) => {
        schemaname: Name = schema_name(PUBLIC_NAMESPACE),
        tablename: Name = &table.name,
        attname: Name = name,
        inherited: Bool = false,
        null_frac: Float4 = column.nulls,
        avg_width: Int4 = i32::try_from(column.width).unwrap_or(i32::MAX),
        n_distinct: Float4 = column.distinct as f32,
        most_common_vals: Text = texts(column.common.iter().map(|(value, _)| value), &column, context),
        most_common_freqs: Float4Array = match column.common.is_empty() {
            true => Value::Null,
            false => Value::Array(
                column.common.iter().map(|(_, part)| Value::Float4(*part)).collect()
            ),
        },
        histogram_bounds: Text = texts(column.bounds.iter(), &column, context),
        correlation: Float4 = Value::Null,
        most_common_elems: Text = Value::Null,
        most_common_elem_freqs: Float4Array = Value::Null,
        elem_count_histogram: Float4Array = Value::Null,
    }
}
