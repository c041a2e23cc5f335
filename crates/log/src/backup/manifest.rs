//! The manifest of a backup, the text file BACKUP: lists its files with their checksums,
//! for operators and for the restore.
//!
//! ```text
//! coeval backup 1
//! database 9f1c…
//! end 3/73728
//! taken 1767225600000000
//! file checkpoints/00000000000000069632.checkpoint 8410 8410 1f0e22d5
//! file log/00000000000000065536.log 16777216 12288 a81c0f00
//! file CONTROL 128 128 5f3b9c11
//! sum 0c9a1b2c
//! ```
//!
//! Each line has a keyword and its values; `file` has a name, a length, the number of
//! bytes under the checksum (the rest are zeros), and their CRC32C in hexadecimal. `sum`
//! is the CRC32C of all lines before it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use coeval_types::{Lsn, Term, Timestamp};

use super::BackupSummary;
use super::archive::is_name;
use crate::Error;

/// The manifest's file name.
pub(super) const BACKUP: &str = "BACKUP";
const FIRST_LINE: &str = "coeval backup 1";

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) length: u64,
    /// Bytes from the file's beginning that the checksum covers.
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

/// The parsed manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) database: u128,
    pub(super) end: Timestamp,
    pub(super) taken_at: Duration,
    pub(super) files: Vec<Listed>,
}

impl Manifest {
    pub(super) fn summary(&self) -> BackupSummary {
        BackupSummary {
            database: self.database,
            end: self.end,
            taken_at: self.taken_at,
            files: self.files.len(),
            bytes: self.files.iter().map(|file| file.bytes).sum(),
        }
    }

    /// The checksum of its lines, which tells this backup from all others.
    pub(super) fn sum(&self) -> u32 {
        crc32c::crc32c(self.lines().as_bytes())
    }

    pub(super) fn encode(&self) -> String {
        let mut text = self.lines();
        // Writing to a string does not fail.
        let _ = writeln!(text, "sum {:08x}", self.sum());
        text
    }

    fn lines(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\ndatabase {:032x}\nend {}\ntaken {}\n",
            self.database,
            self.end,
            self.taken_at.as_micros()
        );
        for file in &self.files {
            let Listed {
                name,
                length,
                bytes,
                crc,
            } = file;
            // Writing to a string does not fail.
            let _ = writeln!(text, "file {name} {length} {bytes} {crc:08x}");
        }
        text
    }

    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self, Error> {
        let damaged = |what: &str| Error::Damaged {
            file: path.to_owned(),
            offset: 0,
            what: what.to_owned(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with("coeval backup ") => {
                return Err(Error::Format {
                    file: path.to_owned(),
                    what: format!(
                        "is a backup of another version: {line:?}, this program reads \
                         {FIRST_LINE:?}; restore it with the version that made it"
                    ),
                });
            }
            _ => return Err(damaged("it does not begin as the list of a backup does")),
        }
        let sum_at = text.rfind("sum ").ok_or_else(|| damaged("it has no sum"))?;
        let sum = format!("sum {:08x}\n", crc32c::crc32c(&bytes[..sum_at]));
        if text[sum_at..] != sum {
            return Err(damaged("its sum differs"));
        }
        let mut manifest = Self {
            database: 0,
            end: Timestamp::ZERO,
            taken_at: Duration::ZERO,
            files: Vec::new(),
        };
        for line in text[..sum_at].lines().skip(1) {
            manifest
                .take(line)
                .ok_or_else(|| damaged("a line makes no sense"))?;
        }
        Ok(manifest)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["database", number] => self.database = u128::from_str_radix(number, 16).ok()?,
            ["end", timestamp] => self.end = parse_timestamp(timestamp)?,
            ["taken", micros] => self.taken_at = Duration::from_micros(micros.parse().ok()?),
            ["file", name, length, bytes, crc] => self.files.push(Listed {
                name: Some(name).filter(|name| is_name(name))?.to_owned(),
                length: length.parse().ok()?,
                bytes: bytes.parse().ok()?,
                crc: u32::from_str_radix(crc, 16).ok()?,
            }),
            _ => return None,
        }
        Some(())
    }
}

/// Parses a timestamp as the manifest and users write it: term, slash, offset.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let (term, offset) = text.split_once('/')?;
    let (term, lsn) = (Term(term.parse().ok()?), Lsn(offset.parse().ok()?));
    let sound = term <= Term::MAX && lsn < Lsn::LIMIT && lsn.0.is_multiple_of(Lsn::ALIGNMENT);
    sound.then(|| Timestamp::new(term, lsn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_and_every_changed_byte_is_noticed() {
        let manifest = Manifest {
            database: 0x9f1c,
            end: Timestamp::new(Term(3), Lsn(73728)),
            taken_at: Duration::from_micros(1_767_225_600_000_001),
            files: vec![
                Listed {
                    name: "CONTROL".to_owned(),
                    length: 128,
                    bytes: 128,
                    crc: 7,
                },
                Listed {
                    name: "log/00000000000000065536.log".to_owned(),
                    length: 8192,
                    bytes: 5000,
                    crc: u32::MAX,
                },
            ],
        };
        let text = manifest.encode();
        let path = Path::new("BACKUP");
        assert_eq!(Manifest::parse(text.as_bytes(), path).unwrap(), manifest);
        assert_eq!(manifest.summary().bytes, 5128);
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert!(Manifest::parse(&bad, path).is_err(), "byte {at}");
        }
        let newer = text.replace("backup 1", "backup 2");
        let refused = Manifest::parse(newer.as_bytes(), path).unwrap_err();
        assert!(refused.to_string().contains("another version"), "{refused}");
    }

    #[test]
    fn timestamps_are_read_as_they_are_written() {
        let timestamp = Timestamp::new(Term(7), Lsn(4096));
        assert_eq!(parse_timestamp(&timestamp.to_string()), Some(timestamp));
        for bad in ["", "7", "7/4097", "x/8", "1048576/8", "1/999999999999999"] {
            assert_eq!(parse_timestamp(bad), None, "{bad}");
        }
    }
}
