//! The council's disk: a replica log, snapshots as its checkpoints, and the entries after the
//! newest snapshot in memory.
//!
//! A snapshot's bytes are rows of one storage, 16 KiB each, so that the log's own checkpoint
//! files, with their checksums, hold them:
//!
//! ```text
//!   storage 1   rid 0: bytes 0..16384   rid 1: bytes 16384..32768   …
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use coeval_consensus::encoding::encode_membership;
use coeval_consensus::{Content, Entry, Fetch, Membership, Restored, Write};
use coeval_log::{
    Block, CheckpointOffer, CheckpointReceiver, CheckpointStart, HardState, ReceivedCheckpoint,
    Replay, ReplayError, ReplicaLog, SavedRecord,
};
use coeval_types::{Lsn, Rid, RowBuilder, RowRef, StorageId, Timestamp};

use crate::convert;
use crate::{Error, Settings};

const STORAGE: StorageId = StorageId(1);
const ROW_BYTES: usize = 16 << 10;

/// Collects the rows of a snapshot while a log is opened.
#[derive(Debug, Default)]
pub(crate) struct Rows(Mutex<BTreeMap<Rid, Vec<u8>>>);

impl Rows {
    /// The snapshot's bytes.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.values().flatten().copied().collect()
    }
}

impl Replay for Rows {
    fn apply(&self, entries: &[(Timestamp, coeval_log::Entry<'_>)]) -> Result<(), ReplayError> {
        entries.first().map_or(Ok(()), |(timestamp, _)| {
            Err(ReplayError {
                timestamp: *timestamp,
                reason: "a council's log holds no transactions".to_owned(),
            })
        })
    }

    fn restore(&self, block: &Block<'_>) -> Result<(), String> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        block.each(|record| {
            let cell = record.row.cell(0).unwrap_or_default();
            rows.insert(record.rid, cell.to_vec());
            Ok::<(), String>(())
        })
    }
}

/// What a log held when it was opened.
pub(crate) struct Opened {
    pub(crate) restored: Restored,
    /// The machine's snapshot at the log's beginning, if there is one.
    pub(crate) snapshot: Option<Vec<u8>>,
}

/// The log of one node, with what belongs to it. See the module.
#[derive(Debug)]
pub(crate) struct Store {
    settings: Settings,
    founders: Membership,
    /// `None` only while a snapshot is being put in its place.
    log: Option<ReplicaLog>,
    /// The entries after the snapshot in force.
    entries: VecDeque<Entry>,
    /// A snapshot of another node that consensus may have installed.
    received: Option<ReceivedCheckpoint>,
}

impl Store {
    pub(crate) async fn open(settings: &Settings) -> Result<(Self, Opened), Error> {
        let mut store = Self {
            settings: settings.clone(),
            founders: Membership::new(settings.founders.iter().copied(), []),
            log: None,
            entries: VecDeque::new(),
            received: None,
        };
        let snapshot = store.open_log().await?;
        let founders = store.founders.clone();
        let restored = convert::restored(store.log()?, &founders)?;
        Ok((store, Opened { restored, snapshot }))
    }

    fn log(&mut self) -> Result<&mut ReplicaLog, Error> {
        self.log.as_mut().ok_or(Error::Ended)
    }

    /// Opens the directory, reads the entries after the snapshot, and returns the snapshot.
    async fn open_log(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let rows = Arc::new(Rows::default());
        let replay: Arc<dyn Replay> = Arc::<Rows>::clone(&rows);
        let cluster = self.settings.cluster;
        let settings = self.settings.log();
        let directory = &self.settings.directory;
        let opened = ReplicaLog::open(directory, Some(cluster), settings, replay);
        let (log, summary) = opened.await?;
        self.entries.clear();
        let mut at = log.begin().max(log.base());
        while at < log.end() {
            let frames = log.read(at, 1 << 20).await?;
            at = frames.end();
            self.entries.extend(convert::entries(cluster, &frames)?);
        }
        self.log = Some(log);
        Ok(summary.checkpoint.map(|_| rows.joined()))
    }

