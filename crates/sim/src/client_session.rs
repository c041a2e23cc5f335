//! Client sessions of the simulator's own workloads, with one interface for every way to
//! reach the database.
//!
//! There is one table, from numbers to rows, and a row is a list of numbers. Each call is
//! a statement of its own, so that READ COMMITTED takes a new snapshot for each.

mod contract;
mod wire;

pub use contract::{Contract, THINK, newest, storage};
pub use wire::{AT_HOME, AT_LEADER, Wire, prepare};

use coeval_txn::Isolation;

/// A row: a list of numbers.
pub type Row = Vec<i64>;

/// Reason why a statement failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction will not commit; a retry may succeed.
    Failed(String),
    /// The server no longer answers. The transaction will not commit, because the client
    /// has sent no commit.
    Lost(String),
}

/// Outcome of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The transaction committed durably.
    Committed,
    /// The transaction did not commit, and never will.
    Failed(String),
    /// The outcome is unknown.
    Unknown(String),
    /// The outcome is unknown, and a server's answer about it is wrong.
    Wrong(String),
}

/// A client's session with the database.
#[derive(Debug)]
pub enum Session {
    /// Through the transaction contract, in the engine's process.
    Contract(Contract),
    /// Over the wire protocol.
    Wire(Box<Wire>),
}

macro_rules! either {
    ($self:ident, $session:ident => $call:expr) => {
        match $self {
            Session::Contract($session) => $call,
            Session::Wire($session) => $call,
        }
    };
}

impl Session {
    /// Begins a transaction.
    pub async fn begin(&mut self, isolation: Isolation, read_only: bool) -> Result<(), Failure> {
        either!(self, session => session.begin(isolation, read_only).await)
    }

    /// Reads the row under a key.
    pub async fn get(&mut self, key: u64) -> Result<Option<Row>, Failure> {
        either!(self, session => session.get(key).await)
    }

    /// Whether the session reads the tables of a follower, in its process.
    #[must_use]
    pub fn is_on_follower(&self) -> bool {
        match self {
            Self::Contract(contract) => contract.is_on_follower(),
            Self::Wire(_) => false,
        }
    }

    /// Whether the running transaction is one request at most: its statements have to be
    /// sent together ([`Session::get_all`]).
    #[must_use]
    pub const fn is_one_request(&self) -> bool {
        match self {
            Self::Contract(_) => false,
            Self::Wire(wire) => wire.is_one_request(),
        }
    }

    /// Reads the rows under these keys, with a statement for each.
    pub async fn get_all(&mut self, keys: &[u64]) -> Result<Vec<Option<Row>>, Failure> {
        if let Self::Wire(wire) = self {
            return wire.get_all(keys).await;
        }
        let mut rows = Vec::new();
        for key in keys {
            rows.push(self.get(*key).await?);
        }
        Ok(rows)
    }

    /// Reads the rows from one key to another, both included.
    pub async fn scan(&mut self, first: u64, last: u64) -> Result<Vec<(u64, Row)>, Failure> {
        either!(self, session => session.scan(first, last).await)
    }

    /// Locks the row under a key and replaces it by the result of `change`.
    pub async fn change(
        &mut self,
        key: u64,
        change: impl Fn(Option<Row>) -> Row + Send,
    ) -> Result<(), Failure> {
        either!(self, session => session.change(key, change).await)
    }

    /// Writes a row under a key, whether or not one exists.
    pub async fn put(&mut self, key: u64, row: &[i64]) -> Result<(), Failure> {
        either!(self, session => session.put(key, row).await)
    }

    /// Appends a number to the row under a key, or creates the row.
    pub async fn append(&mut self, key: u64, number: i64) -> Result<(), Failure> {
        either!(self, session => session.append(key, number).await)
    }

    /// Deletes the row under a key; returns whether it existed.
    pub async fn delete(&mut self, key: u64) -> Result<bool, Failure> {
        either!(self, session => session.delete(key).await)
    }

    /// Commits the transaction, and waits until it is durable.
    pub async fn commit(&mut self) -> Ended {
        either!(self, session => session.commit().await)
    }

    /// Rolls the transaction back, if one is running.
    pub async fn abort(&mut self) -> Result<(), Failure> {
        either!(self, session => session.abort().await)
    }
}
