//! Simulated history workloads: lists that are appended to and read, or registers that
//! are written and read.
//!
//! Elements and values are unique, so that a read identifies the write it observed. All
//! operations and answers form a history, ending with a transaction that reads
//! everything, and the judges of `coeval_check` report violations: of the requested
//! isolation level, and, at every level, of read recency (a transaction sees all commits
//! acknowledged before it began), of session guarantees (a client never reads an older
//! state than before), and of the linearizability of each single register.
//!
//! Some read-only transactions are slow, so that many commits happen after their
//! snapshots.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_check::history::{History, Operation, Outcome, Register, Transaction};
use coeval_check::recency::{self, sessions};
use coeval_check::registers;
use coeval_check::transactions::{self, Level, Unjudgeable, story};
use coeval_txn::Isolation;

use super::{Answer, Clients, below};
use crate::Load;
use crate::client_session::{Failure, Row, Session};

/// Number of lists or registers.
const KEYS: u64 = 5;
/// Longest pause of a slow reader after each statement.
const SLOW: Duration = Duration::from_millis(200);
/// How many violations of one kind are reported.
const TOLD: usize = 3;

#[derive(Default)]
struct State {
    /// The latest element or value.
    latest: i64,
    history: History,
    looked: bool,
}

/// The workload, on lists or on registers.
pub(super) struct Histories {
    lists: bool,
    level: Level,
    state: Mutex<State>,
}

/// The consistency level that the engine guarantees for each isolation level.
pub(super) fn promised(isolation: Isolation) -> Level {
    match isolation {
        Isolation::ReadCommitted => Level::ReadCommitted,
        Isolation::SnapshotIsolation => Level::StrongSnapshotIsolation,
        Isolation::Serializable => Level::StrictSerializable,
    }
}

