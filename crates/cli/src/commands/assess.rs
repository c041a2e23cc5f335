//! The command line of `coeval assess`.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::assess::{self, Form};

const HELP: &str = "\
Reads the files as psql would, one after the other, and runs each statement on an
empty database in memory: what one defines, the next ones find. Rows are looked at
and let go. No server is asked, and nothing is changed anywhere.

Exit codes:
  0  everything would run here
  1  something would not, or cannot be judged; it has been listed
  2  the arguments make no sense, or not all could be read

Examples:
  pg_dump bank > bank.sql && coeval assess bank.sql
  pg_dump --no-owner --no-privileges bank | coeval assess -
  coeval assess roles.sql schema.sql
  coeval assess --json bank.sql | jq '.features'";

pub(super) fn command() -> Command {
    Command::new("assess")
        .about("List what of a dump would not run here, and why")
        .after_help(HELP)
        .arg(
            Arg::new("file")
                .value_name("FILE.sql")
                .num_args(1..)
                .required(true)
                .help("Scripts of SQL, as pg_dump writes them; - for standard input"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Report as JSON"),
        )
        .arg(
            Arg::new("keep-rows")
                .long("keep-rows")
                .action(ArgAction::SetTrue)
                .help(
                    "Keep rows in memory, as the server would, so that what depends on several \
                     is judged too, such as the uniqueness of a key",
                ),
        )
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let files = matches.get_many::<String>("file").into_iter().flatten();
    let form = if matches.get_flag("json") {
        Form::Json
    } else {
        Form::Text
    };
    assess::run(
        files.cloned().collect(),
        form,
        matches.get_flag("keep-rows"),
    )
}
