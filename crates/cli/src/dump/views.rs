//! Reader of views: each as a CREATE VIEW, behind those that it reads.

use std::collections::BTreeMap;

use tokio_postgres::Client;

use super::schema::text;
use crate::client::rows as ask;

/// A view, and the statements that create it.
#[derive(Debug)]
pub(super) struct View {
    /// The view's object identifier.
    pub(super) oid: String,
    /// Schema and name, quoted where necessary.
    pub(super) name: String,
    /// CREATE VIEW.
    pub(super) create: String,
    /// Defaults of columns.
    pub(super) defaults: Vec<String>,
}

const VIEWS: &str = "\
    SELECT c.oid, pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(c.relname), \
    pg_catalog.pg_get_viewdef(c.oid), pg_catalog.array_to_string(c.reloptions, ', ') \
    FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'coeval') \
    ORDER BY c.oid";

/// Views, each with a relation that it reads.
const READS: &str = "\
    SELECT DISTINCT r.ev_class, d.refobjid \
    FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid \
    WHERE d.classid = 2618 AND d.refclassid = 1259 AND d.deptype = 'n' \
    ORDER BY 1, 2";

fn defaults(view: &str) -> String {
    format!(
        "SELECT pg_catalog.quote_ident(a.attname), pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
         FROM pg_catalog.pg_attribute a \
         JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {view} ORDER BY a.attnum"
    )
}

/// Reads all views of users, each behind those that it reads.
pub(super) async fn read(client: &Client) -> Result<Vec<View>, String> {
    let mut views = Vec::new();
    for row in ask(client, VIEWS).await? {
        let oid = text(&row, 0)?;
        let name = format!("{}.{}", text(&row, 1)?, text(&row, 2)?);
        let options = match row.get(4) {
            Some(options) if !options.is_empty() => format!(" WITH ({options})"),
            _ => String::new(),
        };
        let query = text(&row, 3)?;
        let mut statements = Vec::new();
        for column in ask(client, &defaults(oid)).await? {
            statements.push(format!(
                "ALTER VIEW {name} ALTER COLUMN {} SET DEFAULT {};",
                text(&column, 0)?,
                text(&column, 1)?
            ));
        }
        views.push(View {
            oid: oid.to_owned(),
            create: format!("CREATE VIEW {name}{options} AS\n{query}"),
            name,
            defaults: statements,
        });
    }
    if views.is_empty() {
        return Ok(views);
    }
    let mut reads: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in ask(client, READS).await? {
        let view = reads.entry(text(&row, 0)?.to_owned()).or_default();
        view.push(text(&row, 1)?.to_owned());
    }
    Ok(in_order(views, &reads))
}

/// The views, each behind those that it reads.
fn in_order(mut left: Vec<View>, reads: &BTreeMap<String, Vec<String>>) -> Vec<View> {
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |view: &View| {
            let read = reads.get(&view.oid).map_or(&[][..], Vec::as_slice);
            read.iter()
                .any(|oid| *oid != view.oid && left.iter().any(|other| other.oid == *oid))
        };
        // No view waits for itself by a detour: the server makes no such views.
        let next = left.iter().position(|view| !waits(view)).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_follows_those_that_it_reads() {
        let view = |oid: &str| View {
            oid: oid.to_owned(),
            name: String::new(),
            create: String::new(),
            defaults: Vec::new(),
        };
        let reads = [
            ("1".to_owned(), vec!["3".to_owned(), "9".to_owned()]),
            ("3".to_owned(), vec!["2".to_owned()]),
        ];
        let ordered = in_order(vec![view("1"), view("2"), view("3")], &reads.into());
        let oids: Vec<_> = ordered.iter().map(|view| view.oid.as_str()).collect();
        assert_eq!(oids, ["2", "3", "1"]);
    }
}
