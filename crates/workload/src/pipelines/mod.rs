//! Pipelines: a raw client of PostgreSQL's protocol that knows what each of its requests
//! is owed, and the request shapes that it sends.
//!
//! A client library hides what it waits for: one that gets an error and no ReadyForQuery
//! waits on, and a program that gives up after a while takes the wait for an unknown
//! outcome. This client counts instead. Each Query and each Sync that it sends is owed one
//! ReadyForQuery, in order, with at most one error before it; what comes beside that, or
//! does not come before the client's deadline, is a [`Violation`].
//!
//! ```text
//!   sent       Parse Bind Execute Sync   Parse Bind Execute Sync
//!   owed                            Z                          Z
//!   right      1 2 C Z                   E Z
//!   wrong      E                         –              one Z is missing, for ever
//! ```
//!
//! A [`Shape`] is a way to send a request, in parts between which the client waits for an
//! answer: the data of a COPY only once the server asks for them, the Sync after a Flush
//! only once the rows are there. Between two parts a fault can strike.
//!
//! Invariants, whatever happens to the cluster:
//! - as many ReadyForQuery as Query and Sync messages, those within COPY data excepted;
//! - at most one ErrorResponse in each cycle, and no CommandComplete after it;
//! - a connection ends only after a FATAL error, or with its server or its link.
//!
//! Sources: PostgreSQL documentation, "Message Flow", "Pipelining", "COPY Operations".

mod line;
mod shapes;

pub use line::{Answers, Cycle, Line, Violation, cancel};
pub use shapes::{CREATE_TABLE, Part, Shape, State};
