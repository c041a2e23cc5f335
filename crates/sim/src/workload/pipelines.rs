//! Simulated workload of raw requests: every shape of request, in every state of a
//! transaction block, and a judge that knows what each is owed.
//!
//! A client sends a request of a random [`Shape`] in parts, with pauses between them, and
//! counts: one ReadyForQuery for each Query and Sync, in order, at most one error before
//! it, and nothing that it did not ask for. Its own deadline is a failure of the server,
//! unless the class of faults may hold back or lose packets between the two. Then a query
//! with a number of its own proves that the connection goes on and has nothing left over.
//!
//! What the answers say about rows is checked as well: an acknowledged row is there in the
//! end, and one whose transaction was said to be rolled back is not.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use coeval_txn::Isolation;
use coeval_workload::pipelines::{Answers, Cycle, Line, Shape, State, Violation};
use coeval_workload::store::Table;

use super::{Answer, Clients, RETRY, below};
use crate::client_session::{Ended, Failure, Row, Session};
use crate::server::Door;
use crate::{Class, Scenario};

/// A client's deadline for each message: longer than any fault, election or wait for a
/// leader lasts.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a client tries whether its connection goes on.
const PROBES: usize = 3;
/// How many violations are reported.
const TOLD: usize = 3;

#[derive(Default)]
struct Record {
    next: u64,
    /// What the answers say about each row.
    rows: BTreeMap<u64, Answer>,
    last: Option<Vec<u64>>,
    wrong: Vec<String>,
}

/// The workload, with the answers that its clients received.
pub(super) struct Pipelines {
    isolation: Isolation,
    /// Whether a client's deadline is a failure of the server.
    is_judged_late: bool,
    record: Mutex<Record>,
}

/// Why a client opens another connection.
struct Lost;

