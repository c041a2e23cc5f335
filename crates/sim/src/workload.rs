//! Simulated workloads: the clients' transactions, the recorded answers, and the judges
//! of both.
//!
//! A workload is a step that a client repeats, a record of the answers, and a final read
//! of the database, after which the workload reports violations. Some are specific to the
//! simulator: their keys are numbers from 0 in one table, which holds nothing else.
//! Others are those that [measurements run too](shared), with tables of their own.

mod bank;
mod beacon;
mod beside;
mod histories;
mod hoard;
mod pipelines;
mod seats;
mod shared;
mod storm;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coeval_txn::Isolation;
use coeval_workload::loads::smallbank::SmallBank;
use coeval_workload::loads::tpcc::{Scale, Tpcc};
use coeval_workload::loads::ycsb::{self, Letter, Ycsb};
use coeval_workload::store::Table;

use crate::client_session::{Ended, Failure, Session};
use crate::server::Door;
use crate::{Load, Reads, Scenario};

use bank::Bank;
use beside::Beside;
use histories::Histories;
use pipelines::Pipelines;
use seats::Seats;
use shared::Shared;

/// Number of clients. Those of a run beyond them are readers.
pub const CLIENTS: usize = 4;
/// Longest pause of a client after one transaction in four; after the others it is much
/// shorter.
const REST: Duration = Duration::from_millis(60);
/// Longest pause after each transaction once the regular length of the run is over and
/// only the last fault is awaited: a fault of twenty seconds needs few transactions to
/// show its effect.
const LONG_REST: Duration = Duration::from_millis(500);
/// Pause before a client looks for a server again.
const RETRY: Duration = Duration::from_millis(50);
/// How many violations are reported.
const TOLD: usize = 3;

/// Number of fruitless steps in a row after which a client retries less often.
const IDLE: u32 = 10;
/// Pause of such a client between two steps.
const IDLE_REST: Duration = Duration::from_millis(500);

/// Outcome of a transaction, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The transaction committed.
    Committed,
    /// The transaction did not commit.
    Failed,
    /// The transaction may have committed.
    Unknown,
}

/// The period of a transaction, from its first statement to its last answer.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    started: u64,
    finished: Option<u64>,
    read_only: bool,
}

enum WorkloadKind {
    Bank(Bank),
    Histories(Histories),
    Seats(Seats),
    Ycsb(Shared<Ycsb>),
    SmallBank(Shared<SmallBank>),
    Tpcc(Shared<Tpcc>),
    Pipelines(Pipelines),
}

/// State shared by all clients of a run.
pub struct Clients {
    isolation: Isolation,
    kind: WorkloadKind,
    /// What the class of faults adds to the load, if it does.
    beside: Option<Beside>,
    stop: AtomicBool,
    /// Whether only the last fault is awaited.
    at_leisure: AtomicBool,
    committed: AtomicU64,
    failed: AtomicU64,
    unknown: AtomicU64,
    /// Number of committed transactions that may write, by client; of a reader, those that
    /// it has read.
    progress: Vec<AtomicU64>,
    /// Number of transactions that readers have read on followers.
    reads_on_followers: AtomicU64,
    /// The first server that each client entered, over links.
    entered: Mutex<BTreeMap<usize, SocketAddr>>,
    /// Wrong answers of servers that no load checks itself.
    wrong: Mutex<Vec<String>>,
}

/// Dispatches to one of the simulator's own loads, or to one shared with measurements.
macro_rules! each {
    ($kind:expr, $load:ident => $call:expr, $shared:ident => $other:expr) => {
        match $kind {
            WorkloadKind::Bank($load) => $call,
            WorkloadKind::Histories($load) => $call,
            WorkloadKind::Seats($load) => $call,
            WorkloadKind::Ycsb($shared) => $other,
            WorkloadKind::SmallBank($shared) => $other,
            WorkloadKind::Tpcc($shared) => $other,
            WorkloadKind::Pipelines($shared) => $other,
        }
    };
}

/// Number of clients beyond [`CLIENTS`]: through the transaction contract of a cluster one
/// or two readers on each node; where there is something [beside](Beside) one that writes, and a
/// reader for each node.
fn others(scenario: Scenario, seed: u64) -> usize {
    let engine = scenario.engine;
    match Reads::draw(engine, seed) {
        _ if Beside::is_in(scenario) => 1 + engine.nodes(),
        Reads::AtLeader => 0,
        Reads::AtHome | Reads::Mixed if engine.is_remote() => 0,
        // Two on each node, which share questions.
        Reads::AtHome => 2 * engine.nodes(),
        Reads::Mixed => engine.nodes(),
    }
}

/// Number of operations of a transaction of YCSB: one, where only a single statement is
/// sure to be executed at home.
fn operations(scenario: Scenario, seed: u64) -> u64 {
    let reads = Reads::draw(scenario.engine, seed);
    let is_of_one = scenario.engine.is_remote()
        && scenario.isolation != Isolation::ReadCommitted
        && reads == Reads::AtHome;
    if is_of_one { 1 } else { 3 }
}

