//! Names of tables and columns, as statements write them.

use sqlparser::ast;
use sqlparser::tokenizer::Location;

use super::{MAX_NAME_BYTES, PUBLIC, truncate_name};
use crate::error::{Error, Result, SqlState};

/// A name as the catalog has it: folded to lower case unless quoted, and cut.
#[must_use]
pub fn fold(ident: &ast::Ident) -> String {
    let name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    truncate_name(&name, MAX_NAME_BYTES).to_owned()
}

/// A table's or index's name, with its schema if it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualifiedName {
    /// The schema.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// Where it stands.
    pub location: Location,
}

impl QualifiedName {
    /// Takes a name apart. The database's name may stand before the schema.
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

    /// Whether it may stand for something in `public`.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.schema.as_deref().is_none_or(|schema| schema == PUBLIC)
    }

    /// Checks that it names something that users define, which is in `public`.
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
