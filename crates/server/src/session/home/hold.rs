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

use coeval_env::Instant;
use coeval_leader::node::Node;
use coeval_sql::Error;
use coeval_sql::instance::TimeLimit;

use super::Not;
use crate::metrics::AtLeader;
use crate::reader::Reader;
use crate::session::relay::Relay;
use crate::shared::Shared;

/// Interval between two questions of a node that knows no leader to ask.
const BETWEEN: Duration = Duration::from_millis(5);

impl Relay {
    /// Waits while this node holds reads of its state.
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
        let held = self.held(node, reader, began, timeout).await;
        self.sheet.was_held(began.elapsed());
        held
    }

    async fn held(
        &mut self,
        node: &Node,
        reader: &Reader,
        began: Instant,
        timeout: Option<Duration>,
    ) -> Result<(), Not> {
        self.signal.forget_cancel();
        let last = began + node.pauses().longest();
        let limit = timeout.map(|timeout| began + timeout);
        loop {
            let asked = coeval_env::now();
            if limit.is_some_and(|limit| limit <= asked) {
                return Err(Not::Told(TimeLimit::Statement.error()));
            }
            let Some(until) = node.pauses().look(asked).filter(|_| asked < last) else {
                return Ok(());
            };
            let until = limit.map_or(until, |limit| limit.min(until)).min(last);
            let newest = coeval_txn::newest(&*reader.engine);
            match self.unless_interrupted(newest, until).await? {
                Some(Ok(())) => {
                    node.pauses().caught_up(asked);
                    reader.is_fresh_since(asked);
                }
                Some(Err(_)) => {
                    let again = until.min(asked + BETWEEN);
                    self.unless_interrupted(std::future::pending::<()>(), again)
                        .await?;
                }
                None => {}
            }
        }
    }

    /// Waits for the future until this time; `None` when it has come. Ends early when the
    /// client has gone or cancels, or the session has to end.
    async fn unless_interrupted<T>(
        &mut self,
        future: impl Future<Output = T>,
        until: Instant,
    ) -> Result<Option<T>, Not> {
        let mut future = pin!(future);
        let mut late = pin!(coeval_env::sleep_until(until));
        let (signal, watch) = (&self.signal, &mut self.input.watch);
        poll_fn(|context| {
            if let Poll::Ready(told) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(Some(told)));
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
            late.as_mut().poll(context).map(|()| Ok(None))
        })
        .await
    }
}
