//! COPY: bulk import and export of rows as lines of text.
//!
//! ```text
//!  client bytes ──▶ [`lines`]: whole lines ──▶ [`fields`]: fields ──▶ values ──▶ insert
//!  query rows ──▶ values ──▶ [`write`]: a line ──▶ client
//! ```
//!
//! The client splits data anywhere; the server parses a line when it is complete, so it
//! buffers at most one line. It inserts rows as they arrive, in the transaction that
//! runs the command.
//!
//! Both formats are PostgreSQL's: `text`, with backslash escapes, and `csv`. The
//! context of an error names the line, and the column if known.

mod fields;
mod lines;
mod load;
mod options;
mod write;

use std::sync::Arc;

use coeval_sql_syntax::tree::{Body, Expr, ExprKind, Name, Path, Query, Relation, Select, Target};

pub(crate) use load::CopyIn;
pub(crate) use options::CopyFormat;
pub(crate) use write::LineWriter;

use crate::access::Privileges;
use crate::catalog::{self, QualifiedName, Table, fold};
use crate::change::{Rules, default_expression};
use crate::error::{Error, Result, SqlState};
use crate::expression::{Binder, Expression};
use crate::select::{self, QueryPlan};
use crate::statement::{CopyCommand, CopySource};

/// A planned COPY command.
#[derive(Debug)]
pub(crate) enum CopyPlan {
    /// COPY FROM STDIN: import.
    In(CopyInPlan),
    /// COPY TO STDOUT: export.
    Out(CopyOutPlan),
}

/// A planned COPY FROM STDIN.
#[derive(Debug)]
pub(crate) struct CopyInPlan {
    pub(crate) table: Arc<Table>,
    /// Positions of the columns in the data, in the order of the fields.
    pub(crate) columns: Vec<usize>,
    /// Columns missing in the data, with their defaults unless null.
    pub(crate) defaults: Vec<(usize, Expression)>,
    /// What the table says about each row.
    pub(crate) rules: Rules,
    pub(crate) format: CopyFormat,
}

/// A planned COPY TO STDOUT.
#[derive(Debug)]
pub(crate) struct CopyOutPlan {
    pub(crate) query: Arc<QueryPlan>,
    pub(crate) format: CopyFormat,
}

impl CopyPlan {
    /// Plans a COPY command.
    pub(crate) fn bind(copy: &CopyCommand, binder: &mut Binder<'_>) -> Result<Self> {
        let (name, names) = match &copy.source {
            CopySource::Query(query) => {
                let query = Arc::new(select::plan_query(binder, query)?);
                let names: Vec<String> = query
                    .columns()
                    .iter()
                    .map(|column| column.name.clone())
                    .collect();
                let format = CopyFormat::new(&copy.options, false, &names, binder.locate)?;
                return Ok(Self::Out(CopyOutPlan { query, format }));
            }
            CopySource::Table { name, columns } => (name, columns),
        };
        let name = QualifiedName::new(name)?;
        let position = (binder.locate)(name.at);
        if !name.is_public() && !name.is_temporary() {
            return Err(Error::unsupported("COPY of a system catalog")
                .with_hint("Use COPY (SELECT …) TO.")
                .at(position));
        }
        if let Some(catalog::Relation::Object(object)) = binder.catalog.named(&name)
            && object.view().is_some()
        {
            return Err(of_view(&object.name, copy.from));
        }
        let table = binder
            .catalog
            .named_table(&name)
            .cloned()
            .map_err(|error| error.at(position))?;
        let mut columns = Vec::new();
        for ident in names {
            let folded = fold(ident);
            let column = table.column(&folded).ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!(
                        "column \"{folded}\" of relation \"{}\" does not exist",
                        table.name
                    ),
                )
            })?;
            if columns.contains(&column) {
                return Err(Error::new(
                    SqlState::DUPLICATE_COLUMN,
                    format!("column \"{folded}\" specified more than once"),
                ));
            }
            columns.push(column);
        }
        let is_computed = |column: usize| {
            let generation = table.columns[column].generation.as_ref();
            generation.is_some_and(|generation| generation.expression().is_some())
        };
        if names.is_empty() {
            columns.extend((0..table.columns.len()).filter(|column| !is_computed(*column)));
        } else if let Some(column) = columns.iter().find(|column| is_computed(**column)) {
            let name = &table.columns[*column].name;
            return Err(Error::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("column \"{name}\" is a generated column"),
            )
            .with_detail("Generated columns cannot be used in COPY."));
        }
        let names: Vec<String> = columns
            .iter()
            .map(|&column| table.columns[column].name.clone())
            .collect();
        let format = CopyFormat::new(&copy.options, copy.from, &names, binder.locate)?;
        if !copy.from {
            let query = table_query(&table, &names, binder)?;
            return Ok(Self::Out(CopyOutPlan { query, format }));
        }
        binder.needs.table(table.oid, Privileges::INSERT);
        let mut defaults = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            let made = column.generation.as_ref();
            let made = made.is_some_and(crate::catalog::Generation::is_identity);
            if !columns.contains(&position) && (made || column.default.is_some()) {
                defaults.push((position, default_expression(&table, column, binder)?));
            }
        }
        let rules = Rules::bind(&table, binder.catalog, binder.session)?;
        Ok(Self::In(CopyInPlan {
            rules,
            table,
            columns,
            defaults,
            format,
        }))
    }
}

/// SQLSTATE 42809: COPY of a view, which has no rows of its own.
fn of_view(view: &str, from: bool) -> Error {
    let (direction, hint) = match from {
        true => (
            "to",
            "To enable copying to a view, provide an INSTEAD OF INSERT trigger.",
        ),
        false => ("from", "Try the COPY (SELECT ...) TO variant."),
    };
    Error::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("cannot copy {direction} view \"{view}\""),
    )
    .with_hint(hint)
}

/// A query that reads the given columns of a table.
fn table_query(
    table: &Table,
    columns: &[String],
    binder: &mut Binder<'_>,
) -> Result<Arc<QueryPlan>> {
    let name = |text: &str| Name {
        text: text.into(),
        at: 0,
    };
    let targets = columns.iter().map(|column| {
        let kind = ExprKind::Column {
            path: Path(vec![name(column)]),
            star: false,
        };
        Target::Expr(Expr { at: 0, kind }, None)
    });
    let relation = Relation {
        name: Path(vec![name(table.schema()), name(&table.name)]),
        only: false,
    };
    let select = Select::from_relation(relation, targets.collect());
    let query = Query {
        at: 0,
        with: None,
        body: Body::Select(Box::new(select)),
        order: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
    };
    select::plan_query(binder, &query).map(Arc::new)
}
