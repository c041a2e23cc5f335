//! Waits of answers, and what ends them: an answer leaves once the engine has confirmed
//! what it depends on, that is when a commit is on a quorum, or a majority has confirmed
//! the lead. Without a quorum that can take for ever, so a cancel request,
//! `statement_timeout` and the end of the client's connection end the wait, as they end a
//! statement.
//!
//! The commit itself is not undone: it is in the log, and may yet reach a quorum. So its
//! client gets 40003, and the answers that waited are withdrawn. What waited for less gets
//! the error of the interruption.
//!
//! ```text
//!   commit      waits for a quorum ────────┐ statement_timeout
//!   buffered    1 2 C Z                    │ withdrawn
//!   sent                                   └▶ E (40003) Z
//! ```
//!
//! A client that shuts down its sending side only looks like one that has gone. Its
//! answer may take another [`GRACE`]; decision 0036.
//!
//! Invariant: answers that the engine has not confirmed never leave, and each request
//! still gets its ReadyForQuery.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use coeval_pgwire::backend::hot;
use coeval_sql::instance::{Deadline, TimeLimit};
use coeval_sql::statement::Statements;
use coeval_sql::{Error, SqlState};
use coeval_types::Timestamp;

use super::conversation::Conversation;
use super::input::Watch;
use super::notes::statement_failed;
#[cfg(feature = "planted")]
use super::planted;
use super::{Ended, report, shutdown};

/// How long an answer waits for the engine after its client has closed the connection, or
/// its sending side of it.
const GRACE: Duration = Duration::from_secs(1);

/// Why a wait for the engine has ended without its answer.
enum Interruption {
    /// The connection can send nothing more.
    Lost,
    /// The client has closed the connection.
    Gone,
    /// A cancel request, or the end of the session.
    Canceled,
    Late(TimeLimit),
}

impl Conversation {
    /// Sends all buffered answers, once the engine has confirmed what they depend on.
    pub(super) async fn flush(&mut self, watch: &mut Watch) -> Result<(), Ended> {
        if self.output.holds() {
            self.reading.is_large();
            return Err(Ended::Moved);
        }
        let dependencies = self.session.dependencies();
        #[cfg(feature = "planted")]
        planted::take_slow_for_failed(&mut self.output, dependencies.newest_seen).await?;
        let deadline = self.session.statement_deadline();
        let mut late = pin!(async {
            match deadline {
                Some(Deadline { at, limit }) => {
                    coeval_env::sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        });
        let mut gone: Option<Pin<Box<_>>> = None;
        let (output, signal) = (&mut self.output, &self.signal);
        let flushed = poll_fn(|context| {
            if let Poll::Ready(flushed) = output.poll_flush(dependencies, context) {
                return Poll::Ready(flushed.map_err(|()| Interruption::Lost));
            }
            if !output.waits_for_engine() {
                return Poll::Pending;
            }
            signal.register(context);
            if let Poll::Ready(limit) = late.as_mut().poll(context) {
                return Poll::Ready(Err(Interruption::Late(limit)));
            }
            // The engine of a session that must leave it ends the wait.
            if signal.is_canceled() && !signal.is_deposed() {
                return Poll::Ready(Err(Interruption::Canceled));
            }
            if watch.poll_gone(context) {
                let gone = gone.get_or_insert_with(|| Box::pin(coeval_env::sleep(GRACE)));
                if gone.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(Interruption::Gone));
                }
            }
            Poll::Pending
        })
        .await;
        match flushed {
            Ok(()) => {
                self.node_is_told();
                Ok(())
            }
            Err(Interruption::Lost) => Err(self.lost().await),
            Err(Interruption::Gone) => Err(Ended::Gone),
            Err(Interruption::Late(limit)) => Err(Ended::Interrupted(limit.error())),
            Err(Interruption::Canceled) if self.shall_move() => Err(Ended::Moved),
            Err(Interruption::Canceled) if self.signal.is_terminated() => {
                self.output.withdraw();
                self.output.say_last(&shutdown()).await;
                Err(Ended::Fatal(shutdown()))
            }
            Err(Interruption::Canceled) => Err(Ended::Interrupted(Error::canceled())),
        }
    }

    /// Tells the client that the wait for its answers was interrupted, and goes on with
    /// its next request.
    pub(super) async fn interrupted(&mut self, error: Error) -> Result<(), Ended> {
        self.signal.forget_cancel();
        if self.owed.is_copying() {
            let _ = self.session.copy_fail(&error.report().message);
            self.copy_ended(Err(&error));
        }
        let is_durable = self.output.knows_durable(self.session.newest_commit());
        let error = match self.has_done() && !is_durable {
            true => outcome_unknown(&error),
            false => error,
        };
        self.session.fail();
        self.rest = Statements::default();
        self.output.withdraw();
        self.handover_is_withdrawn();
        let lost = self.owed.lose();
        if lost.error {
            statement_failed(&self.session, &error, false);
            self.sheet.error(error.state());
            report::error(&mut self.output.buffer, &error);
        }
        if lost.ready {
            let status = self.status();
            hot::ready_for_query(&mut self.output.buffer, status);
        }
        // They depend on nothing that the engine has to confirm.
        if self.output.flush(Timestamp::ZERO).await.is_err() {
            return Err(self.lost().await);
        }
        if lost.ready {
            self.session.rest();
            self.clock.answered(&self.sheet);
        }
        Ok(())
    }
}

/// SQLSTATE 40003, `statement_completion_unknown`: the commit is in the log, and whether
/// it will be on a quorum is not known.
fn outcome_unknown(cause: &Error) -> Error {
    let cause = &cause.report().message;
    let message = format!("{cause}, while a commit was under way");
    Error::new(SqlState("40003"), message)
        .with_detail("Whether the transaction was committed is not known.")
        .with_hint(
            "Look whether it was before you run it again; txid_status() tells it of a \
             transaction that has asked for its number.",
        )
}
