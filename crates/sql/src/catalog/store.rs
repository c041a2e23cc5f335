//! The catalog's rows: reading, writing, and what keeps changes apart.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use coeval_txn::{
    Bounds, Direction, Insert, LockWait, LockedRow, ScanProgress, ScanRequest, ScanSource,
    Transaction,
};
use coeval_types::{
    IndexDefinition, IndexId, IndexKind, Rid, RowBuilder, RowRef, StorageDefinition, StorageId,
};

use super::{Catalog, FIRST_USER_OID, Table, description};
use crate::access::store::{self as access, SECRET_KEY};
use crate::access::{Access, Owned, Role};
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
/// The first number for a table's storage or index; those below are kept for the
/// catalog's own.
const FIRST_USER_NUMBER: u32 = 64;
/// The version row's key.
const VERSION_KEY: &[u8] = &[0];
/// Schema version of the catalog's own storages, which never changes.
const CATALOG_SCHEMA: u64 = 1;
/// How many states of the catalog are kept at hand: the newest, and those of
/// transactions that began before or that are changing it.
const CACHED: usize = 8;

/// Where numbers come from. They never go back while the process lives, so a
/// rolled back change does not leave a number behind that is used twice.
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

    /// A number for a state of the catalog, and for the schemas of the tables that
    /// change with it.
    pub(crate) fn version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A number for a table or an index as an object.
    pub(crate) fn oid(&self) -> u32 {
        self.oid.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a storage.
    pub(crate) fn storage(&self) -> StorageId {
        StorageId(self.storage.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for an index.
    pub(crate) fn index(&self) -> IndexId {
        IndexId(self.index.fetch_add(1, Ordering::Relaxed))
    }

    /// Goes on from here at least.
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
    /// The states at hand, the one used last at the end.
    cache: Mutex<Vec<Arc<Catalog>>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            counters: Counters::new(),
            cache: Mutex::new(Vec::new()),
        }
    }

    /// The catalog's own storages, for the engine.
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

    /// Makes an empty catalog, or takes the counters from the one there is. Called
    /// once, before any session. `storages` is what the engine knows of.
    pub(crate) async fn bootstrap(
        &self,
        transaction: &mut dyn Transaction,
        storages: &[StorageId],
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

    /// Gives the catalog a new version. The transaction holds the version row's
    /// lock.
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

    /// Adds a table's row.
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
        let rid = lock_table_row(transaction, table.oid).await?;
        let row = table_row(table);
        coeval_txn::update(transaction, TABLES_STORAGE, rid, RowRef::trusted(&row)).await?;
        Ok(())
    }

    /// Deletes a table's row.
    pub(crate) async fn delete_table(
        &self,
        transaction: &mut dyn Transaction,
        oid: u32,
    ) -> Result<()> {
        let rid = lock_table_row(transaction, oid).await?;
        transaction.delete(TABLES_STORAGE, rid)?;
        Ok(())
    }

    /// Adds a row about roles or privileges, or replaces the one of its number.
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

    /// Deletes a role's row.
    pub(crate) async fn delete_role(
        &self,
        transaction: &mut dyn Transaction,
        oid: u32,
    ) -> Result<()> {
        let found = find_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, oid)?;
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
    /// What is granted on the schema `public`.
    Schema(&'a Owned),
    /// What answers to unknown users are made from.
    Secret([u8; 32]),
}

impl AccessRow<'_> {
    /// Its key, and what it holds.
    fn encode(&self) -> (u32, Vec<u8>) {
        match self {
            Self::Role(role) => (role.oid, access::encode_role(role)),
            Self::Schema(schema) => (access::PUBLIC_OID, access::encode_schema(schema)),
            Self::Secret(secret) => (SECRET_KEY, access::encode_secret(secret)),
        }
    }
}

fn table_row(table: &Table) -> Vec<u8> {
    numbered_row(table.oid, &description::encode(table))
}

fn numbered_row(number: u32, content: &[u8]) -> Vec<u8> {
    let mut builder = RowBuilder::new();
    builder.push(Some(&number.to_be_bytes()));
    builder.push(Some(content));
    let mut row = Vec::new();
    builder.finish(&mut row);
    row
}

/// What the version row says.
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

/// The version alone: what every statement reads first.
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

/// Writers lock tables before rows; the catalog's never change their schema.
async fn lock_catalog(transaction: &mut dyn Transaction) -> Result<()> {
    for storage in CATALOG_STORAGES {
        coeval_txn::lock_table(
            transaction,
            storage,
            coeval_txn::TableLock::Write,
            CATALOG_SCHEMA,
        )
        .await?;
    }
    Ok(())
}

/// Keeps other changes of the schema out until the transaction ends. Returns
/// whether the snapshot shows the newest catalog; if not, a new one is needed
/// before anything is looked up.
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

/// The record of the row with this number.
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

/// Makes the catalog from the rows the transaction sees.
fn load(transaction: &mut dyn Transaction, version: u64) -> Result<Catalog> {
    let mut tables = Vec::new();
    each_row(transaction, TABLES_STORAGE, TABLES_INDEX, &mut |content| {
        tables.push(Arc::new(description::decode(content)?));
        Ok(())
    })?;
    let mut access = Access::default();
    each_row(transaction, ACCESS_STORAGE, ACCESS_INDEX, &mut |content| {
        access::decode(content, &mut access)
    })?;
    Ok(Catalog::new(version, tables, Arc::new(access)))
}

/// Shows what each row of a storage of the catalog holds.
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
