//! The server of Coeval: settings, connections and sessions around an engine and a
//! database. It assembles the parts that the other crates implement. A library: the binary
//! `coeval`, which reads the command line, is the crate `coeval-cli`.
//!
//! ```text
//!           coeval start ─▶ Server::start ─▶ engine, database, listener
//!                                  │
//!                   one task for each connection (session), on one of the workers
//!                                  │
//!        pgwire::ReadBuffer ─▶ Conversation ─▶ sql::Session ─▶ engine
//!        socket ◀─ Output ◀──────────┘  (after poll_durable, and never before)
//! ```
//!
//! This crate alone decides which engine runs; which clients may connect and how they
//! authenticate (`access`); when answers leave; how a server stops.
//!
//! [`Server::start`] runs in the caller's process. The command line also uses the
//! server's knowledge of its machine and its protocol: the memory budget
//! ([`memory_budget`], [`preallocate_memory`]), the channel binding of a certificate
//! ([`tls_server_end_point`]), and the message of a removed node ([`removed_words`]).

mod access;
mod admin;
mod audit;
mod cluster_view;
mod engine;
mod forgetting;
mod gamma;
mod memory;
mod metrics;
mod pending_connections;
mod reader;
mod registry;
mod server;
mod serving_term;
mod serving_terms;
mod session;
pub mod settings;
mod shared;
mod tls;
mod workers;

pub use access::{Consulted, FileError, consult};
pub use cluster_view::removed_words;
/// The storage that holds the outcomes of transactions; a server writes marks there by
/// itself.
pub use coeval_sql::{OUTCOME_STORAGE, STATISTICS_STORAGE, is_mark};
pub use memory::{
    MemoryReport, budget as memory_budget, of_machine as memory_of_machine,
    preallocate as preallocate_memory,
};
pub use server::{RunningServer, Server, StartError, Storage};
pub use settings::{Effective, Settings, Timeout};
pub use tls::{TlsError, end_point as tls_server_end_point};