    /// The entries on the disk.
    pub(crate) fn all(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// The entries between these offsets, which are in the log.
    pub(crate) fn between(&self, from: Lsn, to: Lsn) -> Vec<Entry> {
        let within = |entry: &&Entry| entry.start >= from && entry.end <= to;
        self.entries.iter().filter(within).cloned().collect()
    }

    /// The entries that a follower needs; `None` when a snapshot has replaced them.
    pub(crate) fn fetch(&self, fetch: &Fetch) -> Option<Vec<Entry>> {
        if fetch.from < self.entries.front()?.start {
            return None;
        }
        let mut space = 0;
        let wanted = self
            .entries
            .iter()
            .filter(|entry| entry.end > fetch.from && entry.end <= fetch.end);
        let wanted = wanted.take(fetch.entries.max(1)).take_while(|entry| {
            let is_first = space == 0;
            space += entry.space();
            is_first || space <= fetch.space
        });
        Some(wanted.cloned().collect())
    }

    /// Carries out a write of consensus, and makes it durable. Returns the machine's new
    /// snapshot if the write installs one.
    pub(crate) async fn write(&mut self, write: &Write) -> Result<Option<Vec<u8>>, Error> {
        let mut installed = None;
        if let Some(checkpoint) = &write.install {
            let received = self.received.take();
            let received = received.filter(|received| received.end() == checkpoint.position.end);
            let received = received.ok_or(Error::Malformed("no such snapshot was received"))?;
            let log = self.log()?;
            let now = log.hard_state();
            log.set_hard_state(HardState {
                term: write.hard_state.term,
                vote: write.hard_state.vote.map(|node| node.0),
                ..now
            })
            .await?;
            let log = self.log.take().ok_or(Error::Ended)?;
            log.install(&received).await?;
            installed = self.open_log().await?;
        }
        self.write_entries(write).await?;
        Ok(installed)
    }

    async fn write_entries(&mut self, write: &Write) -> Result<(), Error> {
        let log = self.log.as_mut().ok_or(Error::Ended)?;
        let promise = write.hard_state;
        let vote = promise.vote.map(|node| node.0);
        let now = log.hard_state();
        // The term is written first: the log refuses entries of a term that it does not know.
        if (promise.term, vote) != (now.term, now.vote) {
            let kept = write.truncate.unwrap_or(log.end()).min(log.end());
            log.set_hard_state(HardState {
                term: promise.term,
                vote,
                commit: promise.commit.min(kept).max(now.commit),
            })
            .await?;
        }
        if let Some(at) = write.truncate {
            log.truncate(at).await?;
            self.entries.retain(|entry| entry.start < at);
        }
        for entry in &write.entries {
            match &entry.content {
                Content::Mark(members) => {
                    let members = encode_membership(members);
                    log.append_mark(entry.term, &members).await?;
                }
                Content::Membership(members) => {
                    let members = encode_membership(members);
                    log.append_membership(entry.term, &members).await?;
                }
                Content::Payload(bytes) => log.append_opaque(entry.term, bytes).await?,
            }
            self.entries.push_back(entry.clone());
        }
        log.flush().await?;
        Ok(())
    }

    /// Bytes of log after the snapshot in force, up to `applied`.
    pub(crate) fn since_snapshot(&self, applied: Lsn) -> u64 {
        let begin = self.entries.front().map_or(applied, |first| first.start);
        applied.0.saturating_sub(begin.0)
    }

    /// Puts a snapshot of the state at `applied` in force, in place of the log before it.
    pub(crate) async fn snapshot(&mut self, applied: Lsn, state: &[u8]) -> Result<(), Error> {
        let log = self.log.as_mut().ok_or(Error::Ended)?;
        let snapshot = log.snapshot_before(applied);
        let start = CheckpointStart {
            snapshot,
            log_start: applied,
        };
        let mut writer = log.checkpoint_place().write(start, 0).await?;
        // An empty state has one empty row, so that a checkpoint always says there is one.
        let pieces = state.chunks(ROW_BYTES);
        let empty = state.is_empty().then_some(&[][..]);
        for (number, piece) in empty.into_iter().chain(pieces).enumerate() {
            let mut row = Vec::new();
            let mut cells = RowBuilder::new();
            cells.push(Some(piece));
            cells.finish(&mut row);
            while writer.is_full(STORAGE) {
                writer.write().await?;
            }
            let record = SavedRecord {
                rid: Rid(number as u64),
                timestamp: snapshot,
                row: RowRef::trusted(&row),
            };
            writer.add(STORAGE, &record);
        }
        let sealed = writer.seal().await?;
        log.finish_checkpoint(sealed, 0).await?;
        self.entries.retain(|entry| entry.start >= applied);
        Ok(())
    }

    /// The snapshot in force, for another node.
    pub(crate) async fn offer(&mut self) -> Result<Option<(CheckpointOffer, Bytes)>, Error> {
        let Some(source) = self.log()?.checkpoint_source().await? else {
            return Ok(None);
        };
        let offer = source.offer();
        let mut bytes = Vec::new();
        loop {
            let piece = source.read(bytes.len() as u64, 1 << 20).await?;
            if piece.is_empty() {
                return Ok(Some((offer, bytes.into())));
            }
            bytes.extend_from_slice(&piece);
        }
    }

    /// Takes a snapshot of another node, and returns what consensus is to decide on.
    pub(crate) async fn receive(
        &mut self,
        offer: CheckpointOffer,
        bytes: &[u8],
    ) -> Result<coeval_consensus::Checkpoint, Error> {
        let (directory, cluster) = (&self.settings.directory, self.settings.cluster);
        let mut receiver = CheckpointReceiver::create(directory, cluster, offer).await?;
        receiver.write(0, bytes).await?;
        let received = receiver.finish().await.map_err(|error| {
            tracing::warn!(%error, "a snapshot of another node was refused");
            Error::Malformed("a snapshot is damaged, or of another cluster")
        })?;
        let checkpoint = convert::checkpoint(&received)?;
        self.received = Some(received);
        Ok(checkpoint)
    }

    /// Drops a received snapshot that is not needed.
    pub(crate) async fn discard(&mut self) {
        if let Some(received) = self.received.take() {
            received.discard().await;
        }
    }

    pub(crate) async fn close(&mut self) -> Result<(), Error> {
        match self.log.take() {
            Some(log) => Ok(log.close().await?),
            None => Ok(()),
        }
    }
}
