//! The command line of Coeval: the commands of the binary `coeval`, server and client.
//!
//! ```text
//!   main ─▶ commands ─┬▶ start, demo                      coeval-server, in this process
//!                     │                                   or as processes of this binary
//!                     ├▶ sql, dump, status, backup,
//!                     │  cluster                          client ─▶ a running server
//!                     ├▶ assess, verify, restore, cert    files, without a server
//!                     ├▶ bench, check                     coeval-workload, coeval-check
//!                     └▶ epoch                            coeval-epoch: nodes, and a client
//! ```
//!
//! `commands` declares every subcommand with its arguments and its help; the modules
//! beside it implement them. The server never depends on this crate.

mod admin;
mod assess;
mod backup;
mod bench;
mod cert;
mod client;
mod commands;
mod demo;
mod dump;
mod logging;
mod parent;
mod progress;
mod script;
mod shell;
mod status;
mod verify;

pub use commands::run;
