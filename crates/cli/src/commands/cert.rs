//! The command line of `coeval cert`.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::cert::{self, CertificateFiles, Node};

const HELP: &str = "\
Nodes of a cluster that talk to each other from different machines show who they are by
certificates. Each is signed by the cluster's authority and has the DNS name node-N.NAME,
of the node's id and the cluster's name; it need not be a name that any DNS server knows.

The authority made here is a file with a key. Keep the key off the nodes: it
signs certificates of nodes, so its owner can add any machine to the cluster.

Examples:
  coeval cert authority --cluster shop --to ca
  coeval cert node --cluster shop --node 1 --authority ca --to node-1
  coeval cert node --cluster shop --node 2 --authority ca --to node-2 --name db2.example.org

To a node go its own two files and ca/authority.pem, nothing else.";

const AUTHORITY_HELP: &str = "\
Writes authority.pem, which every node needs, and authority.key, which signs nodes'
certificates and which no node needs. Only their owner may read them.

Exit codes:
  0  made
  1  not made: says why; nothing that was there is touched
  2  the arguments make no sense

Examples:
  coeval cert authority --cluster shop
  coeval cert authority --cluster shop.example.org --to ca --days 730";

const NODE_HELP: &str = "\
Writes node-N.pem, the certificate, and node-N.key, its private key. Only their owner may
read them. What was made is looked at as another node would, before it is written.

Exit codes:
  0  made
  1  not made: says why; nothing that was there is touched
  2  the arguments make no sense

Examples:
  coeval cert node --cluster shop --node 3
  coeval cert node --cluster shop --node 3 --authority ca --to node-3
  coeval cert node --cluster shop --node 3 --name db3.example.org --name 10.0.0.3
  coeval cert node --cluster shop --node 3 --days 90 --force      # a new one in its place";

fn common(command: Command, days: &'static str) -> Command {
    command
        .arg(
            Arg::new("cluster")
                .long("cluster")
                .value_name("NAME")
                .required(true)
                .help("The cluster's name: letters, digits, hyphens and dots, as shop"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("DIR")
                .default_value(".")
                .help("Where the files go; made if it does not exist"),
        )
        .arg(
            Arg::new("days")
                .long("days")
                .value_name("N")
                .default_value(days)
                .value_parser(value_parser!(u32).range(1..=100_000))
                .help("For how many days it is good, from today"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Replace files that are there; without it they are never touched"),
        )
}

/// The definition of `coeval cert`.
pub(super) fn command() -> Command {
    let authority = Command::new("authority")
        .about("Make the authority of a cluster, by which its nodes know each other")
        .after_help(AUTHORITY_HELP);
    let node = Command::new("node")
        .about("Make the certificate of a node")
        .after_help(NODE_HELP)
        .arg(
            Arg::new("node")
                .long("node")
                .value_name("N")
                .required(true)
                .value_parser(value_parser!(u64).range(1..))
                .help("The node's id"),
        )
        .arg(
            Arg::new("authority")
                .long("authority")
                .value_name("DIR")
                .help("Where the authority's two files are [default: where --to says]"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .action(ArgAction::Append)
                .help(
                    "A host name or address that clients know the node by, so that it can show \
                     them the same certificate; may be given several times",
                ),
        );
    Command::new("cert")
        .about("Make an authority for a cluster, and certificates for its nodes")
        .after_help(HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(common(authority, "3650"))
        .subcommand(common(node, "825"))
}

/// Runs `coeval cert`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let made = match matches.subcommand() {
        Some(("node", matches)) => make_node(matches),
        Some((_, matches)) => {
            cert::authority(text(matches, "cluster"), days(matches), &place(matches))
        }
        None => Err("say authority or node".to_owned()),
    };
    match made {
        Ok(said) => {
            super::say(&said);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            let _ = writeln!(io::stderr(), "coeval cert: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn make_node(matches: &ArgMatches) -> Result<String, String> {
    let names: Vec<String> = matches
        .get_many("name")
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let node = Node {
        cluster: text(matches, "cluster"),
        id: matches.get_one("node").copied().unwrap_or_default(),
        names: &names,
    };
    let place = place(matches);
    let authority = matches.get_one::<String>("authority").map(Path::new);
    let authority = authority.unwrap_or(place.directory);
    cert::node(&node, days(matches), authority, &place)
}

fn place(matches: &ArgMatches) -> CertificateFiles<'_> {
    CertificateFiles {
        directory: Path::new(text(matches, "to")),
        force: matches.get_flag("force"),
    }
}

fn text<'matches>(matches: &'matches ArgMatches, name: &str) -> &'matches str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}

fn days(matches: &ArgMatches) -> u32 {
    matches.get_one("days").copied().unwrap_or(1)
}
