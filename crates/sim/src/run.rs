//! A simulated run: a world, a server or cluster, clients, a plan of faults, and a
//! verdict.

mod following;
mod long_reads;
mod replicas;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_env::sim::{Latency, Link, Node, World};
use coeval_occ::Validator;
use coeval_types::planted::{self, Bug};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::nemesis::{GLANCE, Nemesis};
use crate::panics::Watch;
use crate::plan::{self, Fault};
use crate::report::Report;
use crate::server::{Door, Phase};
use crate::system_under_test::SystemUnderTest;
use crate::workload::{CLIENTS, Clients};
use crate::{Class, Engine, Scenario, watchdog::Watchdog};

use following::Comparisons;
use long_reads::LongReads;

/// Virtual time after the last fault within which a database must recover and serve every
/// client.
pub const BOUND: Duration = Duration::from_secs(120);
/// Interval at which the run polls its servers and clients.
const TICK: Duration = Duration::from_millis(10);
/// How many violations of one kind are reported.
const TOLD: usize = 3;
/// How long clients run by default.
pub const LENGTH: Duration = Duration::from_secs(3);

/// Requirement that is checked after the faults have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The power fails, and the recovered data is correct.
    Safety,
    /// Every client is served within [`BOUND`].
    Liveness,
}

impl Mode {
    /// Name of the mode on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::Liveness => "liveness",
        }
    }
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// System under test, workload and class of faults.
    pub scenario: Scenario,
    /// Seed that decides everything else.
    pub seed: u64,
    /// How long clients run, in virtual time.
    pub length: Duration,
    /// Only these faults of the plan, by number; `None` for all.
    pub faults: Option<Vec<usize>>,
    /// Requirement that is checked at the end.
    pub mode: Mode,
    /// A known bug to inject.
    pub bug: Option<Bug>,
    /// How an occ engine validates scans.
    pub validator: Validator,
}

impl Options {
    /// A run of a scenario with the defaults of a campaign: every other seed checks
    /// liveness.
    #[must_use]
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        let in_memory = scenario.engine == Engine::Serial;
        let mode = if seed.is_multiple_of(2) && !in_memory {
            Mode::Safety
        } else {
            Mode::Liveness
        };
        Self {
            scenario,
            seed,
            length: LENGTH,
            faults: None,
            mode,
            bug: None,
            validator: Validator::default(),
        }
    }

    /// The fault plan of the run.
    #[must_use]
    pub fn plan(&self) -> Vec<Fault> {
        let Scenario { engine, class, .. } = self.scenario;
        let mut plan = plan::draw(class, self.seed, self.length);
        if engine.nodes() > 1 {
            plan::among_nodes(&mut plan, engine, class, self.seed);
        }
        if let Some(only) = &self.faults {
            plan.retain(|fault| only.contains(&fault.number));
        }
        plan
    }
}

/// Performs the run. It takes a fraction of a second, and does not touch the real
/// environment; when it takes a minute, or a task panics, the command that repeats it is
/// printed to standard error at once.
///
/// # Panics
/// If a bug is to be injected, and this build does not have the feature `planted`.
#[must_use]
pub fn run(options: &Options) -> Report {
    let _watchdog = Watchdog::over(options.command());
    let watch = Watch::begin(options.command());
    let _planted = options.bug.map(|bug| {
        planted::plant(bug).expect("a build with the feature planted, which this is not")
    });
    let world = World::new(options.seed);
    let mut run = Run::new(&world, options);
    let outcome = world.block_on(run.play());
    let mut report = run.report(outcome);
    drop(run);
    drop(world);
    let panics = watch.end();
    report.objections.extend(
        panics
            .into_iter()
            .map(|panic| format!("panic: a task: {panic}")),
    );
    report
}

/// Reason why a run ends early.
enum Stop {
    /// The server refuses to start, as it may after damage.
    Refused(String),
    /// A judge or the run itself found a violation.
    Objection(String),
}

struct Run<'world> {
    world: &'world World,
    options: &'world Options,
    system: SystemUnderTest,
    /// Machine of each client that has one of its own.
    machines: Vec<Node>,
    clients: Arc<Clients>,
    /// Task of each client, once it has begun.
    tasks: Vec<Option<JoinHandle<()>>>,
    nemesis: Nemesis<'world>,
    /// Node of a cluster that is out for good, and the reason: its files were damaged.
    refused: Option<(usize, String)>,
    /// Comparisons of the nodes of a cluster while they follow.
    comparisons: Comparisons,
    /// Long reads on the nodes of a cluster while they follow.
    long_reads: LongReads,
}

