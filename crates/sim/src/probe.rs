//! Calibration probes: statements whose CPU times yield the costs of the work in them.
//!
//! A probe is repeated by some clients, in the real environment or in a simulation, so
//! that the CPU times of a real and a simulated server process can be compared.
//!
//! | probe | statement | yields |
//! | --- | --- | --- |
//! | [`SELECTS`] | 17 lookups by key, prepared, in a transaction | `execute` |
//! | [`SELECT`] | a lookup by key, prepared | `transaction`; of the clients, `ask` |
//! | [`TEXT`] | the same, not prepared | `plan` |
//! | [`WIDE`] | a row of ten fields of 100 bytes | `copy` |
//! | [`RANGE`] | 100 rows in the order of their keys | `row` |
//! | [`UPDATES`] | 17 updates of one row, in a transaction | `write` |
//! | [`ALONE`] | [`SELECT`] with one client, so that each statement wakes the server | `wake` |
//! | [`UPDATE`] | an update of one row, by one client | `sync` |

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env as env;
use coeval_env::Work;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

/// Kind of statement in a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeKind {
    Text,
    Select,
    Wide,
    Range,
    Update,
}

/// A statement, and how many clients send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    kind: ProbeKind,
    /// Number of statements in a transaction; 0 for statements without a transaction.
    times: u32,
    /// Number of clients, each of which sends its next statement on receiving the answer.
    clients: u16,
}

impl fmt::Display for Probe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            times,
            clients,
        } = self;
        match times {
            0 => write!(formatter, "{kind:?} by {clients} clients"),
            _ => write!(formatter, "{times} of {kind:?} by {clients} clients"),
        }
    }
}

/// Enough clients to saturate a machine of two cores.
const MANY: u16 = 16;

const fn probe(kind: ProbeKind, times: u32, clients: u16) -> Probe {
    Probe {
        kind,
        times,
        clients,
    }
}

/// Lookups by key in a transaction.
pub const SELECTS: Probe = probe(ProbeKind::Select, 17, MANY);
/// A lookup by key.
pub const SELECT: Probe = probe(ProbeKind::Select, 0, MANY);
/// A lookup by key, not prepared.
pub const TEXT: Probe = probe(ProbeKind::Text, 0, MANY);
/// A lookup of a long row.
pub const WIDE: Probe = probe(ProbeKind::Wide, 0, MANY);
/// A range scan of 100 rows.
pub const RANGE: Probe = probe(ProbeKind::Range, 0, MANY);
/// Updates in a transaction.
pub const UPDATES: Probe = probe(ProbeKind::Update, 17, MANY);
/// [`SELECT`] with one client.
pub const ALONE: Probe = probe(ProbeKind::Select, 0, 1);
/// Single updates, one after another.
pub const UPDATE: Probe = probe(ProbeKind::Update, 0, 1);

/// Number of rows in the tables.
const ROWS: i64 = 1000;

/// A connected client with its prepared statement.
#[derive(Debug)]
pub struct Prober {
    client: Client,
    statement: Statement,
    probe: Probe,
    key: i64,
}

async fn connect(address: SocketAddr) -> Result<Client, String> {
    let stream = env::connect(address).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let mut config = Config::new();
    config.user("sim").dbname("sim");
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, connection) = connected.map_err(|error| error.to_string())?;
    drop(env::spawn(
        "connection",
        async move { drop(connection.await) },
    ));
    Ok(client)
}

/// Creates the tables on a server, and fills them.
///
/// # Errors
/// An error of the server.
pub async fn fill(address: SocketAddr) -> Result<(), String> {
    let fields: Vec<String> = (0..10).map(|field| format!("field{field} text")).collect();
    let mut script = format!(
        "CREATE TABLE probed (key bigint PRIMARY KEY, number bigint, value text);\n\
         CREATE TABLE probed_wide (key bigint PRIMARY KEY, {});\n",
        fields.join(", ")
    );
    let wide = format!("'{}'", "x".repeat(100));
    let wide = vec![wide; fields.len()].join(", ");
    for key in 0..ROWS {
        script += &format!("INSERT INTO probed VALUES ({key}, {key}, 'a value of some bytes');\n");
        script += &format!("INSERT INTO probed_wide VALUES ({key}, {wide});\n");
    }
    let client = connect(address).await?;
    let done = client.batch_execute(&script).await;
    done.map_err(|error| error.to_string())
}

impl Probe {
    /// Connects the clients, which prepare their statements.
    ///
    /// # Errors
    /// An error of the server.
    pub async fn connect(self, address: SocketAddr) -> Result<Vec<Prober>, String> {
        let text = match self.kind {
            ProbeKind::Text | ProbeKind::Select => "SELECT * FROM probed WHERE key = $1",
            ProbeKind::Wide => "SELECT * FROM probed_wide WHERE key = $1",
            ProbeKind::Range => "SELECT * FROM probed WHERE key >= $1 ORDER BY key LIMIT 100",
            ProbeKind::Update => "UPDATE probed SET number = number + 1 WHERE key = $1",
        };
        let mut probers = Vec::new();
        for number in 0..self.clients {
            let client = connect(address).await?;
            let prepared = client.prepare(text).await;
            let prober = Prober {
                statement: prepared.map_err(|error| error.to_string())?,
                client,
                probe: self,
                key: 7 * i64::from(number),
            };
            probers.push(prober);
        }
        Ok(probers)
    }
}

/// Runs the clients for `length`; returns the number of transactions.
///
/// # Errors
/// An error of the server.
pub async fn drive(probers: Vec<Prober>, length: Duration) -> Result<u64, String> {
    let ends = env::now() + length;
    let work = |prober: Prober| {
        env::spawn("prober", async move {
            let mut transactions = 0;
            while env::now() < ends {
                prober.transaction().await?;
                transactions += 1;
            }
            Ok::<u64, Error>(transactions)
        })
    };
    let working: Vec<_> = probers.into_iter().map(work).collect();
    let mut transactions = 0;
    for one in working {
        let done = one.await.map_err(|error| error.to_string())?;
        transactions += done.map_err(|error| error.to_string())?;
    }
    Ok(transactions)
}

impl Prober {
    async fn transaction(&self) -> Result<(), Error> {
        if self.probe.times == 0 {
            return self.statement().await;
        }
        self.batch("BEGIN").await?;
        for _ in 0..self.probe.times {
            self.statement().await?;
        }
        self.batch("COMMIT").await
    }

    async fn batch(&self, text: &str) -> Result<(), Error> {
        env::work(Work::Ask, 1);
        self.client.batch_execute(text).await
    }

    async fn statement(&self) -> Result<(), Error> {
        if self.probe.kind == ProbeKind::Text {
            let text = format!("SELECT * FROM probed WHERE key = {}", self.key);
            env::work(Work::Ask, 1);
            return self.client.simple_query(&text).await.map(drop);
        }
        env::work(Work::Ask, 1);
        let rows = self.client.query(&self.statement, &[&self.key]).await;
        rows.map(drop)
    }
}
