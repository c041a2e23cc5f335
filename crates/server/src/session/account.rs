//! Accounts: what the login of a user name is checked against, on a node that follows.
//!
//! ```text
//!   newest   asked of the leader, which shows every change that was acknowledged before
//!            ├─ this node's tables are replayed:  a question for the newest commit
//!            └─ they are not, or lag:             the leader is asked for the account
//!   shown    no leader has answered: the newest committed state of this node's tables
//! ```
//!
//! A changed password, `NOLOGIN` or DROP ROLE holds for the next login on every node, as
//! long as a leader answers. What was let in by a state that may be old is asked for again as
//! soon as a leader is known ([`confirm`](super::relay::Relay::confirm)).

use std::time::Duration;

use coeval_leader::node::Node;
use coeval_peers::{NodeId, Streams};
use coeval_sql::Error;
use coeval_sql::session::Account;
use coeval_types::Remedy;
use tokio::sync::watch;
use tracing::debug;

use super::greet::LOOK;
use super::{opening, relay};
use crate::serving_term::Lead;
use crate::shared::Shared;

/// How long a login waits for a leader's answer before it takes what this node shows, in
/// election timeouts. An election takes about two of them.
const PATIENCE: u32 = 6;

/// An account, and whether it is the newest.
pub(super) struct FoundAccount {
    pub(super) account: Account,
    pub(super) is_newest: bool,
}

/// Finds the account of a user name: the newest, or, without a leader, the one that this
/// node's tables show.
pub(super) async fn find(shared: &Shared, node: &Node, user: &str) -> Result<FoundAccount, Error> {
    let wait = Duration::from_millis(shared.settings.cluster_wait_milliseconds);
    // Not shorter because statements wait for less: an old state is the last resort.
    let patience = election_timeout(shared).saturating_mul(PATIENCE);
    let newest = |account| FoundAccount {
        account,
        is_newest: true,
    };
    if let Ok(told) = coeval_env::timeout(patience, self::newest(shared, node, user)).await {
        return told.map(newest);
    }
    let reader = shared.reader.borrow().clone();
    if let Some(reader) = reader {
        match reader.database.login_as_shown(user).await {
            Ok(account) => {
                return Ok(FoundAccount {
                    account,
                    is_newest: false,
                });
            }
            Err(error) => debug!(%error, "this node's tables show no account"),
        }
    }
    let rest = wait.saturating_sub(patience);
    match coeval_env::timeout(rest, self::newest(shared, node, user)).await {
        Ok(told) => told.map(newest),
        Err(coeval_env::Elapsed) => Err(relay::no_leader()),
    }
}

/// The newest account of a user name. Waits for a leader that answers; an error if this node
/// is no longer a member.
pub(super) async fn newest(shared: &Shared, node: &Node, user: &str) -> Result<Account, Error> {
    let streams = node.streams();
    let mut leads = shared.lead.subscribe();
    loop {
        let lead = leads.borrow_and_update().clone();
        if !matches!(lead, Lead::Here(_)) && shared.cluster.is_removed() {
            return Err(relay::removed(shared));
        }
        let wait = match lead {
            Lead::Here(serving_term) => match serving_term.database.login(user).await {
                Ok(account) => return Ok(account),
                Err(error) if error.remedy() == Remedy::Fatal => relay::BETWEEN,
                Err(error) => return Err(error),
            },
            Lead::There(leader) => {
                if let Some(account) = replayed(shared, user).await {
                    return Ok(account);
                }
                if let Some(account) = told(shared, (&streams, leader), user, &leads).await {
                    return Ok(account);
                }
                relay::BETWEEN
            }
            Lead::Nowhere => LOOK,
        };
        // Whether the lead has changed or not, the loop reads it again.
        let _ = coeval_env::timeout(wait, leads.changed()).await;
    }
}

/// The newest account, from this node's tables, once they show the newest commit; `None` if
/// they do not in time.
async fn replayed(shared: &Shared, user: &str) -> Option<Account> {
    let reader = shared.reader.borrow().clone()?;
    let looking = reader.database.login(user);
    let looked = coeval_env::timeout(election_timeout(shared), looking).await;
    looked.ok()?.ok()
}

/// The newest account, as the leader tells it; `None` if it does not in time.
async fn told(
    shared: &Shared,
    (streams, leader): (&Streams, NodeId),
    user: &str,
    leads: &watch::Receiver<Lead>,
) -> Option<Account> {
    let asking = async {
        let question = opening::account_of(user);
        let mut leader = relay::open_unless_replaced(streams, leader, &question, leads).await?;
        opening::read_account(&mut leader.read).await
    };
    let asked = coeval_env::timeout(election_timeout(shared), asking).await;
    asked.ok().flatten()
}

fn election_timeout(shared: &Shared) -> Duration {
    Duration::from_millis(shared.settings.cluster_election_timeout_milliseconds)
}
