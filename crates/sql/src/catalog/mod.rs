//! The schema catalog: the tables, indexes, roles and privileges that a snapshot shows.
//!
//! The catalog is stored in ordinary versioned rows, in three storages that always
//! exist:
//!
//! ```text
//!   storage 1   one row: the catalog's version, and the counters that names are
//!               generated from
//!   storage 2   one row per table: its OID, and its descriptor with columns,
//!               indexes and constraints, its owner and its privileges;
//!               one row per sequence and view, per extension, and per object with comments
//!   storage 3   one row per role; one for the privileges on the schema; one for the settings
//!               of a role, the database, or a role in it
//! ```
//!
//! A schema change locks the version row, and writes descriptors and a new version, all
//! in its transaction. A statement reads the version in its own snapshot (one point
//! read), and takes the [`Catalog`] of that version from a cache, or loads it from the
//! rows that its snapshot shows. So every snapshot has its matching schema, a
//! transaction sees its own schema changes before others do, and a rollback needs no
//! further work:
//!
//! ```text
//!   version 7 ───────────────────────────────── 9 ──────▶
//!                 alter table …   (8, uncommitted) commit
//!     begin repeatable read … select  sees 7 …  select  sees 7
//! ```
//!
//! Invariants:
//! - A version number identifies one state of the catalog, even a rolled back one. This
//!   lets sessions cache catalogs by version.
//! - A table's OID differs from its storage id: TRUNCATE and rewrites make a new
//!   storage, and a rollback keeps the old one.
//! - Names, OIDs of tables and indexes, and schema versions come from counters that
//!   never go back while the process lives; after a restart they continue after what
//!   was committed and what the engine still knows.

mod comment;
mod description;
mod extension;
mod followed;
mod generation;
mod index;
mod name;
mod needs;
mod object;
mod over_columns;
mod quote;
mod row_text;
mod sequence;
pub(crate) mod statistics_storage;
mod store;
mod table;
mod temporary;
mod versions;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use comment::{CONSTRAINTS, Comment, Comments, DATABASES, RELATIONS, ROLES, SCHEMAS, TYPES};
pub(crate) use description::needed_version;
pub use extension::{BUILT_IN, BuiltIn, Extension};
pub use followed::FollowedCatalog;
pub use generation::Generation;
pub use index::{Index, KeyColumn};
pub use name::{QualifiedName, fold};
pub use needs::Needs;
pub use object::{Content, Object};
pub(crate) use over_columns::over_columns;
pub(crate) use quote::quote_identifier;
pub(crate) use row_text::{key_text, row_text, value_text};
pub use sequence::Sequence;
pub(crate) use store::{AccessRow, CATALOG_STORAGES, Store, lock_version};
pub use table::{Check, Table, TableColumn};
pub use temporary::TEMPORARY;
pub(crate) use temporary::{ALIAS as TEMPORARY_ALIAS, OWN_STORAGES, is_own, is_temporary_schema};
pub use versions::{NAMED_OBJECTS, SQL_OBJECTS};
pub(crate) use view::truth;
pub use view::{CheckScope, Definition, Reference, View, ViewColumn};

use coeval_txn::UnbuiltIndexes;

use crate::access::{Access, ObjectKind, Privileges};
use crate::error::{Error, Result, SqlState};

/// The only schema for user tables.
pub const PUBLIC: &str = "public";

/// First OID for objects of users, as in PostgreSQL. Smaller OIDs belong to system
/// objects.
pub(crate) const FIRST_USER_OID: u32 = 16_384;

/// One state of the catalog. Immutable: a schema change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    version: u64,
    tables: BTreeMap<u32, Arc<Table>>,
    /// Sequences and views by OID.
    objects: BTreeMap<u32, Arc<Object>>,
    /// Extensions by name.
    extensions: BTreeMap<String, Arc<Extension>>,
    /// OID of the table, sequence or view by name; with indexes they share one namespace.
    names: BTreeMap<String, u32>,
    /// Table OID by name, of the session's temporary tables and their indexes.
    temporary: BTreeMap<String, u32>,
    /// Comments on objects.
    comments: Arc<Comments>,
    access: Arc<Access>,
}

/// A relation that a name in `public` resolves to.
#[derive(Clone, Debug)]
pub enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// An index of a table.
    Index(Arc<Table>, Arc<Index>),
    /// A sequence or a view.
    Object(Arc<Object>),
}

impl Catalog {
    pub(crate) fn new(
        version: u64,
        tables: impl IntoIterator<Item = Arc<Table>>,
        objects: impl IntoIterator<Item = Arc<Object>>,
        access: Arc<Access>,
    ) -> Self {
        let mut catalog = Self {
            version,
            access,
            ..Self::default()
        };
        for table in tables {
            catalog.add_table(table);
        }
        for object in objects {
            catalog.names.insert(object.name.clone(), object.oid);
            catalog.objects.insert(object.oid, object);
        }
        catalog
    }

    fn add_table(&mut self, table: Arc<Table>) {
        let names = match table.is_temporary() {
            true => &mut self.temporary,
            false => &mut self.names,
        };
        names.insert(table.name.clone(), table.oid);
        for index in &table.indexes {
            names.insert(index.name.clone(), table.oid);
        }
        self.tables.insert(table.oid, table);
    }

