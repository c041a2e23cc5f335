//! The server of a run: its lives, one after another, on one machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use coeval_env::sim::{Node, World};
use coeval_env::{JoinError, JoinHandle};
use coeval_leader::node::Node as Member;
use coeval_occ::Validator;
use coeval_server::{Settings, Storage, Timeout};
use coeval_txn::serial::Serial;
use coeval_types::Term;
use coeval_workload::store::{Database, Pace, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_postgres::Config;

use crate::Engine;
use crate::cluster;
use crate::session::{Contract, Failure, Session, THINK, Wire, storage};

/// Where a server listens.
const PORT: u16 = 5433;
pub(crate) const DATA: &str = "/data";

/// How far the present life has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has started it.
    #[default]
    Down,
    /// It recovers.
    Starting,
    /// It can be used; of a node of a cluster: it takes part.
    Serving,
    /// It does not start, and says why.
    Refused(String),
    /// It served, and has stopped by itself.
    Stopped(String),
}

/// What a life tells.
#[derive(Default)]
pub(crate) struct Told {
    phase: Phase,
    /// Of a life that serves its own process.
    engine: Option<Arc<dyn coeval_txn::Engine>>,
    /// Of a node of a cluster that leads, and in which term.
    leads: Option<(Arc<Member>, Term)>,
}

pub(crate) type Board = Arc<Mutex<Told>>;

fn told(board: &Board) -> MutexGuard<'_, Told> {
    board.lock().expect("no panic while it was held")
}

/// How large its files get, which the seed decides: small ones, so that what happens
/// rarely happens often.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    segment: u64,
    ring: u64,
    /// Log after which there is a checkpoint.
    checkpoint: u64,
    /// By how many workers log is replayed.
    recovery_threads: usize,
}

impl Sizes {
    fn draw(engine: Engine, seed: u64) -> Self {
        // Another stream than the world's.
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
            // Not drawn: what else the seed decides stays as it is.
            recovery_threads: match engine {
                Engine::Servers => 1 + (seed % 3) as usize,
                _ => 1,
            },
        }
    }
}

/// A server on a machine.
pub struct Server {
    engine: Engine,
    sizes: Sizes,
    /// Those of a load that has its own; else there is the simulator's one.
    tables: Option<Vec<Table>>,
    /// Of an engine by the contract.
    validator: Validator,
    /// Of a cluster: which of its nodes.
    member: Option<cluster::Member>,
    /// Its machine.
    pub node: Node,
    board: Board,
    life: Option<JoinHandle<()>>,
    /// How often it was started.
    pub starts: u64,
}

