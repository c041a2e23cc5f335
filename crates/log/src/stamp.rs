//! What the fixed-size blocks of the log's files have in common: magic, format
//! version, and a CRC32C of everything behind it and of the version.
//!
//! ```text
//!  0       8         12    16
//! +-------+---------+-----+---------- … --+-------+
//! | magic | version | crc | fields        | zeros |
//! +-------+---------+-----+---------- … --+-------+
//! ```

use std::path::Path;

use crate::Error;

/// Version of all the log's formats: segments, frames, entries and control file.
const FORMAT_VERSION: u32 = 1;
const FIELDS_AT: usize = 16;

/// A block being written.
pub(crate) struct Stamp {
    block: Vec<u8>,
    at: usize,
}

impl Stamp {
    pub(crate) fn new(magic: [u8; 8], bytes: usize) -> Self {
        let mut block = vec![0; bytes];
        block[..8].copy_from_slice(&magic);
        block[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        Self {
            block,
            at: FIELDS_AT,
        }
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
    /// The next field. The block's size is part of its format, so there is one.
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
    let version = u32::from_le_bytes(block[8..12].try_into().expect("four bytes"));
    if version != FORMAT_VERSION {
        return Err(Error::Format {
            file: file.to_owned(),
            what: format!("has format version {version}, this program knows {FORMAT_VERSION}"),
        });
    }
    Ok(Fields(&block[FIELDS_AT..]))
}
