//! Encoding of rows for a table, column defaults, and constraint violations of a row.

use std::sync::Arc;

use coeval_sql_syntax::tree::Expr;
use coeval_types::{RowBuilder, RowRef};

use crate::catalog::{Catalog, Generation, Index, Needs, Table, TableColumn, key_text, row_text};
use crate::error::{Error, Result, SqlState};
use crate::expression::{
    Binder, Call, Cast, Expression, Frame, Parameters, Scope, SessionInfo, SystemObjects,
};
use crate::plan::RowReader;
use crate::statement::{Statement, parse_expression};
use crate::value::{DataType, Style, Value};

/// Maximum size of a row in bytes, far below the limits of the row encoding and of a
/// log frame.
const MAX_ROW_BYTES: usize = 256 << 20;

/// Encoder of a table's rows.
#[derive(Debug)]
pub(crate) struct RowWriter {
    /// For each cell, the position of its column; `None` for a dropped column.
    cells: Box<[Option<usize>]>,
    builder: RowBuilder,
}

impl RowWriter {
    pub(crate) fn new(table: &Table) -> Self {
        let mut cells = vec![None; table.cells];
        for (position, column) in table.columns.iter().enumerate() {
            cells[column.cell()] = Some(position);
        }
        Self {
            cells: cells.into(),
            builder: RowBuilder::new(),
        }
    }

    /// Appends a row to `out`, from one value per column.
    pub(crate) fn write(
        &mut self,
        table: &Table,
        values: &[Value],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (column, value) in table.columns.iter().zip(values) {
            if column.not_null && value.is_null() {
                return Err(null_violation(table, column, values));
            }
        }
        for cell in &self.cells {
            match cell.map(|position| &values[position]) {
                None | Some(Value::Null) => self.builder.push_null(),
                Some(value) => self.builder.push_with(|out| value.write_cell(out)),
            }
        }
        self.finish(out)
    }

    /// Appends to `out` a copy of row `old` with new values for the columns in
    /// `changes`.
    pub(crate) fn patch(
        &mut self,
        table: &Table,
        old: RowRef<'_>,
        changes: &[(usize, Value)],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (position, value) in changes {
            let column = &table.columns[*position];
            if column.not_null && value.is_null() {
                let mut values = Vec::new();
                RowReader::new(table).read(old, &mut values)?;
                for (position, value) in changes {
                    values[*position] = value.clone();
                }
                return Err(null_violation(table, column, &values));
            }
        }
        for (number, cell) in self.cells.iter().enumerate() {
            let changed = cell.and_then(|position| {
                changes
                    .iter()
                    .find(|(changed, _)| *changed == position)
                    .map(|(_, value)| value)
            });
            match changed {
                None => self.builder.push(old.cell(number)),
                Some(Value::Null) => self.builder.push_null(),
                Some(value) => self.builder.push_with(|out| value.write_cell(out)),
            }
        }
        self.finish(out)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        self.builder.finish(out);
        if out.len() - start > MAX_ROW_BYTES {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a row cannot be larger than {MAX_ROW_BYTES} bytes"),
            ));
        }
        Ok(())
    }
}

/// SQLSTATE 23502, `not_null_violation`: the row has a null in a NOT NULL column.
fn null_violation(table: &Table, column: &TableColumn, values: &[Value]) -> Error {
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            column.name, table.name
        ),
    )
    .with_rows_in_detail(
        table.oid,
        format!("Failing row contains ({}).", row_text(table, values)),
    )
    .with_table(table.schema(), &table.name)
    .with_column(&column.name)
}

/// SQLSTATE 23505, `unique_violation`: the row's key exists in a unique index.
pub(crate) fn unique_violation(table: &Table, index: &Index, row: RowRef<'_>) -> Error {
    let error = Error::new(
        SqlState::UNIQUE_VIOLATION,
        format!(
            "duplicate key value violates unique constraint \"{}\"",
            index.name
        ),
    )
    .with_table(table.schema(), &table.name)
    .with_constraint(&index.name);
    match key_text(table, index, row) {
        Ok(key) => error.with_rows_in_detail(table.oid, format!("Key {key} already exists.")),
        Err(_) => error,
    }
}

/// Binds a column's default, as a part of the statement that `binder` binds: a constant null
/// if the column has none, or is computed from others.
pub(crate) fn default_expression(
    table: &Table,
    column: &TableColumn,
    binder: &mut Binder<'_>,
) -> Result<Expression> {
    let (catalog, session) = (binder.catalog, binder.session);
    let (expression, needs) = default_of(table, column, catalog, session)?;
    needs
        .sequences()
        .iter()
        .for_each(|sequence| binder.needs.sequence(*sequence));
    Ok(expression)
}