/// YCSB with so few rows that clients conflict; the seed decides the mix.
fn ycsb(scenario: Scenario, seed: u64) -> Ycsb {
    let letters = [
        Letter::A,
        Letter::B,
        Letter::C,
        Letter::D,
        Letter::E,
        Letter::F,
    ];
    Ycsb::new(ycsb::Settings {
        // Odd and even seeds have different modes, and both must have every mix.
        letter: letters[(seed / 2 % 6) as usize],
        records: 12,
        fields: 2,
        field_bytes: 16,
        theta: 0.5,
        operations: operations(scenario, seed),
        looked_at: 1,
    })
}

const WAREHOUSE: Scale = Scale {
    warehouses: 1,
    items: 100,
    customers: 10,
};

/// A random number below `bound` that the seed decides.
fn below(bound: u64) -> u64 {
    coeval_env::random_u64() % bound
}

impl Clients {
    /// The clients of a scenario.
    #[must_use]
    pub fn new(scenario: Scenario, seed: u64) -> Self {
        let count = CLIENTS + others(scenario, seed);
        let own = (scenario.isolation, count, seed);
        let kind = match scenario.load {
            Load::Bank => WorkloadKind::Bank(Bank::new()),
            Load::Lists | Load::Registers => {
                WorkloadKind::Histories(Histories::new(scenario.load, scenario.isolation))
            }
            Load::Seats => WorkloadKind::Seats(Seats::new(scenario.isolation)),
            Load::Ycsb => WorkloadKind::Ycsb(Shared::new(ycsb(scenario, seed), own, true)),
            Load::SmallBank => {
                let load = SmallBank::new(5, 2, 50);
                WorkloadKind::SmallBank(Shared::new(load, own, false))
            }
            Load::Tpcc => {
                let load = Tpcc::new(WAREHOUSE, seed);
                WorkloadKind::Tpcc(Shared::new(load, own, false))
            }
            Load::Pipelines => WorkloadKind::Pipelines(Pipelines::new(scenario)),
        };
        Self {
            isolation: scenario.isolation,
            kind,
            beside: Beside::new(scenario),
            stop: AtomicBool::new(false),
            at_leisure: AtomicBool::new(false),
            committed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            progress: (0..count).map(|_| AtomicU64::new(0)).collect(),
            reads_on_followers: AtomicU64::new(0),
            entered: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    /// Number of clients and readers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.progress.len()
    }

    /// Whether the client only reads.
    fn is_reader(&self, client: usize) -> bool {
        client >= CLIENTS
    }

    /// Tables of a load that has its own.
    #[must_use]
    pub fn tables(&self) -> Option<Vec<Table>> {
        each!(&self.kind, _load => None, shared => Some(shared.tables()))
    }

    /// Fills the tables.
    pub async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        if let Some(beside) = &self.beside {
            beside.set_up(door).await?;
        }
        let rows = each!(&self.kind,
            load => load.opening(),
            shared => return shared.set_up(door).await);
        let mut session = door.open(self.isolation).await?;
        if let Session::Wire(wire) = &mut session {
            crate::client_session::prepare(wire).await?;
        }
        if rows.is_empty() {
            return Ok(());
        }
        session.begin(Isolation::ReadCommitted, false).await?;
        for (key, row) in rows {
            session.put(key, &row).await?;
        }
        match session.commit().await {
            Ended::Committed => Ok(()),
            other => Err(Failure::Failed(format!("{other:?}"))),
        }
    }

    /// Runs one client until it is to stop or its access is closed for good.
    pub async fn run(&self, door: Door, client: usize) {
        if let Some(beside) = self.beside.as_ref().filter(|_| client >= CLIENTS) {
            return beside.run(self, &door, client).await;
        }
        each!(&self.kind, _load => {}, shared => return shared.run(self, &door, client).await);
        let progress = || self.progress[client].load(Ordering::Relaxed);
        // Number of steps since the last committed write.
        let mut idle = 0;
        while !self.is_stopping() {
            let Ok(mut session) = door.open(self.isolation).await else {
                if door.is_closed() {
                    return;
                }
                coeval_env::sleep(RETRY).await;
                continue;
            };
            if let Session::Wire(wire) = &session {
                self.enter(client, wire.address());
            }
            while !self.is_stopping() {
                let before = progress();
                // What clients read elsewhere is in their other steps.
                let reads = self.is_reader(client) || (door.is_at_home() && below(2) == 0);
                let step = match reads {
                    true => each!(&self.kind,
                        load => load.read_step(self, &mut session, client).await,
                        _shared => return),
                    false => each!(&self.kind,
                        load => load.step(self, &mut session, client).await,
                        _shared => return),
                };
                let lost = match step {
                    Ok(()) => false,
                    Err(Failure::Lost(_)) => true,
                    Err(Failure::Failed(_)) => session.abort().await.is_err(),
                };
                if lost {
                    // A node that follows no leader refuses at once.
                    if self.is_reader(client) {
                        coeval_env::sleep(RETRY).await;
                    }
                    break;
                }
                self.rest().await;
                idle = if progress() == before { idle + 1 } else { 0 };
                if idle > IDLE {
                    coeval_env::sleep(IDLE_REST).await;
                }
            }
        }
    }

