//! The arithmetic of a sequence: which number comes next, and how far ahead of it the log
//! has to know.

use crate::error::{Error, Result, SqlState};
use crate::value::DataType;

/// Numbers that are reserved ahead of the one that is handed out, as PostgreSQL logs them.
const AHEAD: i64 = 32;

/// How a sequence counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) minimum: i64,
    pub(crate) maximum: i64,
    /// How many numbers a session takes at once.
    pub(crate) cache: i64,
    /// Whether it begins anew behind its last number.
    pub(crate) cycle: bool,
}

/// How far a sequence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last number that was handed out; the next one, if `is_called` is false.
    pub(crate) last: i64,
    pub(crate) is_called: bool,
    /// How many numbers behind `last` are reserved.
    pub(crate) reserved: i64,
}

/// How a sequence counts, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) data_type: DataType,
    pub(crate) counting: Counting,
    pub(crate) progress: Progress,
}

/// What a session is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The first number.
    pub(crate) first: i64,
    /// The last of the numbers that the session takes at once.
    pub(crate) last: i64,
    /// How far the sequence is then.
    pub(crate) progress: Progress,
    /// The number up to which the log must know before the first one is used, if it does not.
    pub(crate) reserve: Option<i64>,
}

/// The limit that stops a sequence.
enum End {
    Maximum,
    Minimum,
}

impl Counting {
    /// A sequence that has handed out nothing.
    pub(crate) const fn begin(&self) -> Progress {
        Progress {
            last: self.start,
            is_called: false,
            reserved: 0,
        }
    }

    /// The number behind another one.
    fn after(&self, number: i64) -> std::result::Result<i64, End> {
        let next = number.checked_add(self.increment);
        match next.filter(|next| (self.minimum..=self.maximum).contains(next)) {
            Some(next) => Ok(next),
            None if self.increment > 0 && self.cycle => Ok(self.minimum),
            None if self.increment > 0 => Err(End::Maximum),
            None if self.cycle => Ok(self.maximum),
            None => Err(End::Minimum),
        }
    }

    /// The next numbers of the sequence `name`. Fails with 2200H behind its last one.
    pub(crate) fn next(&self, from: Progress, name: &str) -> Result<Step> {
        let cache = self.cache.max(1);
        let (mut fetch, mut ahead) = (cache, from.reserved);
        let (mut first, mut last, mut taken) = (from.last, from.last, 0);
        if !from.is_called {
            // The first number is the one that is there.
            taken = 1;
            fetch -= 1;
        }
        let logs = ahead < fetch || !from.is_called;
        if logs {
            fetch += AHEAD;
            ahead = fetch;
        }
        let mut number = from.last;
        while fetch > 0 {
            number = match self.after(number) {
                Ok(number) => number,
                Err(_) if taken > 0 => break,
                Err(end) => return Err(self.ended(&end, name)),
            };
            fetch -= 1;
            if taken < cache {
                ahead -= 1;
                taken += 1;
                last = number;
                if taken == 1 {
                    first = number;
                }
            }
        }
        Ok(Step {
            first,
            last,
            progress: Progress {
                last,
                is_called: true,
                // What could not be fetched is not reserved.
                reserved: ahead - fetch,
            },
            reserve: logs.then_some(number),
        })
    }

    fn ended(&self, end: &End, name: &str) -> Error {
        let (what, limit) = match end {
            End::Maximum => ("maximum", self.maximum),
            End::Minimum => ("minimum", self.minimum),
        };
        Error::new(
            SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("nextval: reached {what} value of sequence \"{name}\" ({limit})"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Counting = Counting {
        start: 1,
        increment: 1,
        minimum: 1,
        maximum: 100,
        cache: 1,
        cycle: false,
    };

    fn numbers(counting: &Counting, many: usize) -> Vec<i64> {
        let mut progress = counting.begin();
        let mut numbers = Vec::new();
        for _ in 0..many {
            let Ok(step) = counting.next(progress, "s") else {
                break;
            };
            numbers.push(step.first);
            progress = step.progress;
        }
        numbers
    }

    #[test]
    fn numbers_follow_each_other_within_their_limits() {
        assert_eq!(numbers(&UP, 200), (1..=100).collect::<Vec<_>>());
        let down = Counting {
            start: -1,
            increment: -2,
            minimum: -7,
            maximum: -1,
            ..UP
        };
        assert_eq!(numbers(&down, 9), [-1, -3, -5, -7]);
        let round = Counting {
            cycle: true,
            maximum: 3,
            start: 2,
            ..UP
        };
        assert_eq!(numbers(&round, 6), [2, 3, 1, 2, 3, 1]);
        let edge = Counting {
            start: i64::MAX - 1,
            maximum: i64::MAX,
            ..UP
        };
        assert_eq!(numbers(&edge, 9), [i64::MAX - 1, i64::MAX]);
    }

    #[test]
    fn the_log_knows_of_a_number_before_it_is_used() {
        for counting in [
            UP,
            Counting { cache: 7, ..UP },
            Counting { cycle: true, ..UP },
            Counting {
                increment: 40,
                ..UP
            },
        ] {
            let mut progress = counting.begin();
            let mut known = None;
            for _ in 0..1_000 {
                let Ok(step) = counting.next(progress, "s") else {
                    break;
                };
                known = step.reserve.or(known);
                // A new leader goes on behind what the log knows: so many numbers are lost.
                let from = Progress {
                    last: known.expect("the first number reserves"),
                    is_called: true,
                    reserved: 0,
                };
                assert!(counting.cycle || from.last >= step.last, "{step:?}");
                assert!(step.progress.reserved <= AHEAD, "{step:?}");
                progress = step.progress;
            }
        }
    }

    #[test]
    fn what_is_reserved_is_counted_as_postgresql_counts_it() {
        let first = UP.next(UP.begin(), "s").unwrap();
        assert_eq!((first.first, first.reserve), (1, Some(33)));
        assert_eq!(first.progress.reserved, 32);
        let second = UP.next(first.progress, "s").unwrap();
        assert_eq!((second.first, second.reserve), (2, None));
        assert_eq!(second.progress.reserved, 31);
        let cached = Counting { cache: 10, ..UP };
        let step = cached.next(cached.begin(), "s").unwrap();
        assert_eq!((step.first, step.last, step.reserve), (1, 10, Some(42)));
        let end = Progress {
            last: 100,
            is_called: true,
            reserved: 0,
        };
        assert!(UP.next(end, "s").is_err());
    }
}
