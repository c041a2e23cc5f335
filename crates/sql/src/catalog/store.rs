//! Catalog storage: loads and writes the catalog's rows, caches catalogs by version,
//! and serialises schema changes with a lock.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use coeval_txn::{
    Bounds, Direction, Insert, LockWait, LockedRow, ScanProgress, ScanRequest, ScanSource,
    Transaction, UnbuiltIndexes,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowBuilder, RowRef, StorageDefinition, StorageId,
    Term, planted,
};

use super::{
    Catalog, Comment, Comments, Extension, FIRST_USER_OID, Object, Table, comment, description,
    extension, object,
};
use crate::access::store::{self as access, SECRET_KEY};
use crate::access::{Access, Owned, OwnedSettings, Role, SettingOwner};
use crate::error::{Error, Result};
use crate::record::{FirstCell, damaged};

const VERSION_STORAGE: StorageId = StorageId(1);
const VERSION_INDEX: IndexId = IndexId(1);
pub(super) const TABLES_STORAGE: StorageId = StorageId(2);
const TABLES_INDEX: IndexId = IndexId(2);
const ACCESS_STORAGE: StorageId = StorageId(3);
const ACCESS_INDEX: IndexId = IndexId(3);
/// The storages of the catalog itself.
pub(crate) const CATALOG_STORAGES: [StorageId; 3] =
    [VERSION_STORAGE, TABLES_STORAGE, ACCESS_STORAGE];
/// First id for a user table's storage or index; smaller ids are reserved for the
/// catalog's own.
const FIRST_USER_NUMBER: u32 = 64;
/// Key of the version row.
const VERSION_KEY: &[u8] = &[0];
/// Schema version of the catalog's own storages, which never changes.
const CATALOG_SCHEMA: u64 = 1;
/// Number of cached catalogs: the newest, and those of transactions that began earlier
/// or are changing the schema.
const CACHED: usize = 8;

/// Counters for ids and versions. They never go back while the process lives, so no
/// number is used twice, even after a rollback.
///
/// A version names one state of the catalog for ever. So the upper half of its bits is the
/// term in which it was drawn: a leader whose last schema change was lost with it, and the
/// next leader, count on from the same state.
///
/// ```text
///    63            32 31             0
///   +----------------+----------------+
///   |  term          |  count         |
///   +----------------+----------------+
/// ```
#[derive(Debug)]
pub(crate) struct Counters {
    version: AtomicU64,
    oid: AtomicU32,
    storage: AtomicU32,
    index: AtomicU32,
}

impl Counters {
    fn new() -> Self {
        Self {
            version: AtomicU64::new(1),
            oid: AtomicU32::new(FIRST_USER_OID),
            storage: AtomicU32::new(FIRST_USER_NUMBER),
            index: AtomicU32::new(FIRST_USER_NUMBER),
        }
    }

    /// A version number for a new state of the catalog, and for the schema versions of
    /// the tables that it changes.
    pub(crate) fn version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A new OID for a table or an index.
    pub(crate) fn oid(&self) -> u32 {
        self.oid.fetch_add(1, Ordering::Relaxed)
    }

    /// A new storage id.
    pub(crate) fn storage(&self) -> StorageId {
        StorageId(self.storage.fetch_add(1, Ordering::Relaxed))
    }

