//! A simulated server process: its successive lives on one machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_env::{JoinError, JoinHandle};
use coeval_leader::node::Node as Member;
use coeval_occ::{Budget, Validator};
use coeval_server::{Settings, Storage, Timeout};
use coeval_txn::Isolation;
use coeval_txn::serial::Serial;
use coeval_types::Term;
use coeval_workload::store::{Database, Pace, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_postgres::Config;

use crate::client_session::{
    AT_HOME, AT_LEADER, Contract, Failure, Session, THINK, Wire, newest, storage,
};
use crate::cluster_node;
use crate::{Class, Engine, Load, Scenario};

/// Port of the first server.
const PORT: u16 = 5433;
pub(crate) const DATA: &str = "/data";

/// Phase of the current life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The server has not been started.
    #[default]
    Down,
    /// The server is recovering.
    Starting,
    /// The server is available; a node of a cluster participates in consensus.
    Serving,
    /// The server refuses to start, for this reason.
    Refused(String),
    /// The server was available, and has stopped by itself, for this reason.
    Stopped(String),
}

/// State that the current life publishes.
#[derive(Default)]
pub(crate) struct Told {
    phase: Phase,
    /// Engine of a server that clients access in its own process.
    engine: Option<Arc<dyn coeval_txn::Engine>>,
    /// The node and its term, if it is the leader of a cluster.
    leads: Option<(Arc<Member>, Term)>,
    /// Engine that reads the node's tables, while it follows in a cluster.
    reader: Option<Arc<dyn coeval_txn::Engine>>,
}

pub(crate) type Board = Arc<Mutex<Told>>;

fn told(board: &Board) -> MutexGuard<'_, Told> {
    board.lock().expect("no panic while it was held")
}

/// Sizes of the server's files, drawn from the seed: small ones, so that rare events
/// occur often.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    segment: u64,
    ring: u64,
    /// Log volume after which a checkpoint is taken, in bytes.
    checkpoint: u64,
    /// Number of threads that replay the log.
    recovery_threads: usize,
}

/// Limits of the server that the class of faults decides.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The memory budget of an engine that is accessed through the transaction contract.
    budget: Budget,
    /// Those of a whole server: the memory limit, and what old versions may take of it, in
    /// per cent.
    memory_megabytes: u64,
    old_versions_percent: u64,
    /// How long reads of the state that a server has are held, in milliseconds.
    hold_milliseconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        let usual = Settings::default();
        Self {
            budget: Budget::UNLIMITED,
            memory_megabytes: 256,
            old_versions_percent: usual.old_versions_percent,
            hold_milliseconds: usual.any_read_hold_milliseconds,
        }
    }
}

impl Limits {
    /// Under [`Class::Memory`] old versions may take little: of TPC-C more, whose transactions
    /// write more, and are long themselves. Under [`Class::Away`] a hold outlasts an election, so
    /// that it ends by an answer.
    fn of(scenario: Scenario, seed: u64) -> Self {
        let usual = Self::default();
        let is_tpcc = scenario.load == Load::Tpcc;
        match scenario.class {
            Class::Memory => Self {
                budget: Budget {
                    old_versions: (128 << (seed % 3)) << if is_tpcc { 5 } else { 0 },
                    ..Budget::UNLIMITED
                },
                memory_megabytes: 64,
                old_versions_percent: 1,
                ..usual
            },
            Class::Away => Self {
                hold_milliseconds: 10_000,
                ..usual
            },
            _ => usual,
        }
    }
}

impl Sizes {
    fn draw(engine: Engine, seed: u64) -> Self {
        // A random stream other than the world's.
        let mut random = StdRng::seed_from_u64(seed ^ 0x7369_7A65);
        let (segments, ring, checkpoints) = match engine {
            Engine::Serial | Engine::Occ | Engine::Cluster => ([8, 16, 64], 4, [4, 24, 256]),
            Engine::Server | Engine::Servers => ([32, 64, 128], 8 << 10, [16, 96, 1024]),
        };
        let mut one = |of: [u64; 3]| of[random.random_range(0..of.len())] << 10;
        Self {
            segment: one(segments),
            ring: ring << 10,
            checkpoint: one(checkpoints),
            // Not drawn from the stream, so that the other sizes of a seed do not change.
            recovery_threads: match engine {
                Engine::Servers => 1 + (seed % 3) as usize,
                _ => 1,
            },
        }
    }
}

