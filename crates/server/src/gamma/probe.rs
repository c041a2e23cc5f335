//! The probe's task: writes while its node leads, reads while it follows.

use std::sync::Arc;
use std::time::Duration;

use coeval_env::{Instant, JoinHandle};
use coeval_leader::node::Node;
use coeval_peers::NodeId;
use coeval_sql::session::{Database, Login};
use coeval_sql::{Error, SqlState, Value};
use tracing::{debug, info, warn};

use super::PROBE;
use super::estimate::Estimate;
use super::row::{self, KEPT, Write};
use super::sql::ProbeSession;
use crate::reader::Reader;
use crate::serving_term::{Lead, ServingTerm};
use crate::session;
use crate::shared::Shared;

/// Number of registers.
const KEYS: usize = 4;
/// Interval between two judgements.
const BETWEEN_JUDGEMENTS: Duration = Duration::from_secs(1);
/// Interval between two attempts of a probe that finds no leader, reader or table.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// Starts the probe of a node, if the settings want one. It has a thread of its own: a probe
/// that shared one would read after the node's other work was done, when the node has
/// caught up.
pub(crate) fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let settings = &shared.settings;
    if !settings.gamma_probe || shared.node.is_none() {
        return None;
    }
    let probe = Probe {
        every: Duration::from_millis(settings.gamma_probe_interval_milliseconds),
        began: coeval_env::now(),
        shared: Arc::clone(shared),
    };
    Some(coeval_env::spawn_executor("gamma", probe.run()))
}

/// Removes what a probe has left, at the beginning of a serving term without one.
pub(crate) async fn remove(database: Arc<Database>) {
    let removed = async {
        let role = role(&database).await?;
        if role.is_none() {
            return Ok(());
        }
        // As the probe's role: a table of that name that is not the probe's stays.
        ProbeSession::open(&database, role)?
            .run(&format!("DROP TABLE {PROBE}"))
            .await?;
        ProbeSession::open(&database, None)?
            .run(&format!("DROP ROLE {PROBE}"))
            .await?;
        info!("the table and the role of the probe of Γ are removed");
        Ok::<(), Error>(())
    };
    if let Err(error) = removed.await {
        warn!(%error, "the table or the role of the probe of Γ stays");
    }
}

/// The probe's role, if it is there.
async fn role(database: &Database) -> Result<Option<Login>, Error> {
    let account = database.login(PROBE).await?;
    Ok(account.role.map(|role| Login {
        role: role.oid,
        superuser: role.superuser,
    }))
}

struct Probe {
    every: Duration,
    /// The origin of this node's clock.
    began: Instant,
    shared: Arc<Shared>,
}

