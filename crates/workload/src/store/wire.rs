//! Sessions over PostgreSQL's wire protocol: each has a connection of its own, and
//! prepares every statement once.
//!
//! A session whose connection was lost reconnects at the next begin, so that a load
//! outlives the server that is killed under it. With a timeout, a connection that gives
//! no answer is handled like a lost one:
//!
//! ```text
//!   UPDATE …   no answer in time    the transaction is aborted: no commit was sent
//!   COMMIT     no answer in time    the outcome is unknown
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coeval_env as env;
use coeval_env::Work;
use coeval_types::RowRef;
use futures_util::TryStreamExt;
use tokio_postgres::config::Host;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::client_session::{Scan, Visit, Way};
use super::row::Cells;
use super::schema::{ColumnKind, Table};
use super::statement::{Range, Shape, bits, mask, set_isolation};
use super::{Failure, Maker, Row, Value};

/// A server and how to connect to it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    /// Whether to connect through the environment abstraction alone, and without prepared
    /// statements, whose names are not deterministic.
    pub(super) simulated: bool,
    /// Number of connections so far, for round robin over several hosts.
    pub(super) turn: AtomicUsize,
}

/// A connection to a server.
pub(super) struct Connection {
    pub(super) client: Client,
    /// Task that moves the connection's bytes. Its error is returned to every caller that
    /// awaits an answer.
    mover: env::JoinHandle<()>,
    is_simulated: bool,
}

impl Connection {
    /// Closes the connection at once, without sending pending messages or awaiting
    /// answers.
    fn cut(self) {
        self.mover.abort();
    }
}

impl Drop for Connection {
    /// A simulated connection is cut at once. A real one sends Terminate by itself.
    fn drop(&mut self) {
        if self.is_simulated {
            self.mover.abort();
        }
    }
}

/// Connects as the configuration says, through the environment abstraction if hosts are
/// addresses. With several hosts, connections go round robin, and unreachable hosts are
/// skipped.
pub(super) async fn connect(server: &Server) -> Result<Connection, Failure> {
    let config = &server.config;
    let is_simulated = server.simulated;
    let addresses = addresses(config);
    let first = server.turn.fetch_add(1, Ordering::Relaxed);
    for turn in 0..addresses.len() {
        let is_last = turn + 1 == addresses.len();
        match env::connect(addresses[(first + turn) % addresses.len()]).await {
            Ok(stream) => {
                let connected = config.connect_raw(stream, NoTls).await;
                let (client, connection) = match connected {
                    Ok(connected) => connected,
                    Err(error) if is_last => return Err(Failure::statement(&error)),
                    Err(_) => continue,
                };
                let mover = env::spawn("connection", async move { drop(connection.await) });
                return Ok(Connection {
                    client,
                    mover,
                    is_simulated,
                });
            }
            Err(error) if is_simulated && is_last => return Err(Failure::lost(&error)),
            // The host is unreachable; if it is the last, the code below returns the
            // error.
            Err(_) => {}
        }
    }
    // A host name or a local socket.
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| Failure::statement(&error))?;
    let mover = env::spawn("connection", async move { drop(connection.await) });
    Ok(Connection {
        client,
        mover,
        is_simulated,
    })
}

/// The addresses among the hosts, each with its port; a single port applies to all hosts.
fn addresses(config: &Config) -> Vec<SocketAddr> {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate();
    let address = |(at, host): (usize, &Host)| {
        let address: IpAddr = match host {
            Host::Tcp(name) if name == "localhost" => Ipv4Addr::LOCALHOST.into(),
            Host::Tcp(name) => name.parse().ok()?,
            Host::Unix(_) => return None,
        };
        let port = ports.get(at).or(ports.first());
        Some(SocketAddr::new(address, port.copied().unwrap_or(5432)))
    };
    hosts.filter_map(address).collect()
}

/// A connection with its prepared statements.
struct Connected {
    connection: Connection,
    statements: BTreeMap<Shape, Statement>,
}

/// Reason why an operation got no result: an error, or no answer within the timeout.
enum Trouble {
    Said(tokio_postgres::Error),
    Silent(Duration),
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Said(error)
    }
}

