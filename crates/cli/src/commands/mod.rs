//! The command line of the binary: `coeval start`, `demo`, `sql`, `dump`, `backup`,
//! `restore`, `verify`, `assess`, `bench`, `cert`, `check`, `cluster`, `epoch`, `status`,
//! `config`, `completions`, `manual`, `version`.

mod assess;
mod bench;
mod cert;
mod check;
mod cluster;
mod demo;
mod epoch;
mod shell_help;
mod start;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use coeval_log::{RestoreOptions, RestoreTarget};
use coeval_server::settings::{Effective, KEYS, Origin, SettingsError};

use crate::backup;
use crate::client::DEFAULT_URL;
use crate::dump;
use crate::{shell, status, verify};

const ABOUT: &str = "Coeval: an in-memory SQL database that speaks PostgreSQL's protocol";

const EXAMPLES: &str = "\
Examples:
  coeval start                             serve ./coeval-data at 127.0.0.1:5433
  psql -h 127.0.0.1 -p 5433                connect to it (any user, any database)
  coeval sql                               likewise, without psql
  coeval sql -c 'select 1'                 run one command
  coeval start --data-dir /var/lib/coeval --listen 127.0.0.1:6000
  coeval start --listen 0.0.0.0:5433 --tls-certificate-file cert.pem --tls-key-file key.pem
  coeval start --ephemeral                 in memory, at a free port, for tests
  coeval demo                              three nodes as one database, to play with
  coeval bench tpcc --warehouses 4         measure it
  coeval config --config coeval.toml       what is set, and where that was said";

const START_EXAMPLES: &str = "\
Examples:
  coeval start
  coeval start --data-dir /var/lib/coeval --listen 127.0.0.1:6000
  coeval start --config coeval.toml --log-format json
  COEVAL_MAX_CONNECTIONS=100 coeval start
  coeval start --config node-1.toml            # a node of a cluster: section [cluster]
  coeval start --ephemeral > url.txt &         # for tests: the URL is its one line

A setting is taken from its flag, else from the environment (COEVAL_ and its name
in capitals), else from the file, else it has its default. SIGTERM and SIGINT stop
the server: running statements get a moment, everything acknowledged is safe. A
second signal ends it at once, and so may kill -9: everything acknowledged is safe
then too. SIGHUP reads the host-based access file and the TLS certificates again.";

const DUMP_EXAMPLES: &str = "\
Examples:
  coeval dump > all.sql
  coeval dump --url postgres://ada@127.0.0.1:6000/bank --output bank.sql
  psql -X -1 -v ON_ERROR_STOP=1 -f bank.sql bank
  coeval sql < bank.sql

The dump shows the database as it was at one moment. Its last line says that it is
complete; a dump without that line is not.";

const VERIFY_HELP: &str = "\
Reads checkpoint and log with every checksum, builds the indexes, and looks at each
row through its table and its indexes; then at older log and checkpoints, which a
start does not read. Needs as much memory as the server.

Exit codes:
  0  sound: a start will succeed, and serve all of it
  1  damaged: says which file, where in it, and what is wrong
  2  the arguments make no sense
  3  could not look: in use, missing, not readable, or of another version

Examples:
  coeval verify ./coeval-data
  coeval verify /backup/coeval && echo good";

const SQL_EXAMPLES: &str = "\
Examples:
  coeval sql
  coeval sql postgres://ada@127.0.0.1:6000/bank
  coeval sql -c 'select count(*) from account' -c 'show server_version'
  PGPASSWORD=secret coeval sql postgres://ada@127.0.0.1:6000/bank
  coeval sql < script.sql";

const STATUS_EXAMPLES: &str = "\
Takes a second: what is said by the second is counted in that time.

Examples:
  coeval status
  coeval status --url 'postgres://ada@db.example/bank?sslmode=verify-full'";

const BACKUP_EXAMPLES: &str = "\
Examples:
  coeval backup --to /backups/monday
  coeval backup --url postgres://ada@127.0.0.1:6000/bank --to /backups/monday

The server goes on meanwhile. The backup holds every commit that was durable when
its log began to be copied; the file BACKUP in it is written last, and a directory
without it is no backup. Only a superuser may take one.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  coeval restore --from /backups/monday --data-dir /var/lib/coeval
  coeval restore --from /backups/monday --data-dir new --to-time 2026-11-22T01:02:03Z
  coeval restore --from /backups/monday --log-from old-data --data-dir new

The backup is checked as it is copied, and left as it is. Then start a server on
the new directory.";

