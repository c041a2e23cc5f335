//! Workloads shared with measurements: YCSB, SmallBank and TPC-C of `coeval_workload`,
//! run in a simulation.
//!
//! A workload is tables, requests and a final check of all data; the driver runs it in
//! real time, and this module in a simulation. Each client is one task that begins a
//! transaction, runs a request in it, commits, and retries after a conflict:
//!
//! ```text
//!   draw ─▶ begin ─ run ─ (pending) ─ commit ─▶ ended(Committed | Perhaps)
//!             ▲      │ conflict                     ▲
//!             └──────┘ the same request again,      │ the process died meanwhile
//!                      a limited number of times
//! ```
//!
//! Between its run and the answer to its commit a transaction is *pending*: a kill drops
//! the client in the middle of it, and the next reader of the shared state counts it as
//! perhaps committed.
//!
//! Checks:
//!
//! | load | at every level | in addition |
//! | --- | --- | --- |
//! | YCSB | every row that is read is whole, every acknowledged insert is there | each field is a register with unique versions: the judges of histories |
//! | SmallBank | each account holds its opening balance plus all changes | |
//! | TPC-C | the twelve conditions; orders, payments and deliveries that were acknowledged | |
//!
//! SmallBank and TPC-C lock every row before they change it, so their invariants hold at
//! READ COMMITTED too, where transactions without locks would break them.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_check::history::{History, Operation, Outcome, Transaction};
use coeval_txn::Isolation;
use coeval_workload::store::{self, Table, Way};
use coeval_workload::workload::{Client, Done, Workload};

use super::{Answer, Clients, RETRY, histories};
use crate::client_session::Failure;
use crate::server::{Door, Opened};

/// How often a client of a cluster of servers retries an aborted request before it draws
/// another. Other clients retry until the request is done, so that a request that never
/// succeeds is noticed.
///
/// The first committer wins, so a long transaction may lose to a short one each time: a
/// delivery of TPC-C has some fifty statements, which over slow links take seconds, and
/// conflicts with each new order of a district that had none left. That is no lack of
/// progress, and the user of a terminal would give up, too.
const TRIES: usize = 8;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a reader draws until a request only reads.
const DRAWS: usize = 64;
/// How many violations are reported.
const TOLD: usize = 3;

/// A transaction whose commit has not been answered.
struct Pending<W: Workload> {
    request: W::Request,
    effect: W::Effect,
    /// Index of the transaction in the history.
    number: usize,
}

struct State<W: Workload> {
    /// Clients by number: their random number generators continue over restarts.
    clients: Vec<Client>,
    pending: Vec<Option<Pending<W>>>,
    /// Process number of each client's transactions. It changes after an unknown outcome,
    /// because that transaction may still take effect concurrently with later ones.
    processes: Vec<u64>,
    history: History,
    wrong: Vec<String>,
    looked: bool,
}

/// A workload with the recorded answers of its clients.
pub(super) struct Shared<W: Workload> {
    load: W,
    isolation: Isolation,
    /// Whether operations are recorded in a history.
    is_recorded: bool,
    state: Mutex<State<W>>,
}

/// How an attempt at a request ended.
enum Attempt {
    /// The request is over, with or without success.
    Over,
    /// A conflict aborted the attempt, and it is to be retried.
    Again,
    /// The server no longer answers.
    Lost,
}

