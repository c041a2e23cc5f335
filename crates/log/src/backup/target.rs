//! The target of a point-in-time restore, and the search for its position in the log.

use std::time::Duration;

use coeval_memory::ring::AppendRing;
use coeval_types::{Lsn, Term, Timestamp};

use super::manifest::parse_timestamp;
use crate::Error;
use crate::control::Control;
use crate::frame::{Header, Kind, NotAFrame, Seed};
use crate::recovery::chain::Chain;
use crate::recovery::chunks::SeenChunks;
use crate::recovery::scan::Scan;
use crate::recovery::tail;
use crate::replica::Landmarks;

/// Bytes of log that are read at once.
const BLOCK_BYTES: usize = 4 << 20;

/// Point up to which to restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The end of the backup and its additional log.
    End,
    /// Commits up to this time of day, since the Unix epoch.
    Time(Duration),
    /// Commits up to and including this timestamp.
    Timestamp(Timestamp),
}

impl RestoreTarget {
    /// Parses a timestamp in the form `3/73728`: term, slash, log offset.
    #[must_use]
    pub fn parse_timestamp(text: &str) -> Option<Self> {
        parse_timestamp(text).map(Self::Timestamp)
    }

    fn includes(self, header: &Header) -> bool {
        match self {
            Self::End => true,
            Self::Time(time) => u128::from(header.time) <= time.as_micros(),
            Self::Timestamp(timestamp) => header.timestamp <= timestamp,
        }
    }
}

/// Result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RestorePoint {
    /// Log offset at which the restored log ends.
    pub(super) end: Lsn,
    /// The last commit before that, with its time of day in microseconds.
    pub(super) last: Option<(Timestamp, u64)>,
    pub(super) commits: u64,
    /// Whether a commit after the target exists; else the log ends before it.
    pub(super) passed: bool,
}

/// Reads the log from `begin` to the first commit that the target excludes, or to its
/// end. An invalid end, where the bytes had been durable, is refused as a start would
/// refuse it.
pub(super) async fn find(
    chain: &Chain,
    control: &Control,
    (begin, mut term): (Lsn, Term),
    target: RestoreTarget,
) -> Result<RestorePoint, Error> {
    let seed = Seed::of_database(control.database);
    let mut found = RestorePoint {
        end: begin,
        last: None,
        commits: 0,
        passed: false,
    };
    let mut durable = begin;
    let mut block = Vec::new();
    loop {
        let carried = block.len();
        let next = Lsn(found.end.0 + carried as u64);
        chain.read(next, BLOCK_BYTES, &mut block).await?;
        let at_end = block.len() == carried;
        let mut at = 0;
        loop {
            if control.clean_end == Some(found.end) {
                return Ok(found);
            }
            let header = match Header::parse(&block[at..], found.end, seed) {
                Ok((header, _)) => header,
                Err(NotAFrame::TooLong) if !at_end && block.len() - at < longest() => break,
                Err(why) => {
                    judge(chain, control, &found, (durable, why)).await?;
                    return Ok(found);
                }
            };
            let its_term = header.timestamp.term();
            let remnant = found.end >= control.start && its_term < control.term;
            if remnant || its_term < term || its_term > control.term {
                judge(chain, control, &found, (durable, NotAFrame::Empty)).await?;
                return Ok(found);
            }
            if header.kind == Kind::Commit {
                if !target.includes(&header) {
                    found.passed = true;
                    return Ok(found);
                }
                found.commits += 1;
                found.last = Some((header.timestamp, header.time));
            }
            term = its_term;
            durable = durable.max(header.durable);
            at += header.frame_bytes() as usize;
            found.end = header.end();
        }
        block.drain(..at);
    }
}

/// Refuses an end of the log if the bytes at it had been durable.
async fn judge(
    chain: &Chain,
    control: &Control,
    found: &RestorePoint,
    (durable, stopped_by): (Lsn, NotAFrame),
) -> Result<(), Error> {
    let scan = Scan {
        end: found.end,
        stopped_by,
        clean: false,
        durable,
        commits: found.commits,
        entries: 0,
        last_commit: found.last.map_or(Timestamp::ZERO, |(last, _)| last),
        last_term: Term(0),
        unmarked_term: Term(0),
        landmarks: Landmarks::default(),
        chunks: SeenChunks::default(),
    };
    let seed = Seed::of_database(control.database);
    tail::judge(chain, control, seed, &scan).await.map(|_| ())
}

/// Bytes of the longest possible frame.
fn longest() -> usize {
    AppendRing::MAX_REGION as usize
}
