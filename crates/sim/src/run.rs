//! One run: a world, a server, clients, a plan of faults, and a verdict.

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

use crate::dock::Dock;
use crate::panics::Watch;
use crate::plan::{self, Fault};
use crate::report::Report;
use crate::server::{Door, Phase};
use crate::workload::{CLIENTS, Clients};
use crate::{Class, Engine, Scenario, nemesis::Nemesis, watchdog::Watchdog};

/// In so much virtual time after the last fault a database recovers and serves everybody.
pub const BOUND: Duration = Duration::from_secs(120);
/// How often the run looks after its server.
const TICK: Duration = Duration::from_millis(10);
/// How many violations of one kind are told.
const TOLD: usize = 3;
/// How long clients run by default.
pub const LENGTH: Duration = Duration::from_secs(3);

/// What is asked for when the faults have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The power fails, and what comes back is right.
    Safety,
    /// Everybody is served within [`BOUND`].
    Liveness,
}

impl Mode {
    /// As commands take it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::Liveness => "liveness",
        }
    }
}

/// Which run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is in the dock, and what happens.
    pub scenario: Scenario,
    /// Decides everything else.
    pub seed: u64,
    /// How long clients run, in virtual time.
    pub length: Duration,
    /// Only these faults of the plan, by number; `None` for all.
    pub faults: Option<Vec<usize>>,
    /// What is asked for in the end.
    pub mode: Mode,
    /// A bug that is put back.
    pub bug: Option<Bug>,
    /// How an occ engine in the dock validates scans.
    pub validator: Validator,
}

impl Options {
    /// A run of a scenario as the court has it: every other seed asks for liveness.
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

    /// The plan of the run.
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

/// Does it. Takes a fraction of a second, and no part of the world outside; when it takes
/// a minute, or a task panics, standard error has the command at once.
///
/// # Panics
/// When a bug is to be planted, and this build has none.
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

/// Why a run ends before its end.
enum Stop {
    /// The server refuses to start, which it may after damage.
    Refused(String),
    /// Something that must not be.
    Objection(String),
}

struct Run<'world> {
    world: &'world World,
    options: &'world Options,
    dock: Dock,
    /// Each client's machine, if it has one of its own.
    machines: Vec<Node>,
    clients: Arc<Clients>,
    /// Each client's task, from when it has begun.
    tasks: Vec<Option<JoinHandle<()>>>,
    nemesis: Nemesis<'world>,
    /// Why a node of a cluster is out for good: its files were damaged.
    refused: Option<(usize, String)>,
}

/// Between machines that stand side by side.
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

