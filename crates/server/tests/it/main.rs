//! Whole servers, real sockets, real clients.
//!
//! - `flows`, `copy`, `cancel`, `drivers`: what good clients do.
//! - `hostile`, `gone`: what bad and vanishing ones do. Each of these tests ends by
//!   seeing that another session of the same server goes on working.
//! - `timeouts`, `limits`, `admission`: how long things may take, how large they may
//!   be, how many there may be at once.
//! - `login`, `tls`, `audit`: who is let in, and what is noted of it; `scram` plays the client.
//! - `memory`: what the binary says it takes beside what the kernel says, and where it ends.
//! - `process`, `tools`: the binary itself, under signals, psql and pgbench.
//! - `check`: histories, judged by the binary. `cert`: certificates for nodes.
//! - `dump`: a database as SQL, read back by Coeval and by PostgreSQL. `assess`: what of
//!   a script would not run. `status`: one screen. `client_tls`: whom they trust.
//! - `cluster`: three nodes as processes, and sessions that outlive their leaders.
//!   `cluster_sessions`: those whose client and leader are at different nodes.
//!   `cluster_command`: looking at them, and changing who takes part and who leads. `demo`.
//! - `activity`: what sessions learn of each other and of the server.
//! - `admin`: metrics and health over HTTP. `disk`: a process whose disk is full or fails.
//!   `slow`: slow statements in the log.
//! - `outcomes`: whether a commit happened whose answer was lost.
//! - `dock`: the binary under faults of every kind, sound and bad. `damage`: its files.
//! - `crash`, `checkpoints`, `backups`, `pgbench`, `readme`: the binary as its users
//!   drive it, killed on the way.
//! - `workloads`: every workload on the engine alone and over the wire; `coeval bench`.

mod activity;
mod admin;
mod admission;
mod assess;
mod audit;
mod backups;
mod busy;
mod cancel;
mod cert;
mod check;
mod checkpoints;
mod client_tls;
mod cluster;
mod cluster_command;
mod cluster_disk;
mod cluster_reads;
mod cluster_sessions;
mod copy;
mod crash;
mod damage;
mod demo;
mod disk;
mod dock;
mod drivers;
mod dump;
mod flows;
mod fuzz;
mod gone;
mod hostile;
mod limits;
mod login;
mod memory;
mod outcomes;
mod pgbench;
mod portals;
mod postgres;
mod process;
mod readme;
mod scram;
mod slow;
mod status;
mod support;
mod timeouts;
mod tls;
mod tools;
mod verify;
mod wire;
mod workloads;