/// Link between machines in the same rack.
fn neighbours() -> Link {
    Link {
        latency: Latency {
            least: Duration::from_micros(50),
            spread: Duration::from_micros(100),
            tail_per_million: 1000,
            tail: Duration::from_millis(5),
        },
        ..Link::default()
    }
}

/// Link between nodes of a cluster. The seed decides the latency, so that the amount of
/// log in flight to a majority varies between runs.
fn between_nodes(seed: u64) -> Link {
    // A random stream other than the world's.
    let mut random = StdRng::seed_from_u64(seed ^ 0x6C69_6E6B);
    let mut link = neighbours();
    link.latency.least = Duration::from_micros(random.random_range(50..1000));
    link.latency.spread = Duration::from_micros(random.random_range(50..2000));
    link
}

impl<'world> Run<'world> {
    fn new(world: &'world World, options: &'world Options) -> Self {
        world.set_usual_link(neighbours());
        let clients = Clients::new(options.scenario, options.seed);
        let system = SystemUnderTest::new(world, options, clients.tables().as_ref());
        if system.is_cluster() {
            world.set_usual_link(between_nodes(options.seed));
        }
        for machine in system.machines() {
            world.set_torn_sectors(machine, true);
        }
        let machines: Vec<Node> = match options.scenario.engine.is_remote() {
            true => (0..clients.count()).map(|_| world.node()).collect(),
            false => Vec::new(),
        };
        Self {
            world,
            options,
            nemesis: Nemesis::new(world, system.machines(), machines.clone(), options.plan()),
            system,
            machines,
            clients: Arc::new(clients),
            tasks: Vec::new(),
            refused: None,
            comparisons: Comparisons::default(),
            long_reads: LongReads::default(),
        }
    }

    fn report(&self, outcome: Result<(), Stop>) -> Report {
        let [committed, failed, unknown] = self.clients.counts();
        let mut report = Report {
            objections: self.clients.judge(),
            committed,
            failed,
            unknown,
            starts: self.system.servers.iter().map(|server| server.starts).sum(),
            traffic: self.world.traffic(),
            elapsed: self.world.elapsed(),
            entered: self.clients.entered(),
            reads_on_followers: self.clients.reads_on_followers(),
            compared: self.comparisons.compared(),
            ended_reads: self.clients.ended_reads() + self.long_reads.ended(),
            trace_hash: self.world.trace_hash(),
            ..Report::default()
        };
        if let Some(observer) = &self.system.observer {
            report.questions = observer.questions();
            let property_checker = &observer.property_checker;
            report.elections = property_checker.elections();
            let violations = property_checker.violations().into_iter().take(TOLD);
            let objections = violations.map(|violation| format!("consensus: {violation}"));
            report.objections.extend(objections);
        }
        report.refused = self.refused.as_ref().map(|(_, reason)| reason.clone());
        match outcome {
            Ok(()) => {}
            Err(Stop::Refused(reason)) => report.refused = Some(reason),
            Err(Stop::Objection(objection)) => report.objections.push(objection),
        }
        report
    }

    async fn play(&mut self) -> Result<(), Stop> {
        for server in &mut self.system.servers {
            server.start(self.world);
        }
        self.wait_until_serving().await?;
        self.with_database("fills the tables", |clients, door| async move {
            clients.set_up(&door).await
        })
        .await?;
        self.begin_clients();
        self.nemesis.begin();
        let until = self.world.elapsed() + self.options.length;
        while self.world.elapsed() < until || self.nemesis.is_busy() {
            if self.world.elapsed() >= until {
                self.clients.slow_down();
            }
            self.pass_tick().await;
            self.tick()?;
        }
        self.nemesis.heal();
        self.clients.slow_down();
        match self.options.mode {
            Mode::Safety => self.lose_power().await?,
            Mode::Liveness => {
                self.wait_until_replaced().await?;
                self.everybody_is_served().await?;
            }
        }
        self.with_database("looks at the end", |clients, door| async move {
            clients.look(&door).await
        })
        .await?;
        self.compare_replicas().await
    }

