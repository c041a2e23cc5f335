//! What a client can do, whichever way it reaches the database.
//!
//! There is one table, of numbers to rows, and a row is a list of numbers. Each call is
//! a statement of its own, so that READ COMMITTED means something.

mod contract;
mod wire;

pub use contract::{Contract, THINK, storage};
pub use wire::{Wire, prepare};

use coeval_txn::Isolation;

/// A row: numbers.
pub type Row = Vec<i64>;

/// Why a statement has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The transaction will not commit; another may.
    Failed(String),
    /// Nobody answers any more. The transaction will not commit, for nobody has asked
    /// it to.
    Lost(String),
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It committed, durably.
    Committed,
    /// It did not, and will not.
    Failed(String),
    /// Nobody knows.
    Unknown(String),
    /// Nobody knows, and what a server says of it cannot be.
    Wrong(String),
}

/// A client's way to the database.
#[derive(Debug)]
pub enum Session {
    /// By the contract, in the engine's process.
    Contract(Contract),
    /// Over the wire.
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

    /// The row under a key.
    pub async fn get(&mut self, key: u64) -> Result<Option<Row>, Failure> {
        either!(self, session => session.get(key).await)
    }

    /// The rows from one key to another, both included.
    pub async fn scan(&mut self, first: u64, last: u64) -> Result<Vec<(u64, Row)>, Failure> {
        either!(self, session => session.scan(first, last).await)
    }

    /// Locks the row under a key and puts another in its place.
    pub async fn change(
        &mut self,
        key: u64,
        change: impl Fn(Option<Row>) -> Row + Send,
    ) -> Result<(), Failure> {
        either!(self, session => session.change(key, change).await)
    }

    /// Puts a row under a key, whatever is there.
    pub async fn put(&mut self, key: u64, row: &[i64]) -> Result<(), Failure> {
        either!(self, session => session.put(key, row).await)
    }

    /// Appends a number to the row under a key, or makes it.
    pub async fn append(&mut self, key: u64, number: i64) -> Result<(), Failure> {
        either!(self, session => session.append(key, number).await)
    }

    /// Deletes the row under a key; says whether there was one.
    pub async fn delete(&mut self, key: u64) -> Result<bool, Failure> {
        either!(self, session => session.delete(key).await)
    }

    /// Commits, and waits until that is durable.
    pub async fn commit(&mut self) -> Ended {
        either!(self, session => session.commit().await)
    }

    /// Gives the transaction up, if one runs.
    pub async fn abort(&mut self) -> Result<(), Failure> {
        either!(self, session => session.abort().await)
    }
}
