//! Wait events of a session other than locks, recorded in its activity page while they
//! last.
//!
//! A future does not reveal what it waits for, but the code that awaits it knows: a
//! ticket waits for admission, a commit for space in the log. The engine reports lock
//! waits itself, and they take precedence.

use std::future::{Future, poll_fn};
use std::pin::pin;

use super::activity::{Activity, AnswerWait};

/// Clears the wait event from the page on drop, so also when the wait is given up.
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

/// Awaits a future; while that is pending, the session's page shows the wait event
/// `wait`.
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