impl Pipelines {
    pub(super) fn new(scenario: Scenario) -> Self {
        Self {
            isolation: scenario.isolation,
            // The others lose packets between clients and servers, or a machine without a
            // word to its clients.
            is_judged_late: matches!(
                scenario.class,
                Class::None | Class::Kill | Class::Pause | Class::Sync | Class::Full | Class::Clock
            ),
            record: Mutex::default(),
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no panic while it was held")
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        match door.open(self.isolation).await? {
            Session::Wire(mut wire) => crate::client_session::prepare(&mut wire).await,
            Session::Contract(_) => Err(Failure::Failed("it speaks no protocol".to_owned())),
        }
    }

    pub(super) async fn run(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            let address = door.address();
            let opened = Line::open(address, ("sim", "sim"), PATIENCE).await;
            match opened {
                Ok(Some(line)) => {
                    clients.enter(client, address);
                    let Lost = self.serve(clients, door, line, client).await;
                }
                Ok(None) => {}
                Err(violation) => self.violated("a login", &violation),
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    /// Sends requests until the connection ends, or the client is to stop.
    async fn serve(&self, clients: &Clients, door: &Door, mut line: Line, client: usize) -> Lost {
        let level = match self.isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::SnapshotIsolation => "repeatable read",
            Isolation::Serializable => "serializable",
        };
        let from = match door.is_at_home() {
            true => "fresh",
            false => "leader",
        };
        let set =
            format!("SET default_transaction_isolation = '{level}'; SET coeval.read_from = {from}");
        match line.query(&set).await {
            Ok(answers) if !answers.closed => {}
            Ok(_) => return Lost,
            Err(violation) => {
                self.violated("SET", &violation);
                return Lost;
            }
        }
        while !clients.is_stopping() {
            let shape = Shape::ALL[below(Shape::ALL.len() as u64) as usize];
            let state = match below(4) {
                0 => State::Within,
                1 => State::Failed,
                _ => State::Outside,
            };
            match self
                .request(clients, &mut line, (shape, state), client)
                .await
            {
                Ok(true) => {}
                Ok(false) => return Lost,
                Err(violation) => {
                    self.violated(&format!("{} {state:?}", shape.name()), &violation);
                    return Lost;
                }
            }
            clients.rest().await;
        }
        Lost
    }

    /// Sends one request; false when the connection has ended.
    async fn request(
        &self,
        clients: &Clients,
        line: &mut Line,
        (shape, state): (Shape, State),
        client: usize,
    ) -> Result<bool, Violation> {
        let mut status = 'I';
        for query in state.queries() {
            let answers = line.query(query).await?;
            status = answers
                .cycles
                .last()
                .and_then(|cycle| cycle.status)
                .unwrap_or(' ');
        }
        let is_there = match state {
            State::Outside => true,
            State::Within => status == 'T',
            State::Failed => status == 'E',
        };
        if is_there {
            let first = self.new_rows(shape);
            for part in &shape.parts(first) {
                clients.rest().await;
                if !line.send(part).await? {
                    break;
                }
            }
            let answers = line.settle().await?;
            let end = match state {
                State::Outside => None,
                State::Within | State::Failed if answers.closed => None,
                State::Within | State::Failed => Some(line.query("COMMIT").await?),
            };
            self.answered(
                clients,
                (shape, state, first),
                &answers,
                end.as_ref(),
                client,
            );
            if answers.closed {
                return Ok(false);
            }
        }
        for _ in 0..PROBES {
            if line.query("ROLLBACK").await?.closed {
                return Ok(false);
            }
            if line.probe().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reserves keys; what happens to their rows is not known from now on.
    fn new_rows(&self, shape: Shape) -> u64 {
        let mut record = self.record();
        let first = record.next;
        record.next += shape.rows();
        let rows = (first..record.next).map(|key| (key, Answer::Unknown));
        record.rows.extend(rows);
        first
    }

    /// Records what the answers say about the rows of a request.
    fn answered(
        &self,
        clients: &Clients,
        (shape, state, first): (Shape, State, u64),
        answers: &Answers,
        end: Option<&Answers>,
        client: usize,
    ) {
        let of_cycle = |cycle: Option<&Cycle>| match cycle {
            Some(cycle) if cycle.is_done() => Answer::Committed,
            Some(cycle) if cycle.is_undone() => Answer::Failed,
            _ => Answer::Unknown,
        };
        let of_block = || {
            let mut errors = answers
                .cycles
                .iter()
                .filter_map(|cycle| cycle.error.as_deref());
            match errors.next() {
                // COMMIT has rolled a failed block back.
                Some("40003") => Answer::Unknown,
                Some(_) => match errors.any(|state| state == "40003") {
                    true => Answer::Unknown,
                    false => Answer::Failed,
                },
                None => of_cycle(end.and_then(|end| end.cycles.last())),
            }
        };
        for row in 0..shape.rows() {
            let answer = match state {
                State::Outside => of_cycle(answers.cycles.get(shape.cycle_of(row))),
                State::Within => of_block(),
                State::Failed => Answer::Failed,
            };
            self.record().rows.insert(first + row, answer);
            if row == 0 {
                match answer {
                    Answer::Committed => clients.committed(client),
                    Answer::Failed | Answer::Unknown => clients.counts_as(answer),
                }
            }
        }
    }

    fn violated(&self, what: &str, violation: &Violation) {
        if matches!(violation, Violation::Late { .. }) && !self.is_judged_late {
            return;
        }
        self.record().wrong.push(format!("{what}: {violation}"));
    }

    pub(super) async fn look(&self, _: &Clients, door: &Door) -> Result<(), Failure> {
        let mut session = door.open(Isolation::SnapshotIsolation).await?;
        session.begin(Isolation::SnapshotIsolation, true).await?;
        let rows: Vec<(u64, Row)> = session.scan(0, i64::MAX as u64).await?;
        match session.commit().await {
            Ended::Committed => {
                self.record().last = Some(rows.into_iter().map(|(key, _)| key).collect());
                Ok(())
            }
            other => Err(Failure::Lost(format!("{other:?}"))),
        }
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let record = self.record();
        let mut objections = record.wrong.clone();
        if let Some(last) = &record.last {
            for (key, answer) in &record.rows {
                let is_there = last.contains(key);
                match answer {
                    Answer::Committed if !is_there => {
                        objections.push(format!("row {key} was acknowledged, and is gone"));
                    }
                    Answer::Failed if is_there => {
                        objections.push(format!("row {key} was rolled back, and is there"));
                    }
                    Answer::Committed | Answer::Failed | Answer::Unknown => {}
                }
            }
            let alien = last.iter().filter(|key| !record.rows.contains_key(key));
            objections.extend(alien.map(|key| format!("row {key} was never sent")));
        }
        objections.truncate(TOLD);
        let named = objections.into_iter();
        named
            .map(|objection| format!("pipelines: {objection}"))
            .collect()
    }
}
