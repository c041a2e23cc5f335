//! The database instance: what all of its sessions share.
//!
//! ```text
//!   session   session   session         statements, queries, COPY
//!      │         │         │                      │
//!      └─────────┴─────────┴──────────┬───────────┘
//!                                     ▼
//!   Surroundings   memory left for statements, the sessions there are, what their
//!                  transactions came to, and the program it all runs in
//! ```
//!
//! Nothing here knows a session, a statement or the catalog.
//!
//! - `surroundings`: all of it in one place, and the program around it.
//! - `room`: memory accounting: how much there is for statements, and what one has
//!   taken.
//! - `admission`: admission control: how many transactions work at once.
//! - `deadline`: how long things may take. `limits`: how large they may be.
//! - [`activity`]: what each session is doing; `waiting`: what it waits for, locks
//!   aside.
//! - `cluster`: what there is beside this server.

pub mod activity;
mod admission;
mod cluster;
pub(crate) mod deadline;
mod limits;
mod room;
mod surroundings;
mod waiting;

pub use admission::{Admission, AdmissionCounts};
pub use cluster::{
    Changing, Cluster, ClusterChange, ClusterElection, ClusterMember, ClusterProgress, ClusterRole,
    ClusterTraffic, alone,
};
pub use deadline::{Deadline, TimeLimit};
pub use limits::{Limits, over_limit};
pub use room::{Memory, Room};
pub use surroundings::{Host, HostMetric, HostSetting, Surroundings, Totals};

pub(crate) use admission::Ticket;
pub(crate) use deadline::within;
pub(crate) use waiting::noting;

/// The version of PostgreSQL whose dialect this is, as `server_version`.
pub const SERVER_VERSION: &str = "15.0";
