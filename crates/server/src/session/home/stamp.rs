//! Which state a cycle reads, and asking the leader for it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use coeval_sql::Error;
use coeval_sql::instance::TimeLimit;
use coeval_sql::session::settings::{self, ReadFrom};
use coeval_types::Timestamp;

use super::Not;
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
            };
        }
        if let Some(wants) = self.reads.wants {
            return wants;
        }
        let value = |name: &str| match self.handover.setting(name) {
            Some(value) => Some(value.to_owned()),
            None => greet::at_start(shared, &self.origin.request, name),
        };
        let from = value("coeval.read_from");
        let from = from.and_then(|name| ReadFrom::named(&name.to_ascii_lowercase()));
        let max_lag = value("coeval.read_max_lag").and_then(|time| settings::time(&time));
        let wants = Wants {
            from: from.unwrap_or_default(),
            max_lag: max_lag.filter(|lag| !lag.is_zero()),
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
    ) -> Result<(), Not> {
        self.signal.forget_cancel();
        let asked = coeval_env::now();
        let timeout = timeout.filter(|timeout| *timeout < PATIENCE);
        let mut late = pin!(coeval_env::sleep_until(asked + timeout.unwrap_or(PATIENCE)));
        let mut newest = pin!(coeval_txn::newest(&*reader.engine));
        let (signal, watch) = (&self.signal, &mut self.input.watch);
        let told = poll_fn(|context| {
            if let Poll::Ready(told) = newest.as_mut().poll(context) {
                return Poll::Ready(told.map_err(|_| Not::Leader(AtLeader::Lost)));
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
        told?;
        reader.is_fresh_since(asked);
        Ok(())
    }
}
