//! Unit tests of transaction numbers and marks.

use coeval_types::Term;

use super::TransactionNumber;
use super::outcomes::{NumberStatus, Outcomes};
use super::store::{Loaded, Mark};

#[test]
fn numbers_fit_a_bigint_and_terms_keep_them_apart() {
    let first = |term| TransactionNumber::before(Term(term)).next();
    assert_eq!(first(1), Some(TransactionNumber((1 << 43) + 1)));
    assert!(first(1) < first(2));
    let of_last_term = first(Term::MAX.0).map(|number| i64::try_from(number.0));
    assert!(matches!(of_last_term, Some(Ok(_))));
    // The last number of a term has no successor.
    let last = TransactionNumber((2 << 43) - 1);
    assert_eq!(last.next(), None);
    assert_eq!(TransactionNumber(last.0 - 1).next(), Some(last));
}

#[test]
fn what_has_run_out_gives_no_numbers() {
    let outcomes = Outcomes::default();
    outcomes.start(Term(3), Loaded::default());
    let given = outcomes.give().unwrap();
    assert_eq!(outcomes.status(given), NumberStatus::Running);
    outcomes.ended(given);
    assert_eq!(outcomes.status(given), NumberStatus::Ended);
    let next = given.next().unwrap();
    assert_eq!(outcomes.status(next), NumberStatus::Future);
    assert_eq!(
        outcomes.status(TransactionNumber(7)),
        NumberStatus::Forgotten
    );
    // A number of an earlier term, assigned or not.
    let earlier = TransactionNumber::before(Term(2)).next().unwrap();
    assert_eq!(outcomes.status(earlier), NumberStatus::Ended);
}

#[test]
fn a_mark_is_due_once_something_is_below_it_and_time_has_passed() {
    let outcomes = Outcomes::default();
    outcomes.start(Term(1), Loaded::default());
    let marked = |time, interval| {
        let mark = outcomes.due_mark(time, interval)?;
        outcomes.marked(mark);
        Some(mark)
    };
    assert_eq!(marked(100, 10), None, "there is no number");
    let one = outcomes.give().unwrap();
    let two = outcomes.give().unwrap();
    outcomes.ended(two);
    assert_eq!(
        marked(100, 10),
        Some(Mark {
            below: one,
            time: 100
        })
    );
    assert_eq!(marked(200, 10), None, "the oldest runs still");
    outcomes.ended(one);
    assert_eq!(marked(109, 10), None, "that was just now");
    let below = TransactionNumber(two.0 + 1);
    assert_eq!(marked(110, 10), Some(Mark { below, time: 110 }));
    assert_eq!(marked(999, 10), None, "nothing has happened since");
    outcomes.give().unwrap();
    outcomes.ended(below);
    // If the clock is set back, the next mark need not wait until it catches up.
    let below = TransactionNumber(below.0 + 1);
    assert_eq!(marked(5, 10), Some(Mark { below, time: 5 }));
}