/// A server on a simulated machine.
pub struct Server {
    engine: Engine,
    seed: u64,
    sizes: Sizes,
    limits: Limits,
    /// Tables of the load, if it has its own; otherwise the simulator's one table is
    /// used.
    tables: Option<Vec<Table>>,
    /// Validator of an engine that is accessed through the transaction contract.
    validator: Validator,
    /// Identity of the node, in a cluster.
    member: Option<cluster_node::Member>,
    /// The server's machine.
    pub node: Node,
    board: Board,
    life: Option<JoinHandle<()>>,
    /// How often the server was started.
    pub starts: u64,
}

impl Server {
    /// A server that has never run; the seed decides its settings.
    #[must_use]
    pub fn new(
        engine: Engine,
        node: Node,
        seed: u64,
        tables: Option<Vec<Table>>,
        validator: Validator,
    ) -> Self {
        Self {
            engine,
            seed,
            sizes: Sizes::draw(engine, seed),
            limits: Limits::default(),
            tables,
            validator,
            member: None,
            node,
            board: Board::default(),
            life: None,
            starts: 0,
        }
    }

    /// Makes the server a node of a cluster.
    #[must_use]
    pub fn of_cluster(self, member: cluster_node::Member) -> Self {
        Self {
            member: Some(member),
            ..self
        }
    }

    /// Gives the server the limits that a scenario needs.
    #[must_use]
    pub fn limited(self, scenario: Scenario) -> Self {
        Self {
            limits: Limits::of(scenario, self.seed),
            ..self
        }
    }

    /// Number of the node in its cluster, or 1.
    pub(crate) fn number(&self) -> u64 {
        self.member.as_ref().map_or(1, |member| member.number)
    }

    /// Replaces the node by another one, which joins the cluster at its next start.
    pub(crate) fn replace(&mut self, number: u64) {
        self.member = self.member.as_ref().map(|member| member.replaced(number));
    }

    /// Starts the server; [`Server::phase`] returns the outcome.
    pub fn start(&mut self, world: &World) {
        self.starts += 1;
        self.board = Board::default();
        told(&self.board).phase = Phase::Starting;
        let board = Arc::clone(&self.board);
        let (engine, sizes, tables) = (self.engine, self.sizes, self.tables.clone());
        let limits = self.limits;
        let (validator, member) = (self.validator, self.member.clone());
        self.life = Some(world.spawn(self.node, async move {
            match (engine, member) {
                (Engine::Serial, _) => attach(&board, Arc::new(Serial::new()), tables).await,
                (Engine::Occ, _) => occ(&board, sizes, tables, validator).await,
                (Engine::Server, _) => server(&board, sizes, limits).await,
                (Engine::Servers, Some(member)) => {
                    let settings = server_settings(sizes, limits, address(member.machine()));
                    cluster_node::serve(&board, &member, settings).await;
                }
                (Engine::Cluster, Some(member)) => {
                    let settings = coeval_occ::Settings {
                        validator,
                        budget: limits.budget,
                        ..occ_settings(sizes, tables.is_some())
                    };
                    cluster_node::live(&board, &member, settings, tables).await;
                }
                (Engine::Cluster | Engine::Servers, None) => {
                    refuse(&board, "it is no node".to_owned())
                }
            }
            let serving = told(&board).phase == Phase::Serving;
            if serving {
                std::future::pending::<()>().await;
            }
        }));
    }

