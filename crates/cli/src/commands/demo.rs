//! The command line of `coeval demo`.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::demo::{self, Demo};

const HELP: &str = "\
Each node is a process of its own. What is printed says how to connect to each, which of
them leads, and its process: kill it with `kill -9`, and see that sessions at the others
go on. A node that has ended is started again after a few seconds. It is a demonstration
and no way to run a database: all nodes are on this machine, and everybody on it is let in.

Exit codes:
  0  ended by Ctrl-C, SIGTERM or SIGHUP, and all nodes with it
  1  could not start: says why
  2  the arguments make no sense

Examples:
  coeval demo
  coeval demo --nodes 5
  coeval demo --data-dir ./demo          # a second time finds its data";

/// The definition of `coeval demo`.
pub(super) fn command() -> Command {
    Command::new("demo")
        .about("Run a cluster on this machine, to play with, until Ctrl-C")
        .after_help(HELP)
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .default_value("3")
                .value_parser(value_parser!(u64).range(1..=9))
                .help("How many nodes"),
        )
        .arg(
            Arg::new("data-dir")
                .long("data-dir")
                .value_name("DIR")
                .help(
                    "Where they keep their data [default: a directory that is removed at the end]",
                ),
        )
}

/// Runs the demonstration.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    demo::run(&Demo {
        nodes: matches.get_one("nodes").copied().unwrap_or(3),
        directory: matches.get_one::<String>("data-dir").map(Into::into),
    })
}
