//! The fresh command: counts stale reads among pairs of a write and a read on different nodes
//! of a cluster of processes, and tells which node executed the reads.
//!
//! ```text
//! cargo run --profile dist -p coeval-workload --bin fresh -- --read-from fresh
//! cargo run --profile dist -p coeval-workload --bin fresh -- --read-from fresh --leader kill
//! cargo run -p coeval-workload --bin fresh -- --trial --read-from any --pairs 20000
//! ```
//!
//! The command exits with 1 if a read was stale, or showed what was never written; and, where no
//! leader is disturbed, if the followers executed less than `--at-least-local` per cent of the
//! reads of their clients, by the counters of the nodes themselves. With `--read-from any` reads
//! have to be stale, and the command says so: it can see them.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use coeval_env::{self as env, Instant};
use coeval_types::planted::{self, Bug};
use coeval_workload::build::Build;
use coeval_workload::chance::Chance;
use coeval_workload::cluster::{Cluster, Metrics, Settings, sum};
use coeval_workload::freshness::{Load, Tally};
use coeval_workload::server::build_coeval_with;

/// Counts stale reads among writes and reads on different nodes.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of pairs; a million, or 100,000 where a leader is disturbed.
    #[arg(long)]
    pairs: Option<u64>,
    /// Ends after so many minutes, with the pairs made by then.
    #[arg(long)]
    minutes: Option<f64>,
    /// What happens to the leader, again and again.
    #[arg(long, value_enum)]
    leader: Option<Fault>,
    /// How often it happens.
    #[arg(long, default_value_t = 20)]
    times: u64,
    /// Value of coeval.read_from for the connections that read; the server's default when
    /// absent.
    #[arg(long)]
    read_from: Option<String>,
    /// Value of coeval.read_comparator for the connections that read.
    #[arg(long)]
    comparator: Option<String>,
    /// Number of clients that make pairs; a multiple of six uses all pairs of nodes alike.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Number of clients that write beside them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=1000))]
    writers: u64,
    /// Number of clients beside them that interrupt commits of their own.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    impatient: u64,
    /// Least share of the reads of followers' clients that the followers execute, in per cent.
    #[arg(long, default_value_t = 95.0)]
    at_least_local: f64,
    /// Seed that decides the load and the moments of faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further arguments of the servers, such as
    /// --server=--cluster-election-timeout-milliseconds=1000.
    #[arg(long)]
    server: Vec<String>,
    /// A known bug to inject into the servers, which are then built with the feature `planted`.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// The server's binary; built from this workspace when absent.
    #[arg(long)]
    binary: Option<PathBuf>,
    #[command(flatten)]
    build: Build,
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// It is killed, and started again.
    Kill,
    /// Its process is stopped for 1 to 5 seconds.
    Stop,
    /// It is cut off from the other nodes, not from its clients, for 1 to 5 seconds.
    Cut,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn bug(name: &str) -> Result<Bug, String> {
    let all: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
    Bug::named(name).ok_or_else(|| format!("there are {}", all.join(", ")))
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fresh: {error}");
            ExitCode::from(2)
        }
    }
}

const POLL: Duration = Duration::from_millis(20);
/// Longest time without a single pair, in which no fault is in force.
const PROGRESS: Duration = Duration::from_secs(120);