/// Runs the command in the arguments, and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are no failures, and an error of writing them is ignored.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match matches.subcommand() {
        Some(("start", matches)) => start::start(matches),
        Some(("sql", matches)) => shell::run(
            matches.get_one::<String>("url").map(String::as_str),
            matches
                .get_many("command")
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
        ),
        Some(("dump", matches)) => dump::run(
            matches
                .get_one::<String>("url")
                .map_or(DEFAULT_URL, String::as_str),
            matches.get_one::<String>("output").map(Path::new),
            dump::Options {
                owners: !matches.get_flag("no-owner"),
                privileges: !matches.get_flag("no-privileges"),
                roles: matches.get_flag("roles"),
            },
        ),
        Some(("verify", matches)) => {
            let directory = matches.get_one::<String>("directory");
            verify::run(Path::new(directory.expect("clap wants one")))
        }
        Some(("cert", matches)) => cert::run(matches),
        Some(("check", matches)) => check::run(matches),
        Some(("demo", matches)) => demo::run(matches),
        Some(("cluster", matches)) => cluster::run(matches),
        Some(("epoch", matches)) => epoch::run(matches),
        Some(("assess", matches)) => assess::run(matches),
        Some(("status", matches)) => status::run(
            matches
                .get_one::<String>("url")
                .map_or(DEFAULT_URL, String::as_str),
        ),
        Some(("backup", matches)) => {
            let text = |name| matches.get_one::<String>(name).map(String::as_str);
            let directory = Path::new(text("to").expect("required"));
            backup::backup(text("url").unwrap_or(DEFAULT_URL), directory)
        }
        Some(("restore", matches)) => match restore_options(matches) {
            Ok(options) => backup::restore(&options),
            Err(error) => {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "coeval restore: {error}");
                ExitCode::from(2)
            }
        },
        Some(("bench", matches)) => bench::bench(matches),
        Some(("config", matches)) => match settings(matches) {
            Ok(effective) => {
                say(&effective.show());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&error),
        },
        Some(("completions", matches)) => shell_help::completions(matches, command()),
        Some(("manual", matches)) => shell_help::manual(matches, command()),
        _ => {
            say(&version());
            ExitCode::SUCCESS
        }
    }
}

/// The options of `coeval restore`.
fn restore_options(matches: &ArgMatches) -> Result<RestoreOptions, String> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let target = match (text("to-time"), text("to-timestamp")) {
        (Some(time), _) => backup::parse_time(time)?,
        (None, Some(timestamp)) => RestoreTarget::parse_timestamp(timestamp)
            .ok_or_else(|| format!("{timestamp:?} is no timestamp as 3/73728"))?,
        (None, None) => RestoreTarget::End,
    };
    Ok(RestoreOptions {
        from: text("from").expect("required").into(),
        log_from: text("log-from").map(Into::into),
        to: text("data-dir").expect("required").into(),
        target,
    })
}

fn version() -> String {
    format!("coeval {}", version_and_profile())
}

/// The version, and the profile of the build, which the scripts in `bench` check.
fn version_and_profile() -> String {
    format!(
        "{} ({})",
        env!("CARGO_PKG_VERSION"),
        coeval_env::BUILD_PROFILE
    )
}

/// Writes to standard output, and ignores a closed pipe.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints an error with its causes to standard error.
fn fail(error: &dyn std::error::Error) -> ExitCode {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "coeval: {error}");
    ExitCode::FAILURE
}

