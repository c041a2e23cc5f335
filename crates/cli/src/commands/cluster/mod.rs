//! `coeval cluster`: shows the status of a cluster, and changes its members and leader.
//!
//! The command is a client of the views `coeval.cluster_*` and the functions of the same
//! name, through any node: each node forwards the query to the leader.
//!
//! ```text
//! $ coeval cluster status
//! cluster 7c0f…, term 3: node 2 leads
//!   2 of 3 voters reachable; one more failure stops writes
//!   node 3 is not connected: connection refused
//!
//!  node     address       role   connected  sent  on disk  committed  replayed  ping ms
//!  ----  --------------  ------  ---------  ----  -------  ---------  --------  -------
//!     1  127.0.0.1:7001  voter   yes         0 B      0 B        0 B       0 B    0.104
//! …
//! ```
//!
//! With `--admin`, `status` asks the admin listener of a node instead, which answers without a
//! leader.
//!
//! - [`mod@picture`]: reads the views or the listener's report, and formats their contents.
//! - [`change`]: requests a change, and waits until the cluster shows it.
//! - [`recover`]: leaves a majority that is lost for ever; needs no server.

mod change;
mod picture;
mod recover;

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use coeval_env::Location;

use super::url_argument;
use crate::admin;
use crate::client::{self, DEFAULT_URL};
use change::{Change, Made};
use picture::Picture;

/// Exit code: the cluster has a problem, or the change failed.
const WRONG: u8 = 1;
/// Exit code: no server answers, or it is not part of a cluster.
const UNKNOWN: u8 = 3;

/// Timeout of a node's answer: a node that knows no leader waits for one first, for as
/// long as `cluster_wait_milliseconds`.
const ANSWER: Duration = Duration::from_secs(30);

/// The words of the error of a statement while no node leads.
const NO_LEADER: &str = "no node leads";

/// The way to the status that remains then.
const ASK_A_NODE: &str = "\
Each node knows something by itself: coeval cluster status --admin ADDRESS, with the
admin_listen of a node, on its machine.";

const HELP: &str = "\
Any node can be asked: it asks the leader. While no node leads, none can answer;
coeval cluster status --admin ADDRESS then shows what one node knows by itself.

Exit codes:
  0  sound: a node leads, and reaches every voter; or: the change has come about
  1  something is wrong, and is said; or: the change was refused, or took too long
  2  the arguments make no sense
  3  could not look: no server answers, or it is no node of a cluster

Examples:
  coeval cluster status
  coeval cluster status --url postgres://ada@db1.example:5433/bank --json
  coeval cluster status --admin 127.0.0.1:9433
  coeval cluster add 4 192.0.2.14:7001
  coeval cluster transfer 2 && coeval cluster remove 1
  coeval cluster recover --data-dir /var/lib/coeval --node 3";

const STATUS_HELP: &str = "\
Of each member: how many bytes of the leader's log were not sent to it yet, are not on
its disk, are not known to it as committed, and are not in its tables. What the leader
does not know is left empty.

With --admin the node of that admin listener (admin_listen) answers by itself, without a
leader: which members it hears, its term, and how much of the log it has.";

const ADD_HELP: &str = "\
The node is to run already, on an empty directory, with --cluster-join. It gets the data
and the log first, and votes once it has caught up.";

const REMOVE_HELP: &str = "\
The node does not count from then on, neither for commits nor for elections. Stop it
afterwards. A leader hands over before it goes.";

const TRANSFER_HELP: &str = "\
The leader takes no more writes for a moment, waits until the node has the whole log, and
lets it be elected. Clients stay connected; open transactions have to be run again.";

