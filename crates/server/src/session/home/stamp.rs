//! Which state a cycle reads, and asking the leader for it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coeval_pgwire::ReadBuffer;
use coeval_pgwire::frame::kind;
use coeval_sql::Error;
use coeval_sql::expression::EvaluationContext;
use coeval_sql::instance::TimeLimit;
use coeval_sql::instance::activity::AnswerWait;
use coeval_sql::session::SessionHandover;
use coeval_sql::session::settings::{self, ReadComparator, ReadFrom};
use coeval_txn::Answered;
use coeval_types::Timestamp;

use super::Not;
use super::comparators::{Compares, Waiting};
use crate::metrics::{AtLeader, Stamp};
use crate::reader::Reader;
use crate::session::greet;
use crate::session::relay::Relay;
use crate::shared::Shared;

/// How long a question for the newest commit may take before the leader is to execute the
/// cycle.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Where the session reads.
#[derive(Clone, Copy)]
pub(super) struct Wants {
    pub(super) from: ReadFrom,
    max_lag: Option<Duration>,
    pub(super) compares: Option<Compares>,
}

impl Relay {
    /// Where the session reads, by its settings.
    pub(super) fn wants(&mut self, shared: &Shared) -> Wants {
        if let Some(home) = self
            .reads
            .home
            .as_ref()
            .filter(|_| self.reads.is_in_block())
        {
            let parsed = home.conversation.session.parsed_settings();
            return Wants {
                from: parsed.read_from,
                max_lag: parsed.read_max_lag.filter(|lag| !lag.is_zero()),
                compares: self.reads.wants.and_then(|wants| wants.compares),
            };
        }
        if let Some(wants) = self.reads.wants {
            return wants;
        }
        let value = |name: &str| match self.handover.setting(name) {
            Some(value) => Some(value.to_owned()),
            None => greet::at_start(shared, &self.origin, name),
        };
        let from = value("coeval.read_from");
        let from = from.and_then(|name| ReadFrom::named(&name.to_ascii_lowercase()));
        let max_lag = value("coeval.read_max_lag").and_then(|time| settings::time(&time));
        let wants = Wants {
            from: from.unwrap_or_default(),
            max_lag: max_lag.filter(|lag| !lag.is_zero()),
            compares: Compares::by(value),
        };
        self.reads.wants = Some(wants);
        wants
    }

    /// The state that the session wants to read. `commit` is its newest commit, if the leader
    /// has told one.
    pub(super) fn stamp(
        &mut self,
        shared: &Shared,
        reader: &Reader,
        commit: Option<Timestamp>,
    ) -> Stamp {
        let wants = self.wants(shared);
        let lag = reader.age().filter(|age| Some(*age) <= wants.max_lag);
        match wants.compares.map(|compares| compares.by) {
            Some(ReadComparator::Weak) => return Stamp::None,
            Some(_) => return Stamp::Asked,
            None => {}
        }
        match wants.from {
            ReadFrom::Session if commit.is_some() => Stamp::Session,
            ReadFrom::Any if wants.max_lag.is_none() || lag.is_some() => Stamp::None,
            ReadFrom::Leader | ReadFrom::Fresh | ReadFrom::Session | ReadFrom::Any => Stamp::Asked,
        }
    }

    /// Asks the leader for the newest commit, and waits until snapshots include it.
    pub(super) async fn ask(
        &mut self,
        reader: &Reader,
        timeout: Option<Duration>,
    ) -> Result<Asked, Not> {
        let began = coeval_env::now();
        let timeout = timeout.filter(|timeout| *timeout < PATIENCE);
        let mut late = pin!(coeval_env::sleep_until(began + timeout.unwrap_or(PATIENCE)));
        let engine = &*reader.engine;
        let compares = self.reads.wants.and_then(|wants| wants.compares);
        let mut waiting = Waiting::new(engine, compares);
        let mut answered = None;
        let home = self.reads.home.as_ref();
        let activity = home.map(|home| Arc::clone(home.conversation.session.activity()));
        let (buffer, handover) = (&self.input.buffer, &self.handover);
        let (signal, watch) = (&self.signal, &mut self.input.watch);
        let mut is_shown = false;
        let told = poll_fn(|context| {
            let newest = waiting.poll(context);
            if answered.is_none() {
                let how = waiting
                    .question
                    .and_then(|question| engine.answered(question));
                answered = how.map(|how| (how, began.elapsed()));
            }
            if let Poll::Ready(told) = newest {
                return Poll::Ready(told.map_err(Not::Leader));
            }
            if let Some(activity) = &activity
                && !std::mem::replace(&mut is_shown, true)
            {
                let text = first_text(buffer, handover).unwrap_or_default();
                activity.asks(text, EvaluationContext::clock());
            }
            signal.register(context);
            if signal.shall_go() {
                return Poll::Ready(Err(Not::Leader(AtLeader::Lost)));
            }
            if signal.is_canceled() {
                return Poll::Ready(Err(Not::Told(Error::canceled())));
            }
            if watch.poll_gone(context) {
                return Poll::Ready(Err(Not::Gone));
            }
            late.as_mut().poll(context).map(|()| {
                Err(match timeout {
                    Some(_) => Not::Told(TimeLimit::Statement.error()),
                    None => Not::Leader(AtLeader::Lost),
                })
            })
        })
        .await;
        if let Some(activity) = &activity {
            activity.answer_waits(AnswerWait::None);
        }
        told?;
        reader.is_fresh_since(began);
        let (how, asked) = answered.unwrap_or((Answered::Asked, Duration::ZERO));
        Ok(Asked {
            stamp: match how {
                _ if waiting.was_behind => Stamp::Waited,
                Answered::Asked => Stamp::Asked,
                Answered::Shared => Stamp::Shared,
                Answered::Spared => Stamp::Spared,
            },
            waits: (asked, began.elapsed().saturating_sub(asked)),
        })
    }
}

/// The text of the first statement of the cycle at the front of the buffer.
fn first_text<'a>(buffer: &'a ReadBuffer, handover: &'a SessionHandover) -> Option<&'a str> {
    let (frame, _) = buffer.peek(0).ok()??;
    let mut strings = frame.contents.split(|byte| *byte == 0);
    let mut string = || str::from_utf8(strings.next()?).ok();
    match frame.kind {
        kind::QUERY => string(),
        // After a name: the text, or that of the statement.
        kind::PARSE => string().and(string()),
        kind::BIND => {
            let name = string().and(string())?;
            handover.prepared(name)
        }
        _ => None,
    }
}

/// How a question was answered.
pub(super) struct Asked {
    pub(super) stamp: Stamp,
    /// How long the answer took, and how long this node's tables took to show it.
    pub(super) waits: (Duration, Duration),
}