    /// A new index id.
    pub(crate) fn index(&self) -> IndexId {
        IndexId(self.index.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a term: versions drawn from here on were drawn in no other term.
    fn begin(&self, term: Term) {
        if !planted!(CatalogVersionWithoutTerm) {
            let first = u64::from(term.0) << u32::BITS;
            self.version.fetch_max(first, Ordering::Relaxed);
        }
    }

    /// Raises each counter to at least this value.
    fn raise(&self, version: u64, oid: u32, storage: u32, index: u32) {
        self.version.fetch_max(version, Ordering::Relaxed);
        self.oid.fetch_max(oid, Ordering::Relaxed);
        self.storage.fetch_max(storage, Ordering::Relaxed);
        self.index.fetch_max(index, Ordering::Relaxed);
    }
}

/// Reads and writes the catalog's rows.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) counters: Counters,
    /// Cached catalogs, the most recently used last.
    cache: Mutex<Vec<Arc<Catalog>>>,
    /// The last catalog without indexes that were being built.
    unbuilt: Mutex<Option<Without>>,
}

/// A catalog, indexes that are being built, and the catalog without them.
type Without = (Arc<Catalog>, Arc<UnbuiltIndexes>, Arc<Catalog>);

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            counters: Counters::new(),
            cache: Mutex::new(Vec::new()),
            unbuilt: Mutex::default(),
        }
    }

    /// Definitions of the catalog's own storages, for the engine.
    pub(crate) fn definitions() -> [StorageDefinition; 3] {
        [
            (VERSION_STORAGE, VERSION_INDEX),
            (TABLES_STORAGE, TABLES_INDEX),
            (ACCESS_STORAGE, ACCESS_INDEX),
        ]
        .map(|(id, index)| StorageDefinition {
            id,
            schema_version: CATALOG_SCHEMA,
            indexes: vec![IndexDefinition {
                id: index,
                kind: IndexKind::Primary,
                extractor: Arc::new(FirstCell),
            }],
        })
    }

    /// Creates an empty catalog, or initialises the counters from the existing one. The
    /// server calls it once, before any session. `storages` are those known to the
    /// engine, and `term` is the one in which it commits.
    pub(crate) async fn bootstrap(
        &self,
        transaction: &mut dyn Transaction,
        storages: &[StorageId],
        term: Term,
    ) -> Result<()> {
        let newest = storages.iter().map(|storage| storage.0 + 1).max();
        self.counters.raise(0, 0, newest.unwrap_or(0), 0);
        if let Some(row) = read_version_row(transaction)? {
            self.counters
                .raise(row.version, row.oid, row.storage, row.index);
        } else {
            lock_catalog(transaction).await?;
            let row = self.version_row(1);
            let inserted =
                coeval_txn::insert(transaction, VERSION_STORAGE, RowRef::trusted(&row)).await?;
            if let Insert::Duplicate { .. } = inserted {
                return Err(damaged("there are two versions"));
            }
        }
        self.counters.begin(term);
        if find_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, SECRET_KEY)?.is_none() {
            lock_catalog(transaction).await?;
            let mut secret = [0; 32];
            coeval_env::random_bytes(&mut secret);
            self.put_access(transaction, &AccessRow::Secret(secret))
                .await?;
        }
        Ok(())
    }

    /// The catalog as this transaction sees it.
    pub(crate) fn catalog(
        &self,
        transaction: &mut dyn Transaction,
        last: Option<&Arc<Catalog>>,
    ) -> Result<Arc<Catalog>> {
        let version = read_version(transaction)?;
        if let Some(last) = last
            && last.version() == version
        {
            return Ok(Arc::clone(last));
        }
        let cached = {
            let mut cache = self.cache.lock().expect("no panic while it was held");
            let found = cache.iter().position(|each| each.version() == version);
            found.map(|position| {
                let catalog = cache.remove(position);
                cache.push(Arc::clone(&catalog));
                catalog
            })
        };
        if let Some(catalog) = cached {
            return Ok(catalog);
        }
        let catalog = Arc::new(load(transaction, version)?);
        let mut cache = self.cache.lock().expect("no panic while it was held");
        if cache.len() == CACHED {
            cache.remove(0);
        }
        cache.push(Arc::clone(&catalog));
        Ok(catalog)
    }

    /// The catalog as plans may use it while these indexes are being built.
    pub(crate) fn without(
        &self,
        catalog: &Arc<Catalog>,
        unbuilt: &Arc<UnbuiltIndexes>,
    ) -> Arc<Catalog> {
        let mut last = self.unbuilt.lock().expect("no panic while it was held");
        if let Some((whole, indexes, without)) = &*last
            && Arc::ptr_eq(whole, catalog)
            && Arc::ptr_eq(indexes, unbuilt)
        {
            return Arc::clone(without);
        }
        let without = Arc::new(catalog.without(unbuilt));
        *last = Some((
            Arc::clone(catalog),
            Arc::clone(unbuilt),
            Arc::clone(&without),
        ));
        without
    }

    /// Writes the catalog's new version. The transaction must hold the lock of the
    /// version row.
    pub(crate) async fn write_version(
        &self,
        transaction: &mut dyn Transaction,
        version: u64,
    ) -> Result<()> {
        let rid = version_rid(transaction)?;
        let row = self.version_row(version);
        coeval_txn::update(transaction, VERSION_STORAGE, rid, RowRef::trusted(&row)).await?;
        Ok(())
    }

    fn version_row(&self, version: u64) -> Vec<u8> {
        let mut builder = RowBuilder::new();
        builder.push(Some(VERSION_KEY));
        builder.push(Some(&version.to_le_bytes()));
        for counter in [
            &self.counters.oid,
            &self.counters.storage,
            &self.counters.index,
        ] {
            builder.push(Some(&counter.load(Ordering::Relaxed).to_le_bytes()));
        }
        let mut row = Vec::new();
        builder.finish(&mut row);
        row
    }

    /// Inserts a table's row.
    pub(crate) async fn insert_table(
        &self,
        transaction: &mut dyn Transaction,
        table: &Table,
    ) -> Result<()> {
        let row = table_row(table);
        match coeval_txn::insert(transaction, TABLES_STORAGE, RowRef::trusted(&row)).await? {
            Insert::Inserted(_) => Ok(()),
            Insert::Duplicate { .. } => Err(Error::internal("a table's number is used twice")),
        }
    }

    /// Replaces a table's row.
    pub(crate) async fn update_table(
        &self,
        transaction: &mut dyn Transaction,
        table: &Table,
    ) -> Result<()> {
        update_described(transaction, table.oid, &table_row(table)).await
    }

    /// Inserts the row of a sequence or view.
    pub(crate) async fn insert_object(
        &self,
        transaction: &mut dyn Transaction,
        object: &Object,
    ) -> Result<()> {
        let row = object_row(object);
        match coeval_txn::insert(transaction, TABLES_STORAGE, RowRef::trusted(&row)).await? {
            Insert::Inserted(_) => Ok(()),
            Insert::Duplicate { .. } => Err(Error::internal("an object's number is used twice")),
        }
    }

    /// Replaces the row of a sequence or view.
    pub(crate) async fn update_object(
        &self,
        transaction: &mut dyn Transaction,
        object: &Object,
    ) -> Result<()> {
        update_described(transaction, object.oid, &object_row(object)).await
    }

    /// Inserts the row of an extension.
    pub(crate) async fn insert_extension(
        &self,
        transaction: &mut dyn Transaction,
        extension: &Extension,
    ) -> Result<()> {
        let row = numbered_row(extension.oid, &extension::encode(extension));
        match coeval_txn::insert(transaction, TABLES_STORAGE, RowRef::trusted(&row)).await? {
            Insert::Inserted(_) => Ok(()),
            Insert::Duplicate { .. } => Err(Error::internal("an object's number is used twice")),
        }
    }

    /// Inserts the row of an object's comments.
    pub(crate) async fn insert_comment(
        &self,
        transaction: &mut dyn Transaction,
        comment: &Comment,
    ) -> Result<()> {
        let row = comment_row(comment);
        match coeval_txn::insert(transaction, TABLES_STORAGE, RowRef::trusted(&row)).await? {
            Insert::Inserted(_) => Ok(()),
            Insert::Duplicate { .. } => Err(Error::internal("a comment's number is used twice")),
        }
    }

    /// Replaces the row of an object's comments.
    pub(crate) async fn update_comment(
        &self,
        transaction: &mut dyn Transaction,
        comment: &Comment,
    ) -> Result<()> {
        update_described(transaction, comment.number, &comment_row(comment)).await
    }

    /// Deletes the row of a table, a sequence, a view, an extension or an object's comments.
    pub(crate) async fn delete_described(
        &self,
        transaction: &mut dyn Transaction,
        oid: u32,
    ) -> Result<()> {
        let rid = lock_table_row(transaction, oid).await?;
        transaction.delete(TABLES_STORAGE, rid)?;
        Ok(())
    }

    /// Inserts a row about roles or privileges, or replaces the row with the same key.
    pub(crate) async fn put_access(
        &self,
        transaction: &mut dyn Transaction,
        content: &AccessRow<'_>,
    ) -> Result<()> {
        let (key, bytes) = content.encode();
        let row = numbered_row(key, &bytes);
        let row = RowRef::trusted(&row);
        match find_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, key)? {
            Some(rid) => {
                lock_row(transaction, ACCESS_STORAGE, rid).await?;
                coeval_txn::update(transaction, ACCESS_STORAGE, rid, row).await?;
                Ok(())
            }
            None => match coeval_txn::insert(transaction, ACCESS_STORAGE, row).await? {
                Insert::Inserted(_) => Ok(()),
                Insert::Duplicate { .. } => Err(Error::internal("a role's number is used twice")),
            },
        }
    }

    /// Deletes the row of this key about roles.
    pub(crate) async fn delete_access(
        &self,
        transaction: &mut dyn Transaction,
        key: u32,
    ) -> Result<()> {
        let found = find_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, key)?;
        let rid = found.ok_or_else(|| Error::internal("a role's row is gone"))?;
        lock_row(transaction, ACCESS_STORAGE, rid).await?;
        transaction.delete(ACCESS_STORAGE, rid)?;
        Ok(())
    }
}