    /// Phase of the current life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        told(&self.board).phase.clone()
    }

    /// Notes that the process is gone.
    pub fn down(&mut self) {
        self.life = None;
        let mut told = told(&self.board);
        told.phase = Phase::Down;
        told.engine = None;
        told.leads = None;
        told.reader = None;
    }

    /// The term in which the node is an available leader, if it is.
    #[must_use]
    pub fn leads(&self) -> Option<Term> {
        let told = told(&self.board);
        told.leads.as_ref().map(|(_, term)| *term)
    }

    /// The engine, if the server is available in this process.
    pub(crate) fn engine(&self) -> Option<Arc<dyn coeval_txn::Engine>> {
        told(&self.board).engine.clone()
    }

    /// The engine that reads the node's tables, while it follows.
    pub(crate) fn reader(&self) -> Option<Arc<dyn coeval_txn::Engine>> {
        told(&self.board).reader.clone()
    }

    /// The node, if it is the leader.
    pub(crate) fn leading(&self) -> Option<Arc<Member>> {
        let told = told(&self.board);
        told.leads.as_ref().map(|(node, _)| Arc::clone(node))
    }

    /// Requests a checkpoint from an available engine; the result is ignored.
    pub fn ask_for_checkpoint(&self, world: &World) {
        if let Some(engine) = self.engine() {
            world.spawn(self.node, async move {
                let _ = engine.checkpoint().await;
            });
        }
    }

    /// How the current life ended, if it has.
    pub fn ended(&mut self) -> Option<JoinError> {
        let mut life = self.life.take_if(|life| life.is_finished())?;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut life).poll(&mut context) {
            std::task::Poll::Ready(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// How a client connects to the server; over links, to this one first.
    #[must_use]
    pub fn door(&self) -> Door {
        Door {
            engine: self.engine,
            board: Arc::clone(&self.board),
            home: false,
            term: self.leads().filter(|_| !self.engine.is_remote()),
            machine: self
                .member
                .as_ref()
                .map_or(0, cluster_node::Member::machine),
            turn: Arc::default(),
        }
    }
}

/// A client's access to a server. Through the transaction contract it is valid for one
/// life of the server and, in a cluster, for one term in which the node is the leader.
/// Over links it covers every life of every server.
#[derive(Clone)]
pub struct Door {
    engine: Engine,
    board: Board,
    /// Whether reads are executed by the client's own node. Through the contract such a
    /// client only reads, on whatever engine its node has.
    home: bool,
    term: Option<Term>,
    /// Over links: index of the server to try first, and how often the client moved on to
    /// the next.
    machine: usize,
    turn: Arc<AtomicUsize>,
}

impl Door {
    /// The same access, with reads executed by the client's own node.
    #[must_use]
    pub(crate) fn at_home(self) -> Self {
        Self {
            home: true,
            term: None,
            ..self
        }
    }

    /// Whether reads are executed by the client's own node.
    pub(crate) const fn is_at_home(&self) -> bool {
        self.home
    }

    /// The same access, which shares the turns of an earlier one.
    #[must_use]
    pub(crate) fn in_turn(self, turn: &Arc<AtomicUsize>) -> Self {
        Self {
            turn: Arc::clone(turn),
            ..self
        }
    }

    /// Opens a session over links whose reads take the state that the client's node has.
    pub(crate) async fn open_as_it_is(&self) -> Result<Wire, Failure> {
        Wire::connect_as_it_is(self.addresses()).await
    }

    /// Whether it connects over links to a cluster.
    pub(crate) fn is_of_servers(&self) -> bool {
        self.engine == Engine::Servers
    }

    /// Opens a session, if a server is available. Its statements outside of a block have
    /// this level.
    pub async fn open(&self, isolation: Isolation) -> Result<Session, Failure> {
        if self.engine.is_remote() {
            let addresses = self.addresses();
            let takes_numbers = addresses.len() > 1 && self.machine.is_multiple_of(2);
            let wire = match self.home {
                true => Wire::connect_at_home(addresses, isolation).await?,
                false => Wire::connect(addresses).await?,
            };
            let wire = match takes_numbers {
                true => wire.taking_numbers(),
                false => wire,
            };
            return Ok(Session::Wire(Box::new(wire)));
        }
        Ok(Session::Contract(Contract::new(self.engine()?)))
    }

    /// Whether no session will ever open here: the client must look for another server.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.term.is_some() && self.member().is_none()
    }

    /// Address of a server; each call names the next one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses()[0]
    }

    /// Addresses of the servers. Each call starts with the next one, because the caller
    /// has lost the previous connection or was refused there.
    fn addresses(&self) -> Vec<SocketAddr> {
        let count = self.engine.nodes();
        let turn = self.machine + self.turn.fetch_add(1, Ordering::Relaxed);
        (0..count)
            .map(|more| address((turn + more) % count))
            .collect()
    }

    fn engine(&self) -> Result<Arc<dyn coeval_txn::Engine>, Failure> {
        if self.is_closed() {
            return Err(Failure::Lost("it does not lead any more".to_owned()));
        }
        let told = told(&self.board);
        let reader = told.reader.as_ref().filter(|_| self.home);
        let engine = reader.or(told.engine.as_ref()).cloned();
        engine.ok_or_else(|| Failure::Lost("no server is available".to_owned()))
    }

    fn member(&self) -> Option<Arc<Member>> {
        let told = told(&self.board);
        let (member, term) = told.leads.as_ref()?;
        (Some(*term) == self.term).then(|| Arc::clone(member))
    }

    /// The database with the tables of a load that has its own.
    pub fn database(&self, tables: Vec<Table>) -> Result<Opened, Failure> {
        if self.engine.is_remote() {
            let mut config = Config::new();
            for address in self.addresses() {
                config.host(address.ip().to_string()).port(address.port());
            }
            config.user("sim").dbname("sim");
            config.options(match self.home {
                true => AT_HOME,
                false => AT_LEADER,
            });
            return Ok(Opened {
                database: Database::over_wire(config, tables).simulated(Pace::default()),
                engine: None,
            });
        }
        let engine = self.engine()?;
        let pace = Pace {
            think: THINK,
            ..Pace::default()
        };
        Ok(Opened {
            database: Database::in_process(Arc::clone(&engine), tables).simulated(pace),
            engine: Some(engine),
        })
    }
}

