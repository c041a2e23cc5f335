//! Names of tables and columns as statements write them, normalised for lookup.

use coeval_sql_syntax::tree::{Name, Path};

use super::{MAX_NAME_BYTES, PUBLIC, truncate_name};
use crate::error::{Error, Result, SqlState};

/// A name for lookup in the catalog: the parser has folded it to lower case unless it is
/// quoted; here it is cut to 63 bytes.
#[must_use]
pub fn fold(name: &Name) -> String {
    truncate_name(&name.text, MAX_NAME_BYTES).to_owned()
}

/// Name of a table or index, with its schema if the statement qualifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// Schema, if given.
    pub schema: Option<String>,
    /// Name of the relation.
    pub name: String,
    /// First byte of the name in the text that was parsed.
    pub at: u32,
}

impl QualifiedName {
    /// Splits a name at its dots. The database's name may precede the schema.
    pub fn new(name: &Path) -> Result<Self> {
        let (schema, last) = match name.0.as_slice() {
            [last] => (None, last),
            [schema, last] | [_, schema, last] => (Some(fold(schema)), last),
            _ => {
                return Err(Error::syntax(
                    "improper qualified name (too many dotted names)",
                ));
            }
        };
        Ok(Self {
            schema,
            name: fold(last),
            at: name.at(),
        })
    }

    /// Whether the name may refer to a relation in `public`.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.schema.as_deref().is_none_or(|schema| schema == PUBLIC)
    }

    /// Fails unless the name refers to `public`, the only schema for user objects.
    pub fn require_public(&self) -> Result<()> {
        match self.schema.as_deref() {
            None | Some(PUBLIC) => Ok(()),
            Some(schema @ ("pg_catalog" | "information_schema" | "coeval")) => Err(Error::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{schema}\" is a system schema"),
            )),
            Some(schema) => Err(Error::new(
                SqlState::INVALID_SCHEMA_NAME,
                format!("schema \"{schema}\" does not exist"),
            )),
        }
    }
}
