//! Crash recovery: rebuilds the committed state from the newest checkpoint and the log.
//!
//! First it loads the newest [checkpoint], if there is one. Then it reads the log from
//! the checkpoint's end, else from its first frame, to the first offset without a valid
//! frame. The bytes found there decide:
//!
//! ```text
//!   frame  frame  frame  ?????  frame  00000000
//!                        ^ p
//! ```
//!
//! - *A torn tail.* The power failed during a write that was never acknowledged as
//!   durable. The log ends at `p`; recovery clears the bytes after it.
//! - *Damage.* The bytes at `p` had been durable, so a client may rely on them and on
//!   what followed. Recovery changes nothing and refuses to open the log.
//!
//! The bytes at `p` were durable if either of these says so:
//!
//! 1. CONTROL: the present term began after `p` (everything before its beginning was made
//!    durable first), or the log was closed in order and ended after `p`.
//! 2. A frame anywhere after `p`, valid and of the present term, that carries a durable
//!    offset greater than `p`: the writer of that frame knew.
//!
//! Neither evidence exists for the last group before a crash: if it was durable, and
//! nothing was written after it, and the disk damages it afterwards, that looks like a
//! torn tail. An orderly close leaves no such gap.
//!
//! A frame of an earlier term at or after the beginning of the present one is a remnant
//! of a tail that was cut; the log ends there, whatever the frame looks like.
//!
//! Before the log is written again, recovery rewrites and syncs the bytes that it read
//! but that were never proved durable: after a crash of the process alone the kernel
//! still shows them, whether or not the disk has them. Then it clears the tail, and only
//! then does CONTROL name the next term and its beginning. A recovery after a crash
//! anywhere in between finds the same log again.
//!
//! Recovery does not replace a damaged checkpoint by an older one: the log before it is
//! gone, or may be. The error names the file and the offset in it.
//!
//! - [`chain`]: the segments as one stream.
//! - [`scan`]: reads frames, finds the end.
//! - [`deliver`]: follows a commit to all its entries.
//! - [`dispatch`]: replays entries, each record's in order, on several threads.
//! - [`tail`]: classifies the bytes after the end, and repairs the tail.

pub(crate) mod chain;
pub(crate) mod chunks;
pub(crate) mod deliver;
mod dispatch;
pub(crate) mod scan;
pub(crate) mod tail;

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use coeval_env::fs;
use coeval_types::{Lsn, Term, Timestamp};

use crate::checkpoint::{self, Block, Checkpoint, CheckpointFile, CheckpointStart};
use crate::control::{Control, DataDirectory};
use crate::frame::Seed;
use crate::log::FIRST_LSN;
use crate::reserve::Reserve;
use crate::segment::{Segment, SegmentKind};
use crate::{Entry, Error, Settings};
use chain::Chain;
use scan::Scan;
use tail::Tail;

/// Why a [`Replay`] implementation rejected an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Commit timestamp of the entry.
    pub timestamp: Timestamp,
    /// The problem with the entry, in words.
    pub reason: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "commit {}: {}", self.timestamp, self.reason)
    }
}

impl std::error::Error for ReplayError {}

/// Receives the checkpoint's records and the log's entries while the log is opened.
pub trait Replay: Send + Sync + 'static {
    /// Applies entries of transactions that committed at these timestamps. Recovery
    /// passes a few dozen at once, so that the implementation can prefetch. Called from
    /// several threads at once; for one record always from the same thread and in commit
    /// order. An error makes the opening fail.
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError>;

    /// Loads records of the checkpoint. Called from several threads at once, before any
    /// [`Replay::apply`], and for each record once. An error, in words, makes the opening
    /// fail.
    fn restore(&self, block: &Block<'_>) -> Result<(), String>;

    /// Reports progress for operators who wait for the start; called now and then.
    fn progress(&self, progress: RecoveryProgress) {
        let _ = progress;
    }
}

/// Progress of reading a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryProgress {
    /// Recovery is loading the checkpoint.
    Checkpoint {
        /// Rows loaded so far.
        records: u64,
        /// Rows of the whole checkpoint.
        of: u64,
    },
    /// Recovery is replaying the log after the checkpoint.
    Log {
        /// Bytes read so far.
        bytes: u64,
        /// Bytes of all segments, the unwritten rest of the last one included.
        of: u64,
    },
}

/// Result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySummary {
    /// The checkpoint that was loaded first.
    pub checkpoint: Option<Checkpoint>,
    /// Whether the log had been closed in order before.
    pub clean: bool,
    /// Committed transactions that were replayed.
    pub commits: u64,
    /// Entries of those transactions.
    pub entries: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// The last commit in the log that was read, [`Timestamp::ZERO`] when there is
    /// none.
    pub last_commit: Timestamp,
    /// Log offset at which the log continues.
    pub end: Lsn,
    /// Bytes after the end that make no whole commit, and that nothing left on the disk
    /// shows to have been durable; recovery cut them off. After a crash they belong to
    /// commits that were never acknowledged, unless the disk has damaged the last group
    /// since (see the module).
    pub cut_bytes: u64,
}

