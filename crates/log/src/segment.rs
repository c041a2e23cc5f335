//! Segment files: fixed-size files that hold the write-ahead log's byte stream in pieces.
//!
//! ```text
//! 00000000000000004096.log          00000000000016777216.log
//! +--------+----------------------+ +--------+----------------------+
//! | header | stream from 4096 on  | | header | stream continues     |  …
//! +--------+----------------------+ +--------+----------------------+
//!  4096 B    segment_bytes - 4096
//! ```
//!
//! A file is named by the offset at which its part of the stream begins. Frames cross from
//! one file into the next. The segment maker fills a segment with zeros and makes it durable
//! before it gets its name, ahead of its use: the flusher's writes then change no metadata,
//! `fdatasync` waits for the data alone, and the log ends where zeros begin.
//!
//! The header is one page: magic, format version, CRC32C of the rest of the page,
//! database id, first offset, size of the file, the term that begins with it or 0.
//!
//! # A file for each term
//!
//! In a [replicated](crate::replica) log each leader's term begins a file of its own, at
//! whatever offset the file before it has reached, and the file's name includes the term:
//!
//! ```text
//! 00000000000000004096.log            term 2 from 4096 on …
//! 00000000000000009000-0000003.log    … up to 9000, where the mark of term 3 is
//! 00000000000000025384.log            term 3 continues
//! ```
//!
//! So `ls` shows where terms began, and a follower truncates a tail of other terms by
//! removing files. In the file before, the bytes after 9000 are zeros, and no part of the
//! log. A log that is not replicated has no such files (decision 0023).
//!
//! Source: FRS §6.6.1 (a file for each term, named by term and first LSN,
//! preallocated, flushed by `fdatasync`).

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::{Lsn, Term, planted};

use crate::Error;
use crate::recovery::Leftovers;
use crate::stamp::{self, Stamp};

/// Bytes of a segment file's header, which precede its part of the stream.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"COEVALSG";
const SUFFIX: &str = ".log";
const NEW_SUFFIX: &str = ".new";
/// Most bytes of the first segment of a new log or of a term, because the caller waits until
/// it is made; later segments are made ahead.
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;
/// Digits of a term in a file name: as many as the largest term has.
const TERM_DIGITS: usize = 7;
/// Bytes per write while a segment is filled with zeros: one page. A file system that caches
/// a large write as one large folio writes the whole folio again for every small write into
/// it, a megabyte for a commit of a hundred bytes.
const FILL_BYTES: usize = 4096;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    file: fs::File,
    /// Log offset at which its part of the stream begins.
    pub(crate) first: Lsn,
    /// The term that begins with this segment, if its name contains one.
    pub(crate) begins: Option<Term>,
    /// Log offset at which its part of the stream ends, and the next segment's begins.
    pub(crate) end: Lsn,
    /// Log offset at which its part would end if no term began within it.
    room_end: Lsn,
}

/// The directory and database that segments belong to, and the size of new ones.
#[derive(Clone, Debug)]
pub(crate) struct SegmentKind {
    pub(crate) directory: PathBuf,
    pub(crate) database: u128,
    pub(crate) segment_bytes: u64,
    pub(crate) leftovers: Leftovers,
}

/// The facts in a segment's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// Log offset at which its part of the stream begins.
    pub(crate) first: Lsn,
    /// The term that begins with this segment, if any.
    pub(crate) begins: Option<Term>,
}

impl Name {
    /// Name of a segment that continues where another one ends.
    pub(crate) const fn following(first: Lsn) -> Self {
        Self {
            first,
            begins: None,
        }
    }

    /// Parses a file's name; `None` if it is not a segment's.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let number = |digits: &str, count: usize| -> Option<u64> {
            let sound = digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_digit());
            sound.then(|| digits.parse().ok()).flatten()
        };
        let stem = name.strip_suffix(SUFFIX)?;
        let (first, begins) = match stem.split_once('-') {
            Some((first, term)) => {
                let term = u32::try_from(number(term, TERM_DIGITS)?).ok()?;
                (first, Some(Term(term)))
            }
            None => (stem, None),
        };
        let first = Lsn(number(first, 20)?);
        let sound = begins.is_none_or(|term| term != Term(0) && term <= Term::MAX);
        sound.then_some(Self { first, begins })
    }

    /// Parses the name of the file at `path`.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::parse(path.file_name()?.to_str()?)
    }

    /// The file's name. Names sorted as text are in the order of the stream.
    pub(crate) fn file_name(self) -> String {
        let first = self.first.0;
        match self.begins {
            Some(Term(term)) => format!("{first:020}-{term:0TERM_DIGITS$}{SUFFIX}"),
            None => format!("{first:020}{SUFFIX}"),
        }
    }
}

