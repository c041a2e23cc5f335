//! Redis's protocol: a string for each key, under a common prefix.
//!
//! Every key expires by itself an hour after the run, should the probe be killed before it
//! can delete them. The driver opens a lost connection again.

use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd};

use crate::options::Options;

/// How long keys outlive the run.
const EXPIRE: Duration = Duration::from_secs(3_600);

/// Number of keys that one command names.
const AT_ONCE: usize = 1_000;

/// A Redis, or what speaks as one.
pub struct Redis {
    endpoints: Vec<Endpoint>,
    prefix: String,
    keys: u64,
    seconds: u64,
    timeout: Duration,
}

struct Endpoint {
    client: Client,
    name: String,
    connections: OnceLock<Vec<RwLock<ConnectionManager>>>,
    count: usize,
}

impl Redis {
    /// Reads the endpoints.
    pub fn new(options: &Options) -> Result<Self, String> {
        let endpoint = |(place, url): (usize, &String)| {
            let url = match url.split_once("://") {
                Some((_, rest)) => format!("redis://{rest}"),
                None => url.clone(),
            };
            let client = Client::open(url);
            let client = client.map_err(|error| format!("endpoint {}: {error}", place + 1))?;
            let info = client.get_connection_info();
            Ok(Endpoint {
                name: format!("redis://{}/{}", info.addr(), info.redis_settings().db()),
                client,
                connections: OnceLock::new(),
                count: options.connections,
            })
        };
        let endpoints: Result<_, String> =
            options.endpoints.iter().enumerate().map(endpoint).collect();
        Ok(Self {
            endpoints: endpoints?,
            prefix: options.name.clone(),
            keys: options.keys,
            seconds: options.seconds.into(),
            timeout: options.timeout,
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
            let Endpoint { name, count, .. } = endpoint;
            format!("{name}, {count} connections, {what}")
        })
        .collect()
    }

    /// What it creates.
    pub fn creates(&self) -> String {
        let Self { prefix, keys, .. } = self;
        format!("the keys {prefix}:0 to {prefix}:{}", keys - 1)
    }

    /// What it removes.
    pub fn removes(&self) -> String {
        let minutes = EXPIRE.as_secs() / 60;
        format!("them at the end; if the probe is killed, they expire {minutes} min after the run")
    }

    /// Connects to all endpoints.
    pub async fn connect(&self) -> Result<(), String> {
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        for endpoint in &self.endpoints {
            let mut connections = Vec::new();
            for _ in 0..endpoint.count {
                let client = endpoint.client.clone();
                let connection = ConnectionManager::new_with_config(client, config.clone()).await;
                let connection =
                    connection.map_err(|error| format!("{}: {error}", endpoint.name))?;
                connections.push(RwLock::new(connection));
            }
            let _ = endpoint.connections.set(connections);
        }
        Ok(())
    }

    /// Looks whether the keys are free.
    pub async fn create(&self) -> Result<(), String> {
        match self.ask_of_all("EXISTS").await? {
            0 => Ok(()),
            count => Err(format!(
                "{count} keys of the name {} are there; choose another --name",
                self.prefix
            )),
        }
    }

    /// Asks something of all keys, some at a time, and returns the sum of the answers.
    async fn ask_of_all(&self, command: &str) -> Result<u64, String> {
        let mut sum = 0;
        for first in (0..self.keys).step_by(AT_ONCE) {
            let mut asked = redis::cmd(command);
            for key in first..self.keys.min(first + AT_ONCE as u64) {
                asked.arg(self.key(key));
            }
            sum += self.ask::<u64>(0, 0, &asked).await?;
        }
        Ok(sum)
    }

    /// Writes a key for the first time.
    pub async fn load(&self, key: u64, value: i64) -> Result<(), String> {
        self.write(key, key, value).await
    }

    /// Reads a key.
    pub async fn read(&self, number: u64, key: u64) -> Result<Option<i64>, String> {
        let count = self.endpoints.len() as u64;
        let mut get = redis::cmd("GET");
        get.arg(self.key(key));
        self.ask((number % count) as usize, number / count, &get)
            .await
    }

    /// Writes a key.
    pub async fn write(&self, number: u64, key: u64, value: i64) -> Result<(), String> {
        let mut set = redis::cmd("SET");
        let expire = self.seconds + EXPIRE.as_secs();
        set.arg(self.key(key)).arg(value).arg("EX").arg(expire);
        self.ask(0, number, &set).await
    }

    /// Deletes the keys.
    pub async fn remove(&self) -> Result<(), String> {
        let deleted = self.ask_of_all("DEL").await;
        deleted.map(drop).map_err(|error| {
            let prefix = &self.prefix;
            format!("cannot delete the keys {prefix}:…: {error}; they expire by themselves")
        })
    }

    fn key(&self, key: u64) -> String {
        format!("{}:{key}", self.prefix)
    }

    async fn ask<T: redis::FromRedisValue>(
        &self,
        endpoint: usize,
        number: u64,
        command: &Cmd,
    ) -> Result<T, String> {
        let connections = self.endpoints[endpoint].connections.get();
        let connections = connections.ok_or("not connected")?;
        let place = (number % connections.len() as u64) as usize;
        // A clone shares the connection, on which commands are pipelined.
        let connection = connections[place].read();
        let mut connection = connection.unwrap_or_else(PoisonError::into_inner).clone();
        let answer = command.query_async(&mut connection).await;
        answer.map_err(|error| error.to_string())
    }
}