impl<W: Workload> Shared<W> {
    /// The workload for that many clients, those that only read included, at a level and
    /// under a seed.
    pub(super) fn new(
        load: W,
        (isolation, count, seed): (Isolation, usize, u64),
        is_recorded: bool,
    ) -> Self {
        let number = 0..count as u64;
        Self {
            load,
            isolation,
            is_recorded,
            state: Mutex::new(State {
                clients: number
                    .clone()
                    .map(|number| Client::new(number, count as u64, seed))
                    .collect(),
                pending: number.clone().map(|_| None).collect(),
                processes: number.collect(),
                history: History::default(),
                wrong: Vec::new(),
                looked: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().expect("no panic while it was held")
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        self.load.tables()
    }

    /// Creates the tables, on a server, and fills them.
    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        let filled = async {
            let database = door.database(self.tables())?.database;
            if database.is_over_wire() {
                database.create().await.map_err(lost)?;
            }
            for part in 0..self.load.parts() {
                let mut loader = database.loader().await.map_err(lost)?;
                self.load.load(part, &mut loader).await.map_err(lost)?;
                loader.finish().await.map_err(lost)?;
            }
            database.finish_load().await.map_err(lost)
        };
        filled.await
    }

    /// Runs one client until it is to stop or no server answers.
    pub(super) async fn run(&self, clients: &Clients, door: &Door, number: usize) {
        // Settles the transaction that the previous life left pending.
        self.give_up(clients, number);
        while !clients.is_stopping() && !door.is_closed() {
            if let Ok(opened) = door.database(self.tables()) {
                let mut session = opened.database.session();
                if self.is_recorded {
                    session.record();
                }
                let access = (door, &opened);
                self.work(clients, access, &mut session, number).await;
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    async fn work(
        &self,
        clients: &Clients,
        (door, opened): (&Door, &Opened),
        session: &mut store::Session,
        number: usize,
    ) {
        while !clients.is_stopping() {
            let mut client = self.state().clients[number].clone();
            let mut request = Some(self.load.draw(&mut client));
            if clients.is_reader(number) {
                let reads = |request: &W::Request| self.load.nature(request).read_only;
                for _ in 0..DRAWS {
                    if request.as_ref().is_some_and(reads) {
                        break;
                    }
                    request = Some(self.load.draw(&mut client));
                }
                request = request.filter(reads);
            }
            self.state().clients[number] = client;
            if request.is_none() {
                clients.rest().await;
            }
            let mut tries = 0;
            while let Some(wanted) = request.take() {
                tries += 1;
                let attempted = self.attempt(clients, (door, opened), session, number, wanted);
                let (back, attempt) = attempted.await;
                match attempt {
                    Attempt::Lost => return,
                    Attempt::Again if door.is_of_servers() && tries == TRIES => {}
                    Attempt::Again if !clients.is_stopping() => request = back,
                    Attempt::Again | Attempt::Over => {}
                }
                clients.rest().await;
            }
        }
    }

    /// Runs an attempt at a request, and returns the request if it was not done.
    async fn attempt(
        &self,
        clients: &Clients,
        (door, opened): (&Door, &Opened),
        session: &mut store::Session,
        number: usize,
        request: W::Request,
    ) -> (Option<W::Request>, Attempt) {
        let nature = self.load.nature(&request);
        let read_only = nature.read_only;
        // Outside of a block, statements are executed at home, each in a snapshot of its own.
        let is_by_statement = self.isolation == Isolation::ReadCommitted || nature.single;
        let single = door.is_at_home() && read_only && is_by_statement;
        let started = Clients::now();
        let mut client = self.state().clients[number].clone();
        let run = async {
            opened.newest().await.map_err(unconfirmed)?;
            session
                .begin(Way {
                    isolation: self.isolation,
                    read_only,
                    single,
                })
                .await?;
            self.load.run(&request, &mut client, session).await
        };
        let ran = coeval_env::timeout(PATIENCE, run).await;
        self.state().clients[number] = client;
        let operations = session.recorded();
        let effect = match ran {
            Ok(Ok(effect)) => effect,
            Ok(Err(failure)) => {
                self.note(number, started, read_only, operations);
                clients.counts_as(Answer::Failed);
                session.abort().await;
                return (Some(request), self.failed(failure));
            }
            Err(_late) => {
                self.note(number, started, read_only, operations);
                clients.counts_as(Answer::Failed);
                return (Some(request), Attempt::Lost);
            }
        };
        let noted = self.note(number, started, read_only, operations);
        {
            let mut state = self.state();
            if let Some(noted) = state.history.transactions.get_mut(noted) {
                noted.outcome = Outcome::Unknown;
                noted.finished = None;
            }
            state.pending[number] = Some(Pending {
                request,
                effect,
                number: noted,
            });
        }
        let commit = async {
            session.commit().await?;
            match read_only {
                true => opened.confirm().await.map_err(unconfirmed),
                false => Ok(()),
            }
        };
        let committed = coeval_env::timeout(PATIENCE, commit).await;
        let failure = match committed {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(failure),
            Err(_late) => {
                self.give_up(clients, number);
                return (None, Attempt::Lost);
            }
        };
        let Some(Pending {
            request,
            effect,
            number: noted,
        }) = self.state().pending[number].take()
        else {
            // The final read has counted the transaction already.
            return (None, Attempt::Over);
        };
        match failure {
            None => {
                self.settle(noted, Outcome::Committed, Clients::now());
                self.load.ended(&request, Some(effect), Done::Committed);
                clients.committed(number);
                clients.read_on(opened.is_on_follower());
                (None, Attempt::Over)
            }
            Some(store::Failure::Unknown { .. }) => {
                self.state().processes[number] += clients.count() as u64;
                self.load.ended(&request, Some(effect), Done::Perhaps);
                clients.counts_as(Answer::Unknown);
                (None, Attempt::Lost)
            }
            Some(failure) => {
                self.settle(noted, Outcome::Aborted, Clients::now());
                clients.counts_as(Answer::Failed);
                session.abort().await;
                (Some(request), self.failed(failure))
            }
        }
    }

    /// What a failed transaction means for its client.
    fn failed(&self, failure: store::Failure) -> Attempt {
        match failure {
            store::Failure::Rollback => Attempt::Over,
            store::Failure::Aborted { cause, .. } if cause == "connection" => Attempt::Lost,
            store::Failure::Aborted { retry: true, .. } => Attempt::Again,
            store::Failure::Aborted { .. } | store::Failure::Unknown { .. } => Attempt::Lost,
            store::Failure::Wrong(what) => {
                self.state().wrong.push(format!("a client saw {what}"));
                Attempt::Over
            }
        }
    }

    /// Records a transaction, as aborted for now; returns its index.
    fn note(
        &self,
        number: usize,
        started: u64,
        read_only: bool,
        operations: Vec<Operation>,
    ) -> usize {
        let mut state = self.state();
        let place = state.history.transactions.len();
        if self.is_recorded {
            let process = state.processes[number];
            state.history.transactions.push(Transaction {
                process,
                started,
                finished: None,
                outcome: Outcome::Aborted,
                read_only,
                operations,
            });
        }
        place
    }

    fn settle(&self, noted: usize, outcome: Outcome, now: u64) {
        if let Some(noted) = self.state().history.transactions.get_mut(noted) {
            noted.outcome = outcome;
            noted.finished = Some(now);
        }
    }

    /// Counts a pending commit as perhaps done, because it will not be answered any more.
    fn give_up(&self, clients: &Clients, number: usize) {
        let pending = self.state().pending[number].take();
        if let Some(Pending {
            request, effect, ..
        }) = pending
        {
            self.state().processes[number] += clients.count() as u64;
            self.load.ended(&request, Some(effect), Done::Perhaps);
            clients.counts_as(Answer::Unknown);
        }
    }

    /// Reads and checks all data at the end.
    pub(super) async fn look(&self, clients: &Clients, door: &Door) -> Result<(), Failure> {
        for number in 0..clients.count() {
            self.give_up(clients, number);
        }
        let opened = door.database(self.tables())?;
        let mut session = opened.database.session();
        if self.is_recorded {
            session.record();
        }
        let way = Way {
            isolation: Isolation::SnapshotIsolation,
            read_only: true,
            single: false,
        };
        opened.newest().await?;
        session.begin(way).await.map_err(lost)?;
        let found = self.load.check(&mut session).await.map_err(lost)?;
        let operations = session.recorded();
        session.commit().await.map_err(lost)?;
        opened.confirm().await?;
        let mut state = self.state();
        if std::mem::replace(&mut state.looked, true) {
            return Ok(());
        }
        state.wrong.extend(found);
        if self.is_recorded {
            histories::add_last_look(&mut state.history, operations);
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let name = self.load.name();
        let wrong = state.wrong.iter().take(TOLD);
        let mut objections: Vec<String> = wrong.map(|what| format!("{name}: {what}")).collect();
        if self.is_recorded {
            let level = histories::promised(self.isolation);
            objections.extend(histories::objections(&state.history, level, false));
        }
        objections
    }
}

/// Failure of a read-only transaction that may have read stale data.
fn unconfirmed(failure: Failure) -> store::Failure {
    store::Failure::Aborted {
        cause: "connection".into(),
        message: format!("{failure:?}"),
        retry: true,
    }
}

fn lost(failure: store::Failure) -> Failure {
    Failure::Lost(failure.to_string())
}