    /// This state with these extensions.
    pub(crate) fn with_extensions(
        mut self,
        extensions: impl IntoIterator<Item = Arc<Extension>>,
    ) -> Self {
        let named = extensions.into_iter().map(|each| (each.name.clone(), each));
        self.extensions.extend(named);
        self
    }

    /// The extension of this name, if it was created.
    #[must_use]
    pub fn extension(&self, name: &str) -> Option<&Arc<Extension>> {
        self.extensions.get(name)
    }

    /// All extensions that were created, by name.
    pub fn extensions(&self) -> impl Iterator<Item = &Arc<Extension>> {
        self.extensions.values()
    }

    /// This state with these comments.
    pub(crate) fn with_comments(mut self, comments: Arc<Comments>) -> Self {
        self.comments = comments;
        self
    }

    /// Comments on objects, by class and object.
    #[must_use]
    pub fn comments(&self) -> &Arc<Comments> {
        &self.comments
    }

    /// The comment on an object, or on a part of one, in the numbers of `pg_description`.
    #[must_use]
    pub fn comment(&self, class: u32, object: u32, part: i32) -> Option<&str> {
        let comment = self.comments.get(&(class, object))?;
        comment.texts.get(&part).map(String::as_str)
    }

    /// This state as plans may use it while indexes are being built: without them. It has a
    /// version of its own, so that plans are made anew when the last of them is built. Until
    /// then a plan may do without an index longer than it has to.
    pub(crate) fn without(&self, unbuilt: &UnbuiltIndexes) -> Self {
        let mut catalog = self.clone();
        // No term gets so far that a version has this bit.
        catalog.version |= 1 << (u64::BITS - 1);
        for table in catalog.tables.values_mut() {
            let storage = table.storage;
            let is_built = |index: &Index| !unbuilt.contains(&(storage, index.id));
            if table.indexes.iter().all(|index| is_built(index)) {
                continue;
            }
            let table = Arc::make_mut(table);
            for index in table.indexes.iter_mut().filter(|index| !is_built(index)) {
                Arc::make_mut(index).is_built = false;
            }
        }
        catalog
    }

    /// Version number of this state.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Roles and their privileges.
    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// All tables, ordered by OID.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The table with this OID.
    #[must_use]
    pub fn table_by_oid(&self, oid: u32) -> Option<&Arc<Table>> {
        self.tables.get(&oid)
    }

    /// All sequences and views, ordered by OID.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The sequence or view with this OID.
    #[must_use]
    pub fn object_by_oid(&self, oid: u32) -> Option<&Arc<Object>> {
        self.objects.get(&oid)
    }

    /// Whether a role may read the rows of a table.
    #[must_use]
    pub fn may_read(&self, role: u32, table: &Table) -> bool {
        let may = self
            .access
            .privileges(role, &table.owned, ObjectKind::Table);
        may.include(Privileges::SELECT)
    }

    /// Resolves a name in `public`; `None` if no relation has it.
    #[must_use]
    pub fn relation(&self, name: &str) -> Option<Relation> {
        let oid = self.names.get(name)?;
        if let Some(object) = self.objects.get(oid) {
            return Some(Relation::Object(Arc::clone(object)));
        }
        let table = self.tables.get(oid)?;
        if table.name == name {
            return Some(Relation::Table(Arc::clone(table)));
        }
        let index = table.indexes.iter().find(|index| index.name == name)?;
        Some(Relation::Index(Arc::clone(table), Arc::clone(index)))
    }

    /// The table of this name in `public`; error 42P01 if it does not exist.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>> {
        let Some(number) = self.names.get(name) else {
            return Err(Error::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation \"{name}\" does not exist"),
            ));
        };
        let table = self.tables.get(number);
        table.filter(|table| table.name == name).ok_or_else(|| {
            Error::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a table"),
            )
        })
    }

    /// An unused name in `public`, [generated](generated_name) from these parts.
    #[must_use]
    pub fn free_name(&self, table: &str, column: Option<&str>, suffix: &str) -> String {
        generated_name(table, column, suffix, |name| self.names.contains_key(name))
    }

    /// [`Catalog::free_name`] in the schema of this table, for one of its indexes.
    #[must_use]
    pub(crate) fn free_name_beside(
        &self,
        table: &Table,
        column: Option<&str>,
        suffix: &str,
    ) -> String {
        let names = match table.is_temporary() {
            true => &self.temporary,
            false => &self.names,
        };
        generated_name(&table.name, column, suffix, |name| names.contains_key(name))
    }
}

/// A name that is not taken, generated from these parts as PostgreSQL does: joined, cut to 63
/// bytes, and numbered if taken.
pub(crate) fn generated_name(
    table: &str,
    column: Option<&str>,
    suffix: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
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
            let budget = MAX_NAME_BYTES.saturating_sub(suffix.len());
            format!("{}{suffix}", truncate_name(&stem, budget))
        })
        .find(|name| !is_taken(name))
        .expect("some number is free")
}

/// Maximum length of a name in bytes; longer names are cut, as in PostgreSQL.
pub const MAX_NAME_BYTES: usize = 63;

/// The longest prefix of `name` that has at most `bytes` bytes, cut at a character
/// boundary.
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
