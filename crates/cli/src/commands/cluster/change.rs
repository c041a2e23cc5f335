//! Changes of a cluster: requests one, and waits until the cluster shows it.
//!
//! The connection or the statement may fail meanwhile, together with the leader. So the
//! command relies on the cluster's status afterwards and not on the statement's answer,
//! unless the answer is that the cluster refuses the change.

use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use coeval_env::Location;
use coeval_server::removed_words;

use super::{Failure, Picture, picture};
use crate::client::{self, explain};

/// Interval between two readings of the cluster's status.
const LOOK: Duration = Duration::from_millis(200);

/// A requested change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(u64, Location),
    Remove(u64),
    Transfer(u64),
}

impl Change {
    fn statement(&self) -> String {
        match self {
            Self::Add(node, address) => format!("SELECT coeval.cluster_add({node}, '{address}')"),
            Self::Remove(node) => format!("SELECT coeval.cluster_remove({node})"),
            Self::Transfer(node) => format!("SELECT coeval.cluster_transfer({node})"),
        }
    }

    /// Whether the cluster shows the change as done.
    fn is_done(&self, picture: &Picture) -> bool {
        match self {
            Self::Add(node, _) => matches!(picture.role(*node), Some("voter" | "leader")),
            Self::Remove(node) => picture.role(*node).is_none(),
            Self::Transfer(node) => picture.leader() == Some(*node),
        }
    }

    /// Whether the error of reading the status shows that the change is done: a removed
    /// node answers with such an error.
    fn is_why(&self, error: &str) -> bool {
        match self {
            Self::Remove(node) => error.contains(&removed_words(*node)),
            Self::Add(..) | Self::Transfer(_) => false,
        }
    }

    /// The progress of the change, in words.
    fn stage(&self, picture: &Picture) -> String {
        match self {
            Self::Add(node, _) => match (picture.role(*node), picture.behind(*node)) {
                (None, _) => format!("node {node} takes no part yet"),
                (Some(_), None) => format!("node {node} learns"),
                (Some(_), Some(behind)) => format!("node {node} learns, {behind} behind"),
            },
            Self::Remove(node) => format!("node {node} still takes part"),
            Self::Transfer(node) => match picture.leader() {
                None => format!("no node leads yet, not node {node} either"),
                Some(leader) => format!("node {leader} leads, not yet node {node}"),
            },
        }
    }
}

/// The result of a change.
#[derive(Debug)]
pub(super) enum Made {
    /// The cluster shows the change.
    Seen(Box<Picture>),
    /// The node at the URL is the one that was removed, and reports it.
    AskedItself,
}

/// SQLSTATE 55006, `object_in_use`: another change is under way.
const BUSY: &str = "55006";

/// Whether this error is final: after any other the change may be done, or may succeed
/// when it is requested again.
fn is_final(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else {
        // The connection is lost; the cluster may still make the change.
        return false;
    };
    let code = report.code().code();
    // The leader has changed or stops, or the statement was canceled; or another change
    // has to end first.
    !(code == BUSY || code.starts_with("08") || code.starts_with("57") || code.starts_with("40"))
}

/// Has the leader make the change, and waits until the cluster shows it.
pub(super) async fn make(change: &Change, url: &str, wait: Duration) -> Result<Made, Failure> {
    // Reads the members first, which also checks that the server is part of a cluster.
    match picture(url).await {
        Ok(before) if change.is_done(&before) => {
            let _ = writeln!(std::io::stderr(), "there is nothing to do");
            return Ok(Made::Seen(Box::new(before)));
        }
        Ok(_) => {}
        Err(error) if change.is_why(&error) => return Ok(Made::AskedItself),
        Err(error) => return Err(Failure::Unknown(error)),
    }
    let mut asked = pin!(ask(change, url));
    let mut answered = false;
    let mut again = None;
    let mut said = String::new();
    let until = coeval_env::now() + wait;
    loop {
        if answered {
            coeval_env::sleep(LOOK).await;
        } else {
            match coeval_env::timeout(LOOK, &mut asked).await {
                Ok(Err(refused)) => return Err(Failure::Refused(refused)),
                Ok(Ok(Asked::Done)) => (answered, again) = (true, None),
                Ok(Ok(Asked::Again(reason))) => {
                    again = reason;
                    coeval_env::sleep(LOOK).await;
                    asked.set(ask(change, url));
                }
                Err(coeval_env::Elapsed) => {}
            }
        }
        let stage = match picture(url).await {
            Ok(picture) if change.is_done(&picture) => {
                return Ok(Made::Seen(Box::new(picture)));
            }
            Ok(picture) => again.clone().unwrap_or_else(|| change.stage(&picture)),
            Err(error) if change.is_why(&error) => return Ok(Made::AskedItself),
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

/// The result of a request.
enum Asked {
    /// The leader has answered that the change is done.
    Done,
    /// The command should request the change again, perhaps because of this error.
    Again(Option<String>),
}

/// Requests the change once.
async fn ask(change: &Change, url: &str) -> Result<Asked, String> {
    let Ok(client) = client::connect(url, "coeval cluster").await else {
        return Ok(Asked::Again(None));
    };
    match client.simple_query(&change.statement()).await {
        Ok(_) => Ok(Asked::Done),
        Err(error) if is_final(&error) => Err(explain(&error)),
        Err(error) => {
            let report = error.as_db_error();
            let busy = report.filter(|report| report.code().code() == BUSY);
            Ok(Asked::Again(busy.map(|report| report.message().to_owned())))
        }
    }
}
