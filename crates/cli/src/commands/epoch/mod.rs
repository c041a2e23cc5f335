//! `coeval epoch`: nodes of a partitioned store whose transactions never conflict, and a client
//! of them.
//!
//! - [`mod@node`]: founds and runs a node.
//! - [`mod@ask`]: puts, gets, and looks at nodes, as a client.
//! - [`mod@backup`]: copies a cluster, restores and verifies.
//! - [`mod@bench`]: clients that measure a cluster.
//! - [`mod@credentials`]: the arguments that say how connections are secured.

mod ask;
mod backup;
mod bench;
mod credentials;
mod node;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use coeval_env::Location;
use coeval_peers::NodeId;

const HELP: &str = "\
A cluster of epochs is no SQL database: it keeps values under keys, in partitions with copies on
several nodes. A transaction writes any keys, all or none, or reads any keys at one moment, and
never fails because of another one.

Examples:
  coeval epoch found --data-dir n1 --node 1 --members 1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003
  coeval epoch found --data-dir n2 --node 2 --cluster ID --members …     # the id that the first has said
  coeval epoch start --data-dir n1 --clients 127.0.0.1:7101 --admin 127.0.0.1:7201
  coeval epoch put --nodes 1=127.0.0.1:7101 alice=60 bob=40
  coeval epoch get --nodes 1=127.0.0.1:7101 alice bob
  coeval epoch get --nodes 1=127.0.0.1:7101 --at 7.0.1 alice
  coeval epoch watch --nodes 1=127.0.0.1:7101,2=127.0.0.1:7102
  coeval epoch backup --nodes 1=127.0.0.1:7101,2=127.0.0.1:7102,3=127.0.0.1:7103 --to monday
  coeval epoch verify n1";

const FOUND_HELP: &str = "\
Makes the data directory of one node. Every node gets one, with the same cluster and the same
members; the first draws the cluster's id and says it. A node that has lost its directory is not
founded again: its number is spent.

Exit codes:
  0  made
  1  not made: says why
  2  the arguments make no sense";

const START_HELP: &str = "\
Runs the node in a directory until SIGTERM or SIGINT; kill -9 is safe, too. Says on standard
output where it listens, once it does. Beyond this machine nodes and clients are let in by
certificates only (see coeval cert); on it a secret can be asked for.

Exit codes:
  0  stopped as asked
  1  could not start, or its disk has failed: says why
  2  the arguments make no sense";

const ASK_HELP: &str = "\
Exit codes:
  0  done
  1  refused, or its outcome is not known: says which
  2  the arguments make no sense
  3  no node could be reached, or none lets the client in";

const BENCH_HELP: &str = "\
Writes keys that begin with \"bench \", and leaves them there. At the end each client's last
committed transaction has to be there.

Exit codes:
  0  measured
  1  nothing was answered, or what was committed is not there
  2  the arguments make no sense
  3  no node could be reached, or none lets the client in";

const BACKUP_HELP: &str = "\
Copies every partition as it was at the end of one closed epoch; the cluster goes on meanwhile, and
keeps the versions of that epoch until the copy is made. Everything that was committed before the
command began is in it. Name as many nodes as hold a copy of every partition. The file BACKUP is
written last: a directory without it is no backup. It holds keys and values, no secrets.

Exit codes:
  0  made
  1  refused, or the disk has failed: says which, and leaves the directory as it was
  2  the arguments make no sense
  3  no node could be reached, none lets the client in, or none holds a copy";

const RESTORE_HELP: &str = "\
Makes the data directory of one node of a new cluster, with the keys that its copies hold. Do so for
every member with the same backup and the same arguments; the first draws the cluster's id and says
it, the others are given it by --cluster. Members, partitions and copies may be others than those
of the cluster that was backed up, which must not run any more under the same addresses.

Exit codes:
  0  made
  1  not made: says why
  2  the arguments make no sense";

const VERIFY_HELP: &str = "\
Reads what a start of the node would read, with every checksum, and changes nothing; or each file of a
backup.

Exit codes:
  0  sound
  1  damaged: says which file, and where
  2  the arguments make no sense
  3  could not look: in use, missing, or not readable";

