//! How a follower gets rid of what is not the leader's: one request (FRS).
//!
//! A follower that starts again, or meets a new leader, may have entries that no
//! majority ever had. Raft walks back entry by entry until both agree. Here the follower
//! asks once, and the leader answers from its list of marks, without reading its log.
//!
//! ```text
//!             100   132       300   332      396
//!  follower    | S₂ | a  b  c  | d    | e     |      commit point lost: 0
//!  leader      | S₂ | a  b  c  | S₃   | x     | y
//!
//!  follower   start = 132: d follows on S₂, so S₂ is committed (the mark rule)
//!             end   = 396
//!  leader     the first of my terms that begins in 132..396 begins at 300
//!             → append: previous 2/300, entries S₃ x y
//! ```
//!
//! The answer is an ordinary append whose prefix the follower is sure to have. Where no
//! term begins in between, it is an append behind `end`.
//!
//! # Why it is right
//!
//! *Mark rule*: no entry of a term but its mark exists before the mark is committed. So
//! if the log has an entry of term t that is no mark, then S_t is committed, and
//! everything before it (FRS, theorem 6.2).
//!
//! Let `end` be the end of the follower's log without the marks at its very end, but not
//! below its commit point, and t the term before `end`. Let `start` be the larger of the
//! commit point and the end of S_t. Everything before `start` is committed, so the leader
//! has it too; and the follower's entries in `start..end` are all of term t, and no marks.
//!
//! - No term of the leader begins in `start..end`. Its log reaches `end`, for its own
//!   mark lies behind all it had when elected, and not in between; its entries in
//!   `start..end` are of the same term as the last before `start`, which is t. Same term,
//!   same places: same entries. Prefix.
//! - The first one begins at v. The leader's entries from v on are of later terms than t,
//!   the follower's of t: they differ from v on. Before v both are of term t: the same.
//!   So v is where the logs part, and the leader sends not one entry too many.
//!
//! # Where the text is wrong
//!
//! The text takes for `end` the end of the whole log (lemma 6.1). But marks at the very
//! end need not be committed, nor is the term before `end` then the one that `start` was
//! derived from:
//!
//! ```text
//!  R1  S₂ … e  e+1 … e+4   S₄      leads term 4
//!  R3  S₂ … S₃                     led term 3, wrote its mark where R1 has e, and died
//! ```
//!
//! R3 asks about the places behind S₂ up to its S₃. No term of R1 begins there, for S₄
//! comes later. R3 hears "prefix", and keeps S₃ where entry e belongs. Hence: marks at
//! the end do not count into `end`. They stay on the disk, for they count in elections,
//! until the leader's entries behind `end` take their place. A mark that is committed
//! lies before the commit point or has something behind it, or is sent once more.
//!
//! # Comparators
//!
//! - CHK asks about its last entry, then the one before, until one is the leader's. Each
//!   "no" brings the leader's entry; the "yes" brings everything behind.
//! - TC asks for everything behind the commit point, and rewrites it.
//!
//! Both leave what is on the disk in place until entries that differ replace it: an entry
//! that was acknowledged must not disappear for the time that a second copy of it takes
//! to arrive, or a majority that counted on it is none.
//!
//! Source: FRS, §6.4 and §6.5; the correction is ours.

use coeval_types::Lsn;
use coeval_types::planted::{Bug, is_planted};

use crate::message::Request;
use crate::settings::Recovery;
use crate::shape::Shape;

/// What a follower asks that does not know where its log and its leader's part.
/// `walked` is how far it has walked back, where it walks.
pub(crate) fn request(recovery: Recovery, shape: &Shape, walked: Lsn) -> Request {
    match recovery {
        Recovery::Marks => {
            let mut end = shape.end_without_trailing_marks();
            let start = shape
                .mark_end_before(end)
                .map_or(shape.commit(), |mark| mark.max(shape.commit()));
            if is_planted(Bug::BelieveTrailingMarks) {
                end = shape.end();
            }
            Request::Marks { start, end }
        }
        Recovery::Checking => Request::Check {
            last: shape
                .position_at(walked)
                .expect("nobody walks back further than the commit point"),
        },
        Recovery::Truncating => Request::From {
            start: shape.commit(),
        },
    }
}

/// What a leader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The follower has my log up to here; more of it follows.
    From(Lsn),
    /// It has another entry than I before this end.
    Differs(Lsn),
    /// My marks do not reach back that far.
    Checkpoint,
    /// No follower of mine would ask that.
    Nonsense,
}

/// What a leader with this log answers.
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
