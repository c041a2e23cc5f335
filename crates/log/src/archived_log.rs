//! Verification of the files that a start does not read: archived log from before the
//! checkpoint in force, and other checkpoints.
//!
//! ```text
//!   segments   5        6        7        8        9
//!              ┼──f─────┼────────┼────────┼────b───┼───
//!                 └──── verified here  ────────┘ read by a start
//! ```
//!
//! The log keeps them for point-in-time restores (`log_keep_bytes`), for backups under
//! way, and by accident, when a process ended before it removed them. Damage to them goes
//! unnoticed until they are needed, so it is worth finding while it can still be
//! repaired.
//!
//! The oldest segment may begin inside a frame whose beginning is gone. So the scan
//! searches for the first frame: an offset where the header carries that very offset and
//! the checksum is right. From there on each frame must follow the one before it, up to
//! where a start begins to read (`b`); anything else is damage. After damage the scan
//! skips to the next gap: log with damage in it serves no restore.

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Term};

use crate::checkpoint::{CheckpointFile, all as all_checkpoints};
use crate::control::DataDirectory;
use crate::frame::{HEADER_BYTES, Header, Kind, NotAFrame, Seed};
use crate::log::FIRST_LSN;
use crate::recovery::chain::{Chain, missing};
use crate::recovery::{Leftovers, find_checkpoint};
use crate::segment::{Name, SegmentKind};
use crate::{Error, Settings};

/// Bytes of log that the scan reads at once.
const WINDOW_BYTES: usize = 4 << 20;

/// Result of the scan: the amount of archived log and checkpoints, and the damage in
/// them.
#[derive(Debug, Default)]
pub struct ArchivedLog {
    /// Bytes of log, from the first whole frame on.
    pub log_bytes: u64,
    /// Commits in that log.
    pub commits: u64,
    /// Checkpoints other than the one in force.
    pub checkpoints: u64,
    /// Bytes of their files.
    pub checkpoint_bytes: u64,
    /// Damage found, each with file and offset: [`Error::Damaged`].
    pub findings: Vec<Error>,
}