impl Server {
    /// A server that has never run; the seed decides about its settings.
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
            sizes: Sizes::draw(engine, seed),
            tables,
            validator,
            member: None,
            node,
            board: Board::default(),
            life: None,
            starts: 0,
        }
    }

    /// The same as a node of a cluster.
    #[must_use]
    pub fn of_cluster(self, member: cluster::Member) -> Self {
        Self {
            member: Some(member),
            ..self
        }
    }

    /// Of a cluster: which node it is.
    pub(crate) fn number(&self) -> u64 {
        self.member.as_ref().map_or(1, |member| member.number)
    }

    /// Of a cluster: from its next start on it is another node, which joins.
    pub(crate) fn replace(&mut self, number: u64) {
        self.member = self.member.as_ref().map(|member| member.replaced(number));
    }

    /// Starts it; what it comes to is for [`Server::phase`] to say.
    pub fn start(&mut self, world: &World) {
        self.starts += 1;
        self.board = Board::default();
        told(&self.board).phase = Phase::Starting;
        let board = Arc::clone(&self.board);
        let (engine, sizes, tables) = (self.engine, self.sizes, self.tables.clone());
        let (validator, member) = (self.validator, self.member.clone());
        self.life = Some(world.spawn(self.node, async move {
            match (engine, member) {
                (Engine::Serial, _) => attach(&board, Arc::new(Serial::new()), tables).await,
                (Engine::Occ, _) => occ(&board, sizes, tables, validator).await,
                (Engine::Server, _) => server(&board, sizes).await,
                (Engine::Servers, Some(member)) => {
                    let settings = server_settings(sizes, address(member.machine()));
                    cluster::serve(&board, &member, settings).await;
                }
                (Engine::Cluster, Some(member)) => {
                    let settings = coeval_occ::Settings {
                        validator,
                        ..occ_settings(sizes, tables.is_some())
                    };
                    cluster::live(&board, &member, settings, tables).await;
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

    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> Phase {
        told(&self.board).phase.clone()
    }

    /// Its process is gone.
    pub fn down(&mut self) {
        self.life = None;
        let mut told = told(&self.board);
        told.phase = Phase::Down;
        told.engine = None;
        told.leads = None;
    }

    /// The term that it leads and can be used in, if it does, of a cluster.
    #[must_use]
    pub fn leads(&self) -> Option<Term> {
        let told = told(&self.board);
        told.leads.as_ref().map(|(_, term)| *term)
    }

    /// What it serves with, if it does in this process.
    pub(crate) fn engine(&self) -> Option<Arc<dyn coeval_txn::Engine>> {
        told(&self.board).engine.clone()
    }

    /// The node, if it is one that leads.
    pub(crate) fn leading(&self) -> Option<Arc<Member>> {
        let told = told(&self.board);
        told.leads.as_ref().map(|(node, _)| Arc::clone(node))
    }

    /// Asks for a checkpoint, if it is an engine by its contract and serves; how that
    /// goes is nobody's matter.
    pub fn ask_for_checkpoint(&self, world: &World) {
        if let Some(engine) = self.engine() {
            world.spawn(self.node, async move {
                let _ = engine.checkpoint().await;
            });
        }
    }

    /// How the present life ended, if it has.
    pub fn ended(&mut self) -> Option<JoinError> {
        let mut life = self.life.take_if(|life| life.is_finished())?;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut life).poll(&mut context) {
            std::task::Poll::Ready(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// How a client gets to it; over links, to this one first.
    #[must_use]
    pub fn door(&self) -> Door {
        Door {
            engine: self.engine,
            board: Arc::clone(&self.board),
            term: self.leads().filter(|_| !self.engine.is_remote()),
            machine: self.member.as_ref().map_or(0, cluster::Member::machine),
            turn: Arc::default(),
        }
    }
}

/// A way in. By the contract, to the life that it was taken in; of a cluster, to that term
/// of it in which the node leads. Over links, to every life of every server there is.
#[derive(Clone)]
pub struct Door {
    engine: Engine,
    board: Board,
    term: Option<Term>,
    /// Over links: whose turn it is first, and how often whoever has this door went on to
    /// the next.
    machine: usize,
    turn: Arc<AtomicUsize>,
}

impl Door {
    /// The same, which goes on with turns that somebody had before.
    #[must_use]
    pub(crate) fn in_turn(self, turn: &Arc<AtomicUsize>) -> Self {
        Self {
            turn: Arc::clone(turn),
            ..self
        }
    }

    /// Whether it leads over links to a cluster.
    pub(crate) fn is_of_servers(&self) -> bool {
        self.engine == Engine::Servers
    }

    /// A session, if anybody is there.
    pub async fn open(&self) -> Result<Session, Failure> {
        if self.engine.is_remote() {
            let addresses = self.addresses();
            let takes_numbers = addresses.len() > 1 && self.machine.is_multiple_of(2);
            let wire = Wire::connect(addresses).await?;
            let wire = match takes_numbers {
                true => wire.taking_numbers(),
                false => wire,
            };
            return Ok(Session::Wire(Box::new(wire)));
        }
        Ok(Session::Contract(Contract::new(self.engine()?)))
    }

    /// Whether nobody will ever open: who wants to go on goes elsewhere.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.term.is_some() && self.member().is_none()
    }

    /// Where servers listen. Each time it is another one's turn to come first: whoever asks
    /// has lost the last, or was not let in there.
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
        let engine = told(&self.board).engine.clone();
        engine.ok_or_else(|| Failure::Lost("nobody serves".to_owned()))
    }

    fn member(&self) -> Option<Arc<Member>> {
        let told = told(&self.board);
        let (member, term) = told.leads.as_ref()?;
        (Some(*term) == self.term).then(|| Arc::clone(member))
    }

    /// Waits until it is sure that what was read until now was not old: of a cluster, that
    /// whoever was asked still leads.
    pub async fn confirm(&self) -> Result<(), Failure> {
        if self.term.is_none() {
            return Ok(());
        }
        let engine = self.engine()?;
        let confirmed = coeval_txn::confirmed(&*engine).await;
        confirmed.map_err(|error| Failure::Lost(error.to_string()))
    }

    /// The database with the tables of a load that has its own.
    pub fn database(&self, tables: Vec<Table>) -> Result<Database, Failure> {
        if self.engine.is_remote() {
            let mut config = Config::new();
            for address in self.addresses() {
                config.host(address.ip().to_string()).port(address.port());
            }
            config.user("sim").dbname("sim");
            return Ok(Database::over_wire(config, tables).simulated(Pace::default()));
        }
        let engine = self.engine()?;
        let pace = Pace {
            think: THINK,
            ..Pace::default()
        };
        Ok(Database::in_process(engine, tables).simulated(pace))
    }
}

/// Where the server on a machine listens.
fn address(machine: usize) -> SocketAddr {
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

/// A node takes part.
pub(crate) fn take_part(board: &Board) {
    told(board).phase = Phase::Serving;
}

/// It has stopped by itself.
pub(crate) fn stop(board: &Board, reason: String) {
    let mut told = told(board);
    told.phase = Phase::Stopped(reason);
    (told.engine, told.leads) = (None, None);
}

/// A node leads, or does not any more.
pub(crate) fn reign(board: &Board, now: Option<(Arc<dyn coeval_txn::Engine>, Arc<Member>, Term)>) {
    let mut told = told(board);
    (told.engine, told.leads) = match now {
        Some((engine, member, term)) => (Some(engine), Some((member, term))),
        None => (None, None),
    };
}

/// Gives an engine its tables.
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

/// Gives an engine its tables, and serves.
async fn attach(board: &Board, engine: Arc<dyn coeval_txn::Engine>, tables: Option<Vec<Table>>) {
    match attached(&engine, tables).await {
        Ok(()) => serve(board, engine),
        Err(reason) => refuse(board, reason),
    }
}

/// Loads with tables of their own have larger transactions, the first of them with
/// hundreds of rows.
fn occ_settings(sizes: Sizes, own_tables: bool) -> coeval_occ::Settings {
    coeval_occ::Settings {
        log: coeval_log::Settings {
            segment_bytes: if own_tables { 64 << 10 } else { sizes.segment },
            ring_bytes: if own_tables { 1 << 20 } else { sizes.ring },
            frame_payload_bytes: if own_tables { 4 << 10 } else { 256 },
            recovery_threads: 1,
            checkpoint_block_bytes: 512,
            log_keep_bytes: 0,
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

fn server_settings(sizes: Sizes, listen: SocketAddr) -> Settings {
    Settings {
        listen,
        data_dir: PathBuf::from(DATA),
        worker_threads: 2,
        recovery_threads: sizes.recovery_threads,
        memory_limit_megabytes: 256,
        log_segment_bytes: sizes.segment,
        log_buffer_bytes: sizes.ring,
        checkpoint_log_bytes: sizes.checkpoint,
        range_slots: 64,
        // Whatever clocks do.
        transaction_outcome_retention_hours: 87_600,
        // Long before the patience of clients is at its end.
        idle_in_transaction_session_timeout: Timeout(Duration::from_secs(1)),
        ..Settings::default()
    }
}

async fn server(board: &Board, sizes: Sizes) {
    let settings = server_settings(sizes, address(0));
    let running = match coeval_server::Server::start(settings, Storage::Directory).await {
        Ok(running) => running,
        Err(error) => return refuse(board, error.to_string()),
    };
    told(board).phase = Phase::Serving;
    let reason = running.failed().await;
    told(board).phase = Phase::Stopped(reason);
}
