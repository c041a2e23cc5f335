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
//! database id, first offset, size of the file.

use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::Lsn;
use coeval_types::planted::{Bug, is_planted};

use crate::Error;
use crate::recovery::Leftovers;
use crate::stamp::{self, Stamp};

/// Bytes of a segment file before the stream's.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"COEVALSG";
const SUFFIX: &str = ".log";
const NEW_SUFFIX: &str = ".new";
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
    /// Where its part of the stream ends, and the next segment's begins.
    pub(crate) end: Lsn,
}

/// What a segment belongs to, and how large new ones are.
#[derive(Clone, Debug)]
pub(crate) struct SegmentKind {
    pub(crate) directory: PathBuf,
    pub(crate) database: u128,
    pub(crate) segment_bytes: u64,
    pub(crate) leftovers: Leftovers,
}

/// Which offset the segment of this name begins at, if it is the name of one.
pub(crate) fn first_of_name(path: &Path) -> Option<Lsn> {
    let digits = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Lsn)
}

/// Whether this is a segment that was being made when the process ended.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    path.to_str().is_some_and(|name| name.ends_with(NEW_SUFFIX))
}

impl SegmentKind {
    pub(crate) fn path(&self, first: Lsn) -> PathBuf {
        self.directory.join(format!("{:020}{SUFFIX}", first.0))
    }

    /// Makes a segment of zeros, durably. Looks between writes whether to `stop`,
    /// and then leaves it unfinished.
    pub(crate) async fn create(
        &self,
        first: Lsn,
        stop: impl Fn() -> bool,
    ) -> Result<Option<Segment>, Error> {
        let path = self.path(first);
        let new = Self::unfinished(&path);
        let options = fs::OpenOptions {
            truncate: true,
            ..fs::OpenOptions::CREATE
        };
        let file = fs::open(&new, options)
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
        let mut page = Stamp::new(MAGIC, SEGMENT_HEADER_BYTES as usize);
        page.put(&self.database.to_le_bytes());
        page.put(&first.0.to_le_bytes());
        page.put(&self.segment_bytes.to_le_bytes());
        file.write_at(&page.finish(), 0)
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
        Ok(Some(Segment {
            path,
            file,
            first,
            end: Lsn(first.0 + self.segment_bytes - SEGMENT_HEADER_BYTES),
        }))
    }

    fn unfinished(path: &Path) -> PathBuf {
        path.with_extension("log.new")
    }

    /// Removes what a failed [`SegmentKind::create`] has left.
    pub(crate) async fn discard(&self, first: Lsn) -> Result<(), Error> {
        let new = Self::unfinished(&self.path(first));
        fs::remove_file(&new)
            .await
            .map_err(Error::io("remove", &new))
    }

    /// Opens the segment that begins at `first`, and checks its header.
    pub(crate) async fn open(&self, first: Lsn) -> Result<Segment, Error> {
        let path = self.path(first);
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
        if database != self.database {
            return Err(damaged("the header names another database"));
        }
        if named_first != first {
            return Err(damaged("the header and the file's name do not agree"));
        }
        if length != segment_bytes {
            return Err(Error::Damaged {
                offset: length.min(segment_bytes),
                what: format!("the file has {length} bytes instead of {segment_bytes}"),
                file: path,
            });
        }
        let end = (segment_bytes - SEGMENT_HEADER_BYTES).checked_add(first.0);
        let Some(end) = end.filter(|end| end.is_multiple_of(Lsn::ALIGNMENT)) else {
            return Err(damaged("the header's size makes no sense"));
        };
        Ok(Segment {
            path,
            file,
            first,
            end: Lsn(end),
        })
    }
}

impl Segment {
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
