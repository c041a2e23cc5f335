//! Waits of a session that no lock explains, noted on its page while they last.
//!
//! What a future waits for cannot be seen from outside, but what it can wait for is
//! known where it is awaited: a ticket for a place, a commit for room in the log, locks
//! aside, which the engine tells of itself and which go before this.

use std::future::{Future, poll_fn};
use std::pin::pin;

use super::activity::{Activity, AnswerWait};

/// Takes the note off the page, also when the wait is given up.
struct Note<'page> {
    page: &'page Activity,
    noted: bool,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if self.noted {
            self.page.answer_waits(AnswerWait::None);
        }
    }
}

/// Does the work; the page says `wait` from its first pause to its end.
pub(crate) async fn noting<T>(
    page: &Activity,
    wait: AnswerWait,
    work: impl Future<Output = T>,
) -> T {
    let mut note = Note { page, noted: false };
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        if polled.is_pending() && !note.noted {
            note.noted = true;
            note.page.answer_waits(wait);
        }
        polled
    })
    .await
}
