//! Cassandra's protocol: a keyspace with one table.
//!
//! The first values are written at ALL, so that every replica has them before the run. A
//! statement is sent once: a driver that repeats a read after a timeout would hide what is
//! measured. Writes carry no timestamp of the client; the coordinator's clock decides which
//! of two is the later one, as in most applications.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

use crate::options::Options;

/// How long a change of the schema may take: nodes that are busy take their time.
const SCHEMA_CHANGED: Duration = Duration::from_secs(50);

/// A Cassandra, or what speaks as one.
pub struct Cassandra {
    nodes: Vec<String>,
    keyspace: String,
    keys: u64,
    replication_factor: u32,
    consistency: Consistency,
    level: String,
    timeout: Duration,
    session: OnceLock<Session>,
    statements: OnceLock<Statements>,
}

struct Statements {
    read: PreparedStatement,
    write: PreparedStatement,
    load: PreparedStatement,
}

impl Cassandra {
    /// Reads the endpoints.
    pub fn new(options: &Options) -> Result<Self, String> {
        let node = |(place, url): (usize, &String)| {
            let host = url
                .split_once("://")
                .map(|(_, host)| host.trim_end_matches('/'));
            match host {
                Some(host) if host.contains(['@', '/']) => Err(format!(
                    "endpoint {}: cassandra://host:port, without a user or a keyspace",
                    place + 1
                )),
                Some(host) if !host.is_empty() => Ok(host.to_owned()),
                _ => Err(format!("endpoint {}: it has no host", place + 1)),
            }
        };
        let nodes: Result<_, String> = options.endpoints.iter().enumerate().map(node).collect();
        Ok(Self {
            nodes: nodes?,
            keyspace: options.name.clone(),
            keys: options.keys,
            replication_factor: options.replication_factor,
            consistency: match options.consistency.as_str() {
                "two" => Consistency::Two,
                "three" => Consistency::Three,
                "quorum" => Consistency::Quorum,
                "local-quorum" => Consistency::LocalQuorum,
                "local-one" => Consistency::LocalOne,
                "all" => Consistency::All,
                _ => Consistency::One,
            },
            level: options.consistency.clone(),
            timeout: options.timeout,
            session: OnceLock::new(),
            statements: OnceLock::new(),
        })
    }

    /// What it connects to.
    pub fn endpoints(&self) -> Vec<String> {
        let level = &self.level;
        let each = self.nodes.iter();
        each.map(|node| {
            format!("cassandra://{node} and the nodes it names, reads and writes at {level}")
        })
        .collect()
    }

    /// What it creates.
    pub fn creates(&self) -> String {
        let Self {
            keyspace,
            keys,
            replication_factor,
            ..
        } = self;
        format!(
            "the keyspace {keyspace} (SimpleStrategy, replication factor {replication_factor}) \
             with a table of {keys} rows"
        )
    }

    /// What it removes.
    pub fn removes(&self) -> String {
        let keyspace = &self.keyspace;
        format!(
            "it at the end (with auto_snapshot the nodes keep a snapshot: nodetool clearsnapshot);\n           \
             if the probe is killed: drop keyspace {keyspace}"
        )
    }

    /// Connects.
    pub async fn connect(&self) -> Result<(), String> {
        let profile = ExecutionProfile::builder()
            .consistency(self.consistency)
            .request_timeout(Some(self.timeout))
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .build();
        let session = SessionBuilder::new()
            .known_nodes(&self.nodes)
            .connection_timeout(self.timeout)
            .default_execution_profile_handle(profile.into_handle())
            .build()
            .await
            .map_err(|error| format!("cassandra://{}: {error}", self.nodes.join(",")))?;
        let _ = self.session.set(session);
        Ok(())
    }

    /// Creates the keyspace.
    pub async fn create(&self) -> Result<(), String> {
        let keyspace = &self.keyspace;
        let replication = format!(
            "{{'class': 'SimpleStrategy', 'replication_factor': {}}}",
            self.replication_factor
        );
        self.run(&format!(
            "create keyspace {keyspace} with replication = {replication}"
        ))
        .await
        .map_err(|error| format!("{error}; if there is no answer, see whether it is there"))?;
        match self.prepare().await {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = self.remove().await;
                Err(error)
            }
        }
    }

    async fn prepare(&self) -> Result<(), String> {
        let keyspace = &self.keyspace;
        self.run(&format!(
            "create table {keyspace}.probe (key bigint primary key, value bigint)"
        ))
        .await?;
        let session = self.session()?;
        let prepare = async |text: String| {
            let prepared = session.prepare(text).await;
            prepared.map_err(|error| error.to_string())
        };
        let read = prepare(format!("select value from {keyspace}.probe where key = ?")).await?;
        let write = format!("insert into {keyspace}.probe (key, value) values (?, ?)");
        let mut load = prepare(write.clone()).await?;
        load.set_consistency(Consistency::All);
        let write = prepare(write).await?;
        let _ = self.statements.set(Statements { read, write, load });
        Ok(())
    }

    /// Writes a row for the first time, on all replicas.
    pub async fn load(&self, key: u64, value: i64) -> Result<(), String> {
        let statements = self.statements.get().ok_or("not prepared")?;
        self.insert(&statements.load, key, value).await
    }

    /// Reads a row.
    pub async fn read(&self, _: u64, key: u64) -> Result<Option<i64>, String> {
        let statements = self.statements.get().ok_or("not prepared")?;
        let session = self.session()?;
        let answer = session
            .execute_unpaged(&statements.read, (key as i64,))
            .await;
        let rows = answer
            .map_err(|error| error.to_string())?
            .into_rows_result();
        let rows = rows.map_err(|error| error.to_string())?;
        let row = rows.maybe_first_row::<(Option<i64>,)>();
        Ok(row
            .map_err(|error| error.to_string())?
            .and_then(|(value,)| value))
    }

    /// Writes a row.
    pub async fn write(&self, _: u64, key: u64, value: i64) -> Result<(), String> {
        let statements = self.statements.get().ok_or("not prepared")?;
        self.insert(&statements.write, key, value).await
    }

    /// Drops the keyspace.
    pub async fn remove(&self) -> Result<(), String> {
        let drop = format!("drop keyspace if exists {}", self.keyspace);
        self.run(&drop)
            .await
            .map_err(|error| format!("cannot remove the keyspace: {error}; do it: {drop}"))
    }

    async fn insert(
        &self,
        statement: &PreparedStatement,
        key: u64,
        value: i64,
    ) -> Result<(), String> {
        let done = self
            .session()?
            .execute_unpaged(statement, (key as i64, value));
        done.await.map(drop).map_err(|error| error.to_string())
    }

    async fn run(&self, statement: &str) -> Result<(), String> {
        let session = self.session()?;
        let mut asked = Statement::new(statement);
        asked.set_request_timeout(Some(SCHEMA_CHANGED));
        let done = session.query_unpaged(asked, ()).await;
        done.map(drop)
            .map_err(|error| format!("{statement}: {error}"))?;
        let agreed = session.await_schema_agreement().await;
        agreed
            .map(drop)
            .map_err(|error| format!("{statement}: {error}"))
    }

    fn session(&self) -> Result<&Session, String> {
        self.session.get().ok_or_else(|| "not connected".to_owned())
    }
}