/// Log offset at which the segment at `path` begins; `None` if its name is not a segment's.
pub(crate) fn first_of_name(path: &Path) -> Option<Lsn> {
    Some(Name::of(path)?.first)
}

/// Whether this is a segment that was still being created when the process ended.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(NEW_SUFFIX))
}

impl SegmentKind {
    /// This kind with small segments, for callers that wait until the segment is made.
    pub(crate) fn small(&self) -> Self {
        Self {
            segment_bytes: self.segment_bytes.min(SMALL_SEGMENT_BYTES),
            ..self.clone()
        }
    }

    pub(crate) fn path(&self, name: Name) -> PathBuf {
        self.directory.join(name.file_name())
    }

    /// Creates a segment of zeros, durably. Checks `stop` between writes; when it returns
    /// true, the segment is left unfinished and `None` is returned.
    pub(crate) async fn create(
        &self,
        name: Name,
        stop: impl Fn() -> bool,
    ) -> Result<Option<Segment>, Error> {
        let path = self.path(name);
        let new = Self::unfinished(&path);
        let file = fs::open(&new, fs::OpenOptions::REPLACE)
            .await
            .map_err(Error::io("create", &new))?;
        file.allocate(self.segment_bytes)
            .await
            .map_err(Error::io("allocate space for", &new))?;
        let zeros = vec![0; FILL_BYTES.min(self.segment_bytes as usize)];
        let mut offset = SEGMENT_HEADER_BYTES;
        while offset < self.segment_bytes {
            if stop() {
                return Ok(None);
            }
            let count = (self.segment_bytes - offset).min(zeros.len() as u64);
            file.write_at(&zeros[..count as usize], offset)
                .await
                .map_err(Error::io("fill with zeros", &new))?;
            offset += count;
        }
        file.write_at(&self.header(name), 0)
            .await
            .map_err(Error::io("write", &new))?;
        file.sync_all().await.map_err(Error::io("sync", &new))?;
        fs::rename(&new, &path)
            .await
            .map_err(Error::io("rename", &new))?;
        if !planted!(ForgetName) {
            fs::sync_dir(&self.directory)
                .await
                .map_err(Error::io("sync", &self.directory))?;
        }
        let end = Lsn(name.first.0 + self.segment_bytes - SEGMENT_HEADER_BYTES);
        Ok(Some(Segment {
            path,
            file,
            first: name.first,
            begins: name.begins,
            end,
            room_end: end,
        }))
    }

    fn header(&self, name: Name) -> Vec<u8> {
        let mut page = Stamp::new(MAGIC, SEGMENT_HEADER_BYTES as usize);
        page.put(&self.database.to_le_bytes());
        page.put(&name.first.0.to_le_bytes());
        page.put(&self.segment_bytes.to_le_bytes());
        page.put(&name.begins.unwrap_or_default().0.to_le_bytes());
        page.finish()
    }

    /// Creates a segment for a part of the stream that exists already and ends at `end`. The
    /// caller writes and syncs that part, and only then gives the file its name.
    pub(crate) async fn begin(
        &self,
        path: PathBuf,
        name: Name,
        end: Lsn,
    ) -> Result<Segment, Error> {
        let file = fs::open(&path, fs::OpenOptions::REPLACE)
            .await
            .map_err(Error::io("create", &path))?;
        let whole = Self {
            segment_bytes: SEGMENT_HEADER_BYTES + (end.0 - name.first.0),
            ..self.clone()
        };
        file.write_at(&whole.header(name), 0)
            .await
            .map_err(Error::io("write", &path))?;
        Ok(Segment {
            path,
            file,
            first: name.first,
            begins: name.begins,
            end,
            room_end: end,
        })
    }

    fn unfinished(path: &Path) -> PathBuf {
        path.with_extension("log.new")
    }

    /// Removes what a failed [`SegmentKind::create`] has left.
    pub(crate) async fn discard(&self, name: Name) -> Result<(), Error> {
        let new = Self::unfinished(&self.path(name));
        fs::remove_file(&new)
            .await
            .map_err(Error::io("remove", &new))
    }

