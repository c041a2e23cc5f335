//! Segment files: the log's stream in pieces.
//!
//! ```text
//! 00000000000000004096.log          00000000000016777216.log
//! +--------+----------------------+ +--------+----------------------+
//! | header | stream from 4096 on  | | header | stream goes on       |  …
//! +--------+----------------------+ +--------+----------------------+
//!  4096 B    segment_bytes - 4096
//! ```
//!
//! A file is named by the offset at which its part of the stream begins. Frames
//! cross from one file into the next. A segment is written full of zeros and made
//! durable before it gets its name, ahead of its use: writing the log then changes
//! no metadata, so `fdatasync` has one thing to wait for, and the end of the log
//! is where zeros begin.
//!
//! The header is one page: magic, format version, CRC32C of the rest of the page,
//! database id, first offset, size of the file, the term that begins with it or 0.
//!
//! # A file for each term
//!
//! In a [replicated](crate::replica) log a leader's term begins a file of its own,
//! wherever the file before it stands, and the term is in its name:
//!
//! ```text
//! 00000000000000004096.log            term 2 from 4096 on …
//! 00000000000000009000-0000003.log    … up to 9000, where the mark of term 3 stands
//! 00000000000000025384.log            term 3 goes on
//! ```
//!
//! So `ls` shows where terms began, and a tail of other terms is taken away by
//! removing files. What the file before has behind 9000 is zeros, and no part of the
//! log. A log that is not replicated has no such files (decision 0023).
//!
//! Source: FRS §6.6.1 (a file for each term, named by term and first LSN,
//! preallocated, flushed by `fdatasync`).

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::planted::{Bug, is_planted};
use coeval_types::{Lsn, Term};

use crate::Error;
use crate::recovery::Leftovers;
use crate::stamp::{self, Stamp};

/// Bytes of a segment file before the stream's.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"COEVALSG";
const SUFFIX: &str = ".log";
const NEW_SUFFIX: &str = ".new";
/// Most bytes of the first segment of a new log or of a term, because somebody waits
/// until it is made; those that follow are made ahead.
const SMALL_SEGMENT_BYTES: u64 = 1 << 20;
/// As many as the largest term has.
const TERM_DIGITS: usize = 7;
/// How much is written at once while a segment is filled with zeros: one page. A
/// file system that caches a large write as one large folio writes the whole
/// folio again for every small write into it, a megabyte for a commit of a
/// hundred bytes.
const FILL_BYTES: usize = 4096;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    file: fs::File,
    /// Where its part of the stream begins.
    pub(crate) first: Lsn,
    /// The term that begins with it, if its name has one.
    pub(crate) begins: Option<Term>,
    /// Where its part of the stream ends, and the next segment's begins.
    pub(crate) end: Lsn,
    /// Where its part would end if no term began within it.
    room_end: Lsn,
}

/// What a segment belongs to, and how large new ones are.
#[derive(Clone, Debug)]
pub(crate) struct SegmentKind {
    pub(crate) directory: PathBuf,
    pub(crate) database: u128,
    pub(crate) segment_bytes: u64,
    pub(crate) leftovers: Leftovers,
}

/// What the name of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// Where its part of the stream begins.
    pub(crate) first: Lsn,
    /// The term that begins with it.
    pub(crate) begins: Option<Term>,
}

impl Name {
    /// A segment that goes on where another one ends.
    pub(crate) const fn following(first: Lsn) -> Self {
        Self {
            first,
            begins: None,
        }
    }

    /// Reads a file's name.
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

    /// Reads the name of the file at `path`.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::parse(path.file_name()?.to_str()?)
    }

    /// The file's name. Sorted as text, names stand in the order of the stream.
    pub(crate) fn file_name(self) -> String {
        let first = self.first.0;
        match self.begins {
            Some(Term(term)) => format!("{first:020}-{term:0TERM_DIGITS$}{SUFFIX}"),
            None => format!("{first:020}{SUFFIX}"),
        }
    }
}

/// Which offset the segment of this name begins at, if it is the name of one.
pub(crate) fn first_of_name(path: &Path) -> Option<Lsn> {
    Some(Name::of(path)?.first)
}

/// Whether this is a segment that was being made when the process ended.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(NEW_SUFFIX))
}

impl SegmentKind {
    /// The same with small segments, for where somebody waits until one is made.
    pub(crate) fn small(&self) -> Self {
        Self {
            segment_bytes: self.segment_bytes.min(SMALL_SEGMENT_BYTES),
            ..self.clone()
        }
    }

    pub(crate) fn path(&self, name: Name) -> PathBuf {
        self.directory.join(name.file_name())
    }

    /// Makes a segment of zeros, durably. Looks between writes whether to `stop`,
    /// and then leaves it unfinished.
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
        if !is_planted(Bug::ForgetName) {
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

    /// Begins a segment for a part of the stream that exists already and ends at `end`. It is
    /// whole, and may be given its name, when all of that has been written and synced.
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
    /// A term begins here, in a segment of its own: nothing behind is a part of the
    /// stream.
    pub(crate) fn ends_at(&mut self, end: Lsn) {
        debug_assert!(self.first <= end && end <= self.room_end);
        self.end = end;
    }

    /// The segment that took over within this one has gone.
    pub(crate) fn goes_on(&mut self) {
        self.end = self.room_end;
    }

    /// Where in the file a place in the stream is.
    pub(crate) fn offset(&self, lsn: Lsn) -> u64 {
        debug_assert!(self.first <= lsn && lsn <= self.end);
        SEGMENT_HEADER_BYTES + (lsn.0 - self.first.0)
    }

    /// Reads the stream from `lsn` on; the buffer ends within the segment.
    pub(crate) async fn read(&self, lsn: Lsn, buffer: &mut [u8]) -> Result<(), Error> {
        debug_assert!(lsn.0 + buffer.len() as u64 <= self.end.0);
        self.file
            .read_exact_at(buffer, self.offset(lsn))
            .await
            .map_err(Error::io("read", &self.path))
    }

    /// Writes the stream at `lsn`; the bytes end within the segment.
    pub(crate) async fn write(&self, lsn: Lsn, bytes: &[u8]) -> Result<(), Error> {
        debug_assert!(lsn.0 + bytes.len() as u64 <= self.end.0);
        self.file
            .write_at(bytes, self.offset(lsn))
            .await
            .map_err(Error::io("write", &self.path))
    }

    /// Makes what was written durable.
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