/// The definition of `coeval cluster`.
pub(super) fn command() -> Command {
    let json = || {
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print JSON")
    };
    let node = |help| {
        Arg::new("node")
            .value_name("NODE")
            .required(true)
            .value_parser(value_parser!(u64).range(1..))
            .help(help)
    };
    let wait = || {
        Arg::new("wait")
            .long("wait")
            .value_name("SECONDS")
            .value_parser(value_parser!(u64))
            .default_value("300")
            .help("How long to wait for it to come about")
    };
    let subcommand = |name: &'static str, about: &'static str, help: &'static str| {
        Command::new(name)
            .about(about)
            .after_help(help)
            .arg(url_argument())
            .arg(json())
    };
    Command::new("cluster")
        .about("Show how a cluster is, and change who takes part and who leads")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(subcommand(
            "status",
            "Show who leads, who takes part, and how far each node is behind",
            STATUS_HELP,
        ).arg(
            Arg::new("admin")
                .long("admin")
                .value_name("ADDRESS")
                .value_parser(value_parser!(std::net::SocketAddr))
                .conflicts_with("url")
                .help("Ask the admin listener at this address, which answers without a leader"),
        ))
        .subcommand(
            subcommand("add", "Let another node take part", ADD_HELP)
                .arg(node("Its number"))
                .arg(
                    Arg::new("address")
                        .value_name("ADDRESS")
                        .required(true)
                        .value_parser(value_parser!(Location))
                        .help("Where the others reach it, by name or address, as its cluster_members say"),
                )
                .arg(wait()),
        )
        .subcommand(
            subcommand("remove", "Let a node take part no more", REMOVE_HELP)
                .arg(node("Its number"))
                .arg(wait()),
        )
        .subcommand(
            subcommand("transfer", "Have another node lead", TRANSFER_HELP)
                .arg(node("The number of the one that is to lead"))
                .arg(wait()),
        )
        .subcommand(recover::command())
}

/// Runs `coeval cluster`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((name, matches)) = matches.subcommand() else {
        return ExitCode::from(2);
    };
    if name == "recover" {
        return recover::run(matches);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(ask(name, matches)),
        Err(error) => Err(Failure::Unknown(error.to_string())),
    };
    let (message, code) = match ended {
        Ok(Made::AskedItself) => {
            let message = "the node that was asked has been removed; ask another one how the \
                           cluster is";
            let _ = writeln!(std::io::stderr(), "{message}");
            return ExitCode::SUCCESS;
        }
        Ok(Made::Seen(picture)) => {
            let text = if matches.get_flag("json") {
                picture.json()
            } else {
                picture.to_string()
            };
            let _ = std::io::stdout().write_all(text.as_bytes());
            // The exit code of a change tells only whether the change was made.
            return if picture.is_sound() || name != "status" {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(WRONG)
            };
        }
        Err(Failure::Unknown(message)) => (message, UNKNOWN),
        Err(Failure::Refused(message)) => (message, WRONG),
    };
    let _ = writeln!(std::io::stderr(), "coeval cluster {name}: {message}");
    ExitCode::from(code)
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// No server answers, or it is not part of a cluster.
    Unknown(String),
    /// The cluster refused the change, or did not make it in time.
    Refused(String),
}

async fn ask(name: &str, matches: &ArgMatches) -> Result<Made, Failure> {
    let url = matches.get_one::<String>("url");
    let url = url.map_or(DEFAULT_URL, String::as_str);
    let node = || matches.get_one::<u64>("node").copied().unwrap_or(0);
    let change = match name {
        "add" => matches
            .get_one::<Location>("address")
            .map(|location| Change::Add(node(), location.clone())),
        "remove" => Some(Change::Remove(node())),
        "transfer" => Some(Change::Transfer(node())),
        _ => None,
    };
    let Some(change) = change else {
        let seen = match matches.get_one("admin") {
            Some(admin) => picture_of_node(*admin).await,
            None => picture(url)
                .await
                .map_err(|error| match error.contains(NO_LEADER) {
                    true => format!("{error}\n{ASK_A_NODE}"),
                    false => error,
                }),
        };
        return Ok(Made::Seen(Box::new(seen.map_err(Failure::Unknown)?)));
    };
    let seconds = matches.get_one::<u64>("wait").copied().unwrap_or(0);
    change::make(&change, url, Duration::from_secs(seconds)).await
}

/// Reads what the node of this admin listener knows of the cluster.
async fn picture_of_node(admin: SocketAddr) -> Result<Picture, String> {
    let asked = coeval_env::timeout(ANSWER, admin::get(admin, "/cluster")).await;
    let (code, body) = asked.unwrap_or_else(|coeval_env::Elapsed| {
        Err(format!("{admin}: no answer within {} s", ANSWER.as_secs()))
    })?;
    match code {
        200 => Picture::parse(&body).map_err(|error| format!("{admin}: {error}")),
        _ => Err(format!("{admin}: {}", body.trim_end())),
    }
}

/// Reads the status of the cluster.
async fn picture(url: &str) -> Result<Picture, String> {
    let asked = async {
        let client = client::connect(url, "coeval cluster").await?;
        Picture::read(&client).await
    };
    let asked = coeval_env::timeout(ANSWER, asked).await;
    asked.unwrap_or_else(|coeval_env::Elapsed| {
        let (url, seconds) = (client::shown(url), ANSWER.as_secs());
        Err(format!("{url}: no answer within {seconds} s"))
    })
}
