//! The stores that can be measured: each a driver that others maintain, behind six verbs.
//!
//! A store is created by its endpoints alone, so that the plan can be told before anything
//! is connected. It creates one object under a name that must be free, and removes that
//! object and nothing else.

mod cassandra;
mod postgres;
mod redis;

use std::sync::Arc;
use std::time::Duration;

use crate::options::Options;
use cassandra::Cassandra;
use postgres::Postgres;
use redis::Redis;

/// How long to wait before the removal is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long the removal may take.
const REMOVED: Duration = Duration::from_secs(60);
/// How long an endpoint may take to show the first values.
const SETTLED: Duration = Duration::from_secs(30);

/// A database under measurement.
#[derive(Clone)]
pub enum Store {
    /// PostgreSQL's protocol.
    Postgres(Arc<Postgres>),
    /// Redis's protocol.
    Redis(Arc<Redis>),
    /// Cassandra's protocol.
    Cassandra(Arc<Cassandra>),
}

/// Calls the same method of each kind of store.
macro_rules! each {
    ($store:expr, $its:ident => $call:expr) => {
        match $store {
            Store::Postgres($its) => $call,
            Store::Redis($its) => $call,
            Store::Cassandra($its) => $call,
        }
    };
}

impl Store {
    /// The store at the endpoints of the options. Connects nowhere.
    ///
    /// # Errors
    /// When an endpoint cannot be understood, or they are of different kinds.
    pub fn new(options: &Options) -> Result<Self, String> {
        let scheme = |endpoint: &String| match endpoint.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok("postgresql"),
            Some(("redis" | "valkey", _)) => Ok("redis"),
            Some(("cassandra" | "scylla", _)) => Ok("cassandra"),
            _ => Err("an endpoint begins with postgresql://, redis:// or cassandra://".to_owned()),
        };
        let schemes: Result<Vec<_>, String> = options.endpoints.iter().map(scheme).collect();
        let schemes = schemes?;
        let first = schemes.first().copied().unwrap_or_default();
        if let Some(other) = schemes.iter().find(|other| **other != first) {
            return Err(format!("one endpoint is {first}://, another {other}://"));
        }
        Ok(match first {
            "postgresql" => Self::Postgres(Arc::new(Postgres::new(options)?)),
            "redis" => Self::Redis(Arc::new(Redis::new(options)?)),
            _ => Self::Cassandra(Arc::new(Cassandra::new(options)?)),
        })
    }

    /// What it connects to, without secrets.
    pub fn endpoints(&self) -> Vec<String> {
        each!(self, its => its.endpoints())
    }

    /// What it creates, in words.
    pub fn creates(&self) -> String {
        each!(self, its => its.creates())
    }

    /// What it removes, in words, and what remains if it cannot.
    pub fn removes(&self) -> String {
        each!(self, its => its.removes())
    }

    /// Connects to all endpoints.
    pub async fn connect(&self) -> Result<(), String> {
        each!(self, its => its.connect().await)
    }

    /// Creates the object; removes again what it created if that fails half-way.
    pub async fn create(&self) -> Result<(), String> {
        each!(self, its => its.create().await)
    }

    /// Writes the first value of a key.
    pub async fn load(&self, key: u64, value: i64) -> Result<(), String> {
        each!(self, its => its.load(key, value).await)
    }

    /// Reads a key; `number` spreads operations over connections.
    pub async fn read(&self, number: u64, key: u64) -> Result<Option<i64>, String> {
        each!(self, its => its.read(number, key).await)
    }

    /// Writes a key.
    pub async fn write(&self, number: u64, key: u64, value: i64) -> Result<(), String> {
        each!(self, its => its.write(number, key, value).await)
    }

    /// Removes the object.
    pub async fn remove(&self) -> Result<(), String> {
        // A store that the run was too much for answers again soon after it.
        let end = tokio::time::Instant::now() + REMOVED;
        loop {
            let removed = async { each!(self, its => its.remove().await) };
            match tokio::time::timeout_at(end, removed).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if tokio::time::Instant::now() + AGAIN >= end => return Err(error),
                Ok(Err(_)) => tokio::time::sleep(AGAIN).await,
                // Operations that were given up may still hold its locks.
                Err(_) => {
                    let removes = self.removes();
                    return Err(format!("what was created is still there: {removes}"));
                }
            }
        }
    }

    /// Waits until every endpoint shows the first value of the last key: a replica that is
    /// minutes behind would be measured before it can answer at all.
    pub async fn settle(&self, keys: u64) -> Result<(), String> {
        let last = keys - 1;
        let wanted = Some(crate::schedule::first_value(last));
        let endpoints = self.endpoints().len() as u64;
        let end = tokio::time::Instant::now() + SETTLED;
        for endpoint in 0..endpoints {
            let mut said = self.read(endpoint, last).await;
            while said.as_ref() != Ok(&wanted) {
                if tokio::time::Instant::now() > end {
                    let what = match said {
                        Ok(_) => "it does not show what was written".to_owned(),
                        Err(error) => error,
                    };
                    let seconds = SETTLED.as_secs();
                    let name = &self.endpoints()[endpoint as usize];
                    return Err(format!("{name}: {what}, after {seconds} s"));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                said = self.read(endpoint, last).await;
            }
        }
        Ok(())
    }
}
