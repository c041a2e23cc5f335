//! Landmarks: the beginnings of terms and the cluster's memberships, which consensus
//! needs without reading the log.
//!
//! While the log exists, it is authoritative. The part that a checkpoint replaces is not
//! read any more, so before a checkpoint is put in force the file MARKS is replaced:
//!
//! ```text
//! coeval marks 1
//! mark 3 9000 9048          term 3 begins at 9000, its mark ends at 9048
//! members 9048 01a0ff       members from 9048 on, as consensus encoded them
//! sum 5e1d2c9a
//! ```
//!
//! Invariant: the entries of MARKS for offsets before the checkpoint in force are true
//! for ever, because a checkpoint covers only committed log. Entries for later offsets
//! may have been truncated since, and are ignored.
//!
//! Source: FRS §6.6.1 (marks are kept in memory) and its rule that marks outlive
//! truncation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use coeval_env::fs;
use coeval_types::{Lsn, Term};

use crate::Error;
use crate::control::replace;
use crate::frame::{Header, Kind};

/// The file's name.
const MARKS: &str = "MARKS";
const FIRST_LINE: &str = "coeval marks 1";

/// The mark with which a leader's term begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The term.
    pub term: Term,
    /// Log offset of the mark, the term's first frame.
    pub start: Lsn,
    /// Log offset at which the mark ends.
    pub end: Lsn,
}

/// A membership of the cluster, valid from a log offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Log offset from which on it is valid: the end of its frame.
    pub end: Lsn,
    /// The members, as consensus encoded them.
    pub payload: Vec<u8>,
}

/// All marks and memberships, in log order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Landmarks {
    pub(crate) marks: Vec<Mark>,
    pub(crate) memberships: Vec<Membership>,
}

impl Landmarks {
    /// Adds the landmark of a frame that follows the previous ones, if it is one.
    pub(crate) fn note(&mut self, header: &Header, payload: &[u8]) {
        let end = header.end();
        match header.kind {
            Kind::Mark => self.marks.push(Mark {
                term: header.timestamp.term(),
                start: header.timestamp.lsn(),
                end,
            }),
            Kind::Membership => {}
            Kind::Commit | Kind::Chunk | Kind::Skip | Kind::Opaque => return,
        }
        if !payload.is_empty() {
            let payload = payload.to_vec();
            self.memberships.push(Membership { end, payload });
        }
    }

    /// Appends later landmarks.
    pub(crate) fn append(&mut self, mut later: Self) {
        self.marks.append(&mut later.marks);
        self.memberships.append(&mut later.memberships);
    }

    /// Drops every landmark whose frame ends after `end`.
    pub(crate) fn cut(&mut self, end: Lsn) {
        self.marks.retain(|mark| mark.end <= end);
        self.memberships.retain(|membership| membership.end <= end);
    }

    /// The term of the last mark that begins before `lsn`.
    pub(crate) fn term_before(&self, lsn: Lsn) -> Option<Term> {
        let before = self.marks.iter().rfind(|mark| mark.start < lsn);
        before.map(|mark| mark.term)
    }

    /// Whether every landmark's frame ends at or before `end`.
    pub(crate) fn end_by(&self, end: Lsn) -> bool {
        self.marks.iter().all(|mark| mark.end <= end)
            && self
                .memberships
                .iter()
                .all(|membership| membership.end <= end)
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        // Writing to a string does not fail.
        for Mark { term, start, end } in &self.marks {
            let _ = writeln!(text, "mark {term} {start} {end}");
        }
        for Membership { end, payload } in &self.memberships {
            let _ = write!(text, "members {end} ");
            for byte in payload {
                let _ = write!(text, "{byte:02x}");
            }
            text.push('\n');
        }
        let sum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "sum {sum:08x}");
        text
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let sum_at = text.rfind("sum ").ok_or("it has no sum")?;
        if text[sum_at..] != format!("sum {:08x}\n", crc32c::crc32c(&bytes[..sum_at])) {
            return Err("its sum differs");
        }
        let mut lines = text[..sum_at].lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("it does not begin as a list of marks does");
        }
        let mut landmarks = Self::default();
        for line in lines {
            landmarks.take(line).ok_or("a line makes no sense")?;
        }
        Ok(landmarks)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let lsn = |text: &str| {
            let lsn = Lsn(text.parse().ok()?);
            (lsn < Lsn::LIMIT && lsn.0.is_multiple_of(Lsn::ALIGNMENT)).then_some(lsn)
        };
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["mark", term, start, end] => {
                let term = Term(term.parse().ok().filter(|term| *term <= Term::MAX.0)?);
                let (start, end) = (lsn(start)?, lsn(end)?);
                self.marks.push(Mark { term, start, end });
            }
            ["members", end, digits] => {
                let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
                    return None;
                };
                let byte =
                    |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
                self.memberships.push(Membership {
                    end: lsn(end)?,
                    payload: pairs.iter().map(byte).collect::<Option<_>>()?,
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Replaces the file MARKS in a data directory, durably.
    pub(crate) async fn write(&self, directory: &Path) -> Result<(), Error> {
        replace(directory, MARKS, self.encode().as_bytes()).await
    }

    /// Reads the file MARKS of a data directory, up to `end`; empty when there is no
    /// file.
    pub(crate) async fn read(directory: &Path, end: Lsn) -> Result<Self, Error> {
        let path: PathBuf = directory.join(MARKS);
        let exists = fs::exists(&path).await;
        if !exists.map_err(Error::io("look for", &path))? {
            return Ok(Self::default());
        }
        let bytes = fs::read(&path).await.map_err(Error::io("read", &path))?;
        let parsed = Self::parse(&bytes);
        let mut landmarks = parsed.map_err(|what| Error::Damaged {
            file: path,
            offset: 0,
            what: what.to_owned(),
        })?;
        landmarks.cut(end);
        Ok(landmarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Landmarks {
        let mark = |term, start, end| Mark {
            term: Term(term),
            start: Lsn(start),
            end: Lsn(end),
        };
        Landmarks {
            marks: vec![mark(3, 9000, 9048), mark(5, 9200, 9248)],
            memberships: vec![Membership {
                end: Lsn(9048),
                payload: vec![1, 0xA0, 0xFF],
            }],
        }
    }

    #[test]
    fn a_list_comes_back_and_every_changed_byte_is_noticed() {
        let text = sound().encode();
        assert_eq!(Landmarks::parse(text.as_bytes()), Ok(sound()));
        for at in 0..text.len() {
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            assert!(Landmarks::parse(&bad).is_err(), "byte {at}");
            assert!(Landmarks::parse(&bad[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_cut_takes_what_reaches_behind_it() {
        let mut landmarks = sound();
        assert_eq!(landmarks.term_before(Lsn(9000)), None);
        assert_eq!(landmarks.term_before(Lsn(9200)), Some(Term(3)));
        assert_eq!(landmarks.term_before(Lsn(9208)), Some(Term(5)));
        landmarks.cut(Lsn(9247));
        assert_eq!(landmarks.marks, sound().marks[..1]);
        landmarks.cut(Lsn(9048));
        assert_eq!(landmarks.memberships.len(), 1);
        landmarks.cut(Lsn(9040));
        assert_eq!(landmarks, Landmarks::default());
    }
}
