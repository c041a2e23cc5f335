//! Simulated reads of the state that a node has (`coeval.read_from = any`), beside pauses of
//! followers: one client keeps counting up, and readers on every node look.
//!
//! ```text
//!   written      5 ──── 6 ──── 7 ──── 8 ──── 9
//!   node 2       5 ──── 6 ─┤ paused       ├──── 9
//!   reader             ? ─────────────────▶ 6    stale by what was acknowledged meanwhile
//! ```
//!
//! A read may be old by what replication takes, but not by a pause: the node notices that it was
//! away, and holds such reads until it has heard from the leader. So each read shows what was
//! acknowledged some time before it was sent, or something newer. No leader is paused, and holds
//! are longer here than elections, so each of them can end by an answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::beside::wire;
use super::{Clients, RETRY, TOLD, below};
use crate::client_session::{Failure, Wire};
use crate::server::Door;

/// What replication may take: batches for a follower that no commit waits for, the slowest
/// links, and a lost turn or two. Shorter than every pause of the class.
const LAG: Duration = Duration::from_millis(100);
/// Longest pause of the writer.
const PAUSE: Duration = Duration::from_millis(8);
/// Longest pause of a reader. A read that is sent before its node is paused may show what was
/// the newest then; one that is sent while it is paused may not, and waits in a socket.
const LONG_PAUSE: Duration = Duration::from_millis(400);

#[derive(Debug, Default)]
struct State {
    /// The newest number that was sent.
    sent: i64,
    /// Numbers with the time of their acknowledgement, less than [`LAG`] ago but for the first.
    acknowledged: VecDeque<(u64, i64)>,
    wrong: Vec<String>,
}

impl State {
    /// The newest number that was acknowledged [`LAG`] before this moment.
    fn least(&mut self, now: u64) -> i64 {
        let lag = LAG.as_nanos() as u64;
        while (self.acknowledged.get(1)).is_some_and(|(at, _)| at + lag <= now) {
            self.acknowledged.pop_front();
        }
        let first = self.acknowledged.front();
        first
            .filter(|(at, _)| at + lag <= now)
            .map_or(0, |(_, number)| *number)
    }
}

/// The reads, with what they showed.
#[derive(Debug, Default)]
pub(super) struct Beacon(Mutex<State>);

async fn rest(longest: Duration) {
    let rest = below(longest.as_micros() as u64);
    coeval_env::sleep(Duration::from_micros(rest)).await;
}

impl Beacon {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while it was held")
    }

    /// Creates the table with number 0.
    pub(super) async fn set_up(&self, door: &Door) -> Result<(), Failure> {
        let mut wire = wire(door).await?;
        wire.query("DROP TABLE IF EXISTS beacon").await?;
        wire.query("CREATE TABLE beacon (k bigint PRIMARY KEY, n bigint NOT NULL)")
            .await?;
        wire.query("INSERT INTO beacon VALUES (1, 0)")
            .await
            .map(drop)
    }

    /// Keeps counting up until the clients are to stop, and moves to the next node when an answer
    /// takes long.
    pub(super) async fn write(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = wire(door).await {
                while !clients.is_stopping() {
                    let number = {
                        let mut state = self.state();
                        state.sent += 1;
                        state.sent
                    };
                    // An update of unknown outcome may come later than the next one.
                    let update =
                        format!("UPDATE beacon SET n = {number} WHERE k = 1 AND n < {number}");
                    // Its node may be paused, which the others are not.
                    match coeval_env::timeout(LAG, wire.query(&update)).await {
                        Ok(Ok(_)) => {
                            clients.committed(client);
                            let acknowledged = (Clients::now(), number);
                            self.state().acknowledged.push_back(acknowledged);
                        }
                        Ok(Err(Failure::Failed(_))) => {}
                        Ok(Err(Failure::Lost(_))) | Err(_) => break,
                    }
                    rest(PAUSE).await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    /// Keeps reading until the clients are to stop.
    pub(super) async fn read(&self, clients: &Clients, door: &Door, client: usize) {
        while !clients.is_stopping() {
            if let Ok(mut wire) = door.open_as_it_is().await {
                while !clients.is_stopping() {
                    match self.look(&mut wire).await {
                        Ok(()) => clients.committed(client),
                        Err(Failure::Failed(_)) => {}
                        Err(Failure::Lost(_)) => break,
                    }
                    rest(LONG_PAUSE).await;
                }
            }
            coeval_env::sleep(RETRY).await;
        }
    }

    async fn look(&self, wire: &mut Wire) -> Result<(), Failure> {
        let least = self.state().least(Clients::now());
        let shown = wire.pairs("SELECT k, n FROM beacon WHERE k = 1").await?;
        let shown = shown.first().and_then(|rows| rows.first());
        let shown = shown.map_or(i64::MIN, |(_, number)| *number);
        let mut state = self.state();
        if !(least..=state.sent).contains(&shown) {
            let wrong = format!(
                "a read shows {shown} of {least} to {}, by more than {LAG:?}",
                state.sent
            );
            state.wrong.push(wrong);
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Vec<String> {
        let state = self.state();
        let wrong = state.wrong.iter().take(TOLD);
        wrong.map(|what| format!("gamma: {what}")).collect()
    }
}
