//! Simulated storm of definitions: one client keeps changing a table and its indexes, and
//! readers on every node hold it to what they are promised.
//!
//! The table has a fixed number of rows, all of one *generation*:
//!
//! ```text
//!   k  g  v        TRUNCATE, rows of generation 5         in one transaction
//!   1  4  10       DROP TABLE, CREATE TABLE, rows of 6    in one transaction
//!   2  4  20       UPDATE … SET g = 7; or DELETE, rows of 7
//!   …              CREATE INDEX, DROP INDEX, ADD COLUMN, DROP COLUMN
//! ```
//!
//! At every commit the table is there, whole and of one generation. So a reader is never
//! told that it does not exist, and each of its statements shows all rows, by whatever
//! index, of one generation: none older than what was acknowledged before the request, or
//! than what the reader has seen, and none that was never written. Where clients use the
//! simulator's own table, its indexes and columns come and go as well.

use std::sync::{Mutex, MutexGuard};

use super::beside::wire;
use super::{CLIENTS, Clients, RETRY, TOLD, below};
use crate::Load;
use crate::client_session::{Ended, Failure, Wire};
use crate::server::Door;

/// Number of rows.
const ROWS: i64 = 8;
/// SQLSTATEs of this class deny that a table, column or index is as it was defined.
const DENIALS: &str = "42";
/// And of this class that there is no such statement.
const UNSUPPORTED: &str = "0A";
const CREATE: &str = "CREATE TABLE storm (k bigint PRIMARY KEY, g bigint NOT NULL, v bigint)";

#[derive(Debug, Default)]
struct State {
    /// The newest generation that was sent, and the newest that was acknowledged.
    sent: i64,
    acknowledged: i64,
    /// The newest generation that each reader has seen.
    seen: Vec<i64>,
    wrong: Vec<String>,
}

/// The storm, with what its clients were told.
#[derive(Debug)]
pub(super) struct Storm {
    /// Whether the load uses the simulator's own table.
    has_pairs: bool,
    state: Mutex<State>,
}

/// Statements of one transaction, and the generation that it makes.
struct Definition {
    statements: Vec<String>,
    generation: Option<i64>,
}

fn rows(generation: i64) -> String {
    let row = |key| format!("({key}, {generation}, {})", key * 10);
    let rows: Vec<String> = (1..=ROWS).map(row).collect();
    format!("INSERT INTO storm (k, g, v) VALUES {}", rows.join(", "))
}

