//! Names of tables and columns as statements write them, normalised for lookup.

use sqlparser::ast;
use sqlparser::tokenizer::Location;

use super::{MAX_NAME_BYTES, PUBLIC, truncate_name};
use crate::error::{Error, Result, SqlState};

/// Normalises an identifier for the catalog: folded to lower case unless quoted, and
/// cut to 63 bytes.
#[must_use]
pub fn fold(ident: &ast::Ident) -> String {
    let name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    truncate_name(&name, MAX_NAME_BYTES).to_owned()
}

/// Name of a table or index, with its schema if the statement qualifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// Schema, if given.
    pub schema: Option<String>,
    /// Name of the relation.
    pub name: String,
    /// Location of the name in the statement.
    pub location: Location,
}

impl QualifiedName {
    /// Splits a name at its dots. The database's name may precede the schema.
    pub fn new(name: &ast::ObjectName) -> Result<Self> {
        let mut parts = Vec::with_capacity(3);
        for part in &name.0 {
            let ident = part
                .as_ident()
                .ok_or_else(|| Error::unsupported("a name made by a function"))?;
            parts.push(ident);
        }
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [schema, name] | [_, schema, name] => (Some(fold(schema)), *name),
            _ => {
                return Err(Error::syntax(
                    "improper qualified name (too many dotted names)",
                ));
            }
        };
        Ok(Self {
            schema,
            name: fold(name),
            location: parts[0].span.start,
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
