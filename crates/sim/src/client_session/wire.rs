//! A client with a machine of its own, which speaks PostgreSQL's protocol.
//!
//! It sends only simple queries, because the names of prepared statements come from a
//! process-wide counter, which is not deterministic.

use std::net::SocketAddr;
use std::time::Duration;

use coeval_env::JoinHandle;
use coeval_txn::Isolation;
use coeval_types::planted;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{Ended, Failure, Row};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client inquires about a commit that had no answer.
const ASKS_FOR: Duration = Duration::from_secs(20);
/// Pause before it inquires again.
const ASKS_AGAIN: Duration = Duration::from_millis(200);
/// SQLSTATE of a server for a transaction id that it never assigned.
const NEVER_GIVEN: &str = "22023";
/// Parameters of a session whose reads are executed by the node that it is connected to.
pub const AT_HOME: &str = "-c coeval.read_from=fresh";
/// Parameters of a session whose reads take the state that the node has.
const AS_IT_IS: &str = "-c coeval.read_from=any";
/// Parameters of a session whose statements are all executed by the leader.
pub const AT_LEADER: &str = "-c coeval.read_from=leader";
/// Of such a session's read-only transactions, one in so many is a block.
const BLOCK_IN: u64 = 4;
/// Statement that creates the table.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS pair (k bigint PRIMARY KEY, v text NOT NULL)";

/// A client with a connection.
pub struct Wire {
    /// Addresses of all servers; the client is connected to the first.
    addresses: Vec<SocketAddr>,
    /// Whether the client requests transaction ids, to inquire about outcomes later.
    takes_numbers: bool,
    /// Parameters of a session that reads at home.
    at_home: Option<String>,
    /// Whether the current transaction is a request of its own, outside of a block.
    is_alone: bool,
    /// Id of the current transaction.
    number: Option<u64>,
    client: Client,
    mover: JoinHandle<()>,
    /// Statements of the current transaction, for an injected bug.
    sent: Vec<String>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Drop for Wire {
    /// Closes the connection without awaiting further answers.
    fn drop(&mut self) {
        self.mover.abort();
    }
}

/// Creates the table of the simulator's own workloads.
pub async fn prepare(wire: &mut Wire) -> Result<(), Failure> {
    wire.query(TABLE).await.map(|_| ())
}

/// SQL's name of an isolation level.
fn name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::SnapshotIsolation => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}

fn text(row: &[i64]) -> String {
    let numbers: Vec<String> = row.iter().map(i64::to_string).collect();
    numbers.join(",")
}

fn numbers(text: &str) -> Row {
    text.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

fn failure(error: &tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        Some(said) if !error.is_closed() => {
            Failure::Failed(format!("{} {}", said.code().code(), said.message()))
        }
        _ => Failure::Lost(error.to_string()),
    }
}

impl Wire {
    /// Connects to the first of these servers.
    pub async fn connect(addresses: Vec<SocketAddr>) -> Result<Self, Failure> {
        Self::connect_with(addresses, None).await
    }

    /// Connects to the first of these servers, which executes what only reads. Statements
    /// outside of a block have this level.
    pub async fn connect_at_home(
        addresses: Vec<SocketAddr>,
        isolation: Isolation,
    ) -> Result<Self, Failure> {
        let level = name(isolation).to_ascii_lowercase().replace(' ', "\\ ");
        let options = format!("{AT_HOME} -c default_transaction_isolation={level}");
        Self::connect_with(addresses, Some(options)).await
    }

    /// Connects to the first of these servers, which executes what only reads, in the state that
    /// it has.
    pub(crate) async fn connect_as_it_is(addresses: Vec<SocketAddr>) -> Result<Self, Failure> {
        Self::connect_with(addresses, Some(AS_IT_IS.to_owned())).await
    }

    async fn connect_with(
        addresses: Vec<SocketAddr>,
        at_home: Option<String>,
    ) -> Result<Self, Failure> {
        let connecting = async {
            let stream = coeval_env::connect(addresses[0]).await;
            let stream = stream.map_err(|error| Failure::Lost(error.to_string()))?;
            let mut config = Config::new();
            config.user("sim").dbname("sim");
            config.options(at_home.as_deref().unwrap_or(AT_LEADER));
            let connected = config.connect_raw(stream, NoTls).await;
            let (client, connection) = connected.map_err(|error| failure(&error))?;
            let mover = coeval_env::spawn("connection", async move {
                // The error that ends a connection is returned to every caller that
                // awaits an answer on it.
                let _ = connection.await;
            });
            Ok(Self {
                addresses,
                takes_numbers: false,
                at_home,
                is_alone: false,
                number: None,
                client,
                mover,
                sent: Vec::new(),
            })
        };
        let connected = coeval_env::timeout(PATIENCE, connecting).await;
        connected.unwrap_or_else(|late| Err(Failure::Lost(late.to_string())))
    }