    /// Waits for the next tick, at which [`Run::tick`] is due, and meanwhile injects the faults
    /// that wait for a follower's question.
    async fn pass_tick(&mut self) {
        let until = self.world.elapsed() + TICK;
        while self.nemesis.waits_for_question() && self.world.elapsed() < until {
            self.world.wait(GLANCE).await;
            self.nemesis.strike_when_asked(&mut self.system);
        }
        let left = until.saturating_sub(self.world.elapsed());
        self.world.wait(left).await;
    }

    /// Does what is due: injects faults, restarts servers that are down, and places
    /// clients that have no server.
    fn tick(&mut self) -> Result<(), Stop> {
        self.nemesis.tick(&mut self.system);
        for server in 0..self.system.servers.len() {
            self.look_after_server(server)?;
        }
        self.system.operate(self.world);
        self.look_after_clients();
        self.read_long()?;
        self.compare_followers()
    }

    /// Whether a node of a cluster is out for good.
    fn is_out(&self, at: usize) -> bool {
        matches!(&self.refused, Some((out, _)) if *out == at)
    }

    /// Whether the client reads on a node that is out for good.
    fn has_no_node(&self, client: usize) -> bool {
        let is_reader = client >= CLIENTS && self.machines.is_empty();
        is_reader && self.is_out((client - CLIENTS) % self.system.servers.len())
    }

    /// Restarts a server that has stopped by itself, as a supervisor would.
    fn look_after_server(&mut self, at: usize) -> Result<(), Stop> {
        let (is_cluster, is_out) = (self.system.is_cluster(), self.is_out(at));
        let server = &mut self.system.servers[at];
        if let Some(error) = server.ended() {
            server.down();
            // The power failed during a write to the disk.
            self.nemesis.rest(at);
            if !matches!(error, coeval_env::JoinError::Cancelled) {
                let objection = format!("panic: the server's own task: {error}");
                return Err(Stop::Objection(objection));
            }
        }
        let damaged =
            self.options.scenario.class == Class::Corruption && self.nemesis.has_damaged(at);
        let excused = damaged || self.nemesis.excuses();
        match server.phase() {
            Phase::Down if !is_out && !self.nemesis.keeps_down(at) => server.start(self.world),
            Phase::Stopped(reason) => {
                self.world.kill(server.node);
                server.down();
                self.nemesis.rest(at);
                if is_cluster && !excused {
                    let objection = format!("start: node {} stops: {reason}", server.number());
                    return Err(Stop::Objection(objection));
                }
            }
            Phase::Refused(reason) => {
                self.world.kill(server.node);
                server.down();
                self.nemesis.rest(at);
                if damaged && is_cluster {
                    self.refused = Some((at, reason));
                } else if damaged {
                    return Err(Stop::Refused(reason));
                } else if !excused {
                    return Err(Stop::Objection(format!(
                        "start: it does not start: {reason}"
                    )));
                }
            }
            Phase::Serving | Phase::Down | Phase::Starting => {}
        }
        Ok(())
    }

    /// How a client connects, and the machine on which it runs.
    fn way_in(&self, client: usize) -> Option<(Node, Door)> {
        let (node, door) = self.system.door(client)?;
        Some((self.machines.get(client).copied().unwrap_or(node), door))
    }

    fn begin_client(&mut self, client: usize) {
        let Some((machine, door)) = self.way_in(client) else {
            return;
        };
        let clients = Arc::clone(&self.clients);
        let task = self.world.spawn(machine, async move {
            clients.run(door, client).await;
        });
        self.tasks[client] = Some(task);
    }

    fn begin_clients(&mut self) {
        let count = self.clients.count();
        self.tasks.resize_with(count, || None);
        for client in 0..count {
            self.begin_client(client);
        }
    }

    /// Clients on a server's machine die and restart with it; those of a cluster continue
    /// on the machine of the leader, and readers on that of their own node.
    fn look_after_clients(&mut self) {
        if self.clients.is_stopping() || self.tasks.is_empty() {
            return;
        }
        let is_over =
            |task: &Option<JoinHandle<()>>| task.as_ref().is_none_or(JoinHandle::is_finished);
        if self.system.is_cluster() {
            for client in 0..self.tasks.len() {
                if is_over(&self.tasks[client]) {
                    self.begin_client(client);
                }
            }
        } else if self.machines.is_empty()
            && self.system.is_serving()
            && self.tasks.iter().all(is_over)
        {
            self.begin_clients();
        }
    }