/// A row about roles or privileges.
pub(crate) enum AccessRow<'a> {
    /// A role.
    Role(&'a Role),
    /// Owner of the schema `public` and privileges on it.
    Schema(&'a Owned),
    /// Secret from which the server derives authentication challenges for unknown
    /// users.
    Secret([u8; 32]),
    /// Settings of a role or the database.
    Settings(SettingOwner, &'a OwnedSettings),
}

impl AccessRow<'_> {
    /// Key and content of the row.
    fn encode(&self) -> (u32, Vec<u8>) {
        match self {
            Self::Role(role) => (role.oid, access::encode_role(role)),
            Self::Schema(schema) => (access::PUBLIC_OID, access::encode_schema(schema)),
            Self::Secret(secret) => (SECRET_KEY, access::encode_secret(secret)),
            Self::Settings(owner, owned) => (owned.key, access::encode_settings(*owner, owned)),
        }
    }
}

fn table_row(table: &Table) -> Vec<u8> {
    numbered_row(table.oid, &description::encode(table))
}

fn object_row(object: &Object) -> Vec<u8> {
    numbered_row(object.oid, &object::encode(object))
}

fn comment_row(comment: &Comment) -> Vec<u8> {
    numbered_row(comment.number, &comment::encode(comment))
}

async fn update_described(transaction: &mut dyn Transaction, oid: u32, row: &[u8]) -> Result<()> {
    let rid = lock_table_row(transaction, oid).await?;
    coeval_txn::update(transaction, TABLES_STORAGE, rid, RowRef::trusted(row)).await?;
    Ok(())
}

/// What a row of the tables' storage describes.
pub(super) enum Described {
    Table(Table),
    Object(Object),
    Extension(Extension),
    Comment(Comment),
}

/// Decodes a row of the tables' storage.
pub(super) fn described(content: &[u8]) -> Result<Described> {
    match content.first() {
        Some(&object::FORMAT) => return object::decode(content).map(Described::Object),
        Some(&comment::FORMAT) => return comment::decode(content).map(Described::Comment),
        Some(&extension::FORMAT) => return extension::decode(content).map(Described::Extension),
        _ => {}
    }
    description::decode(content).map(Described::Table)
}

fn numbered_row(number: u32, content: &[u8]) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(&number.to_be_bytes()));
    builder.push(Some(content));
    let mut row = Vec::new();
    builder.finish(&mut row);
    row
}

