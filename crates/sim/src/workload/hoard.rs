//! Simulated reports under a small memory limit: one client keeps changing every row of a table,
//! and reports on every node read it in one snapshot, again and again.
//!
//! The old versions of all rows are more than a server of the class may keep:
//!
//! ```text
//!   k  g  filler       UPDATE … SET g = 5, all rows
//!   1  4  xxxxx…       report: BEGIN … REPEATABLE READ READ ONLY
//!   2  4  xxxxx…               SELECT, SELECT, SELECT …   all of generation 4
//!   …                                                     or 72000, and ROLLBACK
//! ```
//!
//! Every pass of a report shows all rows, of the generation that its first pass showed, which is
//! none older than what was acknowledged before the report began. It ends early by an error that
//! says so, or because its node begins to lead, and by no other error.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::beside::wire;
use super::{Clients, RETRY, TOLD, below};
use crate::client_session::{Ended, Failure, Wire};
use crate::server::Door;

/// Number of rows, and the bytes of each: together more than a hundredth of 64 MB, which is the
/// least that a server's setting for old versions can be.
const ROWS: i64 = 48;
const FILLER: u32 = 16_000;
/// Number of passes of a report that nothing ends.
const PASSES: u32 = 60;
/// Longest pause between two passes.
const PAUSE: Duration = Duration::from_millis(60);
/// SQLSTATE of a report whose snapshot was ended.
const TOO_OLD: &str = "72000";
/// SQLSTATEs of this class say that a transaction is lost with its node's tables.
const LOST: &str = "40";

#[derive(Debug, Default)]
struct State {
    /// The newest generation that was sent, and the newest that was acknowledged.
    sent: i64,
    acknowledged: i64,
    ended: u64,
    wrong: Vec<String>,
}

/// The reports, with what they were told.
#[derive(Debug, Default)]
pub(super) struct Hoard(Mutex<State>);

impl Hoard {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it was held")
    }

    /// Creates the table with generation 0.
    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        let mut wire = wire(door).await?;
        wire.query("DROP TABLE IF EXISTS hoard").await?;
        wire.query("CREATE TABLE hoard (k bigint PRIMARY KEY, g bigint NOT NULL, filler text)")
            .await?;
        let fill = format!(
            "INSERT INTO hoard SELECT k, 0, repeat('x', {FILLER}) \
             FROM generate_series(1, {ROWS}) AS s (k)"
        );
        wire.query(&fill).await.map(drop)
    }

    /// Keeps changing every row until the clients are to stop.
    pub(super) async fn write(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = wire(door).await {
                while !clients.is_stopping() {
                    let generation = {
                        let mut state = self.state();
                        state.sent += 1;
                        state.sent
                    };
                    // An update of unknown outcome may come later than the next one.
                    let update =
                        format!("UPDATE hoard SET g = {generation} WHERE g < {generation}");
                    match wire.query(&update).await {
                        Ok(_) => {
                            clients.committed(client);
                            self.state().acknowledged = generation;
                        }
                        Err(Failure::Failed(_)) => {}
                        Err(Failure::Lost(_)) => break,
                    }
                    clients.rest().await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    /// Keeps making reports until the clients are to stop.
    pub(super) async fn read(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = wire(door).await {
                while !clients.is_stopping() {
                    match self.report(clients, &mut wire).await {
                        Ok(()) => clients.committed(client),
                        Err(Failure::Lost(_)) => break,
                        Err(Failure::Failed(reason)) => {
                            if reason.starts_with(TOO_OLD) {
                                self.state().ended += 1;
                                clients.committed(client);
                            } else if !reason.starts_with(LOST) {
                                self.wrong(format!("a report is told {reason}"));
                            }
                            if wire.query("ROLLBACK").await.is_err() {
                                break;
                            }
                        }
                    }
                    clients.rest().await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    async fn report(&self, clients: &Clients, wire: &mut Wire) -> Result<(), Failure> {
        let least = self.state().acknowledged;
        wire.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let mut first = None;
        for _ in 0..PASSES {
            let rows = wire.pairs("SELECT k, g FROM hoard ORDER BY k").await?;
            let rows = rows.into_iter().next().unwrap_or_default();
            let shown = rows.first().map_or(i64::MIN, |(_, generation)| *generation);
            let generation = *first.get_or_insert(shown);
            let expected = (1..=ROWS).map(|key| (key, generation));
            if !expected.eq(rows.iter().copied()) {
                self.wrong(format!(
                    "a report that began with generation {generation} shows {rows:?}"
                ));
                break;
            }
            let sent = self.state().sent;
            if !(least..=sent).contains(&generation) {
                self.wrong(format!(
                    "a report shows generation {generation} of {least} to {sent}"
                ));
                break;
            }
            if clients.is_stopping() {
                break;
            }
            let pause = below(PAUSE.as_micros() as u64);
            coeval_env::sleep(Duration::from_micros(pause)).await;
        }
        match wire.end().await {
            Ended::Committed => Ok(()),
            other => Err(Failure::Lost(format!("{other:?}"))),
        }
    }

    fn wrong(&self, what: String) {
        self.state().wrong.push(what);
    }

    /// Number of reports that were ended for the memory that they held.
    pub(super) fn ended_reads(&self) -> u64 {
        self.state().ended
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let wrong = state.wrong.iter().take(TOLD);
        wrong.map(|what| format!("reports: {what}")).collect()
    }
}
