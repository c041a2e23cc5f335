//! The server of Coeval: settings, connections and sessions around an engine and a
//! database. It is where the parts meet; each of them knows less.
//!
//! ```text
//!   main ─▶ cli ─▶ settings ─▶ Server::start ─▶ engine, database, listener
//!                                  │
//!                   one task for each connection (session), on one of the workers
//!                                  │
//!        pgwire::ReadBuffer ─▶ Conversation ─▶ sql::Session ─▶ engine
//!        socket ◀─ Output ◀──────────┘  (after poll_durable, and never before)
//! ```
//!
//! What is decided here and nowhere else: which engine runs; who may connect and
//! how they show who they are (`access`); when answers leave; how a server stops.
//!
//! For tests in other programs, [`Server::start`] runs in the caller's process.

mod access;
mod admin;
mod anteroom;
mod assess;
mod audit;
mod backup;
mod bench;
mod cert;
pub mod cli;
mod client;
mod cluster;
mod demo;
mod dump;
mod engine;
mod forgetting;
mod logging;
mod memory;
mod metrics;
mod parent;
mod progress;
mod registry;
mod reign;
mod reigns;
mod script;
mod server;
mod session;
pub mod settings;
mod shared;
mod shell;
mod status;
mod tls;
mod verify;
mod workers;

pub use access::{Consulted, FileError, consult};
/// Where transactions leave what they came to; a server writes marks there by itself.
pub use coeval_sql::{OUTCOME_STORAGE, is_mark};
pub use memory::MemoryReport;
pub use server::{RunningServer, Server, StartError, Storage};
pub use settings::{Effective, Settings, Timeout};
pub use tls::TlsError;
