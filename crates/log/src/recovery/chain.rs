//! A chain of segments: the log's files, read as one contiguous stream.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::Lsn;

use crate::Error;
use crate::log::FIRST_LSN;
use crate::recovery::Leftovers;
use crate::segment::{Name, Segment, SegmentKind, first_of_name, is_unfinished};

/// Segments that follow each other without a gap, beginning with the one that holds the
/// first needed byte. Earlier ones, kept for other purposes, are not part of it. A
/// segment with which a term begins may start within the one before it.
#[derive(Debug)]
pub(crate) struct Chain {
    segments: Vec<Segment>,
    /// Log offset at which the first needed segment begins, or an earlier one.
    first: Lsn,
}

/// Path of some segment in the directory, if there is any.
pub(crate) async fn first_segment(directory: &Path) -> Result<Option<PathBuf>, Error> {
    let names = fs::read_dir(directory)
        .await
        .map_err(Error::io("list", directory))?;
    Ok(names.into_iter().find(|path| first_of_name(path).is_some()))
}

impl Chain {
    /// Opens every segment that holds the stream from `needed` on, and removes unfinished
    /// ones, or leaves them alone. Segments that begin at or after `until` are no part of
    /// the log.
    pub(crate) async fn open(
        kind: &SegmentKind,
        needed: Lsn,
        until: Option<Lsn>,
    ) -> Result<Self, Error> {
        let names = fs::read_dir(&kind.directory)
            .await
            .map_err(Error::io("list", &kind.directory))?;
        let firsts = names.iter().filter_map(|path| first_of_name(path));
        // The last segment that does not begin after `needed`.
        let first = firsts
            .filter(|first| *first <= needed && until.is_none_or(|until| *first < until))
            .max();
        let mut chain = Self {
            segments: Vec::new(),
            first: first.unwrap_or(needed),
        };
        for path in names {
            if is_unfinished(&path) {
                if kind.leftovers == Leftovers::Remove {
                    fs::remove_file(&path)
                        .await
                        .map_err(Error::io("remove", &path))?;
                }
                continue;
            }
            let Some(name) = Name::of(&path) else {
                tracing::warn!(file = %path.display(), "not a file of the log; left alone");
                continue;
            };
            // Names sort as their offsets do.
            if name.first < chain.first || until.is_some_and(|until| name.first >= until) {
                continue;
            }
            if !chain.is_followed_by(name) {
                return Err(chain.not_there(kind));
            }
            chain.push(kind.open(name).await?);
        }
        Ok(chain)
    }

    /// A chain without segments, whose first will begin at `first`.
    pub(crate) fn starting_at(first: Lsn) -> Self {
        Self {
            segments: Vec::new(),
            first,
        }
    }

