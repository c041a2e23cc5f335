//! The common layout of the fixed-size blocks in the log's files: magic number, format
//! version, and a CRC32C of the version and of everything after the CRC.
//!
//! ```text
//!  0       8         12    16
//! +-------+---------+-----+---------- … --+-------+
//! | magic | version | crc | fields        | zeros |
//! +-------+---------+-----+---------- … --+-------+
//! ```
//!
//! # Format versions
//!
//! One number covers everything in a data directory: control file, segments, frames,
//! entries, checkpoints. A program reads from the oldest version it knows to the newest.
//! It writes version 3, and CONTROL with version 4 once the log of a cluster may hold what
//! only version 4 has: until then, the build before opens the directory. With version 5 it
//! keeps earlier builds from the directories of other protocols.
//!
//! | version | introduced with it |
//! | --- | --- |
//! | 1 | control file, segments, frames |
//! | 2 | checkpoints: the log may begin later than at its first byte; the time of day in frames |
//! | 3 | replicated logs: files for terms, marks, a node's vote and its commit index |
//! | 4 | memberships with a cluster version and the identities of directories |
//! | 5 | clusters of another protocol than `leader` |
//!
//! Recovery reads CONTROL before anything else, and every start writes it, so a program
//! older than the last one that used a directory refuses it there, before it can misread
//! a newer part of it. Segments keep the version they were made with: a newer program
//! reads them.

use std::path::Path;

use crate::Error;

/// The newest format version that this program reads.
const NEWEST: u32 = 5;
/// The format version that this program writes, unless a file needs a newer one.
const USUAL: u32 = 3;
/// The format version of CONTROL when the log may hold memberships with a cluster version.
pub(crate) const VERSIONED_MEMBERS: u32 = 4;
/// The format version of CONTROL in a cluster whose protocol is not the first one's.
pub(crate) const PROTOCOLS: u32 = 5;
/// The oldest format version that this program reads.
const OLDEST: u32 = 1;
const FIELDS_AT: usize = 16;

/// A block that is being written.
pub(crate) struct Stamp {
    block: Vec<u8>,
    at: usize,
}

impl Stamp {
    pub(crate) fn new(magic: [u8; 8], bytes: usize) -> Self {
        let mut block = vec![0; bytes];
        block[..8].copy_from_slice(&magic);
        block[8..12].copy_from_slice(&USUAL.to_le_bytes());
        Self {
            block,
            at: FIELDS_AT,
        }
    }

    /// Has the block say this format version, which keeps older programs away.
    pub(crate) fn set_version(&mut self, version: u32) {
        self.block[8..12].copy_from_slice(&version.to_le_bytes());
    }

    pub(crate) fn put(&mut self, field: &[u8]) {
        self.block[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let crc = checksum(&self.block);
        self.block[12..16].copy_from_slice(&crc.to_le_bytes());
        self.block
    }
}

fn checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&block[..12]), &block[FIELDS_AT..])
}

/// The fields of a block, taken in order.
#[derive(Debug)]
pub(crate) struct Fields<'block>(&'block [u8]);

impl Fields<'_> {
    /// The next field. The block's size is part of its format, so a missing field is a
    /// bug, and panics.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("a field of the format");
        self.0 = rest;
        *field
    }
}

/// Checks a block that was read from the start of `file`.
pub(crate) fn check<'block>(
    block: &'block [u8],
    magic: [u8; 8],
    file: &Path,
) -> Result<Fields<'block>, Error> {
    let damaged = |what: &str| Error::Damaged {
        file: file.to_owned(),
        offset: 0,
        what: what.to_owned(),
    };
    if block.len() < FIELDS_AT || block[..8] != magic {
        return Err(damaged(
            "the file does not begin as a file of its kind does",
        ));
    }
    if checksum(block).to_le_bytes() != block[12..16] {
        return Err(damaged("the header's checksum differs"));
    }
    check_version(version_of(block), file)?;
    Ok(Fields(&block[FIELDS_AT..]))
}

/// The format version of a block that was checked.
pub(crate) fn version_of(block: &[u8]) -> u32 {
    block[8..12].try_into().map_or(0, u32::from_le_bytes)
}

/// Refuses a format version that this program cannot read; the error says which program
/// can.
fn check_version(version: u32, file: &Path) -> Result<(), Error> {
    let what = if version > NEWEST {
        format!(
            "has format version {version}, written by a newer version of this program, which \
             reads {OLDEST} to {NEWEST}; start the newer version, or choose another directory"
        )
    } else if version < OLDEST {
        format!(
            "has format version {version}, older than what this program reads ({OLDEST} to \
             {NEWEST}); start a version in between on it once, one that reads {version} and \
             writes {OLDEST} or later, or choose another directory"
        )
    } else {
        return Ok(());
    };
    Err(Error::Format {
        file: file.to_owned(),
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"COEVALXX";

    /// A block as a program of that format version would write it.
    fn block(version: u32) -> Vec<u8> {
        let mut block = Stamp::new(MAGIC, 64).finish();
        block[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = checksum(&block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        block
    }

    #[test]
    fn a_version_is_read_or_named() {
        let file = Path::new("CONTROL");
        for version in OLDEST..=NEWEST {
            check(&block(version), MAGIC, file).expect("it is read");
        }
        let newer = check(&block(NEWEST + 1), MAGIC, file).expect_err("not known");
        assert!(matches!(newer, Error::Format { .. }));
        let newer = newer.to_string();
        assert!(
            newer.contains("format version 6, written by a newer version"),
            "{newer}"
        );
        assert!(newer.contains("start the newer version"), "{newer}");
        let older = check(&block(OLDEST - 1), MAGIC, file).expect_err("too old");
        let older = older.to_string();
        assert!(older.contains("format version 0, older than"), "{older}");
        assert!(older.contains("start a version in between"), "{older}");
    }
}
