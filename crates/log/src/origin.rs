//! The origin of a restored data directory: which backup it was restored from, and to
//! which position. Nodes that were restored from one backup to one position hold the same
//! data, and may found a cluster from it.
//!
//! ```text
//! coeval origin 1
//! database 9f1c…
//! backup 3/73728 1767225600000000 0c9a1b2c     end, time in µs, sum of its list
//! position 3/73728                             term of the restored CONTROL, end of log
//! sum 5e1d2c9a
//! ```
//!
//! [`restore`](crate::restore()) writes the file ORIGIN beside CONTROL. It names the
//! CONTROL that the restore has written: once a server has used the directory alone, the
//! term in CONTROL is a later one, and the file says nothing any more. In a cluster's node
//! it stays true: replication of the node's log began at this position.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use coeval_env::fs;
use coeval_types::Timestamp;

use crate::Error;
use crate::backup::parse_timestamp;
use crate::control::{Control, replace};
use crate::log::FIRST_LSN;

/// The file's name.
pub(crate) const ORIGIN: &str = "ORIGIN";
const FIRST_LINE: &str = "coeval origin 1";
/// Most bytes of the file.
const MAX_BYTES: usize = 512;

/// Which backup a directory was restored from, and to which position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The database id.
    pub database: u128,
    /// The end timestamp of the backup.
    pub backup: Timestamp,
    /// The time of day when the backup's end was fixed, since the Unix epoch.
    pub taken_at: Duration,
    /// The checksum of the backup's list of files.
    pub sum: u32,
    /// The term of the restored CONTROL, and the log offset at which the restored log ends.
    pub position: Timestamp,
}

impl Origin {
    /// The contents of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = format!(
            "{FIRST_LINE}\ndatabase {:032x}\nbackup {} {} {:08x}\nposition {}\n",
            self.database,
            self.backup,
            self.taken_at.as_micros(),
            self.sum,
            self.position
        );
        let sum = crc32c::crc32c(text.as_bytes());
        text.push_str(&format!("sum {sum:08x}\n"));
        text
    }

    /// Reads the contents of the file; `None` if the bytes are anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let sum_at = text.rfind("sum ")?;
        if text[sum_at..] != format!("sum {:08x}\n", crc32c::crc32c(&bytes[..sum_at])) {
            return None;
        }
        let lines: Vec<Vec<&str>> = text[..sum_at]
            .lines()
            .map(|line| line.split(' ').collect())
            .collect();
        let [first, database, backup, position] = &lines[..] else {
            return None;
        };
        match (
            &first.join(" ")[..],
            &database[..],
            &backup[..],
            &position[..],
        ) {
            (
                FIRST_LINE,
                ["database", database],
                ["backup", end, micros, sum],
                ["position", position],
            ) => Some(Self {
                database: u128::from_str_radix(database, 16).ok()?,
                backup: parse_timestamp(end)?,
                taken_at: Duration::from_micros(micros.parse().ok()?),
                sum: u32::from_str_radix(sum, 16).ok()?,
                position: parse_timestamp(position)?,
            }),
            _ => None,
        }
    }

    /// Writes the file ORIGIN of a data directory, durably.
    pub(crate) async fn write(&self, directory: &Path) -> Result<(), Error> {
        replace(directory, ORIGIN, self.encode().as_bytes()).await
    }

    /// Reads the file ORIGIN of a data directory; `None` when there is none.
    async fn read(directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(ORIGIN);
        let is_there = fs::exists(&path).await;
        if !is_there.map_err(Error::io("look for", &path))? {
            return Ok(None);
        }
        let bytes = fs::read(&path).await.map_err(Error::io("read", &path))?;
        let damaged = || Error::Damaged {
            file: path.clone(),
            offset: 0,
            what: "it is not what a restore writes".to_owned(),
        };
        Self::decode(&bytes).map(Some).ok_or_else(damaged)
    }

    /// The origin of the data in a directory with this CONTROL: `None` if it was not
    /// restored, or has been used by a server of its own since.
    pub(crate) async fn of(directory: &Path, control: &Control) -> Result<Option<Self>, Error> {
        let holds = |origin: &Self| {
            let (term, position) = (origin.position.term(), origin.position.lsn());
            let as_restored = match control.member {
                Some(member) => member.base == position,
                None => control.term == term && control.clean_end == Some(position),
            };
            as_restored && control.database == origin.database
        };
        // Any other log began in a cluster, and needs no file to be read.
        if control
            .member
            .is_some_and(|member| member.base == FIRST_LSN)
        {
            return Ok(None);
        }
        Ok(Self::read(directory).await?.filter(holds))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "restored to {} from the backup that ends at {} (sum {:08x})",
            self.position, self.backup, self.sum
        )
    }
}

#[cfg(test)]
mod tests {
    use coeval_types::{Lsn, Term};

    use super::*;

    #[test]
    fn an_origin_comes_back_and_every_changed_byte_is_noticed() {
        let origin = Origin {
            database: 0x9f1c,
            backup: Timestamp::new(Term(3), Lsn(73728)),
            taken_at: Duration::from_micros(1_767_225_600_000_001),
            sum: 0x0c9a_1b2c,
            position: Timestamp::new(Term(3), Lsn(65536)),
        };
        let text = origin.encode();
        assert!(text.len() <= MAX_BYTES);
        assert_eq!(Origin::decode(text.as_bytes()), Some(origin));
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert_eq!(Origin::decode(&bad), None, "byte {at}");
            assert_eq!(Origin::decode(&bad[..at]), None, "cut at {at}");
        }
    }
}