/// A database with the tables of a load, and the engine that it is read on.
pub struct Opened {
    /// The database.
    pub database: Database,
    /// The engine, in this process.
    engine: Option<Arc<dyn coeval_txn::Engine>>,
}

impl Opened {
    /// Waits until snapshots taken from now on include everything that was acknowledged
    /// before the call.
    pub async fn newest(&self) -> Result<(), Failure> {
        match &self.engine {
            Some(engine) => newest(&**engine).await,
            None => Ok(()),
        }
    }

    /// Whether it is a follower's engine.
    pub fn is_on_follower(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.is_read_only())
    }

    /// Waits until the reads so far are confirmed as recent: in a cluster, until the node
    /// has confirmed that it is still the leader.
    pub async fn confirm(&self) -> Result<(), Failure> {
        let Some(engine) = &self.engine else {
            return Ok(());
        };
        let confirmed = coeval_txn::confirmed(&**engine).await;
        confirmed.map_err(|error| Failure::Lost(error.to_string()))
    }
}

/// Address on which the server of a machine listens.
pub(crate) fn address(machine: usize) -> SocketAddr {
    ([127, 0, 0, 1], PORT + machine as u16).into()
}

fn serve(board: &Board, engine: Arc<dyn coeval_txn::Engine>) {
    let mut told = told(board);
    told.engine = Some(engine);
    told.phase = Phase::Serving;
}

pub(crate) fn refuse(board: &Board, reason: String) {
    told(board).phase = Phase::Refused(reason);
}

/// Notes that a node participates in its cluster.
pub(crate) fn take_part(board: &Board) {
    told(board).phase = Phase::Serving;
}

/// Notes that the server has stopped by itself.
pub(crate) fn stop(board: &Board, reason: String) {
    let mut told = told(board);
    told.phase = Phase::Stopped(reason);
    (told.engine, told.leads, told.reader) = (None, None, None);
}

/// Notes which engine reads a node's tables while it follows.
pub(crate) fn follows(board: &Board, reader: Option<Arc<dyn coeval_txn::Engine>>) {
    told(board).reader = reader;
}