/// Awaits `work`, at most for the timeout.
async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Trouble> {
    env::work(Work::Ask, 1);
    match limit {
        None => Ok(work.await?),
        Some(limit) => match env::timeout(limit, work).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(Trouble::Silent(limit)),
        },
    }
}

/// A session over the wire.
pub struct Wire {
    server: Arc<Server>,
    tables: Arc<[Table]>,
    connected: Option<Connected>,
    way: Option<Way>,
    in_transaction: bool,
    /// Timeout of an operation.
    timeout: Option<Duration>,
    maker: Maker,
}

impl fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Wire")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

type Parameters<'a> = Vec<&'a (dyn ToSql + Sync)>;

fn parameters<'a>(values: &'a [Value<'a>]) -> Parameters<'a> {
    let erase = |value: &'a Value<'a>| value as &(dyn ToSql + Sync);
    values.iter().map(erase).collect()
}

fn typed<'a>(values: &'a [Value<'a>], types: Vec<Type>) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    parameters(values).into_iter().zip(types).collect()
}

impl Wire {
    pub(super) fn new(server: Arc<Server>, tables: Arc<[Table]>) -> Self {
        Self {
            server,
            tables,
            connected: None,
            way: None,
            in_transaction: false,
            timeout: None,
            maker: Maker::new(),
        }
    }

    pub(super) fn set_timeout(&mut self, limit: Option<Duration>) {
        self.timeout = limit;
    }

    /// Connects, unless the session is connected already.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        if let Some(connected) = &self.connected
            && !connected.connection.client.is_closed()
        {
            return Ok(());
        }
        self.connected = None;
        let connecting = connect(&self.server);
        let connection = match self.timeout {
            None => connecting.await?,
            Some(limit) => env::timeout(limit, connecting)
                .await
                .map_err(|_late| Failure::silent(limit))??,
        };
        self.connected = Some(Connected {
            connection,
            statements: BTreeMap::new(),
        });
        (self.way, self.in_transaction) = (None, false);
        Ok(())
    }

    pub(super) async fn begin(&mut self, way: Way) -> Result<(), Failure> {
        self.abort().await;
        self.connect().await?;
        if way.single {
            let set = self.way.map(|old| old.isolation) == Some(way.isolation);
            if !set {
                let (text, limit) = (set_isolation(way.isolation), self.timeout);
                let connected = self.connected()?;
                let client = &connected.connection.client;
                let done = within(limit, client.batch_execute(&text)).await;
                done.map_err(|trouble| self.statement(trouble))?;
            }
            self.way = Some(way);
            return Ok(());
        }
        let isolation = self.way.map(|old| old.isolation);
        self.way = Some(Way {
            isolation: isolation.unwrap_or(way.isolation),
            ..way
        });
        self.in_transaction = true;
        self.execute(Shape::Begin(way.isolation, way.read_only), &[])
            .await
            .map(drop)
    }

    fn connected(&mut self) -> Result<&mut Connected, Failure> {
        let lost = || Failure::lost(&"there is no connection");
        self.connected.as_mut().ok_or_else(lost)
    }

    /// The failure that follows from trouble with a statement other than a commit.
    fn statement(&mut self, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Said(error) => Failure::statement(&error),
            Trouble::Silent(limit) => {
                self.cut();
                Failure::silent(limit)
            }
        }
    }

    /// The failure that follows from trouble with a commit.
    fn committing(&mut self, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Said(error) => Failure::commit(&error),
            Trouble::Silent(limit) => {
                self.cut();
                Failure::silent_commit(limit)
            }
        }
    }

    /// The failure that follows from trouble with a statement: without BEGIN, the
    /// statement is the commit as well.
    fn failure(&mut self, trouble: Trouble) -> Failure {
        if !self.in_transaction && self.way.is_some_and(|way| way.single && !way.read_only) {
            self.committing(trouble)
        } else {
            self.statement(trouble)
        }
    }

    fn cut(&mut self) {
        if let Some(connected) = self.connected.take() {
            connected.connection.cut();
        }
    }

    async fn prepare(&mut self, shape: Shape) -> Result<Statement, Failure> {
        let (tables, limit) = (Arc::clone(&self.tables), self.timeout);
        let connected = self.connected()?;
        if let Some(statement) = connected.statements.get(&shape) {
            return Ok(statement.clone());
        }
        let client = &connected.connection.client;
        let prepared = within(limit, client.prepare(&shape.sql(&tables))).await;
        let statement = prepared.map_err(|trouble| self.statement(trouble))?;
        let connected = self.connected()?;
        connected.statements.insert(shape, statement.clone());
        Ok(statement)
    }

    async fn execute(&mut self, shape: Shape, values: &[Value<'_>]) -> Result<u64, Failure> {
        let limit = self.timeout;
        let done = if self.server.simulated {
            let (text, types) = (shape.sql(&self.tables), shape.types(&self.tables));
            let client = &self.connected()?.connection.client;
            within(limit, client.execute_typed(&text, &typed(values, types))).await
        } else {
            let statement = self.prepare(shape).await?;
            let client = &self.connected()?.connection.client;
            within(limit, client.execute(&statement, &parameters(values))).await
        };
        done.map_err(|trouble| self.failure(trouble))
    }

    pub(super) async fn get(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        self.one(Shape::Get(table), table, key, row).await
    }

    pub(super) async fn lock(
        &mut self,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        self.one(Shape::Lock(table), table, key, row).await
    }

    async fn one(
        &mut self,
        shape: Shape,
        table: usize,
        key: &[i64],
        row: &mut Row,
    ) -> Result<bool, Failure> {
        let values: Vec<Value<'_>> = key.iter().map(|&value| Value::Integer(value)).collect();
        let limit = self.timeout;
        let found = if self.server.simulated {
            let (text, types) = (shape.sql(&self.tables), shape.types(&self.tables));
            let client = &self.connected()?.connection.client;
            within(limit, client.query_typed_opt(&text, &typed(&values, types))).await
        } else {
            let statement = self.prepare(shape).await?;
            let client = &self.connected()?.connection.client;
            within(limit, client.query_opt(&statement, &parameters(&values))).await
        };
        let found = found.map_err(|trouble| self.failure(trouble))?;
        if let Some(found) = &found {
            let made = make(&self.tables[table], found, &mut self.maker, row);
            made.map_err(|error| Failure::statement(&error))?;
        }
        Ok(found.is_some())
    }

    /// Updates a row; returns whether it exists.
    pub(super) async fn update(
        &mut self,
        table: usize,
        row: &Row,
        columns: &[usize],
    ) -> Result<bool, Failure> {
        let tables = Arc::clone(&self.tables);
        let definition = &tables[table];
        let columns = mask(columns);
        let values: Vec<Value<'_>> = bits(columns)
            .chain(0..definition.key)
            .map(|column| cell(definition, row, column))
            .collect();
        let changed = self.execute(Shape::Update(table, columns), &values).await?;
        Ok(changed > 0)
    }

    pub(super) async fn insert(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        let tables = Arc::clone(&self.tables);
        let definition = &tables[table];
        let values: Vec<Value<'_>> = (0..definition.columns.len())
            .map(|column| cell(definition, row, column))
            .collect();
        self.execute(Shape::Insert(table), &values).await.map(drop)
    }

    pub(super) async fn delete(&mut self, table: usize, row: &Row) -> Result<(), Failure> {
        let key: Vec<Value<'_>> = (0..self.tables[table].key)
            .map(|column| Value::Integer(row.integer(column)))
            .collect();
        self.execute(Shape::Delete(table), &key).await.map(drop)
    }

    pub(super) async fn scan(
        &mut self,
        scan: &Scan<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<usize, Failure> {
        let shape = Shape::Range(Range {
            table: scan.table,
            index: scan.index,
            equal: scan.prefix.len(),
            bounds: (scan.from.is_some(), scan.to.is_some()),
            backward: scan.backward,
            limited: scan.limit.is_some(),
            ordered: !scan.is_everything(),
        });
        let limit = scan
            .limit
            .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let bounds = [scan.from, scan.to, limit];
        let mut values = scan.prefix.to_vec();
        values.extend(bounds.into_iter().flatten().map(Value::Integer));
        let limit = self.timeout;
        let statement = match self.server.simulated {
            true => None,
            false => Some(self.prepare(shape).await?),
        };
        let tables = Arc::clone(&self.tables);
        let mut maker = std::mem::take(&mut self.maker);
        let client = &self.connected()?.connection.client;
        let read = async {
            let rows = match &statement {
                Some(statement) => client.query_raw(statement, parameters(&values)).await?,
                None => {
                    let (text, types) = (shape.sql(&tables), shape.types(&tables));
                    client.query_typed_raw(&text, typed(&values, types)).await?
                }
            };
            let mut rows = pin!(rows);
            let mut row = Row::default();
            let mut shown = 0;
            while let Some(found) = rows.try_next().await? {
                make(&tables[scan.table], &found, &mut maker, &mut row)?;
                visit(row.row());
                shown += 1;
            }
            Ok(shown)
        };
        let shown = within(limit, read).await;
        self.maker = maker;
        shown.map_err(|trouble| self.failure(trouble))
    }

    pub(super) async fn commit(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.in_transaction) {
            return Ok(());
        }
        let limit = self.timeout;
        let done = if self.server.simulated {
            let client = &self.connected()?.connection.client;
            within(limit, client.batch_execute("COMMIT")).await
        } else {
            let statement = self.prepare(Shape::Commit).await?;
            let client = &self.connected()?.connection.client;
            within(limit, client.execute(&statement, &[]))
                .await
                .map(drop)
        };
        done.map_err(|trouble| self.committing(trouble))
    }

    pub(super) async fn abort(&mut self) {
        if std::mem::take(&mut self.in_transaction)
            && let Some(connected) = &self.connected
            && within(
                self.timeout,
                connected.connection.client.batch_execute("ROLLBACK"),
            )
            .await
            .is_err()
        {
            self.cut();
        }
    }
}

