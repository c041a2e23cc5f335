//! PostgreSQL's protocol: a table with a row for each key.
//!
//! Statements are prepared once for a connection and pipelined, so that an operation waits
//! for no other operation's answer before it is sent. A connection that was lost is opened
//! again by the next operation that meets it; the others on it fail in the meantime, and
//! their outcome is unknown.

use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::options::Options;

/// A PostgreSQL, or what speaks as one.
pub struct Postgres {
    endpoints: Vec<Endpoint>,
    table: String,
    keys: u64,
    on_connect: Vec<String>,
}

struct Endpoint {
    config: Config,
    name: String,
    connections: Vec<Connection>,
}

#[derive(Default)]
struct Connection {
    ready: RwLock<Option<Arc<Ready>>>,
    /// Held by the operation that opens the connection.
    opening: Mutex<()>,
}

/// An open connection with its statements, which are prepared once the table is there.
struct Ready {
    client: Client,
    statements: Option<Statements>,
}

struct Statements {
    read: Statement,
    write: Statement,
}

/// An error with its causes, as the driver's own text leaves out what the server said.
fn told(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Postgres {
    /// Reads the endpoints.
    pub fn new(options: &Options) -> Result<Self, String> {
        let endpoint = |(place, url): (usize, &String)| {
            let parsed = url.parse::<Config>();
            // The error's text has no part of the URL, which may have a password.
            let mut config =
                parsed.map_err(|error| format!("endpoint {}: {}", place + 1, told(&error)))?;
            config.application_name("coeval-probe");
            config.connect_timeout(options.timeout);
            let connections = (0..options.connections).map(|_| Connection::default());
            Ok(Endpoint {
                name: name(&config),
                config,
                connections: connections.collect(),
            })
        };
        let endpoints: Result<_, String> =
            options.endpoints.iter().enumerate().map(endpoint).collect();
        Ok(Self {
            endpoints: endpoints?,
            table: options.name.clone(),
            keys: options.keys,
            on_connect: options.on_connect.clone(),
        })
    }

    /// What it connects to.
    pub fn endpoints(&self) -> Vec<String> {
        let each = self.endpoints.iter().enumerate();
        each.map(|(place, endpoint)| {
            let what = if place == 0 {
                "writes and reads"
            } else {
                "reads"
            };
            let count = endpoint.connections.len();
            format!("{}, {count} connections, {what}", endpoint.name)
        })
        .collect()
    }

    /// What it creates.
    pub fn creates(&self) -> String {
        let Self { table, keys, .. } = self;
        format!("the table {table} (key bigint primary key, value bigint) with {keys} rows")
    }

    /// What it removes.
    pub fn removes(&self) -> String {
        let table = &self.table;
        format!("it at the end; if the probe is killed: drop table {table}")
    }

    /// Opens one connection to each endpoint; the others are opened with their statements.
    pub async fn connect(&self) -> Result<(), String> {
        for endpoint in &self.endpoints {
            let ready = self.open(endpoint, false).await;
            let ready = ready.map_err(|error| format!("{}: {error}", endpoint.name))?;
            endpoint.connections[0].set(Arc::new(ready));
        }
        Ok(())
    }

    /// Creates the table, and opens all connections.
    pub async fn create(&self) -> Result<(), String> {
        let first = &self.endpoints[0];
        let client = first.connections[0].get().ok_or("not connected")?;
        let table = &self.table;
        let create = format!("create table {table} (key bigint primary key, value bigint)");
        let created = client.client.batch_execute(&create).await;
        created.map_err(|error| format!("cannot create the table: {}", told(&error)))?;
        let opened = self.open_all().await;
        match opened {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = self.remove().await;
                Err(error)
            }
        }
    }

    async fn open_all(&self) -> Result<(), String> {
        for endpoint in &self.endpoints {
            // A replica has the table a moment later.
            let end = tokio::time::Instant::now() + super::SETTLED;
            for connection in &endpoint.connections {
                let ready = loop {
                    match self.open(endpoint, true).await {
                        Ok(ready) => break ready,
                        Err(error) if tokio::time::Instant::now() > end => {
                            return Err(format!("{}: {error}", endpoint.name));
                        }
                        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                    }
                };
                connection.set(Arc::new(ready));
            }
        }
        Ok(())
    }

    async fn open(&self, endpoint: &Endpoint, prepares: bool) -> Result<Ready, String> {
        let told = |error| told(&error);
        let (client, connection) = endpoint.config.connect(NoTls).await.map_err(told)?;
        // It ends with the client; what goes wrong is the answer of the operation that met it.
        tokio::spawn(async move { drop(connection.await) });
        for statement in &self.on_connect {
            let done = client.batch_execute(statement).await;
            done.map_err(|error| format!("{statement}: {}", self::told(&error)))?;
        }
        let table = &self.table;
        let statements = match prepares {
            false => None,
            true => Some(Statements {
                read: client
                    .prepare(&format!("select value from {table} where key = $1"))
                    .await
                    .map_err(told)?,
                write: client
                    .prepare(&format!("update {table} set value = $2 where key = $1"))
                    .await
                    .map_err(told)?,
            }),
        };
        Ok(Ready { client, statements })
    }

    /// The connection of an operation, opened again if it was lost.
    async fn ready(&self, endpoint: &Endpoint, number: u64) -> Result<Arc<Ready>, String> {
        let place = (number % endpoint.connections.len() as u64) as usize;
        let connection = &endpoint.connections[place];
        let is_open = |ready: &Arc<Ready>| !ready.client.is_closed();
        if let Some(ready) = connection.get().filter(is_open) {
            return Ok(ready);
        }
        let Ok(_opening) = connection.opening.try_lock() else {
            return Err("the connection was lost, and is being opened".to_owned());
        };
        let ready = Arc::new(self.open(endpoint, true).await?);
        connection.set(ready.clone());
        Ok(ready)
    }

    /// Inserts a row.
    pub async fn load(&self, key: u64, value: i64) -> Result<(), String> {
        let ready = self.ready(&self.endpoints[0], key).await?;
        let table = &self.table;
        let insert = format!("insert into {table} values ({key}, {value})");
        let done = ready.client.batch_execute(&insert).await;
        done.map_err(|error| told(&error))
    }

    /// Reads a row.
    pub async fn read(&self, number: u64, key: u64) -> Result<Option<i64>, String> {
        let count = self.endpoints.len() as u64;
        let endpoint = &self.endpoints[(number % count) as usize];
        let ready = self.ready(endpoint, number / count).await?;
        let statements = ready.statements.as_ref().ok_or("not prepared")?;
        let key = key as i64;
        let row = ready.client.query_opt(&statements.read, &[&key]).await;
        row.map_err(|error| told(&error))?
            .map(|row| row.try_get(0).map_err(|error| told(&error)))
            .transpose()
    }

    /// Updates a row.
    pub async fn write(&self, number: u64, key: u64, value: i64) -> Result<(), String> {
        let ready = self.ready(&self.endpoints[0], number).await?;
        let statements = ready.statements.as_ref().ok_or("not prepared")?;
        let key = key as i64;
        let done = ready
            .client
            .execute(&statements.write, &[&key, &value])
            .await;
        match done.map_err(|error| told(&error))? {
            1 => Ok(()),
            count => Err(format!("an update of one row changed {count}")),
        }
    }

    /// Drops the table, over a new connection: the others may be full of operations.
    pub async fn remove(&self) -> Result<(), String> {
        let table = &self.table;
        let dropped = async {
            let ready = self.open(&self.endpoints[0], false).await?;
            let done = ready
                .client
                .batch_execute(&format!("drop table if exists {table}"))
                .await;
            done.map_err(|error| told(&error))
        };
        dropped
            .await
            .map_err(|error| format!("cannot remove the table: {error}; do it: drop table {table}"))
    }
}

impl Connection {
    fn get(&self) -> Option<Arc<Ready>> {
        self.ready
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, ready: Arc<Ready>) {
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Some(ready);
    }
}

/// Hosts, port and database, without the password.
fn name(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let ports = config.get_ports().iter().map(ToString::to_string);
    let ports = ports.collect::<Vec<_>>().join(",");
    let ports = if ports.is_empty() {
        "5432".to_owned()
    } else {
        ports
    };
    let database = config
        .get_dbname()
        .or(config.get_user())
        .unwrap_or_default();
    format!("postgresql://{hosts}:{ports}/{database}")
}
