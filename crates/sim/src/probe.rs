//! Statements whose costs tell those of the work in them.
//!
//! A probe is done over and over by some clients, in a real world or a simulated one: what
//! it says of a server process and what it says of a simulated one can be compared.
//!
//! | probe | is | tells |
//! | --- | --- | --- |
//! | [`SELECTS`] | 17 times a row by its key, prepared, in a transaction | `execute` |
//! | [`SELECT`] | a row by its key, prepared | `transaction`; of the clients, `ask` |
//! | [`TEXT`] | the same as text | `plan` |
//! | [`WIDE`] | a row of ten fields of 100 bytes | `copy` |
//! | [`RANGE`] | 100 rows in the order of their keys | `row` |
//! | [`UPDATES`] | 17 times one row changed, in a transaction | `write` |
//! | [`ALONE`] | [`SELECT`] with one client, for whom the server is woken each time | `wake` |
//! | [`UPDATE`] | one row changed, by one client | `sync` |

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use coeval_env as env;
use coeval_env::Work;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Select,
    Wide,
    Range,
    Update,
}

/// Statements, and who sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    kind: Kind,
    /// So many of them within a transaction; 0 for one without.
    times: u32,
    /// Each sends its next when it has its answer.
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

/// Clients enough to keep a machine of two cores busy.
const MANY: u16 = 16;

const fn probe(kind: Kind, times: u32, clients: u16) -> Probe {
    Probe {
        kind,
        times,
        clients,
    }
}

/// Rows by their keys in a transaction.
pub const SELECTS: Probe = probe(Kind::Select, 17, MANY);
/// A row by its key.
pub const SELECT: Probe = probe(Kind::Select, 0, MANY);
/// The same, not prepared.
pub const TEXT: Probe = probe(Kind::Text, 0, MANY);
/// A row of many bytes.
pub const WIDE: Probe = probe(Kind::Wide, 0, MANY);
/// Many rows.
pub const RANGE: Probe = probe(Kind::Range, 0, MANY);
/// Changes in a transaction.
pub const UPDATES: Probe = probe(Kind::Update, 17, MANY);
/// [`SELECT`] by one client.
pub const ALONE: Probe = probe(Kind::Select, 0, 1);
/// One change after another.
pub const UPDATE: Probe = probe(Kind::Update, 0, 1);

/// The rows that there are.
const ROWS: i64 = 1000;

/// A client that has its statements.
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

/// Makes the tables on a server, and fills them.
///
/// # Errors
/// What the server says against it.
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
    /// Connects the clients, who prepare what they will ask for.
    ///
    /// # Errors
    /// What the server says against it.
    pub async fn connect(self, address: SocketAddr) -> Result<Vec<Prober>, String> {
        let text = match self.kind {
            Kind::Text | Kind::Select => "SELECT * FROM probed WHERE key = $1",
            Kind::Wide => "SELECT * FROM probed_wide WHERE key = $1",
            Kind::Range => "SELECT * FROM probed WHERE key >= $1 ORDER BY key LIMIT 100",
            Kind::Update => "UPDATE probed SET number = number + 1 WHERE key = $1",
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

/// Lets clients work for so long; how many transactions that were.
///
/// # Errors
/// What the server says against it.
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
        if self.probe.kind == Kind::Text {
            let text = format!("SELECT * FROM probed WHERE key = {}", self.key);
            env::work(Work::Ask, 1);
            return self.client.simple_query(&text).await.map(drop);
        }
        env::work(Work::Ask, 1);
        let rows = self.client.query(&self.statement, &[&self.key]).await;
        rows.map(drop)
    }
}
