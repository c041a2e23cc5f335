//! The workload trait: a workload defines its tables, initial rows, transactions, and a
//! final check of the data.
//!
//! The [driver](crate::driver) asks a workload for one request after the other and runs
//! each until it is done:
//!
//! ```text
//!   draw ─▶ request ─▶ begin ─ run ─ commit ─▶ ended(effect)
//!                        ▲       │ conflict
//!                        └───────┘ the same request again
//! ```
//!
//! Invariants:
//! - A request is determined by its client's random number generator and, where the
//!   workload depends on it, by the requests completed so far (which key is the newest).
//!   So a seed repeats a run of one client; the order among several clients depends on
//!   the threads.
//! - `run` changes nothing outside of the database: it may run several times for one
//!   request. State that the workload must remember of a commit is its effect.

use std::collections::BTreeMap;
use std::future::Future;

use crate::chance::Chance;
use crate::store::{Failure, Loader, Row, Session, Table, Versions};

/// One of the clients that make requests.
#[derive(Clone, Debug)]
pub struct Client {
    /// Number of the client, from 0.
    pub number: u64,
    /// Number of clients.
    pub of: u64,
    /// The client's random number generator.
    pub chance: Chance,
    /// Reusable buffer for a row; its contents are valid for one request at most.
    pub row: Row,
    sequence: u64,
}

impl Client {
    /// The client `number` out of `of` clients, under a seed.
    #[must_use]
    pub fn new(number: u64, of: u64, seed: u64) -> Self {
        Self {
            number,
            of,
            chance: Chance::of(seed, number),
            row: Row::default(),
            sequence: 0,
        }
    }

    /// Makes all later unique numbers of this client greater than `greatest`.
    pub fn begin_above(&mut self, greatest: u64) {
        self.sequence = self.sequence.max(greatest / self.of.max(1));
    }

    /// A number above 0 that no other call returns, for this client or another.
    pub fn unique(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence * self.of + self.number
    }
}

/// Properties of a request that the driver depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Index of the request's kind in [`Workload::kinds`].
    pub kind: usize,
    /// Whether the transaction changes nothing.
    pub read_only: bool,
    /// Whether the transaction is one operation: over the wire it is sent without BEGIN
    /// and COMMIT.
    pub single: bool,
}

/// Whether it is certain that a transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The database acknowledged the commit.
    Committed,
    /// The outcome of the commit is unknown.
    Perhaps,
}

/// Parameters of a workload by name, as a report lists them.
pub type Parameters = BTreeMap<String, serde_json::Value>;

/// A workload: a generator of transactions over its own tables.
pub trait Workload: Send + Sync + 'static {
    /// One transaction to run, with all its random choices made.
    type Request: Send + Sync;
    /// State that the workload keeps of a transaction that has committed.
    type Effect: Send;

    /// Name of the workload.
    fn name(&self) -> &'static str;

    /// Tables of the workload.
    fn tables(&self) -> Vec<Table>;

    /// Kinds of the workload's transactions.
    fn kinds(&self) -> &'static [&'static str];

    /// Parameters of the workload, for reports.
    fn parameters(&self) -> Parameters;

    /// Columns whose values are all distinct, from which the recorder derives the
    /// versions that transactions read and wrote. Empty for workloads that record their
    /// own operations.
    fn versions(&self) -> Vec<Versions> {
        Vec::new()
    }

    /// Number of parts in which the rows can be loaded concurrently.
    fn parts(&self) -> u64 {
        1
    }

    /// Loads one part of the rows.
    fn load(
        &self,
        part: u64,
        loader: &mut Loader,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Prepares the workload to continue on tables that an earlier run has filled: it
    /// initialises its counters from their contents, in a read-only transaction that has
    /// begun. Returns the greatest [unique number](Client::unique) in the tables. Tables
    /// of another size than this workload's are [`Failure::Wrong`].
    fn resume(&self, _session: &mut Session) -> impl Future<Output = Result<u64, Failure>> + Send {
        async { Ok(0) }
    }

    /// The next request of a client.
    fn draw(&self, client: &mut Client) -> Self::Request;

    /// Properties of a request.
    fn nature(&self, request: &Self::Request) -> Nature;

    /// Runs a request in the transaction that the session has begun, all but the commit.
    fn run(
        &self,
        request: &Self::Request,
        client: &mut Client,
        session: &mut Session,
    ) -> impl Future<Output = Result<Self::Effect, Failure>> + Send;

    /// Called when a request has ended. The effect is absent if the transaction was lost
    /// before its commit.
    fn ended(&self, _request: &Self::Request, _effect: Option<Self::Effect>, _done: Done) {}

    /// Checks the data when all clients have ended, in a read-only transaction that has
    /// begun. Returns the violations, as text.
    fn check(
        &self,
        session: &mut Session,
    ) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}