fn cell<'row>(table: &Table, row: &'row Row, column: usize) -> Value<'row> {
    if row.is_null(column) {
        Value::Null
    } else if table.columns[column].kind == ColumnKind::Text {
        Value::Text(row.text(column))
    } else {
        Value::Integer(row.integer(column))
    }
}

/// Builds a row from one that was received over the wire.
fn make(
    table: &Table,
    found: &tokio_postgres::Row,
    maker: &mut Maker,
    row: &mut Row,
) -> Result<(), tokio_postgres::Error> {
    for (at, column) in table.columns.iter().enumerate() {
        match column.kind {
            ColumnKind::Int => match found.try_get::<_, Option<i32>>(at)? {
                Some(value) => maker.integer(table, value.into()),
                None => maker.null(),
            },
            ColumnKind::Bigint => match found.try_get::<_, Option<i64>>(at)? {
                Some(value) => maker.integer(table, value),
                None => maker.null(),
            },
            ColumnKind::Text => match found.try_get::<_, Option<&str>>(at)? {
                Some(text) => maker.text(text),
                None => maker.null(),
            },
        };
    }
    maker.finish(row);
    Ok(())
}

/// For the loader: appends a row as a line of COPY.
pub(super) fn copy_line(table: &Table, row: RowRef<'_>, line: &mut String) {
    use std::fmt::Write;
    for (at, column) in table.columns.iter().enumerate() {
        if at > 0 {
            line.push('\t');
        }
        if row.is_null(at) {
            line.push_str("\\N");
        } else if column.kind == ColumnKind::Text {
            for character in row.text(at).chars() {
                match character {
                    '\\' => line.push_str("\\\\"),
                    '\t' => line.push_str("\\t"),
                    '\n' => line.push_str("\\n"),
                    '\r' => line.push_str("\\r"),
                    other => line.push(other),
                }
            }
        } else {
            let _ = write!(line, "{}", row.integer(at));
        }
    }
    line.push('\n');
}

/// For the loader: appends a row to a list of VALUES.
pub(super) fn values_of(table: &Table, row: RowRef<'_>, rows: &mut String) {
    use std::fmt::Write;
    rows.push_str(if rows.is_empty() { "(" } else { ", (" });
    for (at, column) in table.columns.iter().enumerate() {
        if at > 0 {
            rows.push_str(", ");
        }
        if row.is_null(at) {
            rows.push_str("NULL");
        } else if column.kind == ColumnKind::Text {
            let _ = write!(rows, "'{}'", row.text(at).replace('\'', "''"));
        } else {
            let _ = write!(rows, "{}", row.integer(at));
        }
    }
    rows.push(')');
}
