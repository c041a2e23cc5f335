//! The public interface of the log: open and close it, reserve space for commits, and wait
//! for durability.

use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use coeval_env::JoinHandle;
use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Term, Timestamp};

use tokio::sync::oneshot;

use crate::commit::{Credit, Reservation};
use crate::entry::{EntryBuilder, no_rows};
use crate::files::Files;
use crate::flusher::Flusher;
use crate::frame::{Seed, frame_bytes};
use crate::recovery::{RecoverySummary, Replay, inspect, recover};
use crate::retention::Retention;
use crate::shared::{FatalHandler, Shared};
use crate::space::SpaceWait;
use crate::{Error, Settings, Statistics};

/// Log offset of the first frame. Not 0, so that there is a timestamp before the first
/// commit's in its own term.
pub(crate) const FIRST_LSN: Lsn = Lsn(4096);

/// An open log. Any number of threads commit to it at once.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: Settings,
    /// `None` for an ephemeral log.
    pub(crate) files: Option<Arc<Files>>,
    pub(crate) retention: Arc<Retention>,
    /// Log offset at which the present term began.
    pub(crate) term_start: Lsn,
    /// The flusher, until the log is closed.
    pub(crate) flusher: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log in `directory`, or creates one: locks the directory for this process,
    /// hands everything committed to `replay`, first the records of the newest checkpoint,
    /// then the log after it, and begins a new term.
    ///
    /// Recovery runs on threads of its own; the future is ready when everything has been
    /// replayed. On an error the directory is unchanged.
    pub async fn open(
        directory: &Path,
        settings: Settings,
        replay: Arc<dyn Replay>,
    ) -> Result<(Self, RecoverySummary), Error> {
        settings.check()?;
        let (opened, result) = oneshot::channel();
        let path = directory.to_owned();
        let of_flusher = settings.clone();
        // One thread recovers the log and then continues as its flusher.
        let flusher = coeval_env::spawn_dedicated("log", move || async move {
            match recover(&path, &of_flusher, replay).await {
                Ok(recovered) => {
                    let (database, versioned) =
                        (recovered.control.database, recovered.control.versioned);
                    let (flusher, summary) = Flusher::new(recovered, &of_flusher, None);
                    let shared = Arc::clone(&flusher.shared);
                    if opened
                        .send(Ok((shared, (database, versioned), summary)))
                        .is_ok()
                    {
                        flusher.run().await;
                    }
                }
                Err(error) => {
                    // The caller of `open` may have dropped the future meanwhile.
                    let _ = opened.send(Err(error));
                }
            }
        });
        let result = result.await;
        let (shared, (database, versioned), summary) = match result {
            Ok(result) => result?,
            Err(_) => {
                let reason = match flusher.await {
                    Ok(()) => "its thread ended".to_owned(),
                    Err(error) => error.to_string(),
                };
                return Err(Error::Stopped(reason.into()));
            }
        };
        let files = Files {
            directory: directory.to_owned(),
            database,
            versioned,
        };
        let retention = Retention::new(summary.checkpoint);
        // Without it statistics report more retained log than there is, until a segment is
        // removed.
        let _ = retention.look(&files).await;
        let log = Self {
            shared,
            settings,
            files: Some(Arc::new(files)),
            retention,
            term_start: summary.end,
            flusher: Mutex::new(Some(flusher)),
        };
        Ok((log, summary))
    }

    /// Makes everything durable that has been reserved, records in CONTROL that the log was
    /// closed in order, and releases the directory. The log refuses new commits from the
    /// start of the call. A second call does nothing.
    pub async fn close(&self) -> Result<(), Error> {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.space.wake_all();
        self.shared.flusher.notify_one();
        let flusher = self
            .flusher
            .lock()
            .expect("no panic under this lock")
            .take();
        let Some(flusher) = flusher else {
            self.shared.stop("it was closed", false);
            return Ok(());
        };
        if let Err(error) = flusher.await {
            return Err(Error::Stopped(error.to_string().into()));
        }
        match self.shared.fatal_reason() {
            Some(reason) => Err(Error::Stopped(reason)),
            None => Ok(()),
        }
    }

    /// A log without a file: an installed commit counts as durable at once, and the log
    /// ends with the process.
    pub fn ephemeral(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let ring = AppendRing::unread(settings.ring_bytes, FIRST_LSN.0);
        Ok(Self {
            shared: Shared::new(ring, Term(1), Seed::of_database(0), true),
            settings,
            files: None,
            retention: Retention::new(None),
            term_start: FIRST_LSN,
            flusher: Mutex::new(None),
        })
    }

    /// Reads the log in `directory` as [`Log::open`] does, and changes nothing there. It
    /// refuses the same directories with the same errors. Returns an ephemeral log that
    /// continues at the recovered end, so that transactions can read the replayed data.
    pub async fn inspect(
        directory: &Path,
        settings: Settings,
        replay: Arc<dyn Replay>,
    ) -> Result<(Self, RecoverySummary), Error> {
        settings.check()?;
        let (path, of_reader) = (directory.to_owned(), settings.clone());
        let reader = coeval_env::spawn_dedicated("log", move || async move {
            inspect(&path, &of_reader, replay).await
        });
        let read = reader.await;
        let (term, summary) = read.map_err(|error| Error::Stopped(error.to_string().into()))??;
        let ring = AppendRing::unread(settings.ring_bytes, summary.end.0);
        let log = Self {
            shared: Shared::new(ring, term, Seed::of_database(0), true),
            settings,
            files: None,
            retention: Retention::new(None),
            term_start: summary.end,
            flusher: Mutex::new(None),
        };
        Ok((log, summary))
    }

    /// The term of every commit made in this log.
    #[must_use]
    pub fn term(&self) -> Term {
        self.shared.term
    }

    /// Whether the log has no file. Callers then need not collect entries at all: an empty
    /// builder commits just as well.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.shared.ephemeral
    }

    /// Timestamp for a new snapshot that includes every commit installed without a gap:
    /// exactly the commits whose timestamp is at most this.
    ///
    /// No commit that is not included ever has this timestamp: it is right before the
    /// offset at which the next frame starts.
    #[inline]
    #[must_use]
    pub fn installed(&self) -> Timestamp {
        self.shared.installed()
    }

    /// Every commit that has got its timestamp has one of at most this. Never below
    /// [`Log::installed`], which reaches it once those commits are installed.
    #[must_use]
    pub fn reserved(&self) -> Timestamp {
        self.shared.reserved()
    }

    /// Every commit with a timestamp at most this survives the loss of power; in a cluster,
    /// of power and of a minority of nodes. A leader returns [`Timestamp::ZERO`] until the
    /// mark of its term is committed. Never above [`Log::installed`].
    #[inline]
    #[must_use]
    pub fn durable(&self) -> Timestamp {
        self.shared.durable()
    }

    /// Memory of the ring that holds log on its way to the disk, in bytes.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.shared.ring.memory()
    }

    /// An empty builder for this log's frames.
    #[must_use]
    pub fn entry_builder(&self) -> EntryBuilder {
        EntryBuilder::new(self.settings.frame_payload_bytes)
    }

    /// Registers a transaction that has written something and is about to commit: group
    /// commit may wait for it a moment. The caller calls [`Log::writer_ends`] afterwards,
    /// whether the transaction commits or aborts.
    #[inline]
    pub fn writer_begins(&self) {
        self.shared.writers.begins();
    }

    /// Ends the registration of [`Log::writer_begins`]: the transaction commits now, or has
    /// aborted.
    #[inline]
    pub fn writer_ends(&self) {
        self.shared.writers.ends();
    }

    /// Prepares the commit of `entries`, all of whose rows are copied into the builder. See
    /// [`Log::poll_prepare_with`].
    pub fn poll_prepare(
        &self,
        entries: &mut EntryBuilder,
        wait: &mut SpaceWait,
        context: &mut Context<'_>,
    ) -> Poll<Result<Credit<'_>, Error>> {
        self.poll_prepare_with(entries, no_rows, wait, context)
    }

    /// Prepares the commit of `entries`: writes the entries that do not fit one frame
    /// ahead, as chunks, and takes a credit for the commit frame. Pending while the log's
    /// ring is full.
    ///
    /// The caller leaves `entries` unchanged until the commit has ended, and also the
    /// deferred rows, which `row` returns by number: each poll asks for the rows of the
    /// chunks that it writes. `wait` is kept between polls. Recovery ignores the chunks of
    /// a transaction that does not commit.
    pub fn poll_prepare_with<'rows>(
        &self,
        entries: &mut EntryBuilder,
        row: impl Fn(usize) -> &'rows [u8],
        wait: &mut SpaceWait,
        context: &mut Context<'_>,
    ) -> Poll<Result<Credit<'_>, Error>> {
        self.check_length(entries)?;
        while let Some(chunk) = entries.next_chunk() {
            let bytes = frame_bytes(chunk.len() as u64);
            let Poll::Ready(credit) =
                self.poll_space(bytes, entries.only_frees(), wait, context)?
            else {
                return Poll::Pending;
            };
            entries.before_chunk(|| {
                let ring = &self.shared.ring;
                self.shared
                    .chunks
                    .enter(|| Lsn(ring.reserved()), || Lsn(ring.completed()))
            });
            let reservation = credit.reserve();
            let lsn = reservation.timestamp().lsn();
            reservation.chunk(&entries.next_chunk().expect("looked at"), &row);
            entries.chunk_sent(lsn);
        }
        let bytes = entries.commit_frame_bytes();
        let limit = self.settings.max_frame_bytes();
        if bytes > limit {
            return Poll::Ready(Err(Error::TooLarge { bytes, limit }));
        }
        self.poll_space(bytes, entries.only_frees(), wait, context)
    }

    /// [`Log::poll_prepare`] as a future.
    pub async fn prepare(&self, entries: &mut EntryBuilder) -> Result<Credit<'_>, Error> {
        let mut wait = SpaceWait::new();
        poll_fn(|context| self.poll_prepare(entries, &mut wait, context)).await
    }

    /// Checks that the builder's longest entry fits a frame.
    fn check_length(&self, entries: &EntryBuilder) -> Result<(), Error> {
        let (bytes, limit) = (entries.longest_part(), self.settings.frame_payload_bytes);
        if bytes > limit {
            return Err(Error::TooLarge {
                bytes: bytes as u64,
                limit: limit as u64,
            });
        }
        Ok(())
    }

    /// Takes space in the ring for a frame; `only_frees` says that its commit frees space on
    /// the disk and takes none for long.
    pub(crate) fn poll_space(
        &self,
        bytes: u64,
        only_frees: bool,
        wait: &mut SpaceWait,
        context: &mut Context<'_>,
    ) -> Poll<Result<Credit<'_>, Error>> {
        let shared = &*self.shared;
        if let Some(error) = shared.stop_reason() {
            return Poll::Ready(Err(error));
        }
        if let Some(error) = shared.refusal_reason(only_frees) {
            return Poll::Ready(Err(error));
        }
        if shared.closing.load(Ordering::Relaxed) {
            return Poll::Ready(Err(Error::Stopped("it is being closed".into())));
        }
        if shared.ring.reserved() >= Lsn::LIMIT.0 - 2 * shared.ring.capacity() {
            return Poll::Ready(Err(Error::Exhausted("128 TiB of offsets")));
        }
        shared
            .space
            .poll_acquire(&shared.ring, bytes, wait, context)
            .map(|space| Ok(Credit::new(shared, space)))
    }

    /// Reserves the first frame of a new ring, for `payload_bytes` of payload. No other
    /// thread uses the ring yet.
    pub(crate) fn first_reservation(&self, payload_bytes: u64) -> Reservation<'_> {
        let space = self.shared.ring.try_acquire(frame_bytes(payload_bytes));
        let space = space.expect("a frame is far smaller than the ring");
        Credit::new(&self.shared, space).reserve()
    }

    /// Assigns the next commit timestamp. Never waits and never fails; from here on the
    /// caller must complete the commit or skip it ([`Reservation`]).
    #[inline]
    pub fn reserve<'log>(&'log self, credit: Credit<'log>) -> Reservation<'log> {
        credit.reserve()
    }

    /// Ready when every commit up to `timestamp` is durable. A timestamp of an earlier term
    /// is durable since the log was opened. A timestamp that no commit will ever have is
    /// pending until a later commit is durable.
    ///
    /// Returns an error if the log has stopped before `timestamp` became durable.
    pub fn poll_durable(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if timestamp <= self.durable() {
            return Poll::Ready(Ok(()));
        }
        self.shared.waiters.park(timestamp, context);
        // The flusher may have reached it, or the log may have stopped, before the waiter
        // was queued.
        if timestamp <= self.durable() {
            return Poll::Ready(Ok(()));
        }
        match self.shared.stop_reason() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    /// Ready when [`Log::installed`] has reached `timestamp`. A timestamp that no commit
    /// will ever have is pending until a later commit is installed.
    ///
    /// Returns an error if the log has stopped before `timestamp` was installed.
    pub fn poll_installed(
        &self,
        timestamp: Timestamp,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Error>> {
        if timestamp <= self.installed() {
            return Poll::Ready(Ok(()));
        }
        self.shared.beginners.park(timestamp, context);
        // Checked again, as in `poll_durable`.
        if timestamp <= self.installed() {
            return Poll::Ready(Ok(()));
        }
        match self.shared.stop_reason() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    }

    /// [`Log::poll_durable`] as a future.
    pub async fn wait_durable(&self, timestamp: Timestamp) -> Result<(), Error> {
        poll_fn(|context| self.poll_durable(timestamp, context)).await
    }

    /// Why the log refuses new commits because the disk is full; `None` if it does not.
    #[must_use]
    pub fn full_reason(&self) -> Option<Error> {
        self.shared.full_reason(false)
    }

    /// Counters of the log since it was opened.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let shared = &*self.shared;
        // Read in this order, so that durable ≤ installed ≤ reserved holds among the three.
        let durable = shared.durable_end();
        let installed = Lsn(shared.ring.completed());
        let reserved = Lsn(shared.ring.reserved());
        let ends = (reserved, installed, durable);
        shared.counters.read(ends, shared.writers.count())
    }

    /// Sets the handler that is called, once, when the log stops for good because a write
    /// to the disk failed; at once, if it already has.
    pub fn set_fatal_handler(&self, handler: FatalHandler) {
        self.shared.set_fatal_handler(handler);
    }
}

impl Drop for Log {
    /// Without [`Log::close`]: as if the process had been killed. Durable commits stay
    /// durable; the flusher ends by itself a little later.
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
        self.shared.flusher.notify_one();
    }
}