pub(super) fn command() -> Command {
    let found = Command::new("found")
        .about("Make the data directory of a node of a new cluster")
        .after_help(FOUND_HELP)
        .args(node::found_arguments());
    let start = Command::new("start")
        .about("Run a node, and stay until it is stopped")
        .after_help(START_HELP)
        .args(node::start_arguments())
        .arg(credentials::access_argument())
        .args(credentials::arguments());
    let client = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .after_help(ASK_HELP)
            .arg(members_argument(
                "nodes",
                "The nodes to ask, and where they listen for clients",
            ))
            .arg(credentials::client_argument())
            .arg(credentials::role_argument())
            .args(credentials::arguments())
    };
    let several = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .value_name(value)
            .required(true)
            .num_args(1..)
            .help(help)
    };
    Command::new("epoch")
        .about("Run and use a partitioned store whose transactions never conflict")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(found)
        .subcommand(start)
        .subcommand(
            client("put", "Write keys, all of them or none").arg(several(
                "writes",
                "KEY=VALUE",
                "Keys and their values; KEY= deletes",
            )),
        )
        .subcommand(
            client("get", "Read keys at one moment")
                .arg(
                    Arg::new("at")
                        .long("at")
                        .value_name("TIMESTAMP")
                        .help("As they were then, as 7.0.1 [default: now]"),
                )
                .arg(several("keys", "KEY", "Keys")),
        )
        .subcommand(
            client("bench", "Put and get as fast as the cluster answers")
                .after_help(BENCH_HELP)
                .args(bench::arguments()),
        )
        .subcommand(
            client("backup", "Copy all keys as of one epoch")
                .after_help(BACKUP_HELP)
                .args(backup::backup_arguments()),
        )
        .subcommand(
            Command::new("restore")
                .about("Make the data directory of a node of a new cluster, from a backup")
                .after_help(RESTORE_HELP)
                .args(backup::restore_arguments()),
        )
        .subcommand(
            Command::new("verify")
                .about("Check that a node's directory, or a backup, is intact")
                .after_help(VERIFY_HELP)
                .args(backup::verify_arguments()),
        )
        .subcommand(client("status", "Show how each node is"))
        .subcommand(
            client("watch", "Show a line about each node every second").arg(
                Arg::new("count")
                    .long("count")
                    .value_name("N")
                    .value_parser(clap::value_parser!(u64))
                    .help("Look that many times [default: until interrupted]"),
            ),
        )
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return super::fail(&error),
    };
    let ended = runtime.block_on(async {
        match matches.subcommand() {
            Some(("found", matches)) => node::found(matches).await,
            Some(("start", matches)) => node::start(matches).await,
            Some(("put", matches)) => ask::put(matches).await,
            Some(("get", matches)) => ask::get(matches).await,
            Some(("bench", matches)) => bench::bench(matches).await,
            Some(("backup", matches)) => backup::take(matches).await,
            Some(("restore", matches)) => backup::restore(matches).await,
            Some(("verify", matches)) => backup::verify(matches).await,
            Some(("status", matches)) => ask::status(matches).await,
            Some(("watch", matches)) => ask::watch(matches).await,
            _ => Err(Failure::new(2, "no such command")),
        }
    });
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "coeval epoch: {}", failure.words);
            ExitCode::from(failure.code)
        }
    }
}

/// Why a command ends without success: its exit code, and words.
#[derive(Debug)]
struct Failure {
    code: u8,
    words: String,
}

impl Failure {
    fn new(code: u8, words: impl ToString) -> Self {
        Self {
            code,
            words: words.to_string(),
        }
    }
}

type Members = BTreeMap<NodeId, Location>;

fn members_argument(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("N=HOST:PORT,…")
        .required(true)
        .value_parser(members)
        .help(help)
}

/// Nodes and their addresses, with commas between.
fn members(text: &str) -> Result<Members, String> {
    let mut members = Members::new();
    for member in text.split(',') {
        let parts = member.split_once('=');
        let (id, location) = parts.ok_or_else(|| format!("{member:?} is not as 1=HOST:PORT"))?;
        let id = id
            .parse()
            .map_err(|_| format!("{id:?} is no node's number"))?;
        let location = location.parse();
        let location = location.map_err(|error| format!("{member}: {error}"))?;
        if members.insert(NodeId(id), location).is_some() {
            return Err(format!("node {id} is named twice"));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbers_with_addresses() {
        let read = members("1=127.0.0.1:7001,3=db3.example:7003").unwrap();
        let shown: Vec<String> = read.iter().map(|(id, at)| format!("{id}={at}")).collect();
        assert_eq!(shown, ["1=127.0.0.1:7001", "3=db3.example:7003"]);
        for wrong in ["", "1", "x=127.0.0.1:1", "1=", "1=h:1,1=h:2", "1=h:99999"] {
            members(wrong).unwrap_err();
        }
    }
}
