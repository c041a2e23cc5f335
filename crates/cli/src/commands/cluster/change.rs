//! Changing a cluster, and waiting until that has come about.
//!
//! The connection may end meanwhile, and so may the statement: with the leader that was
//! asked. So what counts is not its answer but what the cluster says afterwards, unless
//! the answer is that the change is refused.

use std::io::Write;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use coeval_server::removed_words;

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

    /// Whether what went wrong with looking is that it has come about.
    fn is_why(self, error: &str) -> bool {
        match self {
            Self::Remove(node) => error.contains(&removed_words(node)),
            Self::Add(..) | Self::Transfer(_) => false,
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

/// What a change has come to.
#[derive(Debug)]
pub(super) enum Made {
    /// The cluster shows it.
    Seen(Box<Picture>),
    /// The node that was asked is the one that was removed, and says so.
    AskedItself,
}

/// Another change is under way (object_in_use).
const BUSY: &str = "55006";

/// Whether a change that ended so may have come about, or may when it is asked for again.
fn is_final(error: &tokio_postgres::Error) -> bool {
    let Some(report) = error.as_db_error() else {
        // The connection is gone, not the cluster.
        return false;
    };
    let code = report.code().code();
    // The leader has changed or stops, or somebody stopped waiting for the answer; or it is
    // not this one's turn yet.
    !(code == BUSY || code.starts_with("08") || code.starts_with("57") || code.starts_with("40"))
}

/// Has the leader make the change and waits for it.
pub(super) async fn make(change: Change, url: &str, wait: Duration) -> Result<Made, Failure> {
    // Whether there is a cluster, and whom it has.
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

/// What asking has come to.
enum Asked {
    /// It is done, as the leader says.
    Done,
    /// It should be asked for again, perhaps for this reason.
    Again(Option<String>),
}

/// Asks for the change.
async fn ask(change: Change, url: &str) -> Result<Asked, String> {
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
