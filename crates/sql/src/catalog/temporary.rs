//! The session's temporary tables in a catalog: names that are looked up before all others.
//!
//! A session sees no temporary tables but its own, so their schema has one name and one OID
//! in every session. It exists once the session has a temporary table.

use std::sync::Arc;

use coeval_types::StorageId;

use super::{Catalog, PUBLIC, QualifiedName, Relation, Table};
use crate::error::{Error, Result, SqlState};

/// Name of the schema of the session's temporary tables.
pub const TEMPORARY: &str = "pg_temp_1";

/// Another name of that schema, which definitions of its objects have.
pub(crate) const ALIAS: &str = "pg_temp";

/// The bit of the numbers of storages in a session's own engine.
pub(crate) const OWN_STORAGES: u32 = 1 << 31;

/// Whether a storage is in the session's own engine: that of a temporary table.
pub(crate) const fn is_own(storage: StorageId) -> bool {
    storage.0 & OWN_STORAGES != 0
}

impl Table {
    /// Name of the table's schema, as errors name it.
    #[must_use]
    pub fn schema(&self) -> &'static str {
        match self.is_temporary() {
            true => TEMPORARY,
            false => PUBLIC,
        }
    }

    /// Whether the table is a temporary table of the session that sees it.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        is_own(self.storage)
    }
}

/// Whether a name is that of the schema of the session's temporary tables.
pub(crate) fn is_temporary_schema(name: &str) -> bool {
    name == TEMPORARY || name == ALIAS
}

impl QualifiedName {
    /// Whether the statement names the schema of the session's temporary tables.
    pub(crate) fn is_temporary(&self) -> bool {
        self.schema.as_deref().is_some_and(is_temporary_schema)
    }
}

impl Catalog {
    /// This state with a session's temporary tables, under a version of its own.
    pub(crate) fn with_temporary(
        &self,
        version: u64,
        tables: impl IntoIterator<Item = Arc<Table>>,
    ) -> Self {
        let mut catalog = self.clone();
        catalog.version = version;
        for table in tables {
            catalog.add_table(table);
        }
        catalog
    }

    /// Whether the session has temporary tables.
    #[must_use]
    pub fn has_temporary(&self) -> bool {
        !self.temporary.is_empty()
    }

    /// The temporary table or index of this name.
    #[must_use]
    pub fn temporary_relation(&self, name: &str) -> Option<Relation> {
        let table = self.tables.get(self.temporary.get(name)?)?;
        if table.name == name {
            return Some(Relation::Table(Arc::clone(table)));
        }
        let index = table.indexes.iter().find(|index| index.name == name)?;
        Some(Relation::Index(Arc::clone(table), Arc::clone(index)))
    }

    /// The temporary table of this name; `None` if no temporary relation has it.
    pub(crate) fn temporary_table(&self, name: &str) -> Option<Result<&Arc<Table>>> {
        let table = self.tables.get(self.temporary.get(name)?)?;
        Some(match table.name == name {
            true => Ok(table),
            false => Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a table"),
            )),
        })
    }

    /// What the name of a statement that defines or changes something resolves to: a
    /// temporary relation hides a permanent one. The name's schema has been checked.
    pub(crate) fn named(&self, name: &QualifiedName) -> Option<Relation> {
        let own = match &name.schema {
            None => self.temporary_relation(&name.name),
            Some(_) if name.is_temporary() => return self.temporary_relation(&name.name),
            Some(_) => None,
        };
        own.or_else(|| self.relation(&name.name))
    }

    /// The table of this name, for a statement that changes its rows or its definition.
    pub(crate) fn named_table(&self, name: &QualifiedName) -> Result<&Arc<Table>> {
        if name.schema.is_none() || name.is_temporary() {
            match self.temporary_table(&name.name) {
                Some(found) => return found,
                None if name.is_temporary() => return Err(missing(name)),
                None => {}
            }
        }
        name.require_public()?;
        self.table(&name.name)
    }
}

/// SQLSTATE 42P01 for a name with the schema that the statement gives.
fn missing(name: &QualifiedName) -> Error {
    let schema = name.schema.as_deref().unwrap_or(TEMPORARY);
    Error::new(
        SqlState::UNDEFINED_TABLE,
        format!("relation \"{schema}.{}\" does not exist", name.name),
    )
}