/// Content of the version row.
struct VersionRow {
    rid: Rid,
    version: u64,
    oid: u32,
    storage: u32,
    index: u32,
}

fn read_version_row(transaction: &mut dyn Transaction) -> Result<Option<VersionRow>> {
    let mut read = None;
    transaction.get(
        VERSION_STORAGE,
        VERSION_INDEX,
        VERSION_KEY,
        &mut |rid, row| {
            read = Some((|| {
                let small = |cell| Some(u32::from_le_bytes(row.cell(cell)?.try_into().ok()?));
                Some(VersionRow {
                    rid,
                    version: u64::from_le_bytes(row.cell(1)?.try_into().ok()?),
                    oid: small(2)?,
                    storage: small(3)?,
                    index: small(4)?,
                })
            })());
        },
    )?;
    match read {
        None => Ok(None),
        Some(None) => Err(damaged("the version is not a number")),
        Some(Some(row)) => Ok(Some(row)),
    }
}

/// Reads the catalog's version, the first read of every statement.
fn read_version(transaction: &mut dyn Transaction) -> Result<u64> {
    let mut version = None;
    transaction.get(
        VERSION_STORAGE,
        VERSION_INDEX,
        VERSION_KEY,
        &mut |_, row| version = row.cell(1).and_then(|cell| cell.try_into().ok()),
    )?;
    version
        .map(u64::from_le_bytes)
        .ok_or_else(|| damaged("there is no version"))
}