/// Between nodes of a cluster: as far from each other as the seed says, so that now more and
/// now less is on its way to a majority.
fn between_nodes(seed: u64) -> Link {
    // Another stream than the world's.
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
        let dock = Dock::new(world, options, clients.tables().as_ref());
        if dock.is_cluster() {
            world.set_usual_link(between_nodes(options.seed));
        }
        for machine in dock.machines() {
            world.set_torn_sectors(machine, true);
        }
        let machines: Vec<Node> = match options.scenario.engine.is_remote() {
            true => (0..CLIENTS).map(|_| world.node()).collect(),
            false => Vec::new(),
        };
        Self {
            world,
            options,
            nemesis: Nemesis::new(world, dock.machines(), machines.clone(), options.plan()),
            dock,
            machines,
            clients: Arc::new(clients),
            tasks: Vec::new(),
            refused: None,
        }
    }

    fn report(&self, outcome: Result<(), Stop>) -> Report {
        let [committed, failed, unknown] = self.clients.counts();
        let mut report = Report {
            objections: self.clients.judge(),
            committed,
            failed,
            unknown,
            starts: self.dock.servers.iter().map(|server| server.starts).sum(),
            traffic: self.world.traffic(),
            elapsed: self.world.elapsed(),
            entered: self.clients.entered(),
            trace_hash: self.world.trace_hash(),
            ..Report::default()
        };
        if let Some(witness) = &self.dock.witness {
            report.elections = witness.elections();
            let violations = witness.violations().into_iter().take(TOLD);
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
        for server in &mut self.dock.servers {
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
            self.world.wait(TICK).await;
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

    /// What is due: faults, starts of servers that are down, clients that have nowhere to
    /// be.
    fn tick(&mut self) -> Result<(), Stop> {
        self.nemesis.tick(&mut self.dock);
        for server in 0..self.dock.servers.len() {
            self.look_after_server(server)?;
        }
        self.dock.operate(self.world);
        self.look_after_clients();
        Ok(())
    }

    /// Whether a node of a cluster is out for good.
    fn is_out(&self, at: usize) -> bool {
        matches!(&self.refused, Some((out, _)) if *out == at)
    }

    /// Starts a server that has stopped by itself, as whoever watches over it would.
    fn look_after_server(&mut self, at: usize) -> Result<(), Stop> {
        let (is_cluster, is_out) = (self.dock.is_cluster(), self.is_out(at));
        let server = &mut self.dock.servers[at];
        if let Some(error) = server.ended() {
            server.down();
            // The power failed while the disk was written.
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

    /// How a client gets in, and on which machine it lives.
    fn way_in(&self, client: usize) -> Option<(Node, Door)> {
        let (node, door) = self.dock.door(client)?;
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
        self.tasks.resize_with(CLIENTS, || None);
        for client in 0..CLIENTS {
            self.begin_client(client);
        }
    }

    /// Clients that live on a server's machine die with it, and come back with it; those of
    /// a cluster go on wherever a node leads.
    fn look_after_clients(&mut self) {
        if self.clients.is_stopping() || self.tasks.is_empty() {
            return;
        }
        let is_over =
            |task: &Option<JoinHandle<()>>| task.as_ref().is_none_or(JoinHandle::is_finished);
        if self.dock.is_cluster() {
            for client in 0..CLIENTS {
                if is_over(&self.tasks[client]) {
                    self.begin_client(client);
                }
            }
        } else if self.machines.is_empty()
            && self.dock.is_serving()
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
            if self.dock.is_serving() {
                return Ok(());
            }
        }
        let objection = format!(
            "liveness: it does not start within {} s: {}",
            BOUND.as_secs(),
            self.dock.phases()
        );
        Err(Stop::Objection(objection))
    }

    /// A node whose disk was lost has a successor, with a vote.
    async fn wait_until_replaced(&mut self) -> Result<(), Stop> {
        let until = self.world.elapsed() + BOUND;
        while self.dock.is_replacing() {
            if self.world.elapsed() >= until {
                let objection = format!(
                    "liveness: a node that lost its disk is not replaced within {} s: {}",
                    BOUND.as_secs(),
                    self.dock.phases()
                );
                return Err(Stop::Objection(objection));
            }
            self.world.wait(TICK).await;
            self.tick()?;
        }
        Ok(())
    }

    /// Everybody stops, the power fails once more, and the server comes back. Clients on
    /// machines of their own die as well: one that was about to begin could write behind the
    /// back of who looks.
    async fn lose_power(&mut self) -> Result<(), Stop> {
        self.clients.stop();
        for machine in &self.machines {
            self.world.kill(*machine);
        }
        for server in &mut self.dock.servers {
            self.world.crash(server.node);
            server.down();
        }
        self.world.wait(TICK).await;
        self.tasks.clear();
        self.wait_until_serving().await
    }

    /// Every client gets something committed.
    async fn everybody_is_served(&mut self) -> Result<(), Stop> {
        self.wait_until_serving().await?;
        let before = self.clients.progress();
        let until = self.world.elapsed() + BOUND;
        loop {
            self.world.wait(TICK).await;
            self.tick()?;
            let now = self.clients.progress();
            let waiting = before
                .iter()
                .zip(&now)
                .filter(|(before, now)| before == now);
            match waiting.count() {
                0 => break,
                _ if self.world.elapsed() < until => {}
                count => {
                    let objection = format!(
                        "liveness: {count} of {CLIENTS} clients get nothing committed in {} s without faults",
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

    /// Does something with the database, and tries again if that was refused.
    async fn with_database<F>(
        &mut self,
        doing: &str,
        action: impl Fn(Arc<Clients>, Door) -> F,
    ) -> Result<(), Stop>
    where
        F: Future<Output = Result<(), crate::session::Failure>> + 'static,
    {
        let until = self.world.elapsed() + BOUND;
        // Each try is another node's turn.
        let turn = Arc::<AtomicUsize>::default();
        loop {
            let Some((machine, door)) = self.way_in(0) else {
                if self.world.elapsed() >= until {
                    let objection = format!("liveness: who {doing}: nobody leads");
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
                return Err(Stop::Objection(format!("liveness: who {doing}: {problem}")));
            }
        }
    }
}
