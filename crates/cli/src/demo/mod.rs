//! `coeval demo`: runs a cluster on this machine, for demonstration.
//!
//! ```text
//!   demo ── starts ──▶ coeval start --data-dir DIR/node-1 …     a process of its own,
//!        ── asks ────▶   its /health: does it lead?             which may be killed
//!        ── waits for its end, and starts it again
//!   DIR/cluster-id     the id of the cluster that the directories belong to
//!   DIR/node-1/        the data of node 1; DIR/node-1.log is its log
//! ```
//!
//! The command restarts a node that has ended by itself after a delay, long enough to see
//! the others continue without it. Its addresses stay the same.

mod child;
mod directory;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use child::{Child, Told};
use directory::Directory;

/// Interval between two checks of the nodes.
const LOOK: Duration = Duration::from_millis(250);
/// How long a node that has ended by itself stays down.
const AWAY: Duration = Duration::from_secs(5);
/// Timeout of the first election.
const PATIENCE: Duration = Duration::from_secs(60);

/// The options of a demonstration.
#[derive(Debug)]
pub(crate) struct Demo {
    /// Number of nodes.
    pub(crate) nodes: u64,
    /// The directory of their data; without one, a temporary directory.
    pub(crate) directory: Option<PathBuf>,
}

/// Runs the demonstration until a signal.
pub(crate) fn run(demo: &Demo) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(play(demo)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => fail(&reason),
    }
}

fn fail(reason: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "coeval demo: {reason}");
    ExitCode::FAILURE
}

/// Writes to standard output, and ignores a closed pipe.
fn say(text: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

async fn play(demo: &Demo) -> Result<(), String> {
    let handler = |kind| signal(kind).map_err(|error| error.to_string());
    // SIGHUP arrives when the user closes the terminal.
    let mut signals = [
        handler(SignalKind::interrupt())?,
        handler(SignalKind::terminate())?,
        handler(SignalKind::hangup())?,
    ];
    let directory = Directory::open(demo.directory.as_deref(), demo.nodes).await?;
    let mut nodes = Vec::new();
    for node in 1..=demo.nodes {
        nodes.push(Child::new(&directory, node).await?);
    }
    let ended = async {
        for node in &mut nodes {
            node.start()?;
        }
        let watching = watch(&mut nodes, &directory);
        tokio::select! {
            biased;
            () = any(&mut signals) => Ok(()),
            ended = watching => ended,
        }
    }
    .await;
    if ended.is_ok() {
        say("stopping the nodes; once more ends them at once");
    }
    let stopping = async {
        // The leader stops last, so that the cluster need not elect another one.
        nodes.sort_by_key(Child::leads);
        for node in &mut nodes {
            node.stop().await;
        }
    };
    tokio::select! {
        biased;
        () = stopping => {}
        () = any(&mut signals) => nodes.iter_mut().for_each(Child::kill),
    }
    drop(nodes);
    directory.close()?;
    ended
}

async fn any([interrupt, terminate, hang_up]: &mut [Signal; 3]) {
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

/// Prints changes, and keeps the nodes running, until one cannot be restarted.
async fn watch(nodes: &mut [Child], directory: &Directory) -> Result<(), String> {
    let began = coeval_env::now();
    let mut leader = None;
    let mut shown = false;
    loop {
        for node in nodes.iter_mut() {
            match node.look().await? {
                Told::Nothing => {}
                Told::Ended(how) => {
                    if !shown {
                        return Err(format!(
                            "node {} {how}; {} says why",
                            node.number,
                            node.log.display()
                        ));
                    }
                    say(&format!(
                        "node {} {how}; it is started again in {} seconds",
                        node.number,
                        AWAY.as_secs()
                    ));
                }
                Told::Started(process) => {
                    say(&format!(
                        "node {} runs again as process {process}",
                        node.number
                    ));
                }
            }
        }
        let now = nodes.iter().find(|node| node.leads());
        let now = now.map(|node| (node.number, node.process()));
        match now {
            Some(_) if !shown => {
                shown = true;
                show(nodes, directory);
            }
            Some((number, Some(process))) if leader != now => {
                say(&format!("node {number} leads now, as process {process}"));
            }
            None if !shown && began.elapsed() > PATIENCE => {
                let seconds = PATIENCE.as_secs();
                return Err(format!("no node leads after {seconds} seconds"));
            }
            _ => {}
        }
        if now.is_some() {
            leader = now;
        }
        coeval_env::sleep(LOOK).await;
    }
}

fn show(nodes: &[Child], directory: &Directory) {
    let kept = match directory.is_kept() {
        true => "kept when it ends",
        false => "removed when it ends",
    };
    let mut text = format!(
        "A cluster of {} nodes, in {} ({kept}). Every node serves every client:\n\n",
        nodes.len(),
        directory.path().display()
    );
    for node in nodes {
        let process = node
            .process()
            .map_or_else(String::new, |process| process.to_string());
        let leads = if node.leads() { "  leads" } else { "" };
        text.push_str(&format!(
            "  node {}   psql -h {} -p {} coeval   process {process}{leads}\n",
            node.number,
            node.client.ip(),
            node.client.port(),
        ));
    }
    let leader = nodes.iter().find(|node| node.leads());
    // A cluster of fewer nodes does not survive the loss of one.
    if nodes.len() >= 3
        && let Some(process) = leader.and_then(Child::process)
    {
        text.push_str(&format!(
            "\nConnect to one that does not lead, then kill the one that does, and go on:\n\n  \
             kill -9 {process}\n"
        ));
    }
    let end = if io::stdin().is_terminal() {
        "Ctrl-C"
    } else {
        "SIGINT"
    };
    text.push_str(&format!("\n{end} ends the cluster."));
    say(&text);
}
