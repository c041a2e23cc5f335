//! What a data directory holds that a start does not read: log from before the
//! checkpoint in force, and other checkpoints.
//!
//! ```text
//!   segments   5        6        7        8        9
//!              ┼──f─────┼────────┼────────┼────b───┼───
//!                 └──── looked at here ────────┘ read by a start
//! ```
//!
//! It is kept for restores to a point in time (`log_keep_bytes`), for backups under way,
//! and by chance, when a process ended before it was removed. Nobody misses it until it
//! is needed, so it is worth being looked at while there still is something to do about
//! it.
//!
//! The oldest segment may begin inside a frame whose beginning is gone. So the first
//! frame is looked for: a place whose header is stamped for that very place and whose
//! checksum is right. From there on every frame follows on the one before it, up to
//! where a start begins (`b`); whatever else stands there is damage. Behind damage
//! nothing is looked at up to the next gap: such log serves no restore.

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

/// How much is read at once.
const WINDOW_BYTES: usize = 4 << 20;

/// What there is, and what is wrong with it.
#[derive(Debug, Default)]
pub struct Older {
    /// Bytes of log, from the first whole frame on.
    pub log_bytes: u64,
    /// Commits in it.
    pub commits: u64,
    /// Checkpoints that are not in force.
    pub checkpoints: u64,
    /// Bytes of their files.
    pub checkpoint_bytes: u64,
    /// Damage, each with file and offset: [`Error::Damaged`].
    pub findings: Vec<Error>,
}

impl Older {
    /// Keeps what is said about files, and returns what is not.
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

    /// Looks at what a start of the database in `directory` would not read, and changes
    /// nothing there. `progress` hears how many bytes of how many have been looked at.
    ///
    /// # Errors
    /// What keeps it from looking. What it finds is no error.
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

    /// The segments that hold log before `begin`, in runs without gaps. A gap is
    /// noted, and so is a segment that cannot be opened.
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
                        // One that was not to be opened has been noted.
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

    /// Looks at every frame of a run up to `until`, where a frame may break off if there
    /// is a gap.
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
                // It goes on behind what has been read.
                Some(NotAFrame::TooLong) if rest.len() < bytes.len() => {}
                Some(NotAFrame::TooLong)
                    if bytes.len() == want && (want as u64) < 2 * AppendRing::MAX_REGION =>
                {
                    want *= 2;
                }
                // The gap has been noted.
                Some(NotAFrame::TooLong) if gap => return Ok(()),
                Some(why) => return Err(run.damaged(at, why.describe().to_owned())),
            }
        }
        Ok(())
    }
}

/// Where the first frame begins; `None` when the run ends before one does.
async fn first_frame(run: &Chain, until: Lsn, seed: Seed) -> Result<Option<Lsn>, Error> {
    let first = run.first();
    if first == FIRST_LSN {
        // Nothing was before it.
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
