//! The council: state machine replication for the few decisions of a cluster that all nodes must
//! agree on (who its members are, which epochs were resolved how), in the manner of Chubby,
//! ZooKeeper and the coordinators of FoundationDB.
//!
//! A protocol hands in a [`Machine`]: an apply function, a snapshot and its restoration. The
//! council replicates the machine's entries by `consensus`, keeps them in the replica log of
//! `log`, and calls `apply` with each committed entry, in the same order on every node. Entries
//! are small ([`MAX_ENTRY_BYTES`]) and rare (a hundred a second at most): nothing here is for
//! data.
//!
//! ```text
//!   propose(term, entry) ──▶ consensus ──▶ messages ──▶ the other nodes' councils
//!                               │
//!                               ├──▶ replica log, one sync ──▶ persisted
//!                               └──▶ committed ──▶ Machine::apply ──▶ the proposer's answer
//! ```
//!
//! # Worked example
//!
//! Nodes 1, 2 and 3; node 1 leads term 4, and its machine is a register.
//!
//! ```text
//!   propose(4, "x = 7")   appended at 4296 by node 1, sent to 2 and 3
//!   node 2 has it on disk: a majority has it, so it is committed; node 1 applies it,
//!                          and the proposer gets Applied { at: 4/4336, answer: "was 5" }
//!   node 1 is cut off; node 3 leads term 5
//!   propose(4, "x = 8")   at node 1: appended, never committed. At node 3: refused, Fenced
//!   node 1 comes back:     its entry is truncated, its proposer gets Lost
//! ```
//!
//! # Fencing
//!
//! A leader's term is its fencing token: it grows with every election, and no two nodes lead
//! the same one. A proposal names the term in which its proposer believes to lead, and is
//! refused in any other. Whatever a leader orders elsewhere carries the term too, and each
//! receiver keeps a [`Fence`], which admits no term below the newest that it has seen.
//!
//! # Invariants
//!
//! 1. All machines that have applied the log up to the same offset have the same state.
//! 2. A proposal that was answered with [`Applied`] is in every later state, once.
//! 3. A proposal that was answered with [`Error::Lost`] is in none.
//! 4. A snapshot covers committed entries only.
//!
//! # Obligations of the caller
//!
//! `apply` is a function of the state and the entry alone: no clock, no chance, no map with a
//! random order. A node that has lost its disk comes back under an id that was never used.
//!
//! Source: consensus as in crate `consensus`; fencing tokens after Gray and Cheriton's leases and
//! Chubby's sequencers (Burrows, OSDI 2006).

mod convert;
mod driver;
mod error;
mod fence;
mod handle;
mod inspect;
mod machine;
mod observer;
mod packet;
mod proposals;
mod settings;
mod store;

pub use coeval_consensus::{Change, Membership, NodeId, Position};
pub use coeval_log::Error as LogError;
pub use coeval_types::{Lsn, Term};
pub use error::Error;
pub use fence::{Fence, Fenced};
pub use handle::{Applied, Council, Standing, start};
pub use inspect::{Inspected, inspect};
pub use machine::{Machine, RestoreFailed};
pub use observer::Observer;
pub use settings::{Settings, Transport};

/// Most bytes of one entry.
pub const MAX_ENTRY_BYTES: usize = 1024;