impl Histories {
    pub(super) fn new(load: Load, isolation: Isolation) -> Self {
        Self {
            lists: load == Load::Lists,
            level: promised(isolation),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    pub(super) fn opening(&self) -> Vec<(u64, Row)> {
        Vec::new()
    }

    fn read(&self, key: u64, row: Option<Row>) -> Operation {
        let row = row.unwrap_or_default();
        if self.lists {
            Operation::ReadList {
                key,
                elements: Some(row),
            }
        } else {
            let value = row
                .first()
                .map_or(Register::Absent, |value| Register::Value(*value));
            Operation::Read {
                key,
                value: Some(value),
            }
        }
    }

    /// Records a write before it is made, because a failed write must not be visible
    /// either.
    fn change(&self, number: usize, key: u64) -> i64 {
        let mut state = self.state();
        state.latest += 1;
        let latest = state.latest;
        let operation = if self.lists {
            Operation::Append {
                key,
                element: latest,
            }
        } else {
            Operation::Write { key, value: latest }
        };
        state.history.transactions[number]
            .operations
            .push(operation);
        latest
    }

    pub(super) async fn step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        let read_only = below(3) == 0;
        self.transact(clients, session, client, read_only).await
    }

    pub(super) async fn read_step(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
    ) -> Result<(), Failure> {
        self.transact(clients, session, client, true).await
    }

    async fn transact(
        &self,
        clients: &Clients,
        session: &mut Session,
        client: usize,
        read_only: bool,
    ) -> Result<(), Failure> {
        let slow = read_only && below(10) == 0;
        let mut span = clients.begin(session, read_only).await?;
        let number = {
            let mut state = self.state();
            state.history.transactions.push(Transaction {
                process: client as u64,
                started: span.started,
                finished: None,
                // Before its commit is sent, the transaction cannot take effect.
                outcome: Outcome::Aborted,
                read_only,
                operations: Vec::new(),
            });
            state.history.transactions.len() - 1
        };
        let mut steps = 0..=below(4);
        if session.is_one_request() {
            let keys: Vec<u64> = steps.by_ref().map(|_| below(KEYS)).collect();
            let rows = session.get_all(&keys).await?;
            let read = keys.iter().zip(rows);
            let read: Vec<_> = read.map(|(key, row)| self.read(*key, row)).collect();
            let mut state = self.state();
            state.history.transactions[number].operations.extend(read);
        }
        for _ in steps {
            let key = below(KEYS);
            if read_only || below(2) == 0 {
                let row = session.get(key).await?;
                let read = self.read(key, row);
                self.state().history.transactions[number]
                    .operations
                    .push(read);
                if slow {
                    let rest = below(SLOW.as_micros() as u64);
                    coeval_env::sleep(Duration::from_micros(rest)).await;
                }
                continue;
            }
            let latest = self.change(number, key);
            if self.lists {
                session.append(key, latest).await?;
            } else {
                session.put(key, &[latest]).await?;
            }
        }
        self.state().history.transactions[number].outcome = Outcome::Unknown;
        let answer = clients.commit(session, client, &mut span).await;
        let mut state = self.state();
        let transaction = &mut state.history.transactions[number];
        transaction.finished = span.finished;
        transaction.outcome = match answer {
            Answer::Committed => Outcome::Committed,
            Answer::Failed => Outcome::Aborted,
            Answer::Unknown => Outcome::Unknown,
        };
        Ok(())
    }

    pub(super) fn looked(&self, rows: Vec<(u64, Row)>) {
        let row = |key| {
            rows.iter()
                .find(|(at, _)| *at == key)
                .map(|(_, row)| row.clone())
        };
        let operations = (0..KEYS).map(|key| self.read(key, row(key))).collect();
        let mut state = self.state();
        if !std::mem::replace(&mut state.looked, true) {
            add_last_look(&mut state.history, operations);
        }
    }

    pub(super) fn judge(&self) -> Vec<String> {
        objections(&self.state().history, self.level, !self.lists)
    }
}

/// Appends the final read-only transaction to a history.
pub(super) fn add_last_look(history: &mut History, operations: Vec<Operation>) {
    let times = |transaction: &Transaction| transaction.finished.unwrap_or(transaction.started);
    let after = history.transactions.iter().map(times).max().unwrap_or(0) + 1;
    let processes = history
        .transactions
        .iter()
        .map(|transaction| transaction.process);
    history.transactions.push(Transaction {
        process: processes.max().unwrap_or(0) + 1,
        started: after,
        finished: Some(after + 1),
        outcome: Outcome::Committed,
        read_only: true,
        operations,
    });
}

/// Violations of a level in a history; for registers, also of linearizability.
pub(super) fn objections(history: &History, level: Level, are_registers: bool) -> Vec<String> {
    judged(history, level, are_registers)
        .unwrap_or_else(|error| vec![format!("the recorder is at fault: {error}")])
}

fn judged(
    history: &History,
    level: Level,
    are_registers: bool,
) -> Result<Vec<String>, Unjudgeable> {
    let mut objections = anomalies(history, level)?;
    let mut object = |judge: &str, what: &dyn Display| {
        objections.push(format!("{judge}: {what}"));
    };
    for missed in recency::judge(history)?.missed.iter().take(TOLD) {
        object("recency", missed);
    }
    for went_back in sessions::judge(history)?.went_back.iter().take(TOLD) {
        object("sessions", went_back);
    }
    if are_registers {
        let report = registers::judge(history)?;
        for impossible in report.impossible.iter().take(TOLD) {
            object("registers", impossible);
        }
        for score in report.scores.iter().take(TOLD) {
            object("registers", score);
        }
    }
    Ok(objections)
}

/// Anomalies that the level forbids, each with all levels that forbid it, weaker ones
/// included.
fn anomalies(history: &History, level: Level) -> Result<Vec<String>, Unjudgeable> {
    if transactions::judge(history, &[level])?.permits(level) {
        return Ok(Vec::new());
    }
    let judgement = transactions::judge(history, &Level::ALL)?;
    let mut told: Vec<(Vec<&str>, String)> = Vec::new();
    for anomaly in judgement.violations(level) {
        let forbidding = |level: &Level| {
            let mut violations = judgement.violations(*level);
            violations.any(|violation| violation == anomaly)
        };
        let levels = Level::ALL.into_iter().filter(forbidding);
        let levels: Vec<&str> = levels.map(Level::name).collect();
        if told.iter().filter(|(before, _)| *before == levels).count() < TOLD {
            told.push((levels, story(history, anomaly)));
        }
    }
    let told = told.into_iter();
    Ok(told
        .map(|(levels, story)| format!("{}: {story}", levels.join("+")))
        .collect())
}