fn command() -> Command {
    Command::new("coeval")
        .about(ABOUT)
        .after_help(EXAMPLES)
        .version(version_and_profile())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("start")
                .about("Start a server, and stay until it is stopped")
                .after_help(START_EXAMPLES)
                .arg(
                    Arg::new("ephemeral")
                        .long("ephemeral")
                        .action(ArgAction::SetTrue)
                        .help(
                            "Keep everything in memory, listen at a free port, print the \
                             connection URL and nothing else on standard output, and stop \
                             when the starting process ends",
                        ),
                )
                .arg(
                    Arg::new("stop-with-parent")
                        .long("stop-with-parent")
                        .action(ArgAction::SetTrue)
                        .help("Stop when the starting process ends"),
                )
                .args(setting_arguments()),
        )
        .subcommand(demo::command())
        .subcommand(
            Command::new("sql")
                .about("Talk SQL to a server, for machines without psql")
                .after_help(SQL_EXAMPLES)
                .arg(
                    Arg::new("url")
                        .value_name("URL")
                        .help("Where [default: postgres://127.0.0.1:5433]"),
                )
                .arg(
                    Arg::new("command")
                        .short('c')
                        .long("command")
                        .value_name("COMMAND")
                        .action(ArgAction::Append)
                        .help("Run this and end; several are run in turn"),
                ),
        )
        .subcommand(
            Command::new("dump")
                .about("Write a server's tables as SQL")
                .after_help(DUMP_EXAMPLES)
                .arg(url_argument())
                .arg(
                    Arg::new("output")
                        .short('o')
                        .long("output")
                        .value_name("FILE")
                        .help("A file to make [default: standard output]"),
                )
                .arg(
                    Arg::new("no-owner")
                        .short('O')
                        .long("no-owner")
                        .action(ArgAction::SetTrue)
                        .help("Leave owners out: the role that restores the dump owns everything"),
                )
                .arg(
                    Arg::new("no-privileges")
                        .short('x')
                        .long("no-privileges")
                        .action(ArgAction::SetTrue)
                        .help("Leave GRANT and REVOKE out"),
                )
                .arg(
                    Arg::new("roles")
                        .long("roles")
                        .action(ArgAction::SetTrue)
                        .help(
                            "Make the roles first; with what is kept of their passwords, if a \
                             superuser asks",
                        ),
                ),
        )
        .subcommand(
            Command::new("verify")
                .about("Look whether a data directory is sound, and change nothing in it")
                .after_help(VERIFY_HELP)
                .arg(
                    Arg::new("directory")
                        .value_name("DIR")
                        .required(true)
                        .help("The data directory of a server that does not run, or a copy"),
                ),
        )
        .subcommand(check::command())
        .subcommand(cluster::command())
        .subcommand(epoch::command())
        .subcommand(assess::command())
        .subcommand(
            Command::new("status")
                .about("Show how a running server is, on one screen")
                .after_help(STATUS_EXAMPLES)
                .arg(url_argument()),
        )
        .subcommand(
            Command::new("backup")
                .about("Copy everything a running server has into a directory")
                .after_help(BACKUP_EXAMPLES)
                .arg(url_argument())
                .arg(
                    Arg::new("to")
                        .long("to")
                        .value_name("DIR")
                        .required(true)
                        .help("A directory that is empty, or does not exist"),
                ),
        )
        .subcommand(
            Command::new("restore")
                .about("Make a data directory from a backup")
                .after_help(RESTORE_EXAMPLES)
                .arg(
                    Arg::new("from")
                        .long("from")
                        .value_name("DIR")
                        .required(true)
                        .help("The backup"),
                )
                .arg(
                    Arg::new("data-dir")
                        .long("data-dir")
                        .value_name("DIR")
                        .required(true)
                        .help("The data directory to make: empty, or none yet"),
                )
                .arg(
                    Arg::new("log-from")
                        .long("log-from")
                        .value_name("DIR")
                        .help(
                            "The data directory of a stopped server, whose log goes on behind \
                             the backup",
                        ),
                )
                .arg(
                    Arg::new("to-time")
                        .long("to-time")
                        .value_name("TIME")
                        .conflicts_with("to-timestamp")
                        .help("Only commits up to this time, as 2026-11-22T01:02:03Z"),
                )
                .arg(
                    Arg::new("to-timestamp")
                        .long("to-timestamp")
                        .value_name("TIMESTAMP")
                        .help("Only commits up to this one, as 3/73728"),
                ),
        )
        .subcommand(bench::command())
        .subcommand(cert::command())
        .subcommand(
            Command::new("config")
                .about("Show every setting, its value, and where that came from")
                .args(setting_arguments()),
        )
        .subcommand(shell_help::completions_command())
        .subcommand(shell_help::manual_command())
        .subcommand(Command::new("version").about("Show the version"))
}

/// The argument that names the server of a client command.
fn url_argument() -> Arg {
    Arg::new("url")
        .long("url")
        .value_name("URL")
        .help(format!("The server [default: {DEFAULT_URL}]"))
}

/// One flag for each setting, and `--config`.
fn setting_arguments() -> Vec<Arg> {
    let file = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("A TOML file with settings");
    let flags = KEYS.iter().map(|key| {
        let default = Effective::new().shown(key);
        let help = key.help.split_whitespace().collect::<Vec<_>>().join(" ");
        let help = help.trim_end_matches('.');
        let flag = Arg::new(key.name)
            .long(key.name.replace('_', "-"))
            .value_name(key.placeholder)
            .help(format!("{help} [default: {default}]"));
        match key.placeholder {
            // A flag without a value means `true`.
            "BOOL" => flag
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => flag,
        }
    });
    std::iter::once(file).chain(flags).collect()
}

/// The settings that flags, environment and file result in.
fn settings(matches: &ArgMatches) -> Result<Effective, SettingsError> {
    let mut effective = Effective::new();
    if let Some(path) = matches.get_one::<String>("config") {
        let path = Path::new(path);
        let text = read(path).map_err(|error| SettingsError::File {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        effective.file(path, &text)?;
    }
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    effective.environment(variables)?;
    for key in KEYS {
        if let Some(text) = matches.get_one::<String>(key.name) {
            let flag = format!("--{}", key.name.replace('_', "-"));
            effective.set(key.name, text, Origin::Flag(flag))?;
        }
    }
    effective.settings.check()?;
    Ok(effective)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a settings file is read before there is a world to read it in"
)]
fn read(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_setting_is_a_flag() {
        let matches = command()
            .try_get_matches_from(["coeval", "start", "--max-connections", "7"])
            .unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        assert_eq!(settings(matches).unwrap().settings.max_connections, 7);
    }
}
