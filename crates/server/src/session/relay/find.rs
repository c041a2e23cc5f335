//! A relay without a leader: it looks for one, and serves its client meanwhile as far as it
//! can.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coeval_pgwire::frame::kind;
use coeval_sql::Error;
use coeval_sql::instance::TimeLimit;
use coeval_sql::session::settings;

use super::connecting::{Begun, begun_unless_replaced};
use super::{BETWEEN, Leader, Relay, Stop, no_leader, open_unless_replaced, removed};
use crate::serving_term::{Lead, ServingTerm};
use crate::session::home::Offer;
use crate::session::opening::{self, Resumed};
use crate::session::{greet, report};
use crate::shared::Shared;

/// The node where a session can continue.
pub(super) enum NextLeader {
    Leader(Leader),
    Here(Arc<ServingTerm>),
}

impl Relay {
    /// Finds the leader. Meanwhile the client gets the errors of its unanswered requests,
    /// and a new request waits for as long as the settings and its `statement_timeout`
    /// allow. One that has waited for too long in a block that is on this node fails there, so
    /// that the block can be ended without a leader.
    pub(super) async fn find(&mut self, shared: &Shared) -> Result<NextLeader, Stop> {
        let Some(node) = &shared.node else {
            return Err(Stop::Terminated);
        };
        let streams = node.streams();
        let mut leads = shared.lead.subscribe();
        loop {
            let lead = leads.borrow_and_update().clone();
            if self.unconfirmed.is_some() && !matches!(lead, Lead::Nowhere) {
                self.confirm(shared, node).await?;
                if self.unconfirmed.is_some() {
                    self.meanwhile(shared, coeval_env::sleep(BETWEEN)).await?;
                    continue;
                }
            }
            if self.is_lazy && !matches!(lead, Lead::Here(_)) {
                self.wait_for_need(shared, &mut leads).await?;
                continue;
            }
            match lead {
                Lead::Here(serving_term) => {
                    self.waits_since = None;
                    return Ok(NextLeader::Here(serving_term));
                }
                Lead::There(node) => {
                    let resumed = Resumed {
                        in_transaction: self.tracker.in_transaction(),
                        pieces: self.handover.pieces(),
                    };
                    let opening = opening::session(&self.origin, Some(&resumed));
                    drop(resumed);
                    let _sent = self.kept.copied(opening.len());
                    let opening = open_unless_replaced(&streams, node, &opening, &leads);
                    let opened = self.meanwhile(shared, opening).await?;
                    let begun = match opened {
                        Some(leader) if self.is_unknown => {
                            let beginning = begun_unless_replaced(leader, &leads);
                            self.meanwhile(shared, beginning).await?
                        }
                        opened => opened.map(Begun::Session),
                    };
                    match begun {
                        Some(Begun::Session(leader)) => {
                            self.waits_since = None;
                            self.is_unknown = false;
                            return Ok(NextLeader::Leader(leader));
                        }
                        Some(Begun::Full(error)) => {
                            self.waits_since = None;
                            self.stay(&error).await?;
                            continue;
                        }
                        None => {}
                    }
                    let changed = async {
                        let _ = coeval_env::timeout(BETWEEN, leads.changed()).await;
                    };
                    self.meanwhile(shared, changed).await?;
                }
                Lead::Nowhere => {
                    let changed = async {
                        // The sender lives as long as the server.
                        let _ = leads.changed().await;
                    };
                    self.meanwhile(shared, changed).await?;
                }
            }
        }
    }

    /// Sends the client what it has not got yet, and charges the messages that wait.
    pub(super) fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Result<(), Stop> {
        if self.client.poll_send(context, moved).is_err() {
            return Err(Stop::Client);
        }
        let held = self.input.buffer.capacity();
        self.kept.charge_messages(held).map_err(Stop::Nonsense)
    }

