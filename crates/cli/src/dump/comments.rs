//! Reader of comments on tables, views, their columns, indexes and constraints.

use tokio_postgres::Client;

use super::schema::text;
use crate::client::rows as ask;

const ON_RELATIONS: &str = "\
    SELECT c.relkind, pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(c.relname), \
    pg_catalog.quote_ident(a.attname), pg_catalog.quote_literal(d.description) \
    FROM pg_catalog.pg_description d \
    JOIN pg_catalog.pg_class c ON c.oid = d.objoid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    LEFT JOIN pg_catalog.pg_attribute a \
    ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 \
    WHERE d.classoid = 1259 \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'coeval') \
    ORDER BY n.nspname, c.relname, d.objsubid";

const ON_CONSTRAINTS: &str = "\
    SELECT pg_catalog.quote_ident(k.conname), pg_catalog.quote_ident(n.nspname), \
    pg_catalog.quote_ident(c.relname), pg_catalog.quote_literal(d.description) \
    FROM pg_catalog.pg_description d \
    JOIN pg_catalog.pg_constraint k ON k.oid = d.objoid \
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE d.classoid = 2606 \
    ORDER BY n.nspname, c.relname, k.conname";

/// Reads the comments, each as a statement.
pub(super) async fn read(client: &Client) -> Result<Vec<String>, String> {
    let mut statements = Vec::new();
    for row in ask(client, ON_RELATIONS).await? {
        let name = format!("{}.{}", text(&row, 1)?, text(&row, 2)?);
        let of_what = match (row.get(3), text(&row, 0)?) {
            (Some(column), _) => format!("COLUMN {name}.{column}"),
            (None, "v") => format!("VIEW {name}"),
            (None, "i") => format!("INDEX {name}"),
            (None, "S") => format!("SEQUENCE {name}"),
            (None, _) => format!("TABLE {name}"),
        };
        let comment = text(&row, 4)?;
        statements.push(format!("COMMENT ON {of_what} IS {comment};"));
    }
    for row in ask(client, ON_CONSTRAINTS).await? {
        statements.push(format!(
            "COMMENT ON CONSTRAINT {} ON {}.{} IS {};",
            text(&row, 0)?,
            text(&row, 1)?,
            text(&row, 2)?,
            text(&row, 3)?
        ));
    }
    Ok(statements)
}
