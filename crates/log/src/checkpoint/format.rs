//! The byte format of a checkpoint: header, blocks, index, end record. The layout is in
//! the module above.

use std::time::Duration;

use coeval_types::{Lsn, Rid, RowRef, StorageId, Timestamp, planted};

use super::CheckpointStart;
use crate::stamp::{Fields, Stamp};
use crate::varint;

pub(super) const HEADER_MAGIC: [u8; 8] = *b"COEVALCP";
pub(super) const END_MAGIC: [u8; 8] = *b"COEVALCE";
/// Bytes of the header, and so the file offset of the first block.
pub(super) const HEADER_BYTES: usize = 4096;
/// Bytes of the end record.
pub(super) const END_BYTES: usize = 128;
/// Bytes of a block's header, which precedes its records.
pub(super) const BLOCK_HEADER_BYTES: usize = 32;
/// Bytes of a block's entry in the index.
pub(super) const ENTRY_BYTES: usize = 32;
/// Most bytes of a valid block. The writer finishes a block once it has
/// `checkpoint_block_bytes`, and a row is far shorter than this.
pub(super) const MAX_BLOCK_BYTES: u64 = 64 << 20;

/// The fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) database: u128,
    pub(super) start: CheckpointStart,
    pub(super) taken_at: Duration,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let micros = u64::try_from(self.taken_at.as_micros()).unwrap_or(0);
        let mut page = Stamp::new(HEADER_MAGIC, HEADER_BYTES);
        page.put(&self.database.to_le_bytes());
        page.put(&self.start.snapshot.to_bits().to_le_bytes());
        page.put(&self.start.log_start.0.to_le_bytes());
        page.put(&micros.to_le_bytes());
        page.finish()
    }

    /// Decodes the header; `None` when a field is out of range.
    pub(super) fn decode(mut fields: Fields<'_>) -> Option<Self> {
        let database = u128::from_le_bytes(fields.take());
        let snapshot = Timestamp::from_bits(u64::from_le_bytes(fields.take()));
        let log_start = Lsn(u64::from_le_bytes(fields.take()));
        let taken_at = Duration::from_micros(u64::from_le_bytes(fields.take()));
        let start = CheckpointStart {
            snapshot,
            log_start,
        };
        let sound = snapshot.is_finite()
            && log_start.0.is_multiple_of(Lsn::ALIGNMENT)
            && log_start <= start.replay_from();
        sound.then_some(Self {
            database,
            start,
            taken_at,
        })
    }

    /// Seed of the checksums of this checkpoint's blocks.
    pub(super) fn seed(&self) -> u32 {
        let database = crc32c::crc32c(&self.database.to_le_bytes());
        crc32c::crc32c_append(database, &self.start.snapshot.to_bits().to_le_bytes())
    }
}

/// The fields of the end record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) snapshot: Timestamp,
    pub(super) index_at: u64,
    pub(super) blocks: u64,
    pub(super) records: u64,
    pub(super) index_crc: u32,
}

impl End {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = Stamp::new(END_MAGIC, END_BYTES);
        block.put(&self.snapshot.to_bits().to_le_bytes());
        block.put(&self.index_at.to_le_bytes());
        block.put(&self.blocks.to_le_bytes());
        block.put(&self.records.to_le_bytes());
        block.put(&self.index_crc.to_le_bytes());
        block.finish()
    }

    pub(super) fn decode(mut fields: Fields<'_>) -> Self {
        Self {
            snapshot: Timestamp::from_bits(u64::from_le_bytes(fields.take())),
            index_at: u64::from_le_bytes(fields.take()),
            blocks: u64::from_le_bytes(fields.take()),
            records: u64::from_le_bytes(fields.take()),
            index_crc: u32::from_le_bytes(fields.take()),
        }
    }
}

/// An index entry: a block's offset in the file, and its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockEntry {
    /// File offset at which the block begins.
    pub(super) at: u64,
    /// Bytes of its records.
    pub(super) length: u32,
    pub(super) storage: StorageId,
    pub(super) records: u32,
    pub(super) first: Rid,
}

impl BlockEntry {
    /// Bytes of the whole block.
    pub(super) fn block_bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.length)
    }

    /// File offset at which the next block begins.
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.block_bytes())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.at.to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.storage.0.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.resize(start + ENTRY_BYTES, 0);
    }

    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let small = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let large = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        Self {
            at: large(0),
            length: small(8),
            storage: StorageId(small(12)),
            records: small(16),
            first: Rid(large(20)),
        }
    }

    /// The block's header, its checksum included.
    fn block_header(&self, records: &[u8], seed: u32) -> [u8; BLOCK_HEADER_BYTES] {
        let mut header = [0; BLOCK_HEADER_BYTES];
        header[4..8].copy_from_slice(&self.length.to_le_bytes());
        header[8..16].copy_from_slice(&self.at.to_le_bytes());
        header[16..20].copy_from_slice(&self.storage.0.to_le_bytes());
        header[20..24].copy_from_slice(&self.records.to_le_bytes());
        header[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed, &header[4..]), records);
        header[..4].copy_from_slice(&crc.to_le_bytes());
        header
    }
}