fn version_rid(transaction: &mut dyn Transaction) -> Result<Rid> {
    read_version_row(transaction)?
        .map(|row| row.rid)
        .ok_or_else(|| damaged("there is no version"))
}

/// Locks the catalog's tables for writing, as every writer does before it locks rows;
/// their own schema never changes.
async fn lock_catalog(transaction: &mut dyn Transaction) -> Result<()> {
    for storage in CATALOG_STORAGES {
        coeval_txn::lock_table(
            transaction,
            storage,
            coeval_txn::TableLock::RowExclusive,
            CATALOG_SCHEMA,
        )
        .await?;
    }
    Ok(())
}

/// Locks the version row, which excludes other schema changes until the transaction
/// ends. Returns whether the snapshot shows the newest catalog; if not, the caller must
/// take a new snapshot before it looks anything up.
pub(crate) async fn lock_version(transaction: &mut dyn Transaction) -> Result<bool> {
    lock_catalog(transaction).await?;
    let rid = version_rid(transaction)?;
    let locked = coeval_txn::lock_row(
        transaction,
        VERSION_STORAGE,
        rid,
        LockWait::Wait,
        &mut |_, _| {},
    )
    .await?;
    match locked {
        LockedRow::Unchanged => Ok(true),
        LockedRow::Changed => Ok(false),
        LockedRow::Gone | LockedRow::Skipped => Err(damaged("the version is gone")),
    }
}

async fn lock_table_row(transaction: &mut dyn Transaction, oid: u32) -> Result<Rid> {
    let found = find_row(transaction, TABLES_STORAGE, TABLES_INDEX, oid)?;
    let rid = found.ok_or_else(|| Error::internal("a table's row is gone"))?;
    lock_row(transaction, TABLES_STORAGE, rid).await?;
    Ok(rid)
}

/// The record id of the row with this key.
fn find_row(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    index: IndexId,
    number: u32,
) -> Result<Option<Rid>> {
    let mut found = None;
    transaction.get(storage, index, &number.to_be_bytes(), &mut |rid, _| {
        found = Some(rid);
    })?;
    Ok(found)
}

