//! The hold of `any` reads: a read that takes this node's state as it is waits after the
//! process was away, until the node has caught up or for a bounded time
//! ([`PauseDetector`](coeval_leader::node::PauseDetector)).
//!
//! Held reads ask the leader as `fresh` reads do. Unlike those, they are answered here even if
//! the leader cannot be asked.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use coeval_sql::Error;
use coeval_sql::instance::TimeLimit;

use super::Not;
use crate::metrics::AtLeader;
use crate::reader::Reader;
use crate::session::relay::Relay;
use crate::shared::Shared;

impl Relay {
    /// Waits while this node holds reads of its state. Ends early when the client has gone or
    /// cancels, or the session has to end, or the statement's time is over.
    pub(super) async fn hold(
        &mut self,
        shared: &Shared,
        reader: &Reader,
        timeout: Option<Duration>,
    ) -> Result<(), Not> {
        let Some(node) = shared.node.as_deref() else {
            return Ok(());
        };
        let began = coeval_env::now();
        if node.pauses().look(began).is_none() {
            return Ok(());
        }
        self.signal.forget_cancel();
        let mut held = pin!(reader.hold(node.pauses()));
        let limit = timeout.unwrap_or(Duration::MAX);
        let mut late = pin!(coeval_env::sleep_until(began + limit));
        let (signal, watch) = (&self.signal, &mut self.input.watch);
        let ended = poll_fn(|context| {
            if held.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
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
            let over = late.as_mut().poll(context);
            over.map(|()| Err(Not::Told(TimeLimit::Statement.error())))
        })
        .await;
        self.sheet.was_held(began.elapsed());
        ended
    }
}