/// A block that is being filled.
#[derive(Debug)]
pub(super) struct BlockBuilder {
    /// Space for the header, then records.
    bytes: Vec<u8>,
    storage: StorageId,
    first: Rid,
    last: Rid,
    records: u32,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; BLOCK_HEADER_BYTES],
            storage: StorageId(0),
            first: Rid(0),
            last: Rid(0),
            records: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes of its records.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - BLOCK_HEADER_BYTES
    }

    /// Whether the block holds records of a storage other than `storage`.
    pub(super) fn is_of_another(&self, storage: StorageId) -> bool {
        !self.is_empty() && self.storage != storage
    }

    /// Adds a record. Within a storage, row ids must increase.
    pub(super) fn add(&mut self, storage: StorageId, record: &SavedRecord<'_>) {
        let SavedRecord {
            rid,
            timestamp,
            row,
        } = *record;
        if self.is_empty() {
            (self.storage, self.first, self.last) = (storage, rid, rid);
        } else {
            assert!(storage == self.storage && rid > self.last, "out of order");
        }
        varint::put(&mut self.bytes, rid.0 - self.last.0);
        self.bytes
            .extend_from_slice(&timestamp.to_bits().to_le_bytes());
        varint::put(&mut self.bytes, row.bytes().len() as u64);
        self.bytes.extend_from_slice(row.bytes());
        self.last = rid;
        self.records += 1;
    }

    /// The bytes of the block for file offset `at`, and its index entry.
    pub(super) fn finish(&mut self, at: u64, seed: u32) -> (&[u8], BlockEntry) {
        let entry = BlockEntry {
            at,
            length: u32::try_from(self.len()).expect("a block is far shorter"),
            storage: self.storage,
            records: self.records,
            first: self.first,
        };
        let header = entry.block_header(&self.bytes[BLOCK_HEADER_BYTES..], seed);
        self.bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header);
        (&self.bytes, entry)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.truncate(BLOCK_HEADER_BYTES);
        self.records = 0;
    }
}

/// One record of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedRecord<'block> {
    /// Row id of the record in its storage.
    pub rid: Rid,
    /// Commit timestamp of the version that the checkpoint's snapshot sees.
    pub timestamp: Timestamp,
    /// The row of that version.
    pub row: RowRef<'block>,
}

/// Why a block is invalid, in words.
pub(super) type Wrong = &'static str;

/// Records of one storage, in the order of their row ids, with a verified checksum.
#[derive(Clone, Copy, Debug)]
pub struct Block<'bytes> {
    entry: BlockEntry,
    snapshot: Timestamp,
    records: &'bytes [u8],
}

impl<'bytes> Block<'bytes> {
    /// Parses the block that the index entry describes.
    pub(super) fn parse(
        bytes: &'bytes [u8],
        entry: BlockEntry,
        seed: u32,
        snapshot: Timestamp,
    ) -> Result<Self, Wrong> {
        let Some((header, records)) = bytes.split_first_chunk::<BLOCK_HEADER_BYTES>() else {
            return Err("a block ends within its header");
        };
        let is_right = *header == entry.block_header(records, seed);
        if records.len() != entry.length as usize || !(is_right || planted!(DropChecksum)) {
            return Err("a block's checksum differs, or the block belongs elsewhere");
        }
        Ok(Self {
            entry,
            snapshot,
            records,
        })
    }

    /// The storage that the records belong to.
    #[must_use]
    pub fn storage(&self) -> StorageId {
        self.entry.storage
    }

    /// Number of records.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.entry.records
    }

    /// Whether the block has no records. A valid checkpoint has no such block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for every record, until it fails. Malformed records, under a valid
    /// checksum, are reported as an error in words.
    pub fn each<E: From<String>>(
        &self,
        mut visit: impl FnMut(SavedRecord<'bytes>) -> Result<(), E>,
    ) -> Result<(), E> {
        let malformed = || E::from("a record is malformed under a checksum that is right".into());
        let mut rest = self.records;
        let mut last = None;
        for _ in 0..self.entry.records {
            let record = take_record(&mut rest, last, self.entry.first).ok_or_else(malformed)?;
            if record.timestamp > self.snapshot {
                return Err(E::from(format!(
                    "record {} has a version of {}, behind the checkpoint's snapshot {}",
                    record.rid, record.timestamp, self.snapshot
                )));
            }
            last = Some(record.rid);
            visit(record)?;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(malformed())
        }
    }
}

