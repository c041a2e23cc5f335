//! The follower's check of appended bytes: whether frames that another node sent continue the
//! log where it ends.
//!
//! ```text
//!   the log ends at 4296, in term 2; the newest term seen is 4
//!
//!   4296      4344     4400
//!   S₃        e        S₄          valid: offsets follow, terms rise with their marks
//!   c(2)      S₃       e           valid
//!   e(3)                           refused: term 3 begins without its mark
//!   S₃        c(2)                 refused: terms do not fall
//!   S₅                             refused: term 5 was never seen
//! ```

use coeval_types::{Lsn, Term};

use super::files::frames_of;
use super::landmarks::Landmarks;
use crate::Error;
use crate::frame::{Header, Kind, NotAFrame, Seed};
use crate::recovery::chain::Chain;
use crate::segment::Segment;

/// Bytes of a segment that are read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// The end of a log, and the term of its last frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    /// Log offset at which the next frame starts.
    pub(super) lsn: Lsn,
    /// The term of the last frame.
    pub(super) term: Term,
}

/// Result of a successful check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// The log's end after appending the bytes.
    pub(super) end: LogEnd,
    /// Marks and memberships in the bytes: the frames that consensus wrote.
    pub(super) landmarks: Landmarks,
}

/// Whether the frames' checksums have been verified already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksums {
    /// The checksums have not been verified.
    Unknown,
    /// The checksums have been verified, and are right.
    Right,
}

/// Checks frames that are to be appended at `end`. No frame's term may be above `newest`.
pub(super) fn check(
    bytes: &[u8],
    end: LogEnd,
    newest: Term,
    (seed, checksums): (Seed, Checksums),
) -> Result<Checked, Error> {
    let parse = match checksums {
        Checksums::Unknown => Header::parse,
        Checksums::Right => Header::parse_checked,
    };
    let mut checked = Checked {
        end,
        landmarks: Landmarks::default(),
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        let LogEnd { lsn: at, term } = checked.end;
        let refuse = |what: String| Err(Error::Refused { at, what });
        let (header, payload) = match parse(rest, at, seed) {
            Ok(parsed) => parsed,
            Err(NotAFrame::TooLong) => return refuse("it ends within a frame".to_owned()),
            Err(NotAFrame::UnknownKind(kind)) => {
                return refuse(format!(
                    "there is a frame of kind {kind}, which this program does not know; its \
                     sender is newer, update this node"
                ));
            }
            Err(why) => return refuse(why.describe().to_owned()),
        };
        let its = header.timestamp.term();
        if its < term {
            return refuse(format!("a frame of term {its} behind one of term {term}"));
        }
        if its > newest {
            return refuse(format!(
                "a frame of term {its}, and the newest term heard of is {newest}"
            ));
        }
        match (its > term, header.kind == Kind::Mark) {
            (true, false) => return refuse(format!("term {its} begins without its mark")),
            (false, true) => return refuse(format!("term {its} begins a second time")),
            (true, true) | (false, false) => {}
        }
        checked.landmarks.note(&header, payload);
        checked.end = LogEnd {
            lsn: header.end(),
            term: its,
        };
        rest = &rest[header.frame_bytes() as usize..];
    }
    Ok(checked)
}

/// Checks a whole segment that another node sent: it must hold whole frames, up to its very
/// end, of this one term, which began before.
pub(crate) async fn check_segment(segment: Segment, term: Term, seed: Seed) -> Result<(), Error> {
    let mut at = LogEnd {
        lsn: segment.first,
        term,
    };
    let mut chain = Chain::starting_at(segment.first);
    chain.push(segment);
    while at.lsn < chain.end() {
        let room = usize::try_from(chain.end().0 - at.lsn.0).unwrap_or(usize::MAX);
        let frames = frames_of(&chain, seed, at.lsn, (BLOCK_BYTES, room)).await?;
        let frames = frames.map_err(|why| chain.damaged(at.lsn, why.describe().to_owned()))?;
        at = check(&frames, at, term, (seed, Checksums::Right))?.end;
        coeval_env::yield_now().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use coeval_types::Timestamp;

    use super::*;

    const SEED: u128 = 7;

    /// Consecutive frames of these terms and kinds.
    fn frames(at: u64, frames: &[(u32, Kind)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(term, kind) in frames {
            let payload = b"some entries";
            let header = Header {
                length: payload.len() as u32,
                timestamp: Timestamp::new(Term(term), Lsn(at + bytes.len() as u64)),
                durable: Lsn(at),
                kind,
                time: 1,
            };
            let start = bytes.len();
            bytes.extend(header.encode(payload, Seed::of_database(SEED)));
            bytes.extend_from_slice(payload);
            bytes.resize(start + header.frame_bytes() as usize, 0);
        }
        bytes
    }

    fn checked(bytes: &[u8]) -> Result<Checked, Error> {
        let end = LogEnd {
            lsn: Lsn(4296),
            term: Term(2),
        };
        check(
            bytes,
            end,
            Term(4),
            (Seed::of_database(SEED), Checksums::Unknown),
        )
    }

    #[test]
    fn the_examples() {
        use Kind::{Commit, Mark};
        for (sound, marks) in [
            (vec![(3, Mark), (3, Commit), (4, Mark)], 2),
            (vec![(2, Commit), (3, Mark), (3, Commit)], 1),
            (vec![(2, Commit), (2, Kind::Skip), (2, Kind::Membership)], 0),
            (vec![(4, Mark)], 1),
            (vec![], 0),
        ] {
            let bytes = frames(4296, &sound);
            let checked = checked(&bytes).unwrap();
            assert_eq!(checked.end.lsn.0, 4296 + bytes.len() as u64);
            assert_eq!(checked.landmarks.marks.len(), marks);
        }
        for (bad, why) in [
            (vec![(3, Commit)], "term 3 begins without its mark"),
            (vec![(2, Mark)], "term 2 begins a second time"),
            (vec![(3, Mark), (2, Commit)], "term 2 behind one of term 3"),
            (vec![(5, Mark)], "the newest term heard of is 4"),
        ] {
            let refused = checked(&frames(4296, &bad)).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let elsewhere = checked(&frames(4304, &[(2, Commit)])).unwrap_err();
        assert!(matches!(elsewhere, Error::Refused { at: Lsn(4296), .. }));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let good = frames(4296, &[(2, Kind::Commit), (3, Kind::Mark)]);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let refused = checked(&bad);
                assert!(
                    matches!(refused, Err(Error::Refused { .. })),
                    "byte {at} bit {bit}"
                );
            }
            let whole = [0, good.len() / 2];
            assert_eq!(
                checked(&good[..at]).is_ok(),
                whole.contains(&at),
                "cut {at}"
            );
        }
    }
}