    /// Creates a first segment if there is none.
    pub(crate) async fn begin_if_empty(&mut self, kind: &SegmentKind) -> Result<(), Error> {
        if self.is_empty() {
            let name = Name::following(self.first);
            let made = kind.small().create(name, || false).await?;
            self.push(made.expect("it is never stopped"));
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether the segment of this name continues where the last one ends, or begins a
    /// term within it.
    pub(crate) fn is_followed_by(&self, name: Name) -> bool {
        let within = |last: &Segment| last.first < name.first && name.first < last.end;
        name.first == self.end()
            || (name.begins.is_some() && self.segments.last().is_some_and(within))
    }

    pub(crate) fn push(&mut self, segment: Segment) {
        if let Some(last) = self.segments.last_mut() {
            debug_assert!(last.first < segment.first && segment.first <= last.end);
            last.ends_at(segment.first);
        }
        self.segments.push(segment);
    }

    /// Log offset at which the first segment begins.
    pub(crate) fn first(&self) -> Lsn {
        self.first
    }

    /// Log offset at which the last segment ends.
    pub(crate) fn end(&self) -> Lsn {
        self.segments.last().map_or(self.first, |last| last.end)
    }

    /// Returns an error if segments are missing that once held the stream up to `lsn`.
    pub(crate) fn must_reach(&self, lsn: Lsn, kind: &SegmentKind) -> Result<(), Error> {
        if self.is_empty() || self.end() < lsn {
            return Err(self.not_there(kind));
        }
        Ok(())
    }

    /// The error that the segment is missing with which the stream continues, or should
    /// begin.
    fn not_there(&self, kind: &SegmentKind) -> Error {
        if !self.is_empty() {
            return missing(&kind.path(Name::following(self.end())));
        }
        // Segments are named by where they begin. That name is known for the log's first
        // segment; it is unknown for the segment within which a checkpoint ends.
        let (file, what) = if self.first == FIRST_LSN {
            let what = "the file is missing, and in checkpoints there is none that stands for it";
            (kind.path(Name::following(FIRST_LSN)), what.to_owned())
        } else {
            let what = format!(
                "the file is missing that holds the log from {} on, where the checkpoint needs it",
                self.first
            );
            (kind.directory.clone(), what)
        };
        Error::Damaged {
            file,
            offset: 0,
            what,
        }
    }

    /// Removes segments before the one that begins at `first` from the chain, after their
    /// files have been removed.
    pub(crate) fn forget_before(&mut self, first: Lsn) {
        while self.segments.len() > 1 && self.segments[0].first < first {
            self.segments.remove(0);
        }
        self.first = self.segments.first().map_or(self.first, |only| only.first);
    }

    /// The segment that holds the byte at `lsn`, or the last for the stream's end.
    pub(crate) fn segment(&self, lsn: Lsn) -> &Segment {
        let next = self
            .segments
            .partition_point(|segment| segment.first <= lsn);
        &self.segments[next.saturating_sub(1)]
    }

    /// Segments that hold any part of the stream from `start` to `end`.
    pub(crate) fn segments(&self, start: Lsn, end: Lsn) -> impl Iterator<Item = &Segment> {
        self.segments
            .iter()
            .filter(move |segment| segment.first < end && segment.end > start)
    }

    /// Log offset of the first segment at or after `lsn` with which a term begins.
    pub(crate) fn term_behind(&self, lsn: Lsn) -> Option<Lsn> {
        let found = |segment: &&Segment| segment.first >= lsn && segment.begins.is_some();
        self.segments
            .iter()
            .find(found)
            .map(|segment| segment.first)
    }

    /// The damage error for a log offset, with its file and offset.
    pub(crate) fn damaged(&self, lsn: Lsn, what: String) -> Error {
        let segment = self.segment(lsn);
        Error::Damaged {
            file: segment.path.clone(),
            offset: segment.offset(lsn),
            what,
        }
    }

    /// Appends the stream from `lsn` on to `bytes`: `count` bytes, or fewer at its
    /// end.
    pub(crate) async fn read(
        &self,
        lsn: Lsn,
        count: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let at = bytes.len();
        bytes.resize(at + count, 0);
        let read = self.fill(lsn, &mut bytes[at..]).await?;
        bytes.truncate(at + read);
        Ok(())
    }

    /// Reads the stream from `lsn` on, and returns how many bytes: a full buffer, or less
    /// at its end.
    pub(crate) async fn fill(&self, mut lsn: Lsn, buffer: &mut [u8]) -> Result<usize, Error> {
        let end = Lsn(self.end().0.min(lsn.0 + buffer.len() as u64));
        let mut at = 0;
        while lsn < end {
            let segment = self.segment(lsn);
            let until = segment.end.min(end);
            let next = at + (until.0 - lsn.0) as usize;
            segment.read(lsn, &mut buffer[at..next]).await?;
            (at, lsn) = (next, until);
        }
        Ok(at)
    }

    /// Removes the segments that begin at or after `first`, the last one first, so that
    /// no gap ever shows. The first of the chain stays.
    pub(crate) async fn remove_from(
        &mut self,
        first: Lsn,
        kind: &SegmentKind,
    ) -> Result<(), Error> {
        while self.segments.len() > 1
            && self.segments.last().is_some_and(|last| last.first >= first)
        {
            let last = self.segments.pop().expect("looked at");
            fs::remove_file(&last.path)
                .await
                .map_err(Error::io("remove", &last.path))?;
            // One at a time, because a disk might persist several removals in another
            // order.
            fs::sync_dir(&kind.directory)
                .await
                .map_err(Error::io("sync", &kind.directory))?;
            if let Some(before) = self.segments.last_mut() {
                before.goes_on();
            }
        }
        Ok(())
    }

    /// Removes every segment that begins at or after `first`, the last one first.
    pub(crate) async fn remove_all_from(
        &mut self,
        first: Lsn,
        kind: &SegmentKind,
    ) -> Result<(), Error> {
        self.remove_from(first, kind).await?;
        if self
            .segments
            .first()
            .is_some_and(|only| only.first >= first)
        {
            let only = self.segments.pop().expect("looked at");
            fs::remove_file(&only.path)
                .await
                .map_err(Error::io("remove", &only.path))?;
            fs::sync_dir(&kind.directory)
                .await
                .map_err(Error::io("sync", &kind.directory))?;
        }
        Ok(())
    }

    /// Clears the bytes at or after `start` in the last segment, and makes that durable.
    pub(crate) async fn clear_last_from(&self, start: Lsn) -> Result<(), Error> {
        const WINDOW_BYTES: u64 = 1 << 20;
        let Some(last) = self.segments.last() else {
            return Ok(());
        };
        let (mut at, mut window) = (start.max(last.first), Vec::new());
        let mut cleared = false;
        while at < last.end {
            let count = (last.end.0 - at.0).min(WINDOW_BYTES);
            window.resize(count as usize, 0);
            last.read(at, &mut window).await?;
            if window.iter().any(|&byte| byte != 0) {
                window.fill(0);
                last.write(at, &window).await?;
                cleared = true;
            }
            at.0 += count;
        }
        match cleared {
            true => last.sync().await,
            false => Ok(()),
        }
    }

    /// Splits off the segment that holds the log offset `lsn`, and those after it. When
    /// the stream ends with its last segment, that full segment is returned as the
    /// current one.
    pub(crate) fn split_at(self, lsn: Lsn) -> (Segment, VecDeque<Segment>) {
        let mut segments: VecDeque<Segment> = self.segments.into();
        while segments.len() > 1 && segments[0].end <= lsn {
            segments.pop_front();
        }
        let current = segments.pop_front().expect("a log has a segment");
        (current, segments)
    }
}

/// The error that a file of the log is missing.
pub(crate) fn missing(path: &Path) -> Error {
    Error::Damaged {
        file: path.to_owned(),
        offset: 0,
        what: "the file is missing".to_owned(),
    }
}