fn take_record<'bytes>(
    rest: &mut &'bytes [u8],
    last: Option<Rid>,
    first: Rid,
) -> Option<SavedRecord<'bytes>> {
    let step = varint::take(rest)?;
    let rid = match last {
        None if step == 0 => first,
        Some(last) if step > 0 => Rid(last.0.checked_add(step)?),
        _ => return None,
    };
    let (bits, behind) = rest.split_first_chunk()?;
    *rest = behind;
    let length = usize::try_from(varint::take(rest)?).ok()?;
    let (row, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(SavedRecord {
        rid,
        timestamp: Timestamp::from_bits(u64::from_le_bytes(*bits)),
        row: RowRef::parse(row).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use coeval_types::{RowBuilder, Term};
    use proptest::prelude::*;

    use super::*;

    const SEED: u32 = 7;
    const STORAGE: StorageId = StorageId(3);

    fn at(lsn: u64) -> Timestamp {
        Timestamp::new(Term(1), Lsn(lsn * 8))
    }

    fn row(value: &[u8]) -> Vec<u8> {
        let mut builder = RowBuilder::new();
        builder.push(Some(value));
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        bytes
    }

    /// A block of these row ids, each with a row made of its number.
    fn block(rids: &[u64], place: u64) -> (Vec<u8>, BlockEntry) {
        let mut builder = BlockBuilder::new();
        for &rid in rids {
            let row = row(&rid.to_le_bytes());
            builder.add(
                STORAGE,
                &SavedRecord {
                    rid: Rid(rid),
                    timestamp: at(rid % 1000 + 1),
                    row: RowRef::trusted(&row),
                },
            );
        }
        let (bytes, entry) = builder.finish(place, SEED);
        (bytes.to_vec(), entry)
    }

    fn rids_of(block: &Block<'_>) -> Result<Vec<u64>, String> {
        let mut rids = Vec::new();
        block.each(|record| {
            assert_eq!(record.row.bytes(), row(&record.rid.0.to_le_bytes()));
            rids.push(record.rid.0);
            Ok::<_, String>(())
        })?;
        Ok(rids)
    }

    proptest! {
        #[test]
        fn blocks_come_back(rids in prop::collection::btree_set(any::<u64>(), 1..50)) {
            let rids: Vec<_> = rids.into_iter().collect();
            let (bytes, entry) = block(&rids, 4096);
            let mut encoded = Vec::new();
            entry.encode(&mut encoded);
            let entry = BlockEntry::decode(encoded[..].first_chunk().unwrap());
            prop_assert_eq!(entry.end(), 4096 + bytes.len() as u64);
            let block = Block::parse(&bytes, entry, SEED, at(2000)).unwrap();
            prop_assert_eq!(rids_of(&block), Ok(rids));
        }

        #[test]
        fn records_of_chance_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let entry = BlockEntry {
                at: 4096,
                length: bytes.len() as u32,
                storage: STORAGE,
                records: 5,
                first: Rid(u64::MAX - 3),
            };
            let block = Block { entry, snapshot: at(9), records: &bytes };
            let _ = block.each(|_| Ok::<_, String>(()));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_so_is_another_place() {
        let (good, entry) = block(&[1, 2, 5], 4096);
        for at_byte in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at_byte] ^= 1 << bit;
                assert!(
                    Block::parse(&bad, entry, SEED, at(9)).is_err(),
                    "byte {at_byte}"
                );
            }
        }
        assert!(Block::parse(&good, entry, SEED + 1, at(9)).is_err());
        let moved = BlockEntry { at: 8192, ..entry };
        assert!(Block::parse(&good, moved, SEED, at(9)).is_err());
        assert!(Block::parse(&good[..20], entry, SEED, at(9)).is_err());
    }

    #[test]
    fn a_version_behind_the_snapshot_is_refused() {
        let (bytes, entry) = block(&[1, 200], 4096);
        let block = Block::parse(&bytes, entry, SEED, at(100)).unwrap();
        assert!(rids_of(&block).unwrap_err().contains("behind"));
    }

    #[test]
    fn header_and_end_come_back() {
        let header = Header {
            database: 1 << 100,
            start: CheckpointStart {
                snapshot: at(600),
                log_start: Lsn(4096),
            },
            taken_at: Duration::from_micros(5_000_001),
        };
        let page = header.encode();
        assert_eq!(page.len(), HEADER_BYTES);
        let file = std::path::Path::new("x");
        let fields = crate::stamp::check(&page, HEADER_MAGIC, file).unwrap();
        assert_eq!(Header::decode(fields), Some(header));
        let end = End {
            snapshot: at(600),
            index_at: 70_000,
            blocks: 3,
            records: 500,
            index_crc: 17,
        };
        let block = end.encode();
        assert_eq!(block.len(), END_BYTES);
        let fields = crate::stamp::check(&block, END_MAGIC, file).unwrap();
        assert_eq!(End::decode(fields), end);
    }
}
