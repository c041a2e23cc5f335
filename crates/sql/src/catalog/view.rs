//! Views: a query under a name.
//!
//! A view keeps its query as a text, and with it what the names in the text stand for:
//!
//! ```text
//!   create view v as select b, count(*) from t join u using (a) group by b
//!
//!   query      SELECT b,count(*) FROM t JOIN u USING (a) GROUP BY b
//!   relations  t = 16384 (1 a, 2 b)    u = 16390 (1 a, 2 c)
//!              name  OID  the columns of that time, by attribute number
//! ```
//!
//! **Names are frozen.** The binder reads the text with this dictionary in place of the
//! catalog's names and of the search path: a name of the text is the relation with that OID,
//! whatever it is called by then, and the relation has exactly the columns of that time, under
//! the names of that time. So none of what PostgreSQL follows by numbers can change what the
//! text means: a renamed table or column is found under its old name, a column that was added
//! later is not seen by `*`, by NATURAL JOIN or by an unqualified name, and a new table of the
//! same name earlier on the search path is another table. Renaming writes no view's row.
//!
//! The alternatives were to rewrite the texts of all views at each renaming, where a
//! USING clause cannot always be rewritten (PostgreSQL invents column aliases there), and to
//! store a bound tree, which ties catalog rows to the planner's data structures.
//!
//! What cannot be followed is refused while a view needs it: dropping a relation or a column,
//! and changing a column's type. For that a relation of the dictionary also lists the columns
//! that the query uses.

use std::sync::{Arc, OnceLock};

use coeval_sql_syntax::tree::Query;

use crate::error::{Error, Result};
use crate::record::{Reader, count, damaged, string};
use crate::value::{ColumnType, DataType};

/// A view.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Columns of the view; their attribute numbers count from 1 without gaps.
    pub columns: Vec<ViewColumn>,
    /// The query that makes its rows.
    pub definition: Arc<Definition>,
    /// Options such as `security_barrier`, in the order in which they are shown.
    pub options: Vec<(String, String)>,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub column_type: ColumnType,
    /// Default expression for rows inserted through the view, in SQL.
    pub default: Option<String>,
}

/// The query of a view, and what its names stand for.
#[derive(Debug)]
pub struct Definition {
    /// The query in SQL.
    pub text: String,
    /// The relations that it names.
    pub relations: Vec<Reference>,
    /// The parsed text.
    parsed: OnceLock<Arc<Query>>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.relations == other.relations
    }
}

/// A relation that a definition names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Schema, if the text has one in front of the name.
    pub schema: Option<String>,
    /// Name of the relation in the text.
    pub name: String,
    /// OID of the relation.
    pub oid: u32,
    /// Columns that the relation had: attribute number and name. Empty for a system table,
    /// whose columns are those of the program.
    pub columns: Vec<(i16, String)>,
    /// Attribute numbers of the columns that the query uses.
    pub used: Vec<i16>,
}

/// Kinds of WITH CHECK OPTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckScope {
    /// The condition of this view alone.
    Local,
    /// The conditions of this view and of those beneath it.
    Cascaded,
}

impl View {
    /// Whether an option is set to a true value.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.option(option)
            .is_some_and(|value| truth(value) == Some(true))
    }

    /// Value of an option.
    #[must_use]
    pub fn option(&self, option: &str) -> Option<&str> {
        let found = self.options.iter().find(|(name, _)| name == option);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the relations beneath are read with the rights of who reads the view, not
    /// with those of its owner.
    #[must_use]
    pub fn is_invokers(&self) -> bool {
        self.has("security_invoker")
    }

    /// What rows that are written through the view are checked against.
    #[must_use]
    pub fn check_option(&self) -> Option<CheckScope> {
        match self.option("check_option") {
            Some("local") => Some(CheckScope::Local),
            Some("cascaded") => Some(CheckScope::Cascaded),
            _ => None,
        }
    }

    /// Position of the column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// The truth that a word means as PostgreSQL reads options.
pub(crate) fn truth(word: &str) -> Option<bool> {
    let word = word.to_ascii_lowercase();
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    match word.as_str() {
        "1" | "on" => Some(true),
        "0" => Some(false),
        _ if begins("true", 1) || begins("yes", 1) => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) => Some(false),
        _ => None,
    }
}

impl Definition {
    /// A definition with this text, whose names stand for these relations.
    #[must_use]
    pub fn new(text: String, relations: Vec<Reference>) -> Self {
        Self {
            text,
            relations,
            parsed: OnceLock::new(),
        }
    }

    /// The parsed query; `parse` parses it if it has not been parsed yet.
    pub fn query(&self, parse: impl FnOnce(&str) -> Result<Query>) -> Result<Arc<Query>> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(Arc::clone(parsed));
        }
        let parsed = parse(&self.text)
            .map_err(|error| Error::internal(format!("a view cannot be read: {error}")))?;
        Ok(Arc::clone(self.parsed.get_or_init(|| Arc::new(parsed))))
    }

    /// The relation that a name of the text stands for.
    #[must_use]
    pub fn reference(&self, schema: Option<&str>, name: &str) -> Option<&Reference> {
        let mut relations = self.relations.iter();
        relations.find(|each| each.name == name && each.schema.as_deref() == schema)
    }

    /// Whether the query reads this relation; with an attribute number, whether it uses that
    /// column of it.
    #[must_use]
    pub fn depends_on(&self, oid: u32, attribute: Option<i16>) -> bool {
        self.relations.iter().any(|each| {
            each.oid == oid && attribute.is_none_or(|attribute| each.used.contains(&attribute))
        })
    }
}

