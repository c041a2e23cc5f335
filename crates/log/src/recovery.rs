//! Recovery: from what the disk holds back to what was committed.
//!
//! First the newest [checkpoint](crate::checkpoint) is loaded, if there is any. Then
//! the log is read from where that ends, else from its first frame, to the first
//! place that holds none. What is found there decides everything:
//!
//! ```text
//!   frame  frame  frame  ?????  frame  00000000
//!                        ^ p
//! ```
//!
//! - *A torn tail.* The power failed during a write that nobody had been told was
//!   durable. The log ends at `p`; what is behind is cleared.
//! - *Damage.* What stood at `p` had been durable, so somebody may rely on it, and
//!   on what came behind. Nothing is changed, and the log refuses to open.
//!
//! `p` was durable if any of these says so:
//!
//! 1. CONTROL: the present term began behind `p` (everything before its beginning
//!    was made durable first), or the log was closed in order and ended behind `p`.
//! 2. A frame anywhere behind `p`, valid and of the present term, that carries a
//!    durable offset greater than `p`: whoever made it knew.
//!
//! Neither can be had for the last group before a crash: if it was durable, and
//! nothing was written after it, and the disk damages it afterwards, that looks
//! like a torn tail. An orderly close leaves no such gap.
//!
//! A frame of an earlier term at or behind the beginning of the present one is a
//! remnant of a tail that was cut; the log ends there, whatever it looks like.
//!
//! Before the log is written again, what was read back but never proved durable is
//! written once more and synced: after a crash of the process alone the kernel
//! still shows it, whether the disk has it or not. Then the tail is cleared, and
//! only then does CONTROL name the next term and its beginning. A crash anywhere
//! in between finds the same log again.
//!
//! A checkpoint that is damaged is not replaced by what else there may be: the log
//! before it is gone, or may be. Its file and the place in it are named.
//!
//! - [`chain`]: the segments as one stream.
//! - [`scan`]: reads frames, finds the end.
//! - [`deliver`]: follows a commit to all its entries.
//! - [`dispatch`]: replays entries, each record's in order, on several threads.
//! - [`tail`]: judges what is behind the end, and repairs it.

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
use crate::segment::{Segment, SegmentKind};
use crate::{Entry, Error, Settings};
use chain::Chain;
use scan::Scan;
use tail::Tail;

/// Why an entry cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// The entry's commit.
    pub timestamp: Timestamp,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "commit {}: {}", self.timestamp, self.reason)
    }
}

impl std::error::Error for ReplayError {}

/// Takes the entries of the log back while it is opened.
pub trait Replay: Send + Sync + 'static {
    /// Transactions committed at these timestamps did this. A few dozen entries at
    /// once, so that who takes them can look ahead. Called from several threads at
    /// once; for one record always from the same thread and in commit order. An
    /// error ends the opening.
    fn apply(&self, entries: &[(Timestamp, Entry<'_>)]) -> Result<(), ReplayError>;

    /// A checkpoint holds these records. Called from several threads at once, before
    /// anything is applied, and for each record once. An error, in words, ends the
    /// opening.
    fn restore(&self, block: &Block<'_>) -> Result<(), String>;

    /// How far it has come; called now and then, for people who wait.
    fn progress(&self, progress: RecoveryProgress) {
        let _ = progress;
    }
}

/// How far reading a data directory has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryProgress {
    /// Loading the checkpoint.
    Checkpoint {
        /// Rows that are loaded.
        records: u64,
        /// Rows that there are.
        of: u64,
    },
    /// Replaying the log behind it.
    Log {
        /// Bytes that are read.
        bytes: u64,
        /// Bytes that there are, what has not been written yet included.
        of: u64,
    },
}

/// What recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySummary {
    /// The checkpoint that was loaded first.
    pub checkpoint: Option<Checkpoint>,
    /// Whether the log had been closed in order.
    pub clean: bool,
    /// Committed transactions.
    pub commits: u64,
    /// Their entries.
    pub entries: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// The last commit in the log that was read, [`Timestamp::ZERO`] when there is
    /// none.
    pub last_commit: Timestamp,
    /// Where the log goes on.
    pub end: Lsn,
    /// Bytes behind the end that make no whole commit, and that nothing left on the disk
    /// says were durable. Cut off. After a crash they are of commits that were never
    /// acknowledged, unless the disk has damaged the last group since (see the module).
    pub cut_bytes: u64,
}

impl RecoverySummary {
    /// Nothing was read, and the log goes on here.
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

/// A log that is ready to be written.
pub(crate) struct Recovered {
    pub(crate) directory: DataDirectory,
    /// As it is on the disk: with the term that begins now.
    pub(crate) control: Control,
    pub(crate) kind: SegmentKind,
    /// The segment that is written next. Its end may be the log's.
    pub(crate) current: Segment,
    /// Segments of zeros that follow on it.
    pub(crate) spares: VecDeque<Segment>,
    pub(crate) summary: RecoverySummary,
}

/// What a data directory holds, read and replayed.
pub(crate) struct Found {
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) chain: Chain,
    /// Where in the log replay began, and the term that what came before ended in.
    pub(crate) begin: (Lsn, Term),
    pub(crate) scan: Scan,
    pub(crate) tail: Tail,
}

/// What reading does with files that were being made when a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Removes them.
    Remove,
    /// Leaves everything as it is, and opens no file for writing.
    Keep,
}

/// Replays the log in `path`, repairs its tail, and begins a new term.
pub(crate) async fn recover(
    path: &Path,
    settings: &Settings,
    replay: Arc<dyn Replay>,
) -> Result<Recovered, Error> {
    let directory = DataDirectory::lock(path).await?;
    let control = match directory.read_control().await? {
        Some(control) => control,
        None => create(&directory, None).await?,
    };
    if control.member.is_some() {
        return Err(Error::Setting(format!(
            "{} belongs to a node of a cluster, and is not opened without it; start the node as \
             one of its cluster, or take a backup there and restore it to have a database of its \
             own",
            path.display()
        )));
    }
    let kind = SegmentKind {
        directory: directory.log(),
        database: control.database,
        segment_bytes: settings.segment_bytes,
        leftovers: Leftovers::Remove,
    };
    let mut found = Found::read(&directory, &control, &kind, settings, replay).await?;
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

/// Replays the log in `path`, and changes nothing there. The next term, where the log
/// would go on, and what was found.
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
        // The first start made the directory and got no further.
        return Ok((Term(1), RecoverySummary::nothing(FIRST_LSN)));
    }
    let kind = SegmentKind {
        directory: directory.log(),
        database: control.database,
        segment_bytes: settings.segment_bytes,
        leftovers: Leftovers::Keep,
    };
    let found = Found::read(&directory, &control, &kind, settings, replay).await?;
    Ok((Term(control.term.0 + 1), found.summary()))
}

impl Found {
    /// Reads and replays it. Of a log that was being cut it reads what the cut leaves.
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
        // A cluster's log may be cut down to nothing.
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

/// Makes CONTROL in a new directory, of this database or one of its own.
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
    let mut drawn = [0; 16];
    coeval_env::random_bytes(&mut drawn);
    let control = Control {
        database: database.unwrap_or(u128::from_le_bytes(drawn)),
        term: Term(0),
        start: FIRST_LSN,
        clean_end: None,
        member: None,
    };
    directory.write_control(&control).await?;
    Ok(control)
}