impl RecoverySummary {
    /// The summary of an empty log that continues at `end`.
    pub(crate) const fn nothing(end: Lsn) -> Self {
        Self {
            checkpoint: None,
            clean: false,
            commits: 0,
            entries: 0,
            bytes: 0,
            last_commit: Timestamp::ZERO,
            end,
            cut_bytes: 0,
        }
    }
}

/// A recovered log that is ready to be written.
pub(crate) struct Recovered {
    pub(crate) directory: DataDirectory,
    /// The control data on the disk, which names the new term.
    pub(crate) control: Control,
    pub(crate) kind: SegmentKind,
    /// The segment that the flusher writes next. Its end may be the log's.
    pub(crate) current: Segment,
    /// Segments of zeros that follow it.
    pub(crate) spares: VecDeque<Segment>,
    pub(crate) summary: RecoverySummary,
}

/// Contents of a data directory, read and replayed.
pub(crate) struct ReadLog {
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) chain: Chain,
    /// Log offset at which replay began, and the term in which the log before it ended.
    pub(crate) begin: (Lsn, Term),
    pub(crate) scan: Scan,
    pub(crate) tail: Tail,
}

/// Whether recovery may remove files that were still being created when a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Recovery removes them.
    Remove,
    /// Recovery leaves everything as it is, and opens no file for writing.
    Keep,
}

/// Replays the log in `path`, repairs its tail, and begins a new term.
pub(crate) async fn recover(
    path: &Path,
    settings: &Settings,
    replay: Arc<dyn Replay>,
) -> Result<Recovered, Error> {
    let directory = DataDirectory::lock(path).await?;
    Reserve::new(path, settings.reserve_bytes, settings.segment_bytes)
        .give_up_to_open(settings.segment_bytes)
        .await?;
    let control = match directory.read_control().await? {
        Some(control) => control,
        None => create(&directory, None).await?,
    };
    if control.member.is_some() {
        return Err(Error::Setting(format!(
            "{} belongs to a node of a cluster, and is not opened without it. Start the node with \
             the settings of its cluster. For a database of its own, take a backup through any \
             node (coeval backup), or use the one that this directory was restored from, and \
             restore it into an empty directory (coeval restore). If a majority of the nodes is \
             lost for ever, coeval cluster recover ends the wait for it",
            path.display()
        )));
    }
    let kind = SegmentKind {
        directory: directory.log(),
        database: control.database,
        segment_bytes: settings.segment_bytes,
        leftovers: Leftovers::Remove,
    };
    let mut found = ReadLog::read(&directory, &control, &kind, settings, replay).await?;
    tail::repair(&mut found.chain, &kind, &control, &found.scan, &found.tail).await?;

    let end = found.scan.end;
    let control = Control {
        term: Term(control.term.0 + 1),
        start: end,
        clean_end: None,
        ..control
    };
    if control.term > Term::MAX {
        return Err(Error::Exhausted("2²⁰ terms"));
    }
    directory.write_control(&control).await?;

    let summary = found.summary();
    let (current, spares) = found.chain.split_at(end);
    Ok(Recovered {
        directory,
        control,
        kind,
        current,
        spares,
        summary,
    })
}

/// Replays the log in `path`, and changes nothing there. Returns the next term, and the
/// summary.
pub(crate) async fn inspect(
    path: &Path,
    settings: &Settings,
    replay: Arc<dyn Replay>,
) -> Result<(Term, RecoverySummary), Error> {
    let directory = DataDirectory::inspect(path).await?;
    let control = directory.read_control().await?;
    let control = control.ok_or_else(|| Error::Damaged {
        file: directory.control(),
        offset: 0,
        what: "the file is missing: this is no data directory, or no whole one".to_owned(),
    })?;
    if control.term == Term(0) {
        // The first start created the directory and got no further.
        return Ok((Term(1), RecoverySummary::nothing(FIRST_LSN)));
    }
    let kind = SegmentKind {
        directory: directory.log(),
        database: control.database,
        segment_bytes: settings.segment_bytes,
        leftovers: Leftovers::Keep,
    };
    let found = ReadLog::read(&directory, &control, &kind, settings, replay).await?;
    Ok((Term(control.term.0 + 1), found.summary()))
}

