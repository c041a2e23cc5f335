//! Follower recovery: finds with one request where a follower's log diverges from the
//! leader's (FRS).
//!
//! A follower that restarts, or meets a new leader, may have entries that no majority ever
//! had. Raft walks back entry by entry until both logs agree. Here the follower asks once,
//! and the leader answers from its list of marks, without reading its log.
//!
//! ```text
//!             100   132       300   332      396
//!  follower    | S₂ | a  b  c  | d    | e     |      commit index lost: 0
//!  leader      | S₂ | a  b  c  | S₃   | x     | y
//!
//!  follower   start = 132: d follows S₂, so S₂ is committed (the mark rule)
//!             end   = 396
//!  leader     the first of my terms that begins in 132..396 begins at 300
//!             → append: previous 2/300, entries S₃ x y
//! ```
//!
//! The answer is an ordinary append whose prefix the follower is sure to have. If no term
//! begins in between, it is an append after `end`.
//!
//! # Why it is correct
//!
//! *Mark rule*: no entry of a term except its mark exists before the mark is committed. So
//! if the log has an entry of term t that is no mark, then S_t is committed, and
//! everything before it (FRS, theorem 6.2).
//!
//! Let `end` be the end of the follower's log without its trailing marks, but not below
//! its commit index, and t the term before `end`. Let `start` be the larger of the commit
//! index and the end of S_t. Everything before `start` is committed, so the leader has it
//! too; and the follower's entries in `start..end` are all of term t, and no marks.
//!
//! - No term of the leader begins in `start..end`. Its log reaches `end`, for its own mark
//!   is after all entries it had when elected, and not in between; its entries in
//!   `start..end` are of the same term as the last before `start`, which is t. Same term,
//!   same offsets: same entries. The follower's log is a prefix.
//! - The first one begins at v. The leader's entries from v on are of later terms than t,
//!   the follower's of t: they differ from v on. Before v both are of term t: the same. So
//!   v is where the logs diverge, and the leader sends no entry too many.
//!
//! # A correction to the text
//!
//! The text uses the end of the whole log for `end` (lemma 6.1). But trailing marks need
//! not be committed, and the term before `end` is then not the one that `start` was
//! derived from:
//!
//! ```text
//!  R1  S₂ … e  e+1 … e+4   S₄      leads term 4
//!  R3  S₂ … S₃                     led term 3, wrote its mark where R1 has e, and died
//! ```
//!
//! R3 asks about the offsets after S₂ up to its S₃. No term of R1 begins there, because S₄
//! comes later. R1 answers "prefix", and R3 keeps S₃ where entry e belongs. Hence trailing
//! marks do not count into `end`. They stay on the disk, because they count in elections,
//! until the leader's entries after `end` replace them. A committed mark is before the
//! commit index or has an entry after it, or is sent once more.
//!
//! # Alternatives for comparison
//!
//! - CHK asks about its last entry, then the one before, until one is the leader's. Each
//!   "no" carries the leader's entry; the "yes" carries everything after.
//! - TC asks for everything after the commit index, and rewrites it.
//!
//! Both leave the entries on the disk in place until entries that differ replace them: an
//! acknowledged entry must not disappear while a second copy of it is in flight, or the
//! majority that counted on it is none.
//!
//! Source: FRS, §6.4 and §6.5; the correction is this project's.

use coeval_types::Lsn;
use coeval_types::planted;

use crate::message::Request;
use crate::settings::Recovery;
use crate::shape::Shape;

/// The request of a follower that does not know where its log diverges from its leader's.
/// `walked` is the end it has walked back to, in the mode that walks.
pub(crate) fn request(recovery: Recovery, shape: &Shape, walked: Lsn) -> Request {
    match recovery {
        Recovery::Marks => {
            let mut end = shape.end_without_trailing_marks();
            let start = shape
                .mark_end_before(end)
                .map_or(shape.commit(), |mark| mark.max(shape.commit()));
            if planted!(BelieveTrailingMarks) {
                end = shape.end();
            }
            Request::Marks { start, end }
        }
        Recovery::Checking => Request::Check {
            last: shape
                .position_at(walked)
                .expect("no walk goes back beyond the commit index"),
        },
        Recovery::Truncating => Request::From {
            start: shape.commit(),
        },
    }
}

/// A leader's answer to a recovery request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The follower has the leader's log up to here; the rest follows as appends.
    From(Lsn),
    /// The follower has another entry than the leader before this end.
    Differs(Lsn),
    /// The leader's marks do not reach back that far: the follower needs a checkpoint.
    Checkpoint,
    /// No follower of this leader would send that request.
    Nonsense,
}

/// Answers a recovery request from a leader's log.
pub(crate) fn answer(shape: &Shape, request: Request) -> Answer {
    let (known_from, wanted) = match request {
        Request::Marks { start, end } if start > end => return Answer::Nonsense,
        Request::Marks { start, end } => {
            let wanted = shape.first_mark_in(start, end).unwrap_or(end);
            (start, wanted)
        }
        Request::Check { last } => {
            let known = last.end >= shape.base().end;
            if known && !shape.has(last) {
                return Answer::Differs(last.end);
            }
            (last.end, last.end)
        }
        Request::From { start } => (start, start),
    };
    if known_from < shape.base().end || wanted < shape.retained() {
        Answer::Checkpoint
    } else if wanted > shape.end() {
        Answer::Nonsense
    } else {
        Answer::From(wanted)
    }
}
