//! `coeval epoch found` and `start`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use coeval_epoch::Rhythm;
use coeval_epoch::server::{self, Founding, Server, Settings};
use coeval_peers::{ClusterId, NodeId};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, Members, credentials, members_argument};
use crate::commands::say;
use crate::logging;
use crate::parent::Parent;

fn directory() -> Arg {
    Arg::new("data-dir")
        .long("data-dir")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The node's data directory")
}

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N")
        .value_parser(value_parser!(u64))
        .help(help)
}

/// Some of the nodes.
fn nodes(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N,…")
        .value_delimiter(',')
        .value_parser(value_parser!(u64))
        .help(help)
}

pub(super) fn found_arguments() -> Vec<Arg> {
    vec![
        directory(),
        number("node", "The node's number, from 1 to 255").required(true),
        members_argument("members", "All nodes, and where they listen for each other"),
        Arg::new("cluster")
            .long("cluster")
            .value_name("ID")
            .value_parser(value_parser!(ClusterId))
            .help("The cluster's id [default: drawn, and said]"),
        nodes(
            "council",
            "The nodes whose majority decides on members and manager [default: the first 3]",
        ),
        nodes(
            "front-ends",
            "The nodes that clients put to and get from [default: all]",
        ),
        nodes("back-ends", "The nodes that hold copies [default: all]"),
        number(
            "partitions",
            "Partitions of the keys [default: 2 for each node, up to 16]",
        ),
        number("copies", "Copies of each partition [default: 2]"),
        number(
            "degree",
            "Children of a front end in the barrier's tree; 0: flat [default: 0]",
        ),
        number(
            "history-epochs",
            "Past epochs that can be read [default: 1000]",
        ),
    ]
}

/// Replaces a value by an argument, if it is there.
fn replace<T: TryFrom<u64>>(
    matches: &ArgMatches,
    name: &str,
    value: &mut T,
) -> Result<(), Failure> {
    if let Some(given) = matches.get_one::<u64>(name) {
        let fits = T::try_from(*given);
        *value = fits.map_err(|_| Failure::new(2, format!("--{name} {given} is too many")))?;
    }
    Ok(())
}

/// What a node is founded with, as the arguments say.
pub(super) fn founding(matches: &ArgMatches) -> Result<Founding, Failure> {
    let node = matches.get_one::<u64>("node").copied().unwrap_or_default();
    let members = matches.get_one::<Members>("members").cloned();
    let cluster = matches.get_one::<ClusterId>("cluster").copied();
    let cluster = cluster.unwrap_or_else(ClusterId::draw);
    let mut founding = Founding::new(cluster, NodeId(node), members.unwrap_or_default());
    let some = |name: &str| -> BTreeSet<NodeId> {
        let given = matches.get_many::<u64>(name).into_iter().flatten();
        given.copied().map(NodeId).collect()
    };
    founding.council = some("council");
    founding.front_ends = some("front-ends");
    founding.back_ends = some("back-ends");
    if !founding.back_ends.is_empty() {
        // As many as there can be, up to what a cluster has by default.
        founding.copies = founding.copies.min(founding.back_ends.len() as u8);
    }
    replace(matches, "partitions", &mut founding.partitions)?;
    replace(matches, "copies", &mut founding.copies)?;
    replace(matches, "degree", &mut founding.degree)?;
    replace(matches, "history-epochs", &mut founding.history_epochs)?;
    Ok(founding)
}

pub(super) async fn found(matches: &ArgMatches) -> Result<(), Failure> {
    let founding = founding(matches)?;
    let directory = matches.get_one::<PathBuf>("data-dir");
    let directory = directory.cloned().unwrap_or_default();
    let founded = server::found(&directory, &founding).await;
    founded.map_err(|error| Failure::new(1, error))?;
    say(&format!("cluster {}", founding.cluster));
    Ok(())
}

