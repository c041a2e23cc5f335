//! The catalog: which tables there are, as a snapshot shows it.
//!
//! The catalog lives in ordinary versioned rows, in three storages that are always
//! there:
//!
//! ```text
//!   storage 1   one row: the catalog's version, and the counters that names are
//!               drawn from
//!   storage 2   one row a table: its number, and its description with columns,
//!               indexes and constraints, its owner and what is granted on it
//!   storage 3   one row a role; one for what is granted on the schema
//! ```
//!
//! A change of the schema locks the version row, writes descriptions and a new
//! version, all in its transaction. A statement reads the version in its own
//! snapshot, one point read, and takes the [`Catalog`] made for that version from
//! a cache, or makes it from the rows its snapshot shows. So every snapshot has the
//! schema that belongs to it, a transaction sees its own changes before others do,
//! and rollback needs nothing further:
//!
//! ```text
//!   version 7 ───────────────────────────────── 9 ──────▶
//!                 alter table …   (8, uncommitted) commit
//!     begin repeatable read … select  sees 7 …  select  sees 7
//! ```
//!
//! Invariants:
//! - A version number is used for one state of the catalog only, a rolled back one
//!   included. That is what lets catalogs be cached by it.
//! - A table's number is not its storage's: TRUNCATE and rewrites make a new
//!   storage, and rolling back is keeping the old one.
//! - Names, numbers of tables and indexes, and schema versions come from counters
//!   that never go back while the process lives; across restarts they go on from
//!   what was committed and from what the engine still knows.

mod description;
mod followed;
mod index;
mod name;
mod needs;
mod quote;
mod row_text;
mod store;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use followed::FollowedCatalog;
pub use index::{Index, KeyColumn};
pub use name::{QualifiedName, fold};
pub use needs::Needs;
pub(crate) use quote::quote_identifier;
pub(crate) use row_text::{key_text, row_text, value_text};
pub(crate) use store::{AccessRow, CATALOG_STORAGES, Store, lock_version};
pub use table::{Table, TableColumn};

use crate::access::{Access, Kind, Privileges};
use crate::error::{Error, Result, SqlState};

/// The schema that tables are in.
pub const PUBLIC: &str = "public";

/// The first number for objects of users, as in PostgreSQL. Smaller ones are for
/// the system's.
pub(crate) const FIRST_USER_OID: u32 = 16_384;

/// One state of the schema. Immutable: a change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    version: u64,
    tables: BTreeMap<u32, Arc<Table>>,
    /// Tables and indexes share their names' space: by name, the table's number.
    names: BTreeMap<String, u32>,
    access: Arc<Access>,
}

/// What a name in `public` stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// An index of a table.
    Index(Arc<Table>, Arc<Index>),
}

impl Catalog {
    pub(crate) fn new(
        version: u64,
        tables: impl IntoIterator<Item = Arc<Table>>,
        access: Arc<Access>,
    ) -> Self {
        let mut catalog = Self {
            version,
            access,
            ..Self::default()
        };
        for table in tables {
            catalog.names.insert(table.name.clone(), table.oid);
            for index in &table.indexes {
                catalog.names.insert(index.name.clone(), table.oid);
            }
            catalog.tables.insert(table.oid, table);
        }
        catalog
    }

    /// Which state this is.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Roles, and what they may do.
    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// All tables, by their numbers.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The table with this number.
    #[must_use]
    pub fn table_by_oid(&self, oid: u32) -> Option<&Arc<Table>> {
        self.tables.get(&oid)
    }

    /// Whether a role may read the rows of a table.
    #[must_use]
    pub fn may_read(&self, role: u32, table: &Table) -> bool {
        let may = self.access.privileges(role, &table.owned, Kind::Table);
        may.include(Privileges::SELECT)
    }

    /// What this name in `public` stands for.
    #[must_use]
    pub fn relation(&self, name: &str) -> Option<Relation> {
        let table = self.tables.get(self.names.get(name)?)?;
        if table.name == name {
            return Some(Relation::Table(Arc::clone(table)));
        }
        let index = table.indexes.iter().find(|index| index.name == name)?;
        Some(Relation::Index(Arc::clone(table), Arc::clone(index)))
    }

    /// The table of this name in `public`.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        let Some(table) = self
            .names
            .get(name)
            .and_then(|number| self.tables.get(number))
        else {
            return Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{name}\" does not exist"),
            ));
        };
        if table.name != name {
            return Err(Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a table"),
            ));
        }
        Ok(table)
    }

    /// A name in `public` that nothing has yet, made from these parts as
    /// PostgreSQL makes them: joined, cut to 63 bytes, and numbered if taken.
    #[must_use]
    pub fn free_name(&self, table: &str, column: Option<&str>, suffix: &str) -> String {
        let stem = match column {
            Some(column) => format!("{table}_{column}"),
            None => table.to_owned(),
        };
        (0..)
            .map(|number: u32| {
                let suffix = match number {
                    0 => format!("_{suffix}"),
                    _ => format!("_{suffix}{number}"),
                };
                let room = crate::catalog::MAX_NAME_BYTES.saturating_sub(suffix.len());
                format!("{}{suffix}", truncate_name(&stem, room))
            })
            .find(|name| !self.names.contains_key(name))
            .expect("some number is free")
    }
}

/// Most bytes of a name; longer ones are cut, as in PostgreSQL.
pub const MAX_NAME_BYTES: usize = 63;

/// The longest beginning of `name` that has at most `bytes` bytes.
#[must_use]
pub fn truncate_name(name: &str, bytes: usize) -> &str {
    if name.len() <= bytes {
        return name;
    }
    let mut end = bytes;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