/// Notes that a node has become leader, or has ceased to be.
pub(crate) fn serving_term(
    board: &Board,
    now: Option<(Arc<dyn coeval_txn::Engine>, Arc<Member>, Term)>,
) {
    let mut told = told(board);
    (told.engine, told.leads) = match now {
        Some((engine, member, term)) => (Some(engine), Some((member, term))),
        None => (None, None),
    };
}

/// Creates the tables in an engine.
pub(crate) async fn attached(
    engine: &Arc<dyn coeval_txn::Engine>,
    tables: Option<Vec<Table>>,
) -> Result<(), String> {
    match tables {
        None => engine
            .attach_storage(storage())
            .map_err(|error| error.to_string()),
        Some(tables) => {
            let database = Database::in_process(Arc::clone(engine), tables);
            database.create().await.map_err(|error| error.to_string())
        }
    }
}

/// Creates the tables in an engine, and makes it available.
async fn attach(board: &Board, engine: Arc<dyn coeval_txn::Engine>, tables: Option<Vec<Table>>) {
    match attached(&engine, tables).await {
        Ok(()) => serve(board, engine),
        Err(reason) => refuse(board, reason),
    }
}

/// Settings of the engine. Loads with tables of their own have larger transactions, the
/// first of which load hundreds of rows.
fn occ_settings(sizes: Sizes, own_tables: bool) -> coeval_occ::Settings {
    coeval_occ::Settings {
        log: coeval_log::Settings {
            segment_bytes: if own_tables { 64 << 10 } else { sizes.segment },
            ring_bytes: if own_tables { 1 << 20 } else { sizes.ring },
            frame_payload_bytes: if own_tables { 4 << 10 } else { 256 },
            recovery_threads: 1,
            checkpoint_block_bytes: 512,
            log_keep_bytes: 0,
            ..coeval_log::Settings::default()
        },
        range_slots: 64,
        image_every: 3,
        checkpoint_log_bytes: sizes.checkpoint,
        checkpoint_records: 8,
        ..coeval_occ::Settings::default()
    }
}

async fn occ(board: &Board, sizes: Sizes, tables: Option<Vec<Table>>, validator: Validator) {
    let settings = coeval_occ::Settings {
        validator,
        ..occ_settings(sizes, tables.is_some())
    };
    let opened = coeval_occ::Engine::open(Path::new(DATA), settings).await;
    let engine = match opened {
        Ok((engine, _)) => engine,
        Err(error) => return refuse(board, error.to_string()),
    };
    let stopped = Arc::clone(board);
    engine.log().set_fatal_handler(Box::new(move |reason| {
        told(&stopped).phase = Phase::Stopped(reason.to_string());
    }));
    attach(board, Arc::new(engine), tables).await;
}

fn server_settings(sizes: Sizes, limits: Limits, listen: SocketAddr) -> Settings {
    Settings {
        listen: listen.into(),
        data_dir: PathBuf::from(DATA),
        worker_threads: 2,
        recovery_threads: sizes.recovery_threads,
        memory_limit_megabytes: limits.memory_megabytes,
        old_versions_percent: limits.old_versions_percent,
        any_read_hold_milliseconds: limits.hold_milliseconds,
        log_segment_bytes: sizes.segment,
        log_buffer_bytes: sizes.ring,
        checkpoint_log_bytes: sizes.checkpoint,
        disk_reserve_bytes: 0,
        range_slots: 64,
        // However far clocks drift or jump.
        transaction_outcome_retention_hours: 87_600,
        // Shorter than the timeout of the clients.
        idle_in_transaction_session_timeout: Timeout(Duration::from_secs(1)),
        ..Settings::default()
    }
}

async fn server(board: &Board, sizes: Sizes, limits: Limits) {
    let settings = server_settings(sizes, limits, address(0));
    let running = match coeval_server::Server::start(settings, Storage::Directory).await {
        Ok(running) => running,
        Err(error) => return refuse(board, error.to_string()),
    };
    told(board).phase = Phase::Serving;
    let reason = running.failed().await;
    told(board).phase = Phase::Stopped(reason);
}
