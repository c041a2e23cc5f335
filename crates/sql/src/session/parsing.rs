//! Parsing of a client's texts: a long one on another thread.
//!
//! A text of megabytes takes a second, and the parser cannot be left in a statement. So another
//! thread parses it, and the session waits for that as it waits for a lock: its worker
//! serves others, and `statement_timeout` and cancel requests end the wait. What a
//! session does not wait for any more ends with its statement, and its result is dropped.
//!
//! ```text
//!   session    read ─────── waits ──────X 57014     read ── waits ──▶
//!   thread       tokens, tree, tree, tree, … dropped  │      tokens, …
//! ```
//!
//! Invariants: no session has two texts parsed at once, so a client that cancels again and
//! again occupies one thread; and all sessions together, those that have ended included, have
//! no more texts parsed at once than [`Instance`](crate::instance::Instance) admits.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use coeval_env::JoinHandle;

use super::Session;
use crate::error::{Error, Result};
use crate::instance::{MemoryBudget, Ticket, within};
use crate::statement::{self, PARSED_IN_A_STEP, Statement, Statements};

/// Tells the thread to stop when the session no longer waits for it.
struct StopsWhenDropped(Arc<AtomicBool>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for the thread's end; fails with 57014 when the statement is canceled.
async fn ended(thread: &mut JoinHandle<()>, cancel: &AtomicBool) -> Result<()> {
    poll_fn(|context| {
        if cancel.load(Ordering::Relaxed) {
            return Poll::Ready(Err(Error::canceled()));
        }
        // A panic has left no result, which the caller notices.
        Pin::new(&mut *thread).poll(context).map(|_| Ok(()))
    })
    .await
}

impl Session {
    /// [`Session::parse`], on another thread if the text is long. The caller must poll it
    /// again when the statement is canceled.
    pub async fn read(&mut self, text: &str) -> Result<Vec<Statement>> {
        if text.len() <= PARSED_IN_A_STEP {
            return self.parse(text);
        }
        self.limits.check_statement(text)?;
        let text = Arc::<str>::from(text);
        self.aside(move |budget, stop| statement::parse_until(&text, budget, Some(stop)))
            .await
    }

    /// [`Session::parse_sequence`], likewise.
    pub async fn read_sequence(&mut self, text: &str) -> Result<Statements> {
        if text.len() <= PARSED_IN_A_STEP {
            return self.parse_sequence(text);
        }
        self.limits.check_statement(text)?;
        let text = Arc::<str>::from(text);
        self.aside(move |budget, stop| Statements::parse(&text, budget, Some(stop)))
            .await
    }

    /// The next statement of a query string, likewise.
    pub async fn next_of(&mut self, statements: &mut Statements) -> Option<Result<Statement>> {
        self.asks_anew();
        match statements.take_long() {
            None => statements.next(self.budget()),
            Some(long) => {
                let parse =
                    move |budget: &MemoryBudget, stop: &AtomicBool| long.parse(budget, stop);
                Some(self.aside(parse).await)
            }
        }
    }

    async fn aside<T: Send + 'static>(
        &mut self,
        parse: impl FnOnce(&MemoryBudget, &AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.begin_statement_clock();
        let (deadline, cancel) = (self.info.deadline, Arc::clone(&self.info.cancel));
        let around = Arc::clone(&self.info.around);
        let thread = &mut self.parsing;
        let work = async {
            if let Some(before) = thread {
                ended(before, &cancel).await?;
            }
            // The thread gives the place back, also when no session waits for it.
            let place = Ticket::new(&around.parsers, false);
            place.enter(&cancel).await?;
            let stop = StopsWhenDropped(Arc::default());
            let parsed = Arc::new(Mutex::new(None));
            let (told, result) = (Arc::clone(&stop.0), Arc::clone(&parsed));
            let parsing = thread.insert(coeval_env::spawn_blocking("parser", move || {
                let parsed = parse(around.budget(), &told);
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(parsed);
                drop(place);
            }));
            ended(parsing, &cancel).await?;
            *thread = None;
            let parsed = parsed.lock().unwrap_or_else(PoisonError::into_inner).take();
            parsed.unwrap_or_else(|| Err(Error::internal("the parser has panicked")))
        };
        within(deadline, &cancel, work).await
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::SqlState;
    use crate::session::{Database, SessionOptions};

    async fn session() -> Session {
        let engine = Arc::new(coeval_txn::serial::Serial::default());
        let database = Database::open(engine).await.unwrap();
        Session::new(database, SessionOptions::default()).unwrap()
    }

    fn long(rows: usize) -> String {
        format!("select 1{}", ",(1)".repeat(rows))
    }

    fn assert_canceled<T>(result: Poll<Result<T>>, why: &str) {
        let Poll::Ready(Err(error)) = result else {
            panic!("it goes on, or is through");
        };
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        assert!(error.to_string().contains(why), "{error}");
    }

    #[tokio::test]
    async fn who_waits_for_a_long_text_can_be_canceled() {
        let mut session = session().await;
        let cancel = Arc::clone(&session.info.cancel);
        let text = long(60_000);
        let mut context = Context::from_waker(Waker::noop());
        // The executor's thread is free meanwhile: the first poll returns at once.
        {
            let mut reading = std::pin::pin!(session.read_sequence(&text));
            assert!(reading.as_mut().poll(&mut context).is_pending());
            cancel.store(true, Ordering::Relaxed);
            assert_canceled(reading.as_mut().poll(&mut context), "user request");
        }
        cancel.store(false, Ordering::Relaxed);
        // The next one waits until the first has ended, and can be canceled there too.
        assert!(
            session
                .parsing
                .as_ref()
                .is_some_and(|first| !first.is_finished())
        );
        {
            let mut reading = std::pin::pin!(session.read(&text));
            assert!(reading.as_mut().poll(&mut context).is_pending());
            cancel.store(true, Ordering::Relaxed);
            assert_canceled(reading.as_mut().poll(&mut context), "user request");
        }
        cancel.store(false, Ordering::Relaxed);
        let statements = session.read(&text).await.unwrap();
        assert_eq!(statements.len(), 1);
        assert!(session.parsing.is_none());
        let wrong = session.read(&format!("{text})")).await;
        let wrong = wrong.map(drop).unwrap_err();
        assert_eq!(wrong.state(), SqlState::SYNTAX_ERROR);
    }

    #[tokio::test]
    async fn parsers_of_all_sessions_together_are_bounded() {
        let session = session().await;
        let parsers = Arc::clone(&session.info.around.parsers);
        let mut other = Session::new(Arc::clone(&session.database), SessionOptions::default());
        let other = other.as_mut().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut places = Vec::new();
        for _ in 0..parsers.counts().places {
            let place = Ticket::new(&parsers, false);
            place.enter(&AtomicBool::new(false)).await.unwrap();
            places.push(place);
        }
        let text = long(30_000);
        {
            let mut reading = std::pin::pin!(other.read(&text));
            assert!(reading.as_mut().poll(&mut context).is_pending());
            assert!(reading.as_mut().poll(&mut context).is_pending());
        }
        assert!(other.parsing.is_none(), "no parser has started");
        places.pop();
        assert_eq!(other.read(&text).await.unwrap().len(), 1);
        assert_eq!(
            parsers.counts().working,
            places.len(),
            "it gave its place back"
        );
    }

    #[tokio::test]
    async fn the_clock_of_a_statement_runs_while_its_text_is_parsed() {
        let mut session = session().await;
        let settings = Arc::make_mut(&mut session.settings);
        settings.take_over("statement_timeout", "1").unwrap();
        session.apply_settings();
        let result = session.read_sequence(&long(60_000)).await;
        assert_canceled(Poll::Ready(result), "statement timeout");
    }

    #[tokio::test]
    async fn a_parser_that_nobody_waits_for_stops_between_two_statements() {
        let stop = AtomicBool::new(true);
        let budget = MemoryBudget::default();
        let stopped = Statements::parse(&"select 1;".repeat(100), &budget, Some(&stop));
        assert_canceled(Poll::Ready(stopped), "user request");
        // Statements that are parsed when their turn comes are read likewise.
        let mut session = session().await;
        let text = format!("{}{}", "select 1;".repeat(70), long(30_000));
        let mut statements = session.read_sequence(&text).await.unwrap();
        for _ in 0..70 {
            session.next_of(&mut statements).await.unwrap().unwrap();
        }
        let cancel = Arc::clone(&session.info.cancel);
        cancel.store(true, Ordering::Relaxed);
        let last = session.next_of(&mut statements).await.unwrap();
        assert_canceled(Poll::Ready(last), "user request");
        assert!(statements.is_empty());
    }
}
