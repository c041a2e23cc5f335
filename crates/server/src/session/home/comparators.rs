//! Comparators: other ways to give a read its state, for measurements beside ESI's
//! (`coeval.read_comparator`, a setting for developers; docs/internals/esi-measured.md).
//!
//! ```text
//!   none       ask at once, unless a question is under way; all who wait share the next, and a
//!              commit that the leader has made meanwhile for this node spares it
//!   single     the leader executes the read                        SINGLE
//!   weak       the state that this node has                        WEAK
//!   basic      ask alone; the answer s moves nothing here:         BASIC
//!                s is not flushed here         the leader executes the read
//!                s is not known as committed   the leader executes the read
//!                s is not replayed             wait
//!                s is shown                    read
//!   alone      ask alone                                           ESI without ATA
//!   adaptive   wait for a commit of the leader for any message     ATA
//!              sent after the read came; after 4 ms ask
//!              (`coeval.read_comparator_wait`)
//! ```
//!
//! What is kinder to BASIC here than in its source: replay runs ahead of the commit index, and
//! a leader that was asked sends at once what it would have batched.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use coeval_sql::session::settings::{self, ReadComparator};
use coeval_txn::{Asking, Engine, Error, Question, Standing, StateWait};

use crate::metrics::AtLeader;

/// How long an adaptive read waits for an answer of the leader to another session, if the
/// session has not set that.
const WAIT: Duration = Duration::from_millis(4);

/// How a session compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compares {
    pub(super) by: ReadComparator,
    /// How long a read waits before it asks.
    wait: Duration,
}

impl Compares {
    /// By the values of the settings.
    pub(super) fn by(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let by = value("coeval.read_comparator")?;
        let by = ReadComparator::named(&by.to_ascii_lowercase())?;
        let wait = value("coeval.read_comparator_wait");
        Some(Self {
            by,
            wait: wait.and_then(|time| settings::time(&time)).unwrap_or(WAIT),
        })
    }
}

/// A read that waits for its state.
pub(super) struct Waiting<'engine> {
    engine: &'engine dyn Engine,
    wait: StateWait<'engine>,
    pub(super) question: Option<Question>,
    /// Whether the answer is still to be compared with where this node is.
    compares: bool,
    /// Whether this node's replay was behind the answer.
    pub(super) was_behind: bool,
    /// When the question is to be sent, if nothing answers before.
    insists: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<'engine> Waiting<'engine> {
    /// Asks, in the way of the session.
    pub(super) fn new(engine: &'engine dyn Engine, compares: Option<Compares>) -> Self {
        let by = compares.map(|compares| compares.by);
        let question = match by {
            None | Some(ReadComparator::Single | ReadComparator::Weak) => engine.ask_newest(),
            Some(ReadComparator::Alone) => engine.ask_as(Asking::Alone),
            Some(ReadComparator::Basic) => engine.ask_as(Asking::Silent),
            Some(ReadComparator::Adaptive) => engine.ask_as(Asking::Later),
        };
        let adaptive = compares.filter(|compares| compares.by == ReadComparator::Adaptive);
        Self {
            engine,
            wait: StateWait::new(engine),
            question,
            compares: by == Some(ReadComparator::Basic),
            was_behind: false,
            insists: adaptive.map(|adaptive| Box::pin(coeval_env::sleep(adaptive.wait)) as _),
        }
    }

    /// Ready when snapshots have the state, or with why the leader is to execute the read.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), AtLeader>> {
        let lost = |_: Error| AtLeader::Lost;
        let Some(question) = self.question else {
            return Poll::Ready(Ok(()));
        };
        if self.compares {
            let standing = ready!(self.engine.poll_standing(question, context));
            match standing.map_err(lost)? {
                Standing::LacksLog => return Poll::Ready(Err(AtLeader::LacksLog)),
                Standing::Uncommitted => return Poll::Ready(Err(AtLeader::Uncommitted)),
                Standing::Replays => self.was_behind = true,
                Standing::Shows => {}
            }
            self.compares = false;
        }
        let newest = self.engine.poll_newest(question, context);
        if newest.is_pending()
            && let Some(insists) = &mut self.insists
            && insists.as_mut().poll(context).is_ready()
        {
            self.insists = None;
            self.engine.insist(question);
            let newest = self.engine.poll_newest(question, context);
            return self.wait.note(newest, context).map_err(lost);
        }
        self.wait.note(newest, context).map_err(lost)
    }
}
