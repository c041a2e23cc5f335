//! What a load is made of: tables, rows to begin with, transactions, and what has to
//! be true at the end.
//!
//! The [driver](crate::driver) asks a workload for one request after the other and
//! runs each until it is done:
//!
//! ```text
//!   draw ─▶ request ─▶ begin ─ run ─ commit ─▶ ended(effect)
//!                        ▲       │ conflict
//!                        └───────┘ the same request again
//! ```
//!
//! Invariants:
//! - What a request is, its client's chance decides, and where a workload has to know it
//!   what has been done so far (which key is the newest). So a seed repeats a run of one
//!   client; of several, threads decide the order.
//! - `run` changes nothing outside of the database: it may run several times for one
//!   request. What has to be remembered of a commit is its effect.

use std::collections::BTreeMap;
use std::future::Future;

use crate::chance::Chance;
use crate::store::{Failure, Loader, Row, Session, Table, Versions};

/// One of the clients that make requests.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its number, from 0.
    pub number: u64,
    /// How many there are.
    pub of: u64,
    /// Its chance.
    pub chance: Chance,
    /// Memory for a row; what is in it lasts for no longer than a request.
    pub row: Row,
    sequence: u64,
}

impl Client {
    /// The client of a number, of so many, under a seed.
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

    /// Has the numbers that are drawn from now on begin above this one.
    pub fn begin_above(&mut self, greatest: u64) {
        self.sequence = self.sequence.max(greatest / self.of.max(1));
    }

    /// A number above 0 that no other call has given, by this client or another.
    pub fn unique(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence * self.of + self.number
    }
}

/// What a request is, as far as the driver has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// Which of [`Workload::kinds`].
    pub kind: usize,
    /// It changes nothing.
    pub read_only: bool,
    /// It is one operation: over the wire it goes without BEGIN and COMMIT.
    pub single: bool,
}

/// How certain it is that a request has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was acknowledged.
    Committed,
    /// Nobody knows.
    Perhaps,
}

/// A value of a report.
pub type Parameters = BTreeMap<String, serde_json::Value>;

/// A load.
pub trait Workload: Send + Sync + 'static {
    /// One transaction to be done, with everything chance decides of it.
    type Request: Send + Sync;
    /// What is to be remembered of one that has been done.
    type Effect: Send;

    /// Its name.
    fn name(&self) -> &'static str;

    /// Its tables.
    fn tables(&self) -> Vec<Table>;

    /// The kinds of its transactions.
    fn kinds(&self) -> &'static [&'static str];

    /// What it was told, for reports.
    fn parameters(&self) -> Parameters;

    /// Columns that have no value twice, by which a history has what transactions read
    /// and wrote. None where they note that themselves.
    fn versions(&self) -> Vec<Versions> {
        Vec::new()
    }

    /// In how many parts its rows can be loaded side by side.
    fn parts(&self) -> u64 {
        1
    }

    /// Loads one part of the rows.
    fn load(
        &self,
        part: u64,
        loader: &mut Loader,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Looks at tables that a run before has filled, in a read-only transaction that has
    /// begun, so that this run goes on from there: what it counts, it counts from what it
    /// finds. The greatest [unique number](Client::unique) that they hold. Tables of
    /// another size than this workload's are [`Failure::Wrong`].
    fn resume(&self, _session: &mut Session) -> impl Future<Output = Result<u64, Failure>> + Send {
        async { Ok(0) }
    }

    /// The next request of a client.
    fn draw(&self, client: &mut Client) -> Self::Request;

    /// What a request is.
    fn nature(&self, request: &Self::Request) -> Nature;

    /// Runs a request in the transaction that the session has begun, all but the
    /// commit.
    fn run(
        &self,
        request: &Self::Request,
        client: &mut Client,
        session: &mut Session,
    ) -> impl Future<Output = Result<Self::Effect, Failure>> + Send;

    /// A request has ended. Without an effect when the transaction was lost before
    /// its end.
    fn ended(&self, _request: &Self::Request, _effect: Option<Self::Effect>, _done: Done) {}

    /// Looks at everything when all clients have ended, in a read-only transaction
    /// that has begun; what is wrong, for people.
    fn check(
        &self,
        session: &mut Session,
    ) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}