impl Storm {
    pub(super) fn new(load: Load) -> Self {
        Self {
            has_pairs: matches!(
                load,
                Load::Bank | Load::Lists | Load::Registers | Load::Seats
            ),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    /// Creates the table with generation 0.
    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        let mut wire = wire(door).await?;
        wire.query("DROP TABLE IF EXISTS storm").await?;
        wire.query(CREATE).await?;
        wire.query(&rows(0)).await.map(drop)
    }

    /// Keeps changing definitions until the clients are to stop.
    pub(super) async fn define(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = wire(door).await {
                while !clients.is_stopping() {
                    match self.change(clients, &mut wire, client).await {
                        Ok(()) => {}
                        Err(Failure::Failed(reason)) => {
                            if reason.starts_with(DENIALS) || reason.starts_with(UNSUPPORTED) {
                                self.wrong(format!("who defines is told {reason}"));
                            }
                            if wire.query("ROLLBACK").await.is_err() {
                                break;
                            }
                        }
                        Err(Failure::Lost(_)) => break,
                    }
                    clients.rest().await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    async fn change(
        &self,
        clients: &Clients,
        wire: &mut Wire,
        client: usize,
    ) -> Result<(), Failure> {
        let definition = self.draw();
        wire.query("BEGIN").await?;
        for statement in &definition.statements {
            wire.query(statement).await?;
        }
        let Ended::Committed = wire.end().await else {
            return Err(Failure::Lost("a definition is not acknowledged".to_owned()));
        };
        clients.committed(client);
        if let Some(generation) = definition.generation {
            self.state().acknowledged = generation;
        }
        Ok(())
    }

    fn draw(&self) -> Definition {
        let one = |statement: &str| Definition {
            statements: vec![statement.to_owned()],
            generation: None,
        };
        let next = || {
            let mut state = self.state();
            state.sent += 1;
            state.sent
        };
        let remake = |unmake: &[&str]| {
            let generation = next();
            let mut statements: Vec<_> = unmake.iter().map(|text| (*text).to_owned()).collect();
            statements.push(rows(generation));
            Definition {
                statements,
                generation: Some(generation),
            }
        };
        match below(if self.has_pairs { 14 } else { 10 }) {
            0 => remake(&["TRUNCATE storm"]),
            1 => remake(&["DROP TABLE storm", CREATE]),
            2 | 3 => remake(&["DELETE FROM storm"]),
            4 => {
                let generation = next();
                Definition {
                    statements: vec![format!("UPDATE storm SET g = {generation}")],
                    generation: Some(generation),
                }
            }
            5 | 6 => one("CREATE INDEX IF NOT EXISTS storm_v ON storm (v)"),
            7 => one("DROP INDEX IF EXISTS storm_v"),
            8 => one("ALTER TABLE storm ADD COLUMN IF NOT EXISTS x bigint DEFAULT 7"),
            9 => one("ALTER TABLE storm DROP COLUMN IF EXISTS x"),
            10 => one("CREATE INDEX IF NOT EXISTS pair_v ON pair (v)"),
            11 => one("DROP INDEX IF EXISTS pair_v"),
            12 => one("ALTER TABLE pair ADD COLUMN IF NOT EXISTS x bigint DEFAULT 7"),
            _ => one("ALTER TABLE pair DROP COLUMN IF EXISTS x"),
        }
    }

    /// Keeps reading until the clients are to stop.
    pub(super) async fn read(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = wire(door).await {
                while !clients.is_stopping() {
                    match self.look(&mut wire, client).await {
                        Ok(()) => clients.committed(client),
                        Err(Failure::Failed(reason)) => {
                            if reason.starts_with(DENIALS) {
                                self.wrong(format!("a reader is told {reason}"));
                            }
                        }
                        Err(Failure::Lost(_)) => break,
                    }
                    clients.rest().await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    /// Reads the table in one request of several statements, and checks what they show.
    async fn look(&self, wire: &mut Wire, client: usize) -> Result<(), Failure> {
        let key = 1 + below(ROWS as u64) as i64;
        let statements = [
            ("SELECT k, g FROM storm ORDER BY k".to_owned(), 1..=ROWS),
            (format!("SELECT k, g FROM storm WHERE k = {key}"), key..=key),
            (
                format!("SELECT k, g FROM storm WHERE v = {}", key * 10),
                key..=key,
            ),
            (
                format!("SELECT k, g FROM storm WHERE v >= {} ORDER BY v", key * 10),
                key..=ROWS,
            ),
        ];
        let first = below(statements.len() as u64) as usize;
        let chosen = &statements[first..];
        let texts: Vec<&str> = chosen.iter().map(|(text, _)| text.as_str()).collect();
        let reader = client - CLIENTS;
        let mut least = {
            let mut state = self.state();
            let readers = state.seen.len().max(reader + 1);
            state.seen.resize(readers, 0);
            state.seen[reader].max(state.acknowledged)
        };
        let shown = wire.pairs(&texts.join("; ")).await?;
        for ((text, keys), rows) in chosen.iter().zip(shown) {
            let generation = rows.first().map_or(least, |(_, generation)| *generation);
            let expected = keys.clone().map(|key| (key, generation));
            if !expected.eq(rows.iter().copied()) {
                self.wrong(format!("{text} shows {rows:?}"));
            }
            let sent = self.state().sent;
            if !(least..=sent).contains(&generation) {
                self.wrong(format!(
                    "{text} shows generation {generation} of {least} to {sent}"
                ));
            }
            least = least.max(generation);
        }
        let mut state = self.state();
        state.seen[reader] = state.seen[reader].max(least);
        Ok(())
    }

    fn wrong(&self, what: String) {
        self.state().wrong.push(what);
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let wrong = state.wrong.iter().take(TOLD);
        wrong.map(|what| format!("definitions: {what}")).collect()
    }
}