    /// Opens the segment of this name, and checks its header.
    pub(crate) async fn open(&self, name: Name) -> Result<Segment, Error> {
        let path = self.path(name);
        let options = match self.leftovers {
            Leftovers::Remove => fs::OpenOptions::WRITE,
            Leftovers::Keep => fs::OpenOptions::READ,
        };
        let file = fs::open(&path, options)
            .await
            .map_err(Error::io("open", &path))?;
        let length = file.len().await.map_err(Error::io("look at", &path))?;
        let damaged = |what: &str| Error::Damaged {
            file: path.clone(),
            offset: 0,
            what: what.to_owned(),
        };
        if length < SEGMENT_HEADER_BYTES {
            return Err(damaged("the file ends within its header"));
        }
        let mut page = vec![0; SEGMENT_HEADER_BYTES as usize];
        file.read_exact_at(&mut page, 0)
            .await
            .map_err(Error::io("read", &path))?;
        let mut fields = stamp::check(&page, MAGIC, &path)?;
        let database = u128::from_le_bytes(fields.take());
        let named_first = Lsn(u64::from_le_bytes(fields.take()));
        let segment_bytes = u64::from_le_bytes(fields.take());
        let begins = Term(u32::from_le_bytes(fields.take()));
        if database != self.database {
            return Err(damaged("the header names another database"));
        }
        if named_first != name.first || begins != name.begins.unwrap_or_default() {
            return Err(damaged("the header and the file's name do not agree"));
        }
        if length != segment_bytes {
            return Err(Error::Damaged {
                offset: length.min(segment_bytes),
                what: format!("the file has {length} bytes instead of {segment_bytes}"),
                file: path,
            });
        }
        let end = (segment_bytes - SEGMENT_HEADER_BYTES).checked_add(name.first.0);
        let Some(end) = end.filter(|end| end.is_multiple_of(Lsn::ALIGNMENT)) else {
            return Err(damaged("the header's size makes no sense"));
        };
        Ok(Segment {
            path,
            file,
            first: name.first,
            begins: name.begins,
            end: Lsn(end),
            room_end: Lsn(end),
        })
    }
}

impl Segment {
    /// Ends this segment's part at `end`, where a term begins in a segment of its own: the
    /// bytes after `end` are no part of the stream.
    pub(crate) fn ends_at(&mut self, end: Lsn) {
        debug_assert!(self.first <= end && end <= self.room_end);
        self.end = end;
    }

    /// Undoes [`Segment::ends_at`]: the segment that began within this one has been removed.
    pub(crate) fn goes_on(&mut self) {
        self.end = self.room_end;
    }

    /// Offset in the file of a log offset.
    pub(crate) fn offset(&self, lsn: Lsn) -> u64 {
        debug_assert!(self.first <= lsn && lsn <= self.end);
        SEGMENT_HEADER_BYTES + (lsn.0 - self.first.0)
    }

    /// Reads the stream from `lsn` on; the buffer must end within the segment.
    pub(crate) async fn read(&self, lsn: Lsn, buffer: &mut [u8]) -> Result<(), Error> {
        debug_assert!(lsn.0 + buffer.len() as u64 <= self.end.0);
        self.file
            .read_exact_at(buffer, self.offset(lsn))
            .await
            .map_err(Error::io("read", &self.path))
    }

    /// Writes the stream at `lsn`; the bytes must end within the segment.
    pub(crate) async fn write(&self, lsn: Lsn, bytes: &[u8]) -> Result<(), Error> {
        debug_assert!(lsn.0 + bytes.len() as u64 <= self.end.0);
        self.file
            .write_at(bytes, self.offset(lsn))
            .await
            .map_err(Error::io("write", &self.path))
    }

    /// Makes everything written to the segment durable (`fdatasync`).
    pub(crate) async fn sync(&self) -> Result<(), Error> {
        self.file
            .sync_data()
            .await
            .map_err(Error::io("sync", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_stand_in_the_order_of_the_stream() {
        let name = |first: u64, term: u32| Name {
            first: Lsn(first),
            begins: (term > 0).then_some(Term(term)),
        };
        let names = [
            name(4096, 0),
            name(9000, 3),
            name(25384, 0),
            name(25392, Term::MAX.0),
            name(1 << 46, 0),
        ];
        let texts = names.map(Name::file_name);
        assert_eq!(texts[1], "00000000000000009000-0000003.log");
        assert!(texts.is_sorted(), "{texts:?}");
        for (name, text) in names.into_iter().zip(&texts) {
            assert_eq!(Name::parse(text), Some(name), "{text}");
        }
        for bad in [
            "0.log",
            "00000000000000004096",
            "00000000000000004096.log.new",
            "00000000000000004096-.log",
            "00000000000000004096-3.log",
            "00000000000000004096-0000000.log",
            "00000000000000004096-1048576.log",
            "00000000000000004096-0000003-0000003.log",
            "-0000003.log",
            "+0000000000000004096.log",
        ] {
            assert_eq!(Name::parse(bad), None, "{bad}");
        }
    }
}
