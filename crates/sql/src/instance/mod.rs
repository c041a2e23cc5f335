//! The database instance: the state that all sessions of a database share.
//!
//! ```text
//!   session   session   session         statements, queries, COPY
//!      │         │         │                      │
//!      └─────────┴─────────┴──────────┬───────────┘
//!                                     ▼
//!   Instance       memory budget for statements, list of sessions, outcomes of
//!                  their transactions, and the server process it all runs in
//! ```
//!
//! This module depends on no session, statement or catalog.
//!
//! - `shared`: the instance itself, and the interface to the server process.
//! - `memory_budget`: memory accounting: the memory budget for statements, and one statement's
//!   share. `session_memory`: what sessions keep between statements.
//! - `admission`: admission control: how many transactions run at once.
//! - `deadline`: time limits. `limits`: size limits.
//! - [`activity`]: what each session is doing; `waiting`: what it waits for, apart from
//!   locks. `elsewhere`: the sessions of other nodes' clients.
//! - `advisory`: advisory locks.
//! - `cluster`: the cluster of which this server is a node.

pub mod activity;
mod admission;
pub(crate) mod advisory;
mod cluster_view;
pub(crate) mod deadline;
mod elsewhere;
mod limits;
mod memory_budget;
mod session_memory;
mod shared;
mod waiting;

pub use admission::{Admission, AdmissionCounts};
pub use cluster_view::{
    Changing, Cluster, ClusterChange, ClusterElection, ClusterLag, ClusterMember, ClusterProgress,
    ClusterRole, ClusterTraffic, alone,
};
pub use deadline::{Deadline, TimeLimit};
pub use elsewhere::{Finding, Interruption, SessionElsewhere, SessionsElsewhere, Sought};
pub use limits::{Limits, over_limit};
pub use memory_budget::{MemoryBudget, StatementMemory};
pub use session_memory::{Charge, SessionMemory, SessionsMemory, SharedCharge};
pub use shared::{Host, HostMetric, HostSetting, Instance, NodeGamma, Totals};

pub(crate) use admission::Ticket;
pub(crate) use deadline::within;
pub(crate) use session_memory::measured;
pub(crate) use waiting::noting;

/// The version of PostgreSQL whose dialect this is, as `server_version`.
pub const SERVER_VERSION: &str = "15.0";
