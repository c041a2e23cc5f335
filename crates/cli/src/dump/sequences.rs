//! Sequences in a dump: what creates them, to which columns they belong, and where they are.
//!
//! A sequence is created before the tables, whose defaults take its numbers, and belongs to a
//! column once that is there. The sequence of an identity column is created with the column.
//! Where a sequence is follows the rows.

use tokio_postgres::Client;

use super::schema::text;
use crate::client::rows as ask;

/// A sequence, and the statements about it.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) oid: String,
    /// Schema and name, quoted where necessary.
    pub(super) name: String,
    /// The column it belongs to: the table's OID, the attribute number, and both by name.
    column: Option<(String, String, String)>,
    /// Whether it is the column's identity.
    pub(super) is_identity: bool,
    /// How it counts, as options.
    options: String,
    /// Its type, if it is not bigint.
    data_type: Option<String>,
    /// Its last number, and whether it was handed out.
    last: (String, String),
}

const SEQUENCES: &str = "\
    SELECT c.oid, pg_catalog.quote_ident(n.nspname), pg_catalog.quote_ident(c.relname), \
    pg_catalog.format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax, \
    s.seqcache, s.seqcycle, d.deptype, d.refobjid, d.refobjsubid, \
    pg_catalog.quote_ident(tn.nspname), pg_catalog.quote_ident(t.relname), \
    pg_catalog.quote_ident(a.attname) \
    FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid \
    LEFT JOIN pg_catalog.pg_depend d ON d.classid = 1259 AND d.objid = c.oid AND d.objsubid = 0 \
    AND d.refclassid = 1259 AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i') \
    LEFT JOIN pg_catalog.pg_class t ON t.oid = d.refobjid \
    LEFT JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace \
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
    WHERE c.relkind = 'S' ORDER BY n.nspname, c.relname";

/// Reads all sequences, by name.
pub(super) async fn read(client: &Client) -> Result<Vec<Sequence>, String> {
    let mut sequences = Vec::new();
    for row in ask(client, SEQUENCES).await? {
        let name = format!("{}.{}", text(&row, 1)?, text(&row, 2)?);
        let last = ask(client, &format!("SELECT last_value, is_called FROM {name}")).await?;
        let last = last
            .first()
            .ok_or_else(|| format!("{name} says nothing of its numbers"))?;
        let last = (text(last, 0)?.to_owned(), text(last, 1)?.to_owned());
        let cycle = match text(&row, 9)? {
            "t" => " CYCLE",
            _ => "",
        };
        let options = format!(
            "START WITH {} INCREMENT BY {} MINVALUE {} MAXVALUE {} CACHE {}{cycle}",
            text(&row, 4)?,
            text(&row, 5)?,
            text(&row, 6)?,
            text(&row, 7)?,
            text(&row, 8)?,
        );
        let data_type = text(&row, 3)?;
        let column = match row.get(11) {
            Some(table) => {
                let (schema, relation) = (text(&row, 13)?, text(&row, 14)?);
                let column = format!("{schema}.{relation}.{}", text(&row, 15)?);
                Some((table.to_owned(), text(&row, 12)?.to_owned(), column))
            }
            None => None,
        };
        sequences.push(Sequence {
            oid: text(&row, 0)?.to_owned(),
            name,
            column,
            is_identity: row.get(10) == Some("i"),
            options,
            data_type: (data_type != "bigint").then(|| data_type.to_owned()),
            last,
        });
    }
    Ok(sequences)
}

impl Sequence {
    /// The statement that creates it.
    pub(super) fn create(&self) -> String {
        let data_type = self.data_type.as_ref();
        let data_type = data_type.map_or(String::new(), |name| format!(" AS {name}"));
        format!("CREATE SEQUENCE {}{data_type} {};", self.name, self.options)
    }

    /// The statement that gives it to its column.
    pub(super) fn give(&self) -> Option<String> {
        let (_, _, column) = self.column.as_ref()?;
        Some(format!("ALTER SEQUENCE {} OWNED BY {column};", self.name))
    }

    /// The statement that says where it is.
    pub(super) fn set(&self) -> String {
        let (last, called) = &self.last;
        let called = called == "t";
        let name = self.name.replace('\'', "''");
        format!("SELECT pg_catalog.setval('{name}', {last}, {called});")
    }

    /// What stands behind AS IDENTITY, if it is the identity of this column.
    pub(super) fn identity_of(&self, table: &str, attribute: &str) -> Option<String> {
        let (owner, number, _) = self.column.as_ref()?;
        let is_of = self.is_identity && owner == table && number == attribute;
        is_of.then(|| format!("(SEQUENCE NAME {} {})", self.name, self.options))
    }
}