impl Probe {
    async fn run(self) {
        let mut failing = false;
        loop {
            let ended = match self.shared.lead() {
                Lead::Here(serving_term) => self.write(&serving_term).await,
                Lead::There(leader) => {
                    let reader = self.shared.reader.borrow().clone();
                    match reader {
                        Some(reader) => self.read(&reader, leader).await,
                        None => Ok(()),
                    }
                }
                Lead::Nowhere => Ok(()),
            };
            // While leaders change, operations fail.
            if let Err(error) = &ended {
                match failing {
                    false => info!(%error, "the probe of Γ waits"),
                    true => debug!(%error, "the probe of Γ waits"),
                }
            }
            failing = ended.is_err();
            coeval_env::sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    fn time(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether this node still leads with this engine.
    fn leads(&self, serving_term: &Arc<ServingTerm>) -> bool {
        let now = self.shared.serving_term();
        now.is_some_and(|now| Arc::ptr_eq(&now, serving_term))
    }

    /// Writes one register after the other while this node leads.
    async fn write(&self, serving_term: &Arc<ServingTerm>) -> Result<(), Error> {
        let database = &serving_term.database;
        let role = match role(database).await? {
            Some(role) => role,
            None => {
                let role = format!("CREATE ROLE {PROBE} NOLOGIN");
                ProbeSession::open(database, None)?.run(&role).await?;
                role_of(database).await?
            }
        };
        let table = format!(
            "CREATE TABLE {PROBE} \
             (key int4 PRIMARY KEY, writer int8 NOT NULL, writes text NOT NULL); \
             ALTER TABLE {PROBE} OWNER TO {PROBE}"
        );
        match ProbeSession::open(database, None)?.run(&table).await {
            // The probe's from before; a user's table of that name refuses the probe's role.
            Err(error) if error.state() == SqlState("42P07") => {}
            made => drop(made?),
        }
        let mut session = ProbeSession::open(database, Some(role))?;
        session.run(&format!("DELETE FROM {PROBE}")).await?;
        let writer = coeval_env::random_u64().cast_signed();
        let mut writes = vec![Vec::<Write>::new(); KEYS];
        let mut next = coeval_env::now();
        for turn in 0_usize.. {
            if !self.leads(serving_term) {
                break;
            }
            let (key, value) = (turn % KEYS, (turn / KEYS) as u64);
            let of_key = &mut writes[key];
            if of_key.len() == KEPT {
                of_key.remove(0);
            }
            of_key.push(Write {
                value,
                started: self.time(),
                finished: None,
            });
            let shown = row::show(of_key);
            let statement = match value {
                0 => format!("INSERT INTO {PROBE} VALUES ({key}, {writer}, '{shown}')"),
                _ => format!("UPDATE {PROBE} SET writes = '{shown}' WHERE key = {key}"),
            };
            session.run(&statement).await?;
            let finished = self.time();
            if let Some(last) = of_key.last_mut() {
                last.finished = Some(finished);
            }
            next = self.wait(next).await;
        }
        Ok(())
    }

    /// Waits for the next operation, which was due then if the last was late.
    async fn wait(&self, last: Instant) -> Instant {
        let (due, now) = (last + self.every, coeval_env::now());
        if due <= now {
            return now;
        }
        coeval_env::sleep_until(due).await;
        due
    }

    /// Reads all registers, again and again, while this node follows with these tables.
    async fn read(&self, reader: &Arc<Reader>, leader: NodeId) -> Result<(), Error> {
        let Some(node) = self.shared.node.as_deref() else {
            return Ok(());
        };
        let threshold = self.shared.settings.gamma_threshold_milliseconds;
        let mut estimate = Estimate::new(Duration::from_millis(threshold));
        let role = role_of(&reader.database).await?;
        let mut session = ProbeSession::open(&reader.database, Some(role))?;
        let rows = format!("SELECT key, writer, writes FROM {PROBE}");
        let mut next = coeval_env::now();
        let mut judged = next;
        loop {
            let same = self.shared.reader.borrow().clone();
            if !same.is_some_and(|same| Arc::ptr_eq(&same, reader)) {
                return Ok(());
            }
            let started = self.time();
            reader.hold(node.pauses()).await;
            let rows = session.run(&rows).await?;
            let finished = self.time();
            for row in rows {
                if let [Value::Int4(key), Value::Int8(writer), Value::Text(writes)] = &row[..]
                    && let (Ok(key), Some(writes)) = (u64::try_from(*key), row::parse(writes))
                {
                    estimate.take(key, *writer, (started, finished), &writes);
                }
            }
            if judged.elapsed() >= BETWEEN_JUDGEMENTS {
                judged = coeval_env::now();
                let own = self.shared.settings.cluster_node;
                let summary = estimate.judge(self.time());
                self.shared.gamma.take(own, summary);
                self.report(node, leader, summary);
            }
            next = self.wait(next).await;
        }
    }

    /// Tells the leader this node's estimate. A leader that does not show it ends the stream.
    fn report(&self, node: &Node, leader: NodeId, summary: super::Summary) {
        let streams = node.streams();
        let own = self.shared.settings.cluster_node;
        let told = async move {
            session::report_gamma(&streams, leader, own, summary).await;
        };
        let told = coeval_env::timeout(BETWEEN_JUDGEMENTS, told);
        coeval_env::spawn("gamma report", async move {
            // The next report says as much.
            let _ = told.await;
        });
    }
}

async fn role_of(database: &Database) -> Result<Login, Error> {
    let role = role(database).await?;
    role.ok_or_else(|| Error::internal("the role of the probe of Γ is not there yet"))
}
