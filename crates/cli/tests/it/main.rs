//! The binary `coeval` as its users run it: every command, and whole servers as processes.
//!
//! - `process`: the binary itself, under signals. `memory`: what it says it takes beside what
//!   the kernel says, and where it ends.
//! - `audit`, `slow`: what is in its log.
//! - `check`: histories, judged by the binary. `cert`: certificates for nodes.
//! - `dump`: a database as SQL, read back by Coeval and by PostgreSQL. `assess`: what of
//!   a script would not run. `status`: one screen. `verify`: whether a data directory is
//!   sound. `client_tls`: which servers these commands trust.
//! - `cluster`: three nodes as processes, and sessions that outlive their leaders.
//!   `cluster_sessions`: those whose client and leader are at different nodes.
//!   `cluster_login`: who is let in by which node. `cluster_reads`: reads through any node.
//!   `cluster_away`: through one that was stopped. `cluster_gamma`: the live estimate of Γ.
//!   `cluster_disk`: a follower whose disk is full.
//!   `cluster_restore`: clusters founded from backups, and back. `cluster_recover`: of a
//!   cluster that has lost its majority.
//!   `cluster_command`: looking at them, and changing which nodes take part and which one
//!   leads. `demo`.
//! - `disk`: a process whose disk is full or fails. `disk_reserve`: one relieved from inside.
//! - `formats`: what earlier builds wrote. `permissions`: modes and owners of what it writes.
//! - `hermitage`: the anomalies of isolation beside PostgreSQL's, alone and through nodes.
//! - `outcomes`: whether a commit happened whose answer was lost.
//! - `harness`: the binary under faults of every kind, sound and bad. `damage`: its files.
//! - `crash`, `checkpoints`, `backups`, `pgbench`, `readme`: the binary as its users
//!   drive it, killed on the way.
//! - `workloads`: every workload on the engine alone and over the wire; `coeval bench`.

mod assess;
mod audit;
mod backups;
mod cert;
mod check;
mod checkpoints;
mod client_tls;
mod cluster;
mod cluster_away;
mod cluster_certificates;
mod cluster_command;
mod cluster_disk;
mod cluster_gamma;
mod cluster_home;
mod cluster_login;
mod cluster_names;
mod cluster_reads;
mod cluster_recover;
mod cluster_replicas;
mod cluster_restore;
mod cluster_sequences;
mod cluster_sessions;
mod cluster_unavailable;
mod crash;
mod damage;
mod demo;
mod disk;
mod disk_reserve;
mod dump;
mod formats;
mod harness;
mod hermitage;
mod memory;
mod outcomes;
mod permissions;
mod pgbench;
mod postgres;
mod process;
mod readme;
mod slow;
mod status;
mod verify;
mod workloads;