    /// Makes the client request the id of each writing transaction, and inquire about its
    /// outcome if a commit had no answer.
    #[must_use]
    pub fn taking_numbers(mut self) -> Self {
        self.takes_numbers = true;
        self
    }

    /// Address of the server that the client is connected to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    async fn send(&self, statement: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
        let answer = coeval_env::timeout(PATIENCE, self.client.simple_query(statement)).await;
        match answer {
            Ok(Ok(messages)) => Ok(messages),
            Ok(Err(error)) => Err(failure(&error)),
            Err(late) => Err(Failure::Lost(late.to_string())),
        }
    }

    /// The single value that a SELECT returns.
    async fn value(&self, select: &str) -> Result<Option<String>, Failure> {
        let messages = self.send(select).await?;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    pub(crate) async fn query(&mut self, statement: &str) -> Result<Vec<(u64, Row)>, Failure> {
        if planted!(SendAgain) {
            self.sent.push(statement.to_owned());
        }
        let messages = self.send(statement).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                let key = row.get(0).and_then(|key| key.parse().ok());
                Some((key.unwrap_or(0), numbers(row.get(1).unwrap_or_default())))
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    pub(super) async fn begin(
        &mut self,
        isolation: Isolation,
        read_only: bool,
    ) -> Result<(), Failure> {
        self.sent.clear();
        self.is_alone = self.at_home.is_some()
            && read_only
            && !coeval_env::random_u64().is_multiple_of(BLOCK_IN);
        if self.is_alone {
            self.number = None;
            return Ok(());
        }
        let level = name(isolation);
        let access = if read_only { "READ ONLY" } else { "READ WRITE" };
        let begin = format!("BEGIN ISOLATION LEVEL {level} {access}");
        self.query(&begin).await?;
        self.number = None;
        if self.takes_numbers && !read_only {
            let number = self.value("SELECT txid_current()").await?;
            self.number = number.and_then(|number| number.parse().ok());
        }
        Ok(())
    }

    pub(super) async fn get(&mut self, key: u64) -> Result<Option<Row>, Failure> {
        let rows = self
            .query(&format!("SELECT k, v FROM pair WHERE k = {key}"))
            .await?;
        Ok(rows.into_iter().next().map(|(_, row)| row))
    }

    /// Sends statements in one request. Returns the rows of each, whose two columns are
    /// numbers.
    pub(crate) async fn pairs(
        &mut self,
        statements: &str,
    ) -> Result<Vec<Vec<(i64, i64)>>, Failure> {
        let (mut all, mut rows) = (Vec::new(), Vec::new());
        for message in self.send(statements).await? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let number = |at| row.get(at).and_then(|text: &str| text.parse().ok());
                    rows.push((number(0).unwrap_or(i64::MIN), number(1).unwrap_or(i64::MIN)));
                }
                SimpleQueryMessage::CommandComplete(_) => all.push(std::mem::take(&mut rows)),
                _ => {}
            }
        }
        Ok(all)
    }

    /// Whether the current transaction is a request of its own.
    pub(super) const fn is_one_request(&self) -> bool {
        self.is_alone
    }

    /// Reads the rows under these keys, in one request with a statement for each: outside of
    /// a block it is a transaction of its own.
    pub(super) async fn get_all(&mut self, keys: &[u64]) -> Result<Vec<Option<Row>>, Failure> {
        let selects: Vec<String> = keys
            .iter()
            .map(|key| format!("SELECT k, v FROM pair WHERE k = {key}"))
            .collect();
        let (mut rows, mut row) = (Vec::new(), None);
        for message in self.send(&selects.join("; ")).await? {
            match message {
                SimpleQueryMessage::Row(found) => {
                    row = Some(numbers(found.get(1).unwrap_or_default()));
                }
                SimpleQueryMessage::CommandComplete(_) => rows.push(row.take()),
                _ => {}
            }
        }
        match rows.len() == keys.len() {
            true => Ok(rows),
            false => Err(Failure::Lost("an answer is missing".to_owned())),
        }
    }

    pub(super) async fn scan(&mut self, first: u64, last: u64) -> Result<Vec<(u64, Row)>, Failure> {
        let select = format!("SELECT k, v FROM pair WHERE k >= {first} AND k <= {last} ORDER BY k");
        self.query(&select).await
    }

    pub(super) async fn change(
        &mut self,
        key: u64,
        change: impl Fn(Option<Row>) -> Row + Send,
    ) -> Result<(), Failure> {
        let select = format!("SELECT k, v FROM pair WHERE k = {key} FOR UPDATE");
        let row = self.query(&select).await?.into_iter().next();
        let row = change(row.map(|(_, row)| row));
        self.put(key, &row).await
    }

    pub(super) async fn put(&mut self, key: u64, row: &[i64]) -> Result<(), Failure> {
        let put = format!(
            "INSERT INTO pair VALUES ({key}, '{}') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
            text(row)
        );
        self.query(&put).await.map(|_| ())
    }

    pub(super) async fn append(&mut self, key: u64, number: i64) -> Result<(), Failure> {
        let append = format!(
            "INSERT INTO pair VALUES ({key}, '{number}') \
             ON CONFLICT (k) DO UPDATE SET v = pair.v || ',{number}'"
        );
        self.query(&append).await.map(|_| ())
    }

    pub(super) async fn delete(&mut self, key: u64) -> Result<bool, Failure> {
        let delete = format!("DELETE FROM pair WHERE k = {key} RETURNING k, v");
        Ok(!self.query(&delete).await?.is_empty())
    }

    /// Commits a transaction that the caller has begun.
    pub(crate) async fn end(&mut self) -> Ended {
        self.commit().await
    }

    pub(super) async fn commit(&mut self) -> Ended {
        if std::mem::take(&mut self.is_alone) {
            return Ended::Committed;
        }
        match self.query("COMMIT").await {
            Ok(_) => Ended::Committed,
            Err(Failure::Failed(reason)) if is_final(&reason) => Ended::Failed(reason),
            Err(Failure::Lost(reason)) if planted!(UnknownIsFailed) => Ended::Failed(reason),
            Err(Failure::Lost(reason)) if planted!(SendAgain) => {
                let again = self.send_again().await;
                again.map_or(Ended::Unknown(reason), |()| Ended::Committed)
            }
            Err(Failure::Failed(reason) | Failure::Lost(reason)) => {
                let asking = coeval_env::timeout(ASKS_FOR, self.became());
                let became = asking.await.ok().flatten();
                became.unwrap_or(Ended::Unknown(reason))
            }
        }
    }

    /// Inquires about a transaction whose commit had no answer: asks each server in turn
    /// until one knows the outcome. `None` without a transaction id.
    ///
    /// The id was assigned to this client, and outcomes are retained for longer than any
    /// run lasts. So no server may answer that the id was never assigned, or that its
    /// outcome is unknown.
    async fn became(&self) -> Option<Ended> {
        let status = format!("SELECT txid_status({})", self.number?);
        loop {
            for &address in self.addresses.iter().rev() {
                let Ok(asking) = Box::pin(Self::connect(vec![address])).await else {
                    continue;
                };
                match asking.value(&status).await {
                    Ok(Some(said)) if said == "committed" => return Some(Ended::Committed),
                    Ok(Some(said)) if said == "aborted" => return Some(Ended::Failed(status)),
                    // The transaction is in progress: the client asks again.
                    Ok(Some(_)) => {}
                    Ok(None) => return Some(wrong(address, &status, "nothing")),
                    Err(Failure::Failed(reason)) if reason.starts_with(NEVER_GIVEN) => {
                        return Some(wrong(address, &status, &reason));
                    }
                    Err(_) => {}
                }
            }
            coeval_env::sleep(ASKS_AGAIN).await;
        }
    }

    /// An injected bug: the client sends the whole transaction once more, on another
    /// connection.
    async fn send_again(&mut self) -> Result<(), Failure> {
        let sent = std::mem::take(&mut self.sent);
        *self = Self::connect_with(self.addresses.clone(), self.at_home.clone()).await?;
        for statement in sent {
            self.query(&statement).await?;
        }
        Ok(())
    }

    pub(super) async fn abort(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_alone) {
            return Ok(());
        }
        self.query("ROLLBACK").await.map(|_| ())
    }
}

/// A violation: a wrong answer of a server.
fn wrong(address: SocketAddr, asked: &str, said: &str) -> Ended {
    Ended::Wrong(format!(
        "the server at {address} answers {asked} with {said}"
    ))
}

/// Whether the error of a commit proves that it has not happened and never will:
/// conflicts and limits. An error that stops the server says nothing about the contents
/// of its disk, and with 40003 a node reports an unknown outcome under a lost leader.
fn is_final(reason: &str) -> bool {
    if reason.starts_with("40003") {
        return false;
    }
    ["40", "23", "53", "55", "25", "72"]
        .iter()
        .any(|class| reason.starts_with(class))
}
