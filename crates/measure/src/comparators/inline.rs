//! The engine's own record layout (EMS), in a table, as one of the compared version
//! storages.

use coeval_memory::epoch::{Domain, Guard};
use coeval_storage::{
    Collector, Expiry, Horizon, NoIndexes, RecordRef, Snapshots, Table, TryLock, Value, Version,
};
use coeval_types::{Rid, Timestamp, TransactionId};

use super::VersionStorage;

/// A table of [`coeval_storage::record`] in which no version ever expires.
pub struct Ems {
    table: Table,
    snapshots: Snapshots,
}

/// A horizon of zero: no version counts as installed, so none expires.
const NOTHING_EXPIRES: Horizon = Horizon {
    installed: Timestamp::ZERO,
    committed: Timestamp::ZERO,
};

impl Ems {
    #[inline]
    fn record(&self, record: usize) -> RecordRef<'_> {
        let record = self.table.record(Rid(record as u64));
        record.expect("the record was made with the storage")
    }

    fn write(&self, record: RecordRef<'_>, writer: TransactionId, value: Value, guard: &Guard<'_>) {
        let expiry = Expiry::new(NOTHING_EXPIRES, &self.snapshots);
        let collector = Collector {
            guard,
            expiry: &expiry,
            indexes: &NoIndexes,
        };
        record.write(writer, value, &collector);
    }
}

impl VersionStorage for Ems {
    const NAME: &'static str = "EMS";

    fn filled(records: usize, first: &dyn Fn(usize) -> Value) -> Self {
        let storage = Self {
            table: Table::new(),
            snapshots: Snapshots::new(),
        };
        let (domain, writer) = (Domain::new(), TransactionId(1));
        for number in 0..records {
            let guard = domain.pin();
            let record = storage.table.allocate(writer, &guard);
            assert_eq!(record.rid(), Rid(number as u64), "records are numbered");
            storage.write(record, writer, first(number), &guard);
            record.commit(writer, Timestamp::from_bits(1));
        }
        storage
    }

    #[inline]
    fn read<'read>(
        &'read self,
        record: usize,
        snapshot: Timestamp,
        guard: &'read Guard<'_>,
    ) -> Option<Version<'read>> {
        // The reader holds no lock: transaction ids begin with 1.
        self.record(record).read(snapshot, TransactionId(0), guard)
    }

    fn update(
        &self,
        record: usize,
        writer: TransactionId,
        value: Value,
        guard: &Guard<'_>,
    ) -> bool {
        let record = self.record(record);
        match record.try_lock(writer) {
            TryLock::Locked => {}
            TryLock::AlreadyLocked => panic!("locked twice"),
            TryLock::HeldBy(_) | TryLock::Dead => return false,
        }
        self.write(record, writer, value, guard);
        true
    }

    fn commit(&self, record: usize, writer: TransactionId, cts: Timestamp) {
        self.record(record).commit(writer, cts);
    }

    fn bytes(&self) -> usize {
        self.table.memory().total() as usize
    }
}
