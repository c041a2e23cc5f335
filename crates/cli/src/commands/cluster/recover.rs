//! `coeval cluster recover`: a surviving member goes on alone when the majority of its
//! cluster is lost for ever. The node does not run meanwhile.
//!
//! The command says what may be lost before it changes anything, and asks. What it has
//! done stands in the audit lines of its own output and in the file RECOVERED of the data
//! directory, with the name of the user who did it.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use coeval_env::fs;
use coeval_leader::recovery::Survivor;
use coeval_log::Survey;

use super::{UNKNOWN, WRONG};
use crate::backup::moment;

/// The record of recoveries in a data directory: one line each.
const RECORD: &str = "RECOVERED";

const HELP: &str = "\
For a cluster that has lost the majority of its nodes for ever: their disks are gone. The
node of this directory is stopped. It becomes the only member; what is in its log counts
as committed, what the others acknowledged without it is lost. The others are removed:
never start them with their data again. Then start the node, and add new ones, with empty
directories and numbers that were never used.

Of several survivors take the one whose last entry is of the highest term, and of these the
one whose log ends last, as an election does; look at each first, without --yes: then no node
is made the only one.

Exit codes:
  0  done
  1  not done: it was not confirmed, or refused
  2  the arguments make no sense
  3  could not look: in use, missing, not readable, or of another version

Examples:
  coeval cluster recover --data-dir /var/lib/coeval --node 3
  coeval cluster recover --data-dir /var/lib/coeval --node 3 --yes";

/// The definition of `coeval cluster recover`.
pub(super) fn command() -> Command {
    Command::new("recover")
        .about("Let a surviving node go on alone when the majority is lost for ever")
        .after_help(HELP)
        .arg(
            Arg::new("data-dir")
                .long("data-dir")
                .value_name("DIR")
                .required(true)
                .help("The data directory of the surviving node, which does not run"),
        )
        .arg(
            Arg::new("node")
                .long("node")
                .value_name("NODE")
                .required(true)
                .value_parser(value_parser!(u64).range(1..))
                .help("Its number"),
        )
        .arg(
            Arg::new("yes")
                .long("yes")
                .action(ArgAction::SetTrue)
                .help("Do it, and do not ask"),
        )
}

/// Why nothing was done.
enum Not {
    /// The directory could not be read.
    Seen(String),
    Done(String),
}

/// Runs `coeval cluster recover`.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let directory = matches.get_one::<String>("data-dir").expect("required");
    let node = *matches.get_one::<u64>("node").expect("required");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let work = recover(Path::new(directory), node, matches.get_flag("yes"));
    let done = match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => Err(Not::Seen(error.to_string())),
    };
    // A closed pipe does not change the exit code.
    let (why, code) = match done {
        Ok(said) => {
            let _ = writeln!(std::io::stdout(), "{said}");
            return ExitCode::SUCCESS;
        }
        Err(Not::Done(why)) => (why, WRONG),
        Err(Not::Seen(why)) => (why, UNKNOWN),
    };
    let _ = writeln!(std::io::stderr(), "coeval cluster recover: {why}");
    ExitCode::from(code)
}

async fn recover(directory: &Path, node: u64, yes: bool) -> Result<String, Not> {
    let opened = Survivor::open(directory, node).await;
    let survivor = opened.map_err(|error| match error {
        coeval_leader::node::Error::Setting(why) => Not::Done(why),
        other => Not::Seen(other.to_string()),
    })?;
    let others: Vec<String> = survivor.others().map(|node| node.to_string()).collect();
    let (cluster, others, survey) = (survivor.cluster(), others.join(", "), survivor.survey());
    let picture = picture(cluster, node, &others, &survey);
    let _ = writeln!(std::io::stdout(), "{picture}");
    if let Some(by) = survivor.removed_by() {
        let _ = writeln!(
            std::io::stdout(),
            "  node {node} was removed from the cluster, which went on without it: lost is also \
             everything since; node {by}, which has said so, must not be started again either"
        );
    }
    if !yes && !is_confirmed() {
        return Err(Not::Done(
            "nothing was changed; --yes confirms that this is to be done".to_owned(),
        ));
    }
    let user = user();
    let said = |error: &dyn std::fmt::Display| Not::Done(error.to_string());
    // The record comes first: what was begun is known, too.
    let line = format!(
        "{} user={user:?} node={node} cluster={cluster:032x} removed={others:?} term={} \
         committed={} end={} unconfirmed_transactions={}\n",
        moment(coeval_env::wall_clock()),
        survey.term,
        survey.committed,
        survey.end,
        survey.transactions
    );
    append(&directory.join(RECORD), line.as_bytes())
        .await
        .map_err(|error| said(&error))?;
    let term = survivor.recover().await.map_err(|error| said(&error))?;
    let _ = write!(std::io::stderr(), "audit: cluster recovered: {line}");
    Ok(format!(
        "node {node} is the only member of the cluster {cluster:032x}, in term {term}: start it \
         with its settings, and add new nodes (coeval cluster add)"
    ))
}

/// What is known of the node's log, and what follows.
fn picture(cluster: u128, node: u64, others: &str, survey: &Survey) -> String {
    let Survey {
        term,
        committed,
        end,
        transactions,
        last,
    } = survey;
    let last = last.map_or(String::new(), |(timestamp, time)| {
        format!("; the last one is {timestamp}, {}", moment(time))
    });
    format!(
        "node {node} of the cluster {cluster:032x}, term {term}\n  \
           known to be on a majority: everything before {committed}\n  \
           its log ends in term and at offset {end}: {transactions} transactions more, of which this node does not \
           know whether a majority had them{last}\n  \
           kept is everything that this node has; lost is what the others acknowledged without \
           it\n  \
           removed for ever are the nodes {others}: they must not be started again with their \
           data"
    )
}

/// Asks at the terminal; without one the answer is no.
fn is_confirmed() -> bool {
    if !std::io::stdin().is_terminal() {
        return false;
    }
    let _ = write!(std::io::stdout(), "Type yes to do it: ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && answer.trim() == "yes"
}

/// The user of the operating system who runs the command.
fn user() -> String {
    let name = |variable: &str| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let uid = rustix::process::getuid().as_raw();
    let who = name("USER").or_else(|| name("LOGNAME")).unwrap_or_default();
    match name("SUDO_USER") {
        Some(behind) => format!("{who} (uid {uid}, by sudo of {behind})"),
        None => format!("{who} (uid {uid})"),
    }
}

/// Appends a line to a file, durably.
async fn append(path: &Path, line: &[u8]) -> std::io::Result<()> {
    let file = fs::open(path, fs::OpenOptions::CREATE).await?;
    let end = file.len().await?;
    file.write_at(line, end).await?;
    file.sync_all().await
}
