//! Changing a cluster, and waiting until that has come about.
//!
//! The connection may end meanwhile, and so may the statement: with the leader that was
//! asked. So what counts is not its answer but what the cluster says afterwards, unless
//! the answer is that the change is refused.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use super::{Failure, Picture, picture};
use crate::client::{self, explain};

/// How often to look.
const LOOK: Duration = Duration::from_millis(200);

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(u64, SocketAddr),
    Remove(u64),
    Transfer(u64),
}

impl Change {
    fn statement(self) -> String {
        match self {
            Self::Add(node, address) => format!("SELECT coeval.cluster_add({node}, '{address}')"),
            Self::Remove(node) => format!("SELECT coeval.cluster_remove({node})"),
            Self::Transfer(node) => format!("SELECT coeval.cluster_transfer({node})"),
        }
    }

    /// Whether it has come about.
    fn is_done(self, picture: &Picture) -> bool {
        match self {
            Self::Add(node, _) => matches!(picture.role(node), Some("voter" | "leader")),
            Self::Remove(node) => picture.role(node).is_none(),
            Self::Transfer(node) => picture.leader() == Some(node),
        }
    }

    /// How far it has come, in words.
    fn stage(self, picture: &Picture) -> String {
        match self {
            Self::Add(node, _) => match (picture.role(node), picture.behind(node)) {
                (None, _) => format!("node {node} takes no part yet"),
                (Some(_), None) => format!("node {node} learns"),
                (Some(_), Some(behind)) => format!("node {node} learns, {behind} behind"),
            },
            Self::Remove(node) => format!("node {node} still takes part"),
            Self::Transfer(node) => match picture.leader() {
                None => format!("nobody leads yet, not node {node} either"),
                Some(leader) => format!("node {leader} leads, not yet node {node}"),
            },
        }
    }
}

/// Whether a change that ended so may have come about, or may when it is asked for again.
fn is_final(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else {
        // The connection is gone, not the cluster.
        return false;
    };
    let code = report.code().code();
    // The leader has changed or stops, or somebody stopped waiting for the answer.
    !(code.starts_with("08") || code.starts_with("57") || code.starts_with("40"))
}

/// Has the leader make the change and waits for it.
pub(super) async fn make(change: Change, url: &str, wait: Duration) -> Result<Picture, Failure> {
    // Whether there is a cluster, and whom it has.
    let before = picture(url).await.map_err(Failure::Unknown)?;
    if change.is_done(&before) {
        return Ok(before);
    }
    let mut asked = pin!(ask(change, url));
    let mut answered = false;
    let mut said = String::new();
    let until = coeval_env::now() + wait;
    loop {
        if answered {
            coeval_env::sleep(LOOK).await;
        } else {
            match coeval_env::timeout(LOOK, &mut asked).await {
                Ok(Err(refused)) => return Err(Failure::Refused(refused)),
                Ok(Ok(done)) => {
                    answered = done;
                    if !done {
                        coeval_env::sleep(LOOK).await;
                        asked.set(ask(change, url));
                    }
                }
                Err(coeval_env::Elapsed) => {}
            }
        }
        let stage = match picture(url).await {
            Ok(picture) if change.is_done(&picture) => return Ok(picture),
            Ok(picture) => change.stage(&picture),
            Err(error) => error,
        };
        if coeval_env::now() >= until {
            return Err(Failure::Refused(format!(
                "after {} s it has not come about: {stage}\nIt may yet; look with coeval \
                 cluster status.",
                wait.as_secs()
            )));
        }
        if stage != said {
            let _ = writeln!(std::io::stderr(), "{stage}");
            said = stage;
        }
    }
}

/// Asks for the change. False when it should be asked for again.
async fn ask(change: Change, url: &str) -> Result<bool, String> {
    let Ok(client) = client::connect(url, "coeval cluster").await else {
        return Ok(false);
    };
    match client.simple_query(&change.statement()).await {
        Ok(_) => Ok(true),
        Err(error) if is_final(&error) => Err(explain(&error)),
        Err(_) => Ok(false),
    }
}