    async fn wait_until_serving(&mut self) -> Result<(), Stop> {
        let until = self.world.elapsed() + BOUND;
        while self.world.elapsed() < until {
            self.world.wait(TICK).await;
            self.tick()?;
            if self.system.is_serving() {
                return Ok(());
            }
        }
        let objection = format!(
            "liveness: it does not start within {} s: {}",
            BOUND.as_secs(),
            self.system.phases()
        );
        Err(Stop::Objection(objection))
    }

    /// Waits until a node whose disk was lost has a replacement with a vote.
    async fn wait_until_replaced(&mut self) -> Result<(), Stop> {
        let until = self.world.elapsed() + BOUND;
        while self.system.is_replacing() {
            if self.world.elapsed() >= until {
                let objection = format!(
                    "liveness: a node that lost its disk is not replaced within {} s: {}",
                    BOUND.as_secs(),
                    self.system.phases()
                );
                return Err(Stop::Objection(objection));
            }
            self.world.wait(TICK).await;
            self.tick()?;
        }
        Ok(())
    }

    /// Stops all clients, fails the power once more, and restarts the servers. Clients on
    /// machines of their own are killed as well: a client about to begin could write
    /// unnoticed by the final check.
    async fn lose_power(&mut self) -> Result<(), Stop> {
        self.clients.stop();
        for machine in &self.machines {
            self.world.kill(*machine);
        }
        for server in &mut self.system.servers {
            self.world.crash(server.node);
            server.down();
        }
        self.world.wait(TICK).await;
        self.tasks.clear();
        self.wait_until_serving().await
    }

    /// Waits until every client has committed something.
    async fn everybody_is_served(&mut self) -> Result<(), Stop> {
        self.wait_until_serving().await?;
        let before = self.clients.progress();
        let until = self.world.elapsed() + BOUND;
        loop {
            self.world.wait(TICK).await;
            self.tick()?;
            let now = self.clients.progress();
            let progress = before.iter().zip(&now).enumerate();
            let waiting: Vec<usize> = progress
                .filter(|(client, (before, now))| before == now && !self.has_no_node(*client))
                .map(|(client, _)| client)
                .collect();
            match waiting.len() {
                0 => break,
                _ if self.world.elapsed() < until => {}
                _ => {
                    let objection = format!(
                        "liveness: of {} clients {waiting:?} get nothing committed in {} s without faults",
                        now.len(),
                        BOUND.as_secs()
                    );
                    return Err(Stop::Objection(objection));
                }
            }
        }
        self.clients.stop();
        let goes_on = |task: &JoinHandle<()>| !task.is_finished();
        while self.tasks.iter().flatten().any(goes_on) {
            self.world.wait(TICK).await;
            self.tick()?;
            if self.world.elapsed() > until + BOUND {
                return Err(Stop::Objection(
                    "liveness: a client does not come to its end".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Performs an action on the database, and retries it if it was refused.
    async fn with_database<F>(
        &mut self,
        doing: &str,
        action: impl Fn(Arc<Clients>, Door) -> F,
    ) -> Result<(), Stop>
    where
        F: Future<Output = Result<(), crate::client_session::Failure>> + 'static,
    {
        let until = self.world.elapsed() + BOUND;
        // Each attempt starts with another node.
        let turn = Arc::<AtomicUsize>::default();
        loop {
            let Some((machine, door)) = self.way_in(0) else {
                if self.world.elapsed() >= until {
                    let objection = format!("liveness: the client {doing}: no leader");
                    return Err(Stop::Objection(objection));
                }
                self.world.wait(TICK).await;
                self.tick()?;
                continue;
            };
            let task = self.world.spawn(
                machine,
                action(Arc::clone(&self.clients), door.in_turn(&turn)),
            );
            while !task.is_finished() && self.world.elapsed() < until {
                self.world.wait(TICK).await;
                self.tick()?;
            }
            let problem = if task.is_finished() {
                match task.await {
                    Ok(Ok(())) => return Ok(()),
                    Ok(Err(failure)) => format!("{failure:?}"),
                    Err(error) => error.to_string(),
                }
            } else {
                "it takes too long".to_owned()
            };
            if self.world.elapsed() >= until {
                return Err(Stop::Objection(format!(
                    "liveness: the client {doing}: {problem}"
                )));
            }
        }
    }
}
