//! A session that its client's node has let in, before the leader has it: the relay opens it
//! there when the client needs the leader, and asks for its account again if no leader could
//! be asked at the login.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use coeval_leader::node::Node;
use coeval_pgwire::frame::kind;
use coeval_sql::Error;
use coeval_sql::instance::activity::Listing;
use coeval_sql::session::{Account, Login};
use tokio::sync::watch;

use super::super::account;
use super::super::authenticate::{Admitted, Claim, Refusal, still_holds};
use super::super::cycle;
use super::super::greet;
use super::super::home::Offer;
use super::{Relay, Stop, report};
use crate::audit::Client;
use crate::serving_term::Lead;
use crate::shared::Shared;

/// How long a leader's answer about a client that was let in without one may take, until the
/// relay serves the client again.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// A client that was let in by a state that may have been old.
pub(in crate::session) struct Unconfirmed {
    /// The account as this node's tables showed it.
    pub(in crate::session) account: Account,
    pub(in crate::session) admitted: Admitted,
}

impl Relay {
    /// Begins a session that this node has let in and no leader has. If `is_lazy`, the leader
    /// gets it once the client needs the leader, and at once otherwise.
    pub(in crate::session) fn begin(&mut self, login: Login, is_lazy: bool, listing: Listing) {
        self.handover.begin(login);
        self.kept.resume(self.handover.bytes());
        self.is_admitted = true;
        self.is_lazy = is_lazy;
        self.is_unknown = true;
        self.reads.list(listing);
    }

    /// Asks for the account again of a client that was let in without a leader, if this one
    /// was: before anything of it goes to the leader. Without an answer it stays unconfirmed.
    pub(super) async fn confirm(&mut self, shared: &Shared, node: &Node) -> Result<(), Stop> {
        let Some(unconfirmed) = &self.unconfirmed else {
            return Ok(());
        };
        let mut client = Client::new(self.origin.peer, self.origin.tls);
        let mut request = self.origin.request.clone();
        greet::take_names(&mut request, &mut client).map_err(Stop::Nonsense)?;
        let newest = account::newest(shared, node, &client.user);
        let Ok(newest) = coeval_env::timeout(CONFIRMATION, newest).await else {
            return Ok(());
        };
        let newest = newest.map_err(Stop::Nonsense)?;
        let claim = Claim {
            user: &client.user,
            database: &client.database,
            address: client.peer.ip(),
            tls: client.tls,
            binding: None,
        };
        let before = (&unconfirmed.account, &unconfirmed.admitted);
        match still_holds(&shared.access(), &claim, before, &newest) {
            Ok(()) => {
                self.unconfirmed = None;
                Ok(())
            }
            Err(Refusal::Error(error, detail)) => {
                shared.logins.refused(&client, &error, &detail);
                Err(Stop::Nonsense(error))
            }
            Err(Refusal::Gone) => Err(Stop::Client),
        }
    }

    /// The leader has no place for the session: the client's cycle fails with this error, and
    /// the session stays without a leader until it needs one again.
    pub(super) async fn stay(&mut self, error: &Error) -> Result<(), Stop> {
        self.is_lazy = true;
        // A session that reads at home counts the errors that it reports.
        if self.fail_at_home(error).await {
            return Ok(());
        }
        self.refuse_block();
        let mut is_told = false;
        while let Some(next) = self.input.buffer.next_frame().map_err(nonsense)? {
            if next.kind == kind::TERMINATE {
                return Err(Stop::Client);
            }
            self.reads.begin_cycle();
            is_told |= next.kind != kind::SYNC;
            let ends = cycle::is_end(next.kind);
            self.tracker
                .refuse(next.kind, error, &mut self.client.buffer);
            if ends {
                break;
            }
        }
        if is_told {
            self.sheet.error(error.state());
        }
        Ok(())
    }

    /// Serves a client that does not need the leader, until it does, or the lead changes.
    pub(super) async fn wait_for_need(
        &mut self,
        shared: &Shared,
        leads: &mut watch::Receiver<Lead>,
    ) -> Result<(), Stop> {
        let has_leader = matches!(*leads.borrow(), Lead::There(_));
        let mut changed = pin!(leads.changed());
        poll_fn(|context| {
            if changed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if let Some(stop) = self.poll_signal(context, None) {
                return Poll::Ready(Err(stop));
            }
            loop {
                let mut moved = false;
                // The end of a cycle that was refused may come alone: its answer leaves at once.
                if let Some(stop) = self.refuse(None) {
                    return Poll::Ready(Err(stop));
                }
                if let Err(stop) = self.poll_rest(context, &mut moved) {
                    return Poll::Ready(Err(stop));
                }
                if self.input.buffer.has_frame() {
                    if let Ok(Some((first, _))) = self.input.buffer.peek(0)
                        && first.kind == kind::TERMINATE
                    {
                        return Poll::Ready(Err(Stop::Client));
                    }
                    match self.offer(shared, has_leader) {
                        Offer::Home(cycle) => return Poll::Ready(Err(Stop::Reads(cycle))),
                        Offer::Leader => {
                            self.is_lazy = false;
                            return Poll::Ready(Ok(()));
                        }
                        Offer::Wait => {}
                    }
                }
                if let Err(stop) = self.poll_input(context, &mut moved) {
                    return Poll::Ready(Err(stop));
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
}

fn nonsense(error: coeval_pgwire::Error) -> Stop {
    Stop::Nonsense(report::from_wire(&error))
}
