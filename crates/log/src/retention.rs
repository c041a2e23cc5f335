//! Log truncation: decides how much of the log is retained, and removes the segments
//! before that.
//!
//! ```text
//!   segments   0        1        2        3        4        5
//!              ┼────────┼────────┼────────┼────────┼────────┼───
//!   needed by the newest checkpoint         ▲ from here on
//!   log_keep_bytes before the end    ▲
//!   a backup that is being read  ▲
//!   removed    ───────▶ 0, and nothing else
//! ```
//!
//! Three parties need log: the checkpoint in force; every holder of a [`Hold`], such as a
//! backup under way; and the setting `log_keep_bytes`, for point-in-time restores and for
//! followers that fall behind. The oldest offset of the three decides. Truncation removes
//! whole segments, the oldest first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use coeval_env::fs;
use coeval_types::Lsn;

use crate::Error;
use crate::checkpoint::{Checkpoint, remove_all_but};
use crate::files::Files;
use crate::segment::first_of_name;

#[derive(Debug, Default)]
struct State {
    /// The checkpoint in force.
    checkpoint: Option<Checkpoint>,
    next_hold: u64,
    /// Log offset at which the oldest existing segment begins.
    oldest: Option<Lsn>,
    /// Needs of each holder: a checkpoint, if there was one, and the log from this offset
    /// on.
    holds: BTreeMap<u64, (Option<Lsn>, Lsn)>,
}

/// Tracks which checkpoints and which part of the log are still needed.
#[derive(Debug, Default)]
pub(crate) struct Retention(Mutex<State>);

/// Retains a checkpoint, and the log from its start on, until dropped.
#[derive(Debug)]
#[must_use = "what is held is kept only as long as this is"]
pub struct Hold {
    retention: Arc<Retention>,
    number: u64,
    checkpoint: Option<Checkpoint>,
    log_start: Lsn,
}

impl Hold {
    /// The retained checkpoint; `None` if there was none yet.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
    }

    /// Log offset from which on the log is retained.
    #[must_use]
    pub fn log_start(&self) -> Lsn {
        self.log_start
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.retention.state().holds.remove(&self.number);
    }
}

impl Retention {
    pub(crate) fn new(checkpoint: Option<Checkpoint>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            checkpoint,
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic under this lock")
    }

    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        self.state().checkpoint
    }

    /// Puts a newer checkpoint in force.
    pub(crate) fn set_checkpoint(&self, checkpoint: Checkpoint) {
        self.state().checkpoint = Some(checkpoint);
    }

    /// Lists the segments, and remembers where the oldest one begins.
    pub(crate) async fn look(&self, files: &Files) -> Result<(), Error> {
        let oldest = segments(files).await?.first().map(|(_, first)| *first);
        self.state().oldest = oldest;
        Ok(())
    }

    /// Log offset at which the oldest segment began when the directory was last listed.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.state().oldest
    }

    /// Number of holders that are reading.
    pub(crate) fn holders(&self) -> usize {
        self.state().holds.len()
    }

    /// Retains the checkpoint in force and its log; the log from `first` on when there is
    /// no checkpoint.
    pub(crate) fn hold(self: &Arc<Self>, first: Lsn) -> Hold {
        let mut state = self.state();
        let number = state.next_hold;
        state.next_hold += 1;
        let checkpoint = state.checkpoint;
        let log_start = checkpoint.map_or(first, |checkpoint| checkpoint.start.log_start);
        let from = checkpoint.map(|checkpoint| checkpoint.start.replay_from());
        state.holds.insert(number, (from, log_start));
        Hold {
            retention: Arc::clone(self),
            number,
            checkpoint,
            log_start,
        }
    }

    /// The checkpoints that are needed, by the offset where their replay begins, and the
    /// offset from which the log is needed. `None` without a checkpoint: then nothing may
    /// be removed.
    fn needed(&self) -> Option<(Vec<Lsn>, Lsn)> {
        let state = self.state();
        let checkpoint = state.checkpoint?.start;
        let held = state.holds.values();
        let checkpoints = held.clone().filter_map(|(checkpoint, _)| *checkpoint);
        let log = held.map(|(_, log_start)| *log_start);
        Some((
            checkpoints.chain([checkpoint.replay_from()]).collect(),
            log.fold(checkpoint.log_start, Lsn::min),
        ))
    }

    /// Removes checkpoints and segments that are no longer needed. `kept_from` is the
    /// offset from which the settings retain log. Called only when the checkpoint in
    /// force would survive the loss of power.
    pub(crate) async fn clean(&self, files: &Files, kept_from: Lsn) -> Result<(), Error> {
        let Some((checkpoints, needed)) = self.needed() else {
            return Ok(());
        };
        remove_all_but(&files.checkpoints(), &checkpoints).await?;
        truncate(files, needed.min(kept_from)).await?;
        self.look(files).await
    }
}

/// The existing segments, each with the log offset at which it begins, the oldest first.
async fn segments(files: &Files) -> Result<Vec<(PathBuf, Lsn)>, Error> {
    let directory = files.log();
    let names = fs::read_dir(&directory)
        .await
        .map_err(Error::io("list", &directory))?;
    let segments = names.into_iter().filter_map(|path| {
        let first = first_of_name(&path)?;
        Some((path, first))
    });
    Ok(segments.collect())
}

/// Removes the segments that end at or before `before`, the oldest first; the last
/// one stays.
pub(crate) async fn truncate(files: &Files, before: Lsn) -> Result<(), Error> {
    let directory = files.log();
    let segments = segments(files).await?;
    let mut removed = 0_u64;
    for pair in segments.windows(2) {
        let [(path, _), (_, next)] = pair else {
            break;
        };
        if *next > before {
            break;
        }
        fs::remove_file(path)
            .await
            .map_err(Error::io("remove", path))?;
        removed += 1;
    }
    if removed > 0 {
        fs::sync_dir(&directory)
            .await
            .map_err(Error::io("sync", &directory))?;
        tracing::debug!(removed, before = before.0, "removed segments of the log");
    }
    Ok(())
}
