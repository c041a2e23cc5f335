//! `coeval epoch put`, `get`, `status` and `watch`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ArgMatches;
use coeval_epoch::client::{Client, ClientError, Settings, delete, put as put_value};
use coeval_epoch::{EpochTimestamp, Found};
use coeval_peers::NodeId;

use super::{Failure, Members, credentials};
use crate::commands::say;

pub(super) async fn settings(matches: &ArgMatches) -> Result<Settings, Failure> {
    let nodes = matches.get_one::<Members>("nodes").cloned();
    let mut settings = Settings::new(nodes.unwrap_or_default());
    let own = matches.get_one::<u64>("as").copied().unwrap_or_default();
    settings.security = credentials::security(matches, NodeId(own)).await?;
    settings.secret = credentials::secret(matches).await?;
    settings.role = matches
        .get_one::<String>("role")
        .cloned()
        .unwrap_or_default();
    Ok(settings)
}

pub(super) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Unreachable(_) | ClientError::NotLetIn { .. } => Failure::new(3, error),
        ClientError::Refused(reason) => {
            Failure::new(1, format!("{reason} ({})", reason.sqlstate()))
        }
        other => Failure::new(1, other),
    }
}

pub(super) async fn put(matches: &ArgMatches) -> Result<(), Failure> {
    let client = Client::new(settings(matches).await?);
    let mut writes = Vec::new();
    for text in matches.get_many::<String>("writes").into_iter().flatten() {
        let parts = text.split_once('=');
        let (key, value) = parts.ok_or_else(|| Failure::new(2, format!("{text:?} has no =")))?;
        writes.push(match value {
            "" => delete(key.to_owned()),
            value => put_value(key.to_owned(), value.to_owned()),
        });
    }
    let at = client.put_all(writes).await.map_err(failed)?;
    say(&format!("committed at {at}"));
    Ok(())
}

pub(super) async fn get(matches: &ArgMatches) -> Result<(), Failure> {
    let at = matches.get_one::<String>("at").map(|text| {
        let at: Result<EpochTimestamp, _> = text.parse();
        at.map_err(|error| Failure::new(2, format!("{text:?}: {error}")))
    });
    let at = at.transpose()?;
    let client = Client::new(settings(matches).await?);
    let keys = matches.get_many::<String>("keys").into_iter().flatten();
    let keys: Vec<String> = keys.cloned().collect();
    let snapshot = match at {
        None => client.get_all(keys.clone()).await,
        Some(at) => client.get_all_at(keys.clone(), at).await,
    };
    let snapshot = snapshot.map_err(failed)?;
    say(&format!("at {}", snapshot.at));
    for key in keys {
        match snapshot.values.get(key.as_bytes()) {
            Some(Found::Value(value)) => say(&format!("{key}={}", String::from_utf8_lossy(value))),
            Some(Found::ToCompute(_)) => say(&format!("{key} is to be computed")),
            Some(Found::Nothing) | None => say(&format!("{key} has no value")),
        }
    }
    Ok(())
}

/// Each node of the list, with a client of it alone.
pub(super) async fn each(matches: &ArgMatches) -> Result<Vec<(NodeId, Client)>, Failure> {
    let settings = settings(matches).await?;
    let clients = settings.nodes.iter().map(|(node, location)| {
        let alone = Settings {
            nodes: vec![(*node, location.clone())],
            patience: Duration::from_secs(3),
            ..settings.clone()
        };
        (*node, Client::new(alone))
    });
    Ok(clients.collect())
}

pub(super) async fn status(matches: &ArgMatches) -> Result<(), Failure> {
    let (mut reached, mut last) = (false, None);
    for (node, client) in each(matches).await? {
        match client.status().await {
            Ok(lines) => {
                reached = true;
                say(lines.trim_end());
            }
            Err(error) => {
                say(&format!("node {node}\nserves no: {error}"));
                last = Some(error);
            }
        }
        say("");
    }
    match last {
        Some(error) if !reached => Err(failed(error)),
        _ => Ok(()),
    }
}

/// What a line of `watch` shows.
const WATCHED: [&str; 8] = [
    "manager",
    "closed_epoch",
    "epoch_microseconds",
    "drained_last",
    "undrained",
    "unsealed",
    "waiting_requests",
    "refused_total",
];

pub(super) async fn watch(matches: &ArgMatches) -> Result<(), Failure> {
    let clients = each(matches).await?;
    let count = matches.get_one::<u64>("count").copied();
    let mut looked = 0;
    while count.is_none_or(|count| looked < count) {
        if looked > 0 {
            coeval_env::sleep(Duration::from_secs(1)).await;
        }
        looked += 1;
        for (node, client) in &clients {
            let line = match client.status().await {
                Ok(lines) => {
                    let values: BTreeMap<&str, &str> = lines
                        .lines()
                        .filter_map(|line| line.split_once(' '))
                        .collect();
                    let shown = WATCHED
                        .iter()
                        .filter_map(|name| values.get(name).map(|value| format!("{name} {value}")));
                    shown.collect::<Vec<_>>().join("  ")
                }
                Err(error) => error.to_string(),
            };
            say(&format!("node {node}  {line}"));
        }
    }
    Ok(())
}