impl ReadLog {
    /// Reads and replays the directory. Of a log whose truncation was under way, it reads
    /// the part that the truncation leaves.
    pub(crate) async fn read(
        directory: &DataDirectory,
        control: &Control,
        kind: &SegmentKind,
        settings: &Settings,
        replay: Arc<dyn Replay>,
    ) -> Result<Self, Error> {
        if control
            .member
            .is_some_and(|member| member.install.is_some())
        {
            return Err(Error::Setting(format!(
                "in {} a checkpoint is being put in the place of the log; start the node, which \
                 goes on with it",
                directory.path().display()
            )));
        }
        let checkpoint = find_checkpoint(directory, control, kind.leftovers).await?;
        let (needed, begin) = match &checkpoint {
            Some(file) => {
                let CheckpointStart {
                    snapshot,
                    log_start,
                } = file.start();
                (log_start, (file.replay_from(), snapshot.term()))
            }
            None => (FIRST_LSN, (FIRST_LSN, Term(0))),
        };
        let until = control.cut();
        let control = &control.after_cut();
        let mut chain = Chain::open(kind, needed, until).await?;
        // The truncation of a cluster's log may leave nothing of it.
        let is_new = control.term == Term(0)
            || (control.member.is_some() && control.start.max(begin.0) <= needed);
        if chain.is_empty() && is_new && kind.leftovers == Leftovers::Remove {
            chain.begin_if_empty(kind).await?;
        }
        let durable = control.clean_end.unwrap_or(control.start).max(begin.0);
        if !(chain.is_empty() && is_new) {
            chain.must_reach(durable, kind)?;
        }

        let threads = settings.recovery_threads;
        if let Some(file) = &checkpoint {
            checkpoint::load(file, threads, Arc::clone(&replay)).await?;
        }
        let seed = Seed::of_database(control.database);
        let scan = Scan::run(&chain, control, seed, begin, threads, replay).await?;
        let tail = tail::judge(&chain, control, seed, &scan).await?;
        Ok(Self {
            checkpoint: checkpoint.map(|file| file.summary()),
            chain,
            begin,
            scan,
            tail,
        })
    }

    pub(crate) fn summary(&self) -> RecoverySummary {
        let scan = &self.scan;
        RecoverySummary {
            checkpoint: self.checkpoint,
            clean: scan.clean,
            commits: scan.commits,
            entries: scan.entries,
            bytes: scan.end.0 - self.begin.0.0,
            last_commit: scan.last_commit,
            end: scan.end,
            cut_bytes: self.tail.written_end.0 - scan.end.0,
        }
    }
}

/// The checkpoint in force.
pub(crate) async fn find_checkpoint(
    directory: &DataDirectory,
    control: &Control,
    leftovers: Leftovers,
) -> Result<Option<CheckpointFile>, Error> {
    let folder = directory.checkpoints();
    match leftovers {
        Leftovers::Remove => checkpoint::remove_unfinished(&folder).await?,
        // A directory of format version 1 has none.
        Leftovers::Keep => {
            let exists = fs::exists(&folder).await;
            if !exists.map_err(Error::io("look for", &folder))? {
                return Ok(None);
            }
        }
    }
    let Some(path) = checkpoint::newest(&folder).await? else {
        return Ok(None);
    };
    let file = CheckpointFile::open(&path).await?;
    let refuse = |what: String| {
        Err(Error::Damaged {
            file: path.clone(),
            offset: 0,
            what,
        })
    };
    if file.database() != control.database {
        return refuse("the checkpoint is of another database".to_owned());
    }
    let term = file.snapshot().term();
    if term > control.term {
        return refuse(format!(
            "the checkpoint is of term {term}, but CONTROL knows none behind {}: it is older \
             than the checkpoint",
            control.term
        ));
    }
    Ok(Some(file))
}

/// Files that a node of a cluster makes after CONTROL.
const OF_A_MEMBER: [&str; 3] = ["IDENTITY", "FOUNDERS", "MARKS"];

/// Creates CONTROL in a new directory, with this database id or a new random one.
pub(crate) async fn create(
    directory: &DataDirectory,
    database: Option<u128>,
) -> Result<Control, Error> {
    let checkpoint = checkpoint::newest(&directory.checkpoints()).await?;
    if let Some(file) = chain::first_segment(&directory.log()).await?.or(checkpoint) {
        return Err(Error::Damaged {
            file: directory.control(),
            offset: 0,
            what: format!("the file is missing, but there is {}", file.display()),
        });
    }
    // A node's number and identity without its log would count as the member that has it.
    for name in OF_A_MEMBER {
        let file = directory.path().join(name);
        let exists = coeval_env::fs::exists_now(&file);
        if exists.map_err(Error::io("look for", &file))? {
            return Err(Error::Damaged {
                file: directory.control(),
                offset: 0,
                what: format!(
                    "the file is missing, but there is {}: what this node has acknowledged is \
                     lost. Have it removed from its cluster, and join with an empty directory \
                     and an id that was never used",
                    file.display()
                ),
            });
        }
    }
    let mut drawn = [0; 16];
    coeval_env::random_bytes(&mut drawn);
    let control = Control {
        database: database.unwrap_or(u128::from_le_bytes(drawn)),
        term: Term(0),
        start: FIRST_LSN,
        clean_end: None,
        member: None,
        versioned: false,
    };
    directory.write_control(&control).await?;
    Ok(control)
}