    /// Reads all data at the end.
    pub async fn look(&self, door: &Door) -> Result<(), Failure> {
        each!(&self.kind, _load => {}, shared => return shared.look(self, door).await);
        let mut session = door.open(Isolation::SnapshotIsolation).await?;
        session.begin(Isolation::SnapshotIsolation, true).await?;
        let rows = session.scan(0, i64::MAX as u64).await?;
        match session.commit().await {
            Ended::Committed => {
                each!(&self.kind, load => load.looked(rows), _shared => {});
                Ok(())
            }
            other => Err(Failure::Lost(format!("{other:?}"))),
        }
    }

    /// Returns the violations that the workload and its judges find.
    #[must_use]
    pub fn judge(&self) -> Vec<String> {
        let mut objections = each!(&self.kind, load => load.judge(), shared => shared.judge());
        objections.extend(self.beside.iter().flat_map(Beside::judge));
        let wrong = self.wrong.lock().expect("no panic while it was held");
        let wrong = wrong.iter().take(TOLD);
        objections.extend(wrong.map(|what| format!("outcomes: {what}")));
        objections
    }

    /// Notes the first server that a client enters.
    fn enter(&self, client: usize, address: SocketAddr) {
        let mut entered = self.entered.lock().expect("no panic while it was held");
        entered.entry(client).or_insert(address);
    }

    /// The first server that each client entered, over links.
    pub(crate) fn entered(&self) -> BTreeMap<usize, SocketAddr> {
        let entered = self.entered.lock().expect("no panic while it was held");
        entered.clone()
    }

    /// Pauses between two transactions of a client.
    async fn rest(&self) {
        let longest = match self.at_leisure.load(Ordering::Relaxed) {
            true => LONG_REST,
            false if below(4) == 0 => REST,
            false => REST / 30,
        };
        let rest = below(longest.as_micros() as u64);
        coeval_env::sleep(Duration::from_micros(rest)).await;
    }

    /// Makes clients pause longer from now on.
    pub fn slow_down(&self) {
        self.at_leisure.store(true, Ordering::Relaxed);
    }

    /// Stops the clients after their current transactions.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the clients are to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Number of committed transactions of each client, excluding read-only ones: a
    /// database that accepts no writes makes no progress. Of a reader, all.
    #[must_use]
    pub fn progress(&self) -> Vec<u64> {
        let progress = self.progress.iter();
        progress.map(|done| done.load(Ordering::Relaxed)).collect()
    }

    /// Number of committed, failed and unknown transactions.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        [&self.committed, &self.failed, &self.unknown].map(|count| count.load(Ordering::Relaxed))
    }

    /// True time, in nanoseconds: clients are on several machines, whose clocks drift.
    fn now() -> u64 {
        u64::try_from(coeval_env::sim::elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Begins a transaction of a client.
    async fn begin(&self, session: &mut Session, read_only: bool) -> Result<Span, Failure> {
        let started = Self::now();
        let begun = session.begin(self.isolation, read_only).await;
        begun.inspect_err(|_| self.counts_as(Answer::Failed))?;
        Ok(Span {
            started,
            finished: None,
            read_only,
        })
    }

    /// Commits a transaction of a client.
    async fn commit(&self, session: &mut Session, client: usize, span: &mut Span) -> Answer {
        let answer = match session.commit().await {
            Ended::Committed => Answer::Committed,
            Ended::Failed(_) => Answer::Failed,
            Ended::Unknown(_) => Answer::Unknown,
            Ended::Wrong(what) => {
                let mut wrong = self.wrong.lock().expect("no panic while it was held");
                wrong.push(what);
                Answer::Unknown
            }
        };
        if answer != Answer::Unknown {
            span.finished = Some(Self::now());
        }
        if answer == Answer::Committed && (!span.read_only || self.is_reader(client)) {
            self.progress[client].fetch_add(1, Ordering::Relaxed);
        }
        self.read_on(answer == Answer::Committed && session.is_on_follower());
        self.counts_as(answer);
        answer
    }

    /// Notes where a transaction was executed.
    fn read_on(&self, is_follower: bool) {
        let count = u64::from(is_follower);
        self.reads_on_followers.fetch_add(count, Ordering::Relaxed);
    }

    /// Number of long reads that were told that their memory was needed.
    pub(crate) fn ended_reads(&self) -> u64 {
        self.beside.as_ref().map_or(0, Beside::ended_reads)
    }

    /// Number of transactions that readers have read on followers.
    pub(crate) fn reads_on_followers(&self) -> u64 {
        self.reads_on_followers.load(Ordering::Relaxed)
    }

    /// Counts a committed transaction of a client.
    fn committed(&self, client: usize) {
        self.progress[client].fetch_add(1, Ordering::Relaxed);
        self.counts_as(Answer::Committed);
    }

    fn counts_as(&self, answer: Answer) {
        let count = match answer {
            Answer::Committed => &self.committed,
            Answer::Failed => &self.failed,
            Answer::Unknown => &self.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