pub(super) fn start_arguments() -> Vec<Arg> {
    let address = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("ADDRESS:PORT")
            .value_parser(value_parser!(SocketAddr))
            .help(help)
    };
    vec![
        directory(),
        number("node", "The node's number, as a check of the directory's"),
        address(
            "clients",
            "Listen there for clients [default: 127.0.0.1:0, any free port]",
        ),
        address(
            "admin",
            "Listen there for health and metrics over HTTP; on this machine only",
        ),
        address(
            "listen",
            "Listen there for other nodes [default: the node's own address]",
        ),
        number(
            "lost-milliseconds",
            "A node without a connection is dead after [default: 1000]",
        ),
        number(
            "absent-milliseconds",
            "One that was not there since this one's start, after [default: 30000]",
        ),
        number(
            "minimum-ticks",
            "Shortest epoch, in ticks of 10 ms [default: 1]",
        ),
        number(
            "maximum-ticks",
            "Longest epoch; the manager tunes between the two [default: lengths are not tuned]",
        ),
        number(
            "checkpoint-bytes",
            "Bytes of log after which a checkpoint replaces it [default: 64 MiB]",
        ),
        number(
            "disk-reserve-bytes",
            "Disk space that is given up when the disk is full; 0: none [default: 16 MiB]",
        ),
        number(
            "memory-bytes",
            "Bytes of keys and versions above which no value is taken; 0: half of what the machine or \
             the container has [default: 0]",
        ),
        Arg::new("stop-with-parent")
            .long("stop-with-parent")
            .action(ArgAction::SetTrue)
            .help("Stop when the starting process ends"),
    ]
}

pub(super) async fn start(matches: &ArgMatches) -> Result<(), Failure> {
    let parent = matches
        .get_flag("stop-with-parent")
        .then(Parent::now)
        .flatten();
    let failed = |error: &dyn std::fmt::Display| Failure::new(1, error);
    logging::start(&coeval_server::Settings::default()).map_err(|error| failed(&error))?;
    let directory = matches.get_one::<PathBuf>("data-dir");
    let mut settings = Settings::new(directory.cloned().unwrap_or_default());
    let address = |name: &str| matches.get_one::<SocketAddr>(name).copied();
    settings.clients = Some(address("clients").unwrap_or(([127, 0, 0, 1], 0).into()));
    settings.admin = address("admin");
    settings.listen = address("listen");
    replace(
        matches,
        "lost-milliseconds",
        &mut settings.lost_milliseconds,
    )?;
    replace(
        matches,
        "absent-milliseconds",
        &mut settings.absent_milliseconds,
    )?;
    replace(matches, "checkpoint-bytes", &mut settings.checkpoint_bytes)?;
    replace(
        matches,
        "disk-reserve-bytes",
        &mut settings.disk_reserve_bytes,
    )?;
    replace(matches, "memory-bytes", &mut settings.memory_bytes)?;
    if settings.memory_bytes == 0 {
        // Keys and versions are counted, and take somewhat more.
        let has = coeval_server::memory_of_machine().await;
        settings.memory_bytes = has.map_or(0, |bytes| bytes / 2);
    }
    let mut minimum_ticks = 1;
    replace(matches, "minimum-ticks", &mut minimum_ticks)?;
    let mut maximum_ticks = 0;
    replace(matches, "maximum-ticks", &mut maximum_ticks)?;
    settings.rhythm = match matches.contains_id("maximum-ticks") {
        false => Rhythm::Unified { minimum_ticks },
        true => Rhythm::Tuned {
            minimum_ticks,
            maximum_ticks,
        },
    };
    settings.check().map_err(|error| Failure::new(2, error))?;
    settings.secret = credentials::secret(matches).await?;
    settings.roles = credentials::roles(matches).await?;
    let founding = server::founding(&settings.directory).await;
    let own = founding.map_err(|error| failed(&error))?.node;
    if let Some(named) = matches
        .get_one::<u64>("node")
        .filter(|named| **named != own.0)
    {
        return Err(Failure::new(
            1,
            format!("the directory is node {own}'s, not node {named}'s"),
        ));
    }
    settings.security = credentials::security(matches, own).await?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| failed(&error))?;
    let server = Server::start(settings)
        .await
        .map_err(|error| failed(&error))?;
    let shown = |address: Option<SocketAddr>| address.map_or("-".to_owned(), |at| at.to_string());
    say(&format!(
        "node {own} nodes {} clients {} admin {}",
        server.address(),
        shown(server.client_address()),
        shown(server.admin_address())
    ));
    let orphaned = async {
        match parent {
            Some(parent) => {
                if parent.gone().await.is_err() {
                    // It cannot be watched.
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    };
    let stop = server.stopper();
    let mut ended = std::pin::pin!(server.ended());
    tokio::select! {
        biased;
        ended = &mut ended => return ended.map_err(|error| failed(&error)),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = orphaned => {}
    }
    stop.stop();
    ended.await.map_err(|error| failed(&error))
}
