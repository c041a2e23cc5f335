//! Whole servers in the test's process, real sockets, real clients. The tests of the binary
//! are those of `coeval-cli`.
//!
//! - `flows`, `copy`, `cancel`, `drivers`, `portals`: what good clients do. `tools`: psql
//!   and pgbench.
//! - `encodings`: clients that speak another encoding than UTF-8.
//! - `hostile`, `gone`: what bad and vanishing ones do. Each of these tests ends by
//!   seeing that another session of the same server goes on working.
//! - `timeouts`, `limits`, `admission`, `busy`: how long things may take, how large they
//!   may be, how many there may be at once.
//! - `login`, `tls`: which clients are let in; `node_login`: on a node that follows.
//! - `lazy`: sessions that their client's node alone knows.
//! - `home`, `follower`: what a follower's clients read there; `spared`: without a question;
//!   `two_nodes` starts its cluster.
//! - `lost`: what a client is told of what ended with its leader.
//! - `activity`: what sessions learn of each other and of the server.
//! - `admin`: metrics and health over HTTP.
//! - `fuzz`: what the fuzz targets found, replayed.

mod activity;
mod admin;
mod admission;
mod busy;
mod cancel;
mod copy;
mod cursors;
mod drivers;
mod encodings;
mod flows;
mod follower;
mod fuzz;
mod gone;
mod home;
mod home_blocks;
mod home_leader;
mod home_orders;
mod home_refused;
mod home_temporary;
mod hostile;
mod lazy;
mod limits;
mod login;
mod lost;
mod node_login;
mod portals;
mod session_memory;
mod spared;
mod timeouts;
mod tls;
mod tools;
mod two_nodes;