impl Reference {
    /// The name in the text of the column with this attribute number; `None` for a column
    /// that did not exist.
    #[must_use]
    pub fn column(&self, attribute: i16) -> Option<&str> {
        let found = self.columns.iter().find(|(number, _)| *number == attribute);
        found.map(|(_, name)| name.as_str())
    }
}

const HAS_DEFAULT: u8 = 1;
const HAS_SCHEMA: u8 = 1;

/// Encodes a view:
///
/// ```text
/// u16 n × column   { string name, u32 type, i32 modifier, u8 flags (1 has default),
///                    [string default] }
/// string query
/// u16 n × relation { u8 flags (1 has schema), [string schema], string name, u32 oid,
///                    u16 n × { u16 attribute, string name }, u16 n × u16 attribute used }
/// u16 n × option   { string name, string value }
/// ```
pub(super) fn encode(view: &View, out: &mut Vec<u8>) {
    count(out, view.columns.len());
    for column in &view.columns {
        string(out, &column.name);
        out.extend_from_slice(&column.column_type.data_type.oid().to_le_bytes());
        out.extend_from_slice(&column.column_type.modifier.to_le_bytes());
        out.push(if column.default.is_some() {
            HAS_DEFAULT
        } else {
            0
        });
        if let Some(default) = &column.default {
            string(out, default);
        }
    }
    string(out, &view.definition.text);
    count(out, view.definition.relations.len());
    for each in &view.definition.relations {
        out.push(if each.schema.is_some() { HAS_SCHEMA } else { 0 });
        if let Some(schema) = &each.schema {
            string(out, schema);
        }
        string(out, &each.name);
        out.extend_from_slice(&each.oid.to_le_bytes());
        count(out, each.columns.len());
        for (attribute, name) in &each.columns {
            out.extend_from_slice(&(*attribute as u16).to_le_bytes());
            string(out, name);
        }
        count(out, each.used.len());
        for attribute in &each.used {
            out.extend_from_slice(&(*attribute as u16).to_le_bytes());
        }
    }
    count(out, view.options.len());
    for (name, value) in &view.options {
        string(out, name);
        string(out, value);
    }
}

/// Decodes a view.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<View> {
    let columns = reader.list(|reader| {
        let name = reader.string()?;
        let number = reader.u32()?;
        let data_type = DataType::from_oid(number)
            .ok_or_else(|| damaged(&format!("no column is of type {number}")))?;
        let modifier = reader.i32()?;
        let default = match reader.u8()? & HAS_DEFAULT {
            0 => None,
            _ => Some(reader.string()?),
        };
        Ok(ViewColumn {
            name,
            column_type: ColumnType {
                data_type,
                modifier,
            },
            default,
        })
    })?;
    let text = reader.string()?;
    let relations = reader.list(|reader| {
        let schema = match reader.u8()? & HAS_SCHEMA {
            0 => None,
            _ => Some(reader.string()?),
        };
        Ok(Reference {
            schema,
            name: reader.string()?,
            oid: reader.u32()?,
            columns: reader.list(|reader| Ok((attribute(reader)?, reader.string()?)))?,
            used: reader.list(attribute)?,
        })
    })?;
    let options = reader.list(|reader| Ok((reader.string()?, reader.string()?)))?;
    Ok(View {
        columns,
        definition: Arc::new(Definition::new(text, relations)),
        options,
    })
}

fn attribute(reader: &mut Reader<'_>) -> Result<i16> {
    i16::try_from(reader.u16()?).map_err(|_| damaged("a column's number is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View {
            columns: vec![
                ViewColumn {
                    name: "b".to_owned(),
                    column_type: DataType::Text.into(),
                    default: Some("'x'".to_owned()),
                },
                ViewColumn {
                    name: "count".to_owned(),
                    column_type: DataType::Int8.into(),
                    default: None,
                },
            ],
            definition: Arc::new(Definition::new(
                "SELECT b,count(*) FROM public.t GROUP BY b".to_owned(),
                vec![Reference {
                    schema: Some("public".to_owned()),
                    name: "t".to_owned(),
                    oid: 16_384,
                    columns: vec![(1, "a".to_owned()), (3, "b".to_owned())],
                    used: vec![3],
                }],
            )),
            options: vec![("security_barrier".to_owned(), "true".to_owned())],
        }
    }

    #[test]
    fn a_view_comes_back() {
        let view = view();
        let mut bytes = Vec::new();
        encode(&view, &mut bytes);
        let mut reader = Reader(&bytes);
        let read = decode(&mut reader).unwrap();
        reader.end().unwrap();
        assert_eq!(format!("{read:?}"), format!("{view:?}"));
        for length in 0..bytes.len() {
            let mut reader = Reader(&bytes[..length]);
            assert!(decode(&mut reader).is_err());
        }
    }

    #[test]
    fn a_definition_depends_on_what_it_uses() {
        let definition = view().definition;
        assert!(definition.depends_on(16_384, None));
        assert!(definition.depends_on(16_384, Some(3)));
        assert!(!definition.depends_on(16_384, Some(1)));
        assert!(!definition.depends_on(16_385, None));
        assert_eq!(definition.reference(None, "t"), None);
        let reference = definition.reference(Some("public"), "t").unwrap();
        assert_eq!(reference.column(3), Some("b"));
        assert_eq!(reference.column(2), None);
    }

    #[test]
    fn words_of_options_are_read_as_postgresql_reads_them() {
        for word in ["t", "TRUE", "yes", "y", "on", "1"] {
            assert_eq!(truth(word), Some(true), "{word}");
        }
        for word in ["f", "false", "No", "off", "of", "0"] {
            assert_eq!(truth(word), Some(false), "{word}");
        }
        for word in ["", "o", "2", "truer"] {
            assert_eq!(truth(word), None, "{word}");
        }
    }
}