    /// Takes what has come from the client.
    pub(super) fn poll_input(
        &mut self,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Result<(), Stop> {
        match self.input.poll_fill(context) {
            Poll::Ready(Ok(())) => *moved = true,
            Poll::Ready(Err(())) => return Err(Stop::Client),
            Poll::Pending => {}
        }
        Ok(())
    }

    /// Waits for `work`, and serves the client as far as possible without a leader.
    async fn meanwhile<T>(
        &mut self,
        shared: &Shared,
        work: impl Future<Output = T>,
    ) -> Result<T, Stop> {
        let mut work = pin!(work);
        let mut late = None;
        let of_statement = self.timeout(shared, "statement_timeout");
        let of_statement = of_statement.filter(|timeout| *timeout < self.patience);
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let mut is_canceled = self.signal.is_canceled() && !self.signal.is_deposed();
            if let Some(stop) = self.poll_signal(context, None) {
                return Poll::Ready(Err(stop));
            }
            loop {
                let mut moved = false;
                if let Err(stop) = self.poll_rest(context, &mut moved) {
                    return Poll::Ready(Err(stop));
                }
                if !self.input.buffer.has_frame() {
                    if let Err(stop) = self.poll_input(context, &mut moved) {
                        return Poll::Ready(Err(stop));
                    }
                } else if self.input.poll_gone(context).is_ready() {
                    return Poll::Ready(Err(Stop::Client));
                }
                let mut goes = self.input.buffer.has_frame();
                if let Ok(Some((first, _))) = self.input.buffer.peek(0)
                    && first.kind == kind::TERMINATE
                {
                    return Poll::Ready(Err(Stop::Client));
                }
                if goes {
                    match self.offer(shared, false) {
                        Offer::Home(cycle) => return Poll::Ready(Err(Stop::Reads(cycle))),
                        Offer::Wait => {
                            goes = false;
                            if let Err(stop) = self.poll_input(context, &mut moved) {
                                return Poll::Ready(Err(stop));
                            }
                        }
                        Offer::Leader => {}
                    }
                }
                if goes {
                    let since = *self.waits_since.get_or_insert_with(coeval_env::now);
                    let at = since + of_statement.unwrap_or(self.patience);
                    let late = late.get_or_insert_with(|| Box::pin(coeval_env::sleep_until(at)));
                    let is_late = late.as_mut().poll(context).is_ready();
                    let refusal = if std::mem::take(&mut is_canceled) {
                        Some(Error::canceled())
                    } else if shared.cluster.is_removed() {
                        Some(removed(shared))
                    } else {
                        is_late.then(|| match of_statement {
                            Some(_) => TimeLimit::Statement.error(),
                            None => no_leader(),
                        })
                    };
                    let refusal = match refusal {
                        Some(error) if self.reads.may_fail_here() => {
                            return Poll::Ready(Err(Stop::Refused(error)));
                        }
                        refusal => refusal,
                    };
                    if let Some(stop) = self.refuse(refusal.as_ref()) {
                        return Poll::Ready(Err(stop));
                    }
                    moved |= refusal.is_some();
                }
                if !goes || !self.input.buffer.has_frame() {
                    (self.waits_since, late) = (None, None);
                }
                if let Some(error) = self.poll_silence(shared, context) {
                    return Poll::Ready(Err(Stop::Nonsense(error)));
                }
                if !moved {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The session's timeout of this name, if it has one: what the session has set is part of
    /// its handover state, and what it began with comes from the client, its role or the settings.
    pub(super) fn timeout(&self, shared: &Shared, name: &str) -> Option<Duration> {
        let time = match self.handover.setting(name) {
            Some(value) => settings::time(value),
            None => settings::time(&greet::at_start(shared, &self.origin, name)?),
        };
        time.filter(|time| !time.is_zero())
    }

    /// Answers the client's messages with this error; without one, drops only the
    /// messages that the session skips until Sync.
    pub(super) fn refuse(&mut self, error: Option<&Error>) -> Option<Stop> {
        if error.is_some() {
            self.refuse_block();
        }
        while error.is_some() || self.tracker.is_skipping() {
            match self.input.buffer.next_frame() {
                Ok(Some(next)) if next.kind == kind::TERMINATE => return Some(Stop::Client),
                Ok(Some(next)) => {
                    self.reads.begin_cycle();
                    let out = &mut self.client.buffer;
                    match error {
                        Some(error) => self.tracker.refuse(next.kind, error, out),
                        None => self.tracker.skip(next.kind, out),
                    }
                }
                Ok(None) => return None,
                Err(error) => return Some(Stop::Nonsense(report::from_wire(&error))),
            }
        }
        None
    }
}
