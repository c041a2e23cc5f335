//! Reader of the schema: extensions, tables, columns, constraints and indexes as SQL statements.
//!
//! The reader queries the system catalogs, which answer from the transaction's snapshot,
//! and uses PostgreSQL's functions for definitions.

use tokio_postgres::{Client, SimpleQueryRow};

use super::sequences::Sequence;
use crate::client::rows as ask;

/// A table, and the statements that create it.
#[derive(Debug)]
pub(super) struct Table {
    /// The table's object identifier.
    pub(super) oid: String,
    /// Schema and name, quoted where necessary.
    pub(super) name: String,
    /// Names of the columns that have rows' values of their own, quoted where necessary, in
    /// order.
    pub(super) columns: Vec<String>,
    /// Approximate number of rows.
    pub(super) rows: u64,
    /// CREATE TABLE, without constraints.
    pub(super) create: String,
    /// The statements to run after the rows: constraints, then indexes.
    pub(super) afterwards: Vec<String>,
}

const TABLES: &str = "\
    SELECT c.oid, pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(c.relname), \
    CAST(c.reltuples AS bigint) \
    FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'coeval') \
    ORDER BY n.nspname, c.relname";

fn columns(table: &str) -> String {
    format!(
        "SELECT pg_catalog.quote_ident(a.attname), \
         pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
         pg_catalog.pg_get_expr(d.adbin, d.adrelid), \
         a.attidentity, a.attgenerated, a.attnum \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attnum"
    )
}

/// Query of a table's constraints, the primary key first.
fn constraints(table: &str) -> String {
    format!(
        "SELECT pg_catalog.quote_ident(conname), pg_catalog.pg_get_constraintdef(oid) \
         FROM pg_catalog.pg_constraint \
         WHERE conrelid = {table} AND contype IN ('p', 'u', 'c') \
         ORDER BY contype = 'p' DESC, contype, conname"
    )
}

/// Query of a table's indexes that belong to no constraint.
fn indexes(table: &str) -> String {
    format!(
        "SELECT pg_catalog.pg_get_indexdef(i.indexrelid) \
         FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid \
         WHERE i.indrelid = {table} AND k.oid IS NULL \
         ORDER BY c.relname"
    )
}

/// Reads all user tables, by name.
pub(super) async fn read(client: &Client, sequences: &[Sequence]) -> Result<Vec<Table>, String> {
    let mut tables = Vec::new();
    for row in ask(client, TABLES).await? {
        let oid = text(&row, 0)?;
        let name = format!("{}.{}", text(&row, 1)?, text(&row, 2)?);
        // PostgreSQL reports -1 for a table that was never analyzed.
        let rows = text(&row, 3)?.parse().unwrap_or(0);
        let mut columns_of = Vec::new();
        let mut lines = Vec::new();
        for column in ask(client, &columns(oid)).await? {
            let mut line = format!("    {} {}", text(&column, 0)?, text(&column, 1)?);
            let is_generated = column.get(5) == Some("s");
            match column.get(3) {
                Some(expression) if is_generated => {
                    line.push_str(&format!(" GENERATED ALWAYS AS ({expression}) STORED"));
                }
                Some(default) => line.push_str(&format!(" DEFAULT {default}")),
                None => {}
            }
            if text(&column, 2)? == "t" {
                line.push_str(" NOT NULL");
            }
            let identity = match column.get(4) {
                Some("a") => Some("ALWAYS"),
                Some("d") => Some("BY DEFAULT"),
                _ => None,
            };
            if let Some(how) = identity {
                let attribute = text(&column, 6)?;
                let mut options = sequences
                    .iter()
                    .filter_map(|sequence| sequence.identity_of(oid, attribute));
                let options = options.next().unwrap_or_default();
                line.push_str(&format!(" GENERATED {how} AS IDENTITY {options}"));
            }
            lines.push(line);
            // COPY takes no values for generated columns.
            if !is_generated {
                columns_of.push(text(&column, 0)?.to_owned());
            }
        }
        let create = if lines.is_empty() {
            format!("CREATE TABLE {name} (\n);")
        } else {
            format!("CREATE TABLE {name} (\n{}\n);", lines.join(",\n"))
        };
        let mut afterwards = Vec::new();
        for constraint in ask(client, &constraints(oid)).await? {
            afterwards.push(format!(
                "ALTER TABLE ONLY {name}\n    ADD CONSTRAINT {} {};",
                text(&constraint, 0)?,
                text(&constraint, 1)?
            ));
        }
        for index in ask(client, &indexes(oid)).await? {
            afterwards.push(format!("{};", text(&index, 0)?));
        }
        tables.push(Table {
            oid: oid.to_owned(),
            name,
            columns: columns_of,
            rows,
            create,
            afterwards,
        });
    }
    Ok(tables)
}

/// Query of the extensions that someone has created; those that every database has from the
/// beginning have numbers below.
const EXTENSIONS: &str = "\
    SELECT pg_catalog.quote_ident(x.extname), pg_catalog.quote_ident(n.nspname) \
    FROM pg_catalog.pg_extension x \
    JOIN pg_catalog.pg_namespace n ON n.oid = x.extnamespace \
    WHERE CAST(x.oid AS bigint) >= 16384 \
    ORDER BY x.extname";

/// Reads all extensions, as statements that create them.
pub(super) async fn extensions(client: &Client) -> Result<Vec<String>, String> {
    let rows = ask(client, EXTENSIONS).await?;
    rows.iter()
        .map(|row| {
            let (name, schema) = (text(row, 0)?, text(row, 1)?);
            Ok(format!(
                "CREATE EXTENSION IF NOT EXISTS {name} WITH SCHEMA {schema};"
            ))
        })
        .collect()
}

/// A value that must not be null.
pub(super) fn text(row: &SimpleQueryRow, column: usize) -> Result<&str, String> {
    row.get(column)
        .ok_or_else(|| "a system catalog holds a null where none should be".to_owned())
}