impl ArchivedLog {
    /// Records an [`Error::Damaged`] as a finding, and passes every other result through.
    fn note<T>(&mut self, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Damaged { .. }) => {
                self.findings.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Scans the files that a start of the database in `directory` would not read, and
    /// changes nothing there. `progress` is called with the bytes scanned so far and the
    /// total.
    ///
    /// # Errors
    /// Errors that keep the scan from reading the directory. Damage that it finds is no
    /// error.
    pub async fn look(
        directory: &Path,
        settings: &Settings,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let mut older = Self::default();
        let directory = DataDirectory::inspect(directory).await?;
        let Some(control) = directory.read_control().await? else {
            return Ok(older);
        };
        if control.term == Term(0) {
            return Ok(older);
        }
        let in_force = find_checkpoint(&directory, &control, Leftovers::Keep).await?;
        let begin = in_force
            .as_ref()
            .map_or(FIRST_LSN, CheckpointFile::replay_from);
        if let Some(in_force) = &in_force {
            for path in all_checkpoints(&directory.checkpoints()).await? {
                if path != in_force.path() {
                    let looked = older.checkpoint(&path).await;
                    older.note(looked)?;
                }
            }
        }
        let kind = SegmentKind {
            directory: directory.log(),
            database: control.database,
            segment_bytes: settings.segment_bytes,
            leftovers: Leftovers::Keep,
        };
        let runs = older.runs(&kind, begin).await?;
        let bytes = |run: &Chain| run.end().min(begin).0 - run.first().0;
        let of = runs.iter().map(bytes).sum();
        let mut done = 0;
        let seed = Seed::of_database(control.database);
        for run in &runs {
            let until = run.end().min(begin);
            let mut at = |lsn: Lsn| progress(done + (lsn.0 - run.first().0), of);
            let looked = older
                .frames(run, (until, until < begin), seed, &mut at)
                .await;
            older.note(looked)?;
            done += bytes(run);
        }
        Ok(older)
    }

    async fn checkpoint(&mut self, path: &Path) -> Result<(), Error> {
        let file = CheckpointFile::open(path).await?;
        self.checkpoints += 1;
        self.checkpoint_bytes += file.summary().bytes;
        let mut buffer = Vec::new();
        for block in 0..file.blocks() {
            file.read(block, &mut buffer).await?;
        }
        Ok(())
    }

    /// The segments that hold log before `begin`, in runs without gaps. Gaps, and
    /// segments that cannot be opened, are recorded as findings.
    async fn runs(&mut self, kind: &SegmentKind, begin: Lsn) -> Result<Vec<Chain>, Error> {
        let names = fs::read_dir(&kind.directory).await;
        let names: Vec<PathBuf> = names.map_err(Error::io("list", &kind.directory))?;
        let segments = names.iter().filter_map(|path| Name::of(path));
        let mut runs: Vec<Chain> = Vec::new();
        for name in segments.filter(|name| name.first < begin) {
            let first = name.first;
            let Some(segment) = self.note(kind.open(name).await)? else {
                continue;
            };
            match runs.last_mut() {
                Some(run) if run.is_followed_by(name) => run.push(segment),
                last => {
                    if let Some(run) = last {
                        let path = kind.path(Name::following(run.end()));
                        // A segment that could not be opened has been recorded already.
                        if !names.contains(&path) {
                            self.findings.push(missing(&path));
                        }
                    }
                    let mut run = Chain::starting_at(first);
                    run.push(segment);
                    runs.push(run);
                }
            }
        }
        Ok(runs)
    }

    /// Scans every frame of a run up to `until`, where the last frame may be incomplete
    /// if a gap follows.
    async fn frames(
        &mut self,
        run: &Chain,
        (until, gap): (Lsn, bool),
        seed: Seed,
        progress: &mut impl FnMut(Lsn),
    ) -> Result<(), Error> {
        let Some(mut at) = first_frame(run, until, seed).await? else {
            return Ok(());
        };
        let (mut bytes, mut want) = (Vec::new(), WINDOW_BYTES);
        while at < until {
            bytes.clear();
            run.read(at, want, &mut bytes).await?;
            let mut rest = &bytes[..];
            let stopped_by = loop {
                if at >= until {
                    break None;
                }
                match Header::parse(rest, at, seed) {
                    Ok((header, _)) => {
                        rest = &rest[header.frame_bytes() as usize..];
                        at = header.end();
                        self.log_bytes += header.frame_bytes();
                        self.commits += u64::from(header.kind == Kind::Commit);
                        want = WINDOW_BYTES;
                    }
                    Err(why) => break Some(why),
                }
            };
            progress(at.min(until));
            match stopped_by {
                None => {}
                // The frame continues after the bytes that were read.
                Some(NotAFrame::TooLong) if rest.len() < bytes.len() => {}
                Some(NotAFrame::TooLong)
                    if bytes.len() == want && (want as u64) < 2 * AppendRing::MAX_REGION =>
                {
                    want *= 2;
                }
                // The gap has been recorded.
                Some(NotAFrame::TooLong) if gap => return Ok(()),
                Some(why) => return Err(run.damaged(at, why.describe().to_owned())),
            }
        }
        Ok(())
    }
}

/// Log offset of the run's first whole frame; `None` when the run ends before one.
async fn first_frame(run: &Chain, until: Lsn, seed: Seed) -> Result<Option<Lsn>, Error> {
    let first = run.first();
    if first == FIRST_LSN {
        // No log precedes it.
        return Ok(Some(first));
    }
    let mut window = Vec::new();
    let mut start = first;
    while start < until {
        window.clear();
        run.read(start, WINDOW_BYTES, &mut window).await?;
        let mut at = 0;
        while let Some(head) = window.get(at..).and_then(|rest| rest.first_chunk()) {
            let lsn = Lsn(start.0 + at as u64);
            if lsn >= until {
                return Ok(None);
            }
            if let Ok(header) = Header::decode(head, lsn, seed)
                && header.frame_bytes() <= AppendRing::MAX_REGION
            {
                let mut frame = Vec::new();
                run.read(lsn, header.frame_bytes() as usize, &mut frame)
                    .await?;
                if Header::parse(&frame, lsn, seed).is_ok() {
                    return Ok(Some(lsn));
                }
            }
            at += Lsn::ALIGNMENT as usize;
        }
        if window.len() < HEADER_BYTES || at == 0 {
            return Ok(None);
        }
        start.0 += at as u64;
    }
    Ok(None)
}