async fn run(arguments: Arguments) -> Result<bool, Failure> {
    let (build, bug) = (arguments.build, arguments.bug);
    let binary = match bug {
        Some(_) if arguments.binary.is_none() => build_coeval_with(&["planted"])?,
        _ => build.coeval(arguments.binary.clone())?,
    };
    let folder = tempfile::Builder::new().prefix("coeval-fresh-").tempdir()?;
    let settings = Settings {
        nodes: 3,
        proxied: (arguments.leader == Some(Fault::Cut)).then_some(arguments.seed),
        arguments: arguments.server.clone(),
        environment: bug
            .map(|bug| (planted::VARIABLE.to_owned(), bug.name().into()))
            .into_iter()
            .collect(),
    };
    let mut cluster = Cluster::start(&binary, folder.path(), &settings).await?;
    let set = |name: &str, value: &Option<String>| {
        let value = value.as_ref()?;
        Some(format!("SET {name} = '{}'", value.replace('\'', "''")))
    };
    let load = Load {
        ports: (0..cluster.size()).map(|node| cluster.port(node)).collect(),
        clients: usize::try_from(arguments.clients)?,
        writers: usize::try_from(arguments.writers)?,
        impatient: usize::try_from(arguments.impatient)?,
        set: [
            set("coeval.read_from", &arguments.read_from),
            set("coeval.read_comparator", &arguments.comparator),
        ]
        .into_iter()
        .flatten()
        .collect(),
        seed: arguments.seed,
    };
    load.fill().await?;
    let pairs = arguments.pairs.unwrap_or(match arguments.leader {
        None => 1_000_000,
        Some(_) => 100_000,
    });
    let read_from = match &arguments.read_from {
        Some(name) => name.clone(),
        None => {
            let shown = cluster.value(0, "SHOW coeval.read_from").await;
            format!("{} (the default)", shown.unwrap_or_default())
        }
    };
    println!(
        "coeval.read_from = {read_from}, {}{}; {} clients make pairs, {} write beside them",
        match &arguments.comparator {
            Some(name) => format!("coeval.read_comparator = {name}, "),
            None => String::new(),
        },
        match arguments.leader {
            None => "nothing happens to the leader".to_owned(),
            Some(fault) => format!("leader {}: {} times", name(fault), arguments.times),
        },
        arguments.clients,
        arguments.writers,
    );
    let leader = cluster.leader().await?;
    let mut counts = Counts::new(&cluster).await?;
    let began = env::now();
    let end = arguments.minutes.map(|minutes| {
        let minutes = Duration::try_from_secs_f64(minutes * 60.0);
        minutes.map(|minutes| began + minutes)
    });
    let end = end.transpose()?;
    let running = load.start();
    let tally = &running.tally;
    let mut chance = Chance::of(arguments.seed, u64::MAX);
    if let Some(fault) = arguments.leader {
        for time in 1..=arguments.times {
            if !progress(tally, pairs * (time - 1) / arguments.times + 1, end).await? {
                break;
            }
            counts.add(&cluster).await;
            let victim = strike(&mut cluster, fault, &mut chance).await?;
            if fault == Fault::Kill {
                counts.forget(victim);
            }
            println!(
                "{time:>3}: leader {} {}; {} pairs, {} stale",
                victim + 1,
                name(fault),
                tally.pairs.load(Ordering::Relaxed),
                tally.stale.load(Ordering::Relaxed),
            );
        }
    }
    let mut share = FollowerShare::new(&cluster, leader);
    loop {
        let next = tally.pairs.load(Ordering::Relaxed) + pairs.div_ceil(LOOKS);
        let goes_on = progress(tally, pairs.min(next), end).await?;
        counts.add(&cluster).await;
        if arguments.leader.is_none() {
            share.look(cluster.leader().await?, &counts, tally);
        }
        if !goes_on || tally.pairs.load(Ordering::Relaxed) >= pairs {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let tally = running.end().await;
    counts.add(&cluster).await;
    let sound = report(&tally, &counts, &share, seconds, &arguments)?;
    cluster.stop().await?;
    Ok(sound)
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill => "killed",
        Fault::Stop => "stopped",
        Fault::Cut => "cut off",
    }
}

/// Waits for that many pairs; false if the run ends before.
async fn progress(tally: &Tally, pairs: u64, end: Option<Instant>) -> Result<bool, Failure> {
    let done = || tally.pairs.load(Ordering::Relaxed);
    let (mut last, mut at) = (done(), env::now());
    while done() < pairs {
        let now = env::now();
        if end.is_some_and(|end| now >= end) {
            return Ok(false);
        }
        if done() > last {
            (last, at) = (done(), now);
        }
        if at.elapsed() > PROGRESS {
            let stale = tally.stale.load(Ordering::Relaxed);
            let invented = tally.invented.load(Ordering::Relaxed);
            let so_far = format!("{last} pairs, {stale} stale, {invented} invented");
            return Err(format!("no pair in {PROGRESS:?}, after {so_far}").into());
        }
        env::sleep(POLL).await;
    }
    Ok(true)
}

/// Disturbs the leader once, and waits until all is as before. Returns which node it was.
async fn strike(
    cluster: &mut Cluster,
    fault: Fault,
    chance: &mut Chance,
) -> Result<usize, Failure> {
    let leader = cluster.leader().await?;
    let lasting = Duration::from_millis(chance.within(1_000..5_000));
    match fault {
        Fault::Kill => {
            cluster.kill(leader)?;
            // Now and then it is back before another node leads.
            env::sleep(lasting / 2).await;
        }
        Fault::Stop => {
            cluster.pause(leader)?;
            env::sleep(lasting).await;
            cluster.resume(leader)?;
        }
        Fault::Cut => {
            cluster.cut_off(leader, true);
            env::sleep(lasting).await;
            cluster.cut_off(leader, false);
        }
    }
    cluster.ready().await?;
    Ok(leader)
}

/// What the nodes have counted, over their restarts.
struct Counts {
    last: Vec<Metrics>,
    sums: Vec<Metrics>,
}

impl Counts {
    async fn new(cluster: &Cluster) -> Result<Self, Failure> {
        let mut last = Vec::new();
        for node in 0..cluster.size() {
            last.push(cluster.metrics(node).await?);
        }
        let sums = vec![Metrics::new(); last.len()];
        Ok(Self { last, sums })
    }

    /// Adds what has been counted since the last call. A node that does not answer adds it
    /// later.
    async fn add(&mut self, cluster: &Cluster) {
        for (node, last) in self.last.iter_mut().enumerate() {
            let Ok(read) = cluster.metrics(node).await else {
                continue;
            };
            for (name, value) in &read {
                let grown = value - last.get(name).copied().unwrap_or(0.0);
                *self.sums[node].entry(name.clone()).or_default() += grown.max(0.0);
            }
            *last = read;
        }
    }

    /// A node has been started anew, and counts from nothing. What it counted after the last
    /// look is lost.
    fn forget(&mut self, node: usize) {
        self.last[node].clear();
    }
}

/// How often it is looked, in a run in which nothing is disturbed, who leads.
const LOOKS: u64 = 100;

/// Reads of the clients of followers, and how many of them the followers executed. A machine that
/// is busy may change its leader by itself; what a node did between two looks of which it led at
/// one is counted nowhere.
struct FollowerShare {
    leader: usize,
    changes: u32,
    /// Reads of each node's clients, and how many of them it executed, at the last look.
    asked: Vec<u64>,
    executed: Vec<f64>,
    all: u64,
    local: f64,
}

impl FollowerShare {
    fn new(cluster: &Cluster, leader: usize) -> Self {
        Self {
            leader,
            changes: 0,
            asked: vec![0; cluster.size()],
            executed: vec![0.0; cluster.size()],
            all: 0,
            local: 0.0,
        }
    }

    fn look(&mut self, leader: usize, counts: &Counts, tally: &Tally) {
        for (node, sums) in counts.sums.iter().enumerate() {
            let asked = tally.reads[node].load(Ordering::Relaxed);
            let executed = sum(sums, LOCAL);
            if node != leader && node != self.leader {
                self.all += asked - self.asked[node];
                self.local += executed - self.executed[node];
            }
            (self.asked[node], self.executed[node]) = (asked, executed);
        }
        self.changes += u32::from(leader != self.leader);
        self.leader = leader;
    }

    fn per_cent(&self) -> f64 {
        1e2 * self.local / f64::max(self.all as f64, 1.0)
    }
}

const LOCAL: &str = "coeval_reads_total{route=\"local\"";
const SPARED: &str = "coeval_reads_total{route=\"local\",stamp=\"spared\"";
const AT_LEADER: &str = "coeval_reads_total{route=\"leader\"";

/// Prints what has been found. Returns whether it is as it must be.
fn report(
    tally: &Tally,
    counts: &Counts,
    share: &FollowerShare,
    seconds: f64,
    arguments: &Arguments,
) -> Result<bool, Failure> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (stale, invented) = (read(&tally.stale), read(&tally.invented));
    println!(
        "{} pairs in {seconds:.1} s: {stale} stale, {invented} that show what was never written; \
         {} requests without an answer, {} updates beside, {} commits interrupted",
        read(&tally.pairs),
        read(&tally.unanswered),
        read(&tally.updates),
        read(&tally.interrupted),
    );
    let wrong = tally
        .first
        .lock()
        .expect("no panic while it was held")
        .clone();
    if let Some(wrong) = wrong {
        println!(
            "the first: written on node {}, read on node {}: {} instead of {}",
            wrong.written + 1,
            wrong.read + 1,
            wrong.shown,
            wrong.owed
        );
    }
    println!(
        "\n{:<6} {:<28} {:>10} {:>12} {:>7}  the others, by reason",
        "node", "", "reads", "executed", "%"
    );
    // Which follower the leader's commits wait for is the leader's own knowledge; the other
    // one gets log in batches.
    let is_one_leader = arguments.leader.is_none() && share.changes == 0;
    for (node, sums) in counts.sums.iter().enumerate() {
        let asked = read(&tally.reads[node]) as f64;
        let executed = sum(sums, LOCAL);
        let is_leader = is_one_leader && node == share.leader;
        let mut reasons = String::new();
        let spared = sum(sums, SPARED);
        if spared > 0.0 {
            write!(reasons, " spared a question {spared:.0}")?;
        }
        for (name, value) in sums.range(AT_LEADER.to_owned()..) {
            let reason = name.split("reason=\"").nth(1);
            let reason = reason.and_then(|rest| rest.split('"').next());
            if name.starts_with(AT_LEADER) && *value > 0.0 {
                write!(reasons, " {} {value:.0}", reason.unwrap_or_default())?;
            }
        }
        println!(
            "{:<6} {:<28} {asked:>10} {executed:>12} {:>7} {reasons}",
            node + 1,
            match (is_leader, is_one_leader) {
                (true, _) => "leads",
                (false, true) => "follows",
                (false, false) => "",
            },
            match is_leader {
                true => String::new(),
                false => format!("{:.1}", 1e2 * executed / asked.max(1.0)),
            },
        );
    }
    let mut sound = stale == 0 && invented == 0;
    if arguments.leader.is_none() {
        let is_enough = share.per_cent() >= arguments.at_least_local;
        if share.changes > 0 {
            println!("\nthe leader changed {} times by itself", share.changes);
        }
        println!(
            "\nof the reads of followers' clients the followers executed {:.1} %, of {} % at \
             least{}",
            share.per_cent(),
            arguments.at_least_local,
            if is_enough { "" } else { ": too few" }
        );
        sound &= is_enough;
    }
    println!("{}", if sound { "fresh" } else { "fails" });
    Ok(sound)
}
