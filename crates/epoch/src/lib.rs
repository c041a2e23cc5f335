//! Epoch-based concurrency control: a partitioned, replicated multi-version store whose
//! write-only and read-only transactions never conflict, in the manner of ALOHA-KV.
//!
//! Transactions are ordered by timestamps that their front ends draw without asking another
//! node; time is cut into *epochs*, and nothing of an epoch is read before it is closed. So
//! writers of the same keys need no order among themselves while they write, a transaction over
//! any number of partitions commits in one round, and what half of a transaction looks like is
//! never seen.
//!
//! ```text
//!            clients                     clients
//!               │                           │
//!         ┌─ front end 0 ─┐           ┌─ front end 1 ─┐      draw timestamps, send operations
//!         │      │        └───────────┼───────┐       │
//!         ▼      ▼                    ▼       ▼       │
//!      back end 1              back end 2             │      versions, log
//!         ▲                           ▲               │
//!         └────────── manager ────────┴───────────────┘      opens and closes epochs
//!                        │
//!                     council                                members, in a log of their own
//! ```
//!
//! A node runs any of the three ([`EpochNode`]), as a pure step function. Its caller gives it
//! frames, ticks and finished writes, and carries out what comes out.
//!
//! | what | where |
//! | --- | --- |
//! | timestamps without a clock | `timestamp` |
//! | what a version is: a value, or something to be computed | `operation` |
//! | versions in linked blocks | `store` |
//! | coordination of transactions, the barrier | `front_end` |
//! | copies of partitions | `back_end` |
//! | opening and closing epochs, orphans, take-over | `manager` |
//! | the log, an epoch a file | `log` |
//! | members, decided by the council | `configuration`, `directory` |
//! | messages as bytes | `wire` |
//! | a node as a running thing, with threads, sockets and files | `server` |
//! | a copy of all partitions at one epoch's end, and clusters made of one | [`backup`] |
//! | transactions from another process | `client` |
//! | one interface for this protocol and those it is compared with | `engine`, [`comparator`] |
//!
//! # Guarantees
//!
//! 1. *Strict serializability*: the answers are those of the transactions run one after another
//!    in the order of their timestamps, and a transaction that begins after another was answered
//!    has the higher timestamp.
//! 2. *All or nothing*: of every transaction all operations are there, or none.
//! 3. *Durability*: what was answered as committed is on the disks of all copies.
//! 4. After each closed epoch all copies of a partition are equal.
//!
//! # Obligations of the caller
//!
//! `server` meets them. A node's incarnation is higher at each start; log writes are carried out in order and reported
//! when they survive the loss of power; a proposal's end is reported after the directory has
//! the decision, if it was made.
//!
//! Source: epoch-based concurrency control, chapter 3 and §4.2 of the thesis on ALOHA-KV and
//! ALOHA-DB. `docs/internals/epochs.md` says where this differs and why.

mod answer;
mod back_end;
pub mod backup;
pub mod client;
mod codec;
pub mod comparator;
mod configuration;
mod directory;
mod engine;
mod front_end;
mod log;
mod manager;
mod message;
mod node;
mod operation;
mod outbox;
pub mod server;
mod store;
mod timestamp;
pub mod wire;

pub use answer::{Answer, Reason, Right};
pub use back_end::{Image, LogWrite, MOST_BYTES, NoImage};
pub use codec::Malformed;
pub use coeval_council::{NodeId, Term};
pub use configuration::{Configuration, FrontEndPlace, Limits};
pub use directory::{Decision, Directory};
pub use engine::{Engine, Turn};
pub use log::{Checkpoint, Inspected, LogDamaged, LogError, LogFiles, Recovered, mend};
pub use manager::{Manager, Rhythm};
pub use message::{
    BackEndStanding, CopyChunk, EpochKind, Frame, Item, Part, Piece, Refusal, Resolution,
};
pub use node::{EpochNode, History, Output, Start};
pub use operation::{Found, Key, Operation, Write};
pub use store::Store;
pub use timestamp::{Epoch, EpochTimestamp, FrontEndId, NotATimestamp};