/// A column's default, and what it needs.
pub(crate) fn default_of(
    table: &Table,
    column: &TableColumn,
    catalog: &Arc<Catalog>,
    session: &SessionInfo,
) -> Result<(Expression, Needs)> {
    if column
        .generation
        .as_ref()
        .is_some_and(Generation::is_identity)
    {
        return next_of_identity(table, column, catalog, session);
    }
    let Some(default) = &column.default else {
        return Ok((Expression::NULL, Needs::default()));
    };
    let parsed = parse_expression(default)
        .map_err(|error| Error::internal(format!("a default cannot be read: {error}")))?;
    let nowhere = |_| None;
    let mut binder = Binder::new(catalog, session, &nowhere, Parameters::default());
    let bound = bind_default(&parsed, column, &mut binder)?;
    Ok((bound, binder.needs))
}

/// The next number of an identity column.
fn next_of_identity(
    table: &Table,
    column: &TableColumn,
    catalog: &Catalog,
    session: &SessionInfo,
) -> Result<(Expression, Needs)> {
    let found = catalog.sequence_of_column(table.oid, column.attribute);
    let (object, _) =
        found.ok_or_else(|| Error::internal("an identity column without its sequence"))?;
    let mut needs = Needs::default();
    needs.sequence(object.oid);
    let call = Expression::Call(Box::new(Call {
        function: session.system.next_of_identity,
        arguments: vec![Expression::Constant(Value::Oid(object.oid))],
        types: vec![DataType::Oid.into()],
    }));
    let next = match column.column_type.data_type {
        DataType::Int8 => call,
        _ => Expression::Cast(Box::new(Cast {
            input: call,
            from: DataType::Int8.into(),
            to: column.column_type,
            explicit: false,
        })),
    };
    Ok((next, needs))
}

/// SQLSTATE 44000: the new row is none that the view shows.
pub(super) fn check_violation(table: &Table, view: &str, values: &[Value]) -> Error {
    Error::new(
        SqlState("44000"),
        format!("new row violates check option for view \"{view}\""),
    )
    .with_rows_in_detail(
        table.oid,
        format!("Failing row contains ({}).", row_text(table, values)),
    )
}

fn bind_default(
    default: &Expr,
    column: &TableColumn,
    binder: &mut Binder<'_>,
) -> Result<Expression> {
    let frame = Frame::outermost();
    let bound = binder.bind(default, &Scope::empty(&frame))?;
    Ok(binder
        .assign(bound, &column.name, column.column_type)?
        .expression)
}

/// Checks a DEFAULT: it must not use columns, parameters or subqueries, and its type
/// must be assignable to the column's.
pub(crate) fn check_default(
    default: &Expr,
    column: &TableColumn,
    statement: &Statement,
    catalog: &Arc<Catalog>,
    system: &'static SystemObjects,
) -> Result<()> {
    let locate = |at| statement.position(at);
    let session = SessionInfo::new(system);
    let mut binder = Binder::new(catalog, &session, &locate, Parameters::default());
    let bound = bind_default(default, column, &mut binder)?;
    if bound.any(&|each| matches!(each, Expression::Subquery(_))) {
        return Err(Error::unsupported("a subquery in a DEFAULT expression"));
    }
    if bound.any(&|each| matches!(each, Expression::Parameter(_))) {
        return Err(Error::new(
            SqlState::UNDEFINED_PARAMETER,
            "a DEFAULT expression cannot have parameters",
        ));
    }
    Ok(())
}

/// Prints a DEFAULT that is a date or timestamp literal in a form that does not depend
/// on the session's time zone or on the time.
pub(crate) fn constant_default(
    default: &Expr,
    column: &TableColumn,
    catalog: &Arc<Catalog>,
    session: &SessionInfo,
) -> Result<Option<String>> {
    let column_type = column.column_type;
    if !column_type.data_type.is_moment() {
        return Ok(None);
    }
    let nowhere = |_| None;
    let mut binder = Binder::new(catalog, session, &nowhere, Parameters::default());
    let Expression::Constant(value) = bind_default(default, column, &mut binder)? else {
        return Ok(None);
    };
    let text = value.to_text(column_type, &Style::default());
    Ok(text.map(|text| format!("'{text}'")))
}