async fn lock_row(transaction: &mut dyn Transaction, storage: StorageId, rid: Rid) -> Result<()> {
    let locked =
        coeval_txn::lock_row(transaction, storage, rid, LockWait::Wait, &mut |_, _| {}).await?;
    match locked {
        LockedRow::Unchanged | LockedRow::Changed => Ok(()),
        LockedRow::Gone | LockedRow::Skipped => Err(Error::internal("a catalog row is gone")),
    }
}

/// Loads the catalog from the rows that the transaction sees.
fn load(transaction: &mut dyn Transaction, version: u64) -> Result<Catalog> {
    let (mut tables, mut objects, mut extensions) = (Vec::new(), Vec::new(), Vec::new());
    let mut comments = Comments::new();
    each_row(transaction, TABLES_STORAGE, TABLES_INDEX, &mut |content| {
        match described(content)? {
            Described::Table(table) => tables.push(Arc::new(table)),
            Described::Object(object) => objects.push(Arc::new(object)),
            Described::Extension(extension) => extensions.push(Arc::new(extension)),
            Described::Comment(comment) => {
                comments.insert((comment.class, comment.object), Arc::new(comment));
            }
        }
        Ok(())
    })?;
    let mut access = Access::default();
    each_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, &mut |content| {
        access::decode(content, &mut access)
    })?;
    let catalog = Catalog::new(version, tables, objects, Arc::new(access));
    let catalog = catalog.with_extensions(extensions);
    Ok(catalog.with_comments(Arc::new(comments)))
}

/// Passes the content of each row of a catalog storage to `visit`.
fn each_row(
    transaction: &mut dyn Transaction,
    storage: StorageId,
    index: IndexId,
    visit: &mut (dyn FnMut(&[u8]) -> Result<()> + Send),
) -> Result<()> {
    let mut position: Option<Vec<u8>> = None;
    loop {
        let mut failure = None;
        let progress = transaction.scan(
            &ScanRequest {
                storage,
                source: ScanSource::Index(index),
                bounds: Bounds {
                    lower: match &position {
                        Some(position) => std::ops::Bound::Excluded(position),
                        None => std::ops::Bound::Unbounded,
                    },
                    upper: std::ops::Bound::Unbounded,
                },
                direction: Direction::Forward,
                limit: 256,
            },
            &mut |_, row| match visit(row.cell(1).unwrap_or_default()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(error) = failure {
            return Err(error);
        }
        match progress {
            ScanProgress::Complete => return Ok(()),
            ScanProgress::More(last) => position = Some(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use coeval_txn::{BeginOptions, Engine, Outcome};
    use coeval_types::planted::{Bug, plant};

    use super::*;

    /// The version of the first schema change of a leader of this term.
    async fn first_change(engine: &dyn Engine, term: u32) -> u64 {
        let store = Store::new();
        let options = BeginOptions::default();
        let mut transaction = coeval_txn::begin(engine, &options).await.unwrap();
        store
            .bootstrap(&mut *transaction, &engine.storages(), Term(term))
            .await
            .unwrap();
        let outcome = coeval_txn::commit(&mut *transaction).await;
        assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
        // It is lost with its leader.
        store.counters.version()
    }

    async fn versions_of_two_leaders() -> [u64; 2] {
        let engine = coeval_occ::Engine::ephemeral(coeval_occ::Settings::default()).unwrap();
        for definition in Store::definitions() {
            engine.attach_storage(definition).unwrap();
        }
        [
            first_change(&engine, 7).await,
            first_change(&engine, 8).await,
        ]
    }

    #[tokio::test]
    async fn two_leaders_never_name_two_states_alike() {
        let [lost, next] = versions_of_two_leaders().await;
        assert!(next > lost, "{next} after {lost}");
        let _bug = plant(Bug::CatalogVersionWithoutTerm).expect("tests can plant");
        let [lost, next] = versions_of_two_leaders().await;
        assert_eq!(lost, next, "one number for two states: the bug shows here");
    }
}
