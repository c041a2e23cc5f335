//! The redo log: where a commit gets its place, and what survives.
//!
//! A commit of two changed records, from an engine's point of view:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use coeval_log::{Log, Settings};
//! use coeval_types::{Rid, StorageId};
//!
//! let log = Log::ephemeral(Settings::default())?;
//! let mut entries = log.entry_builder();
//! entries.delete(StorageId(1), Rid(7));
//! entries.delete(StorageId(1), Rid(8));
//!
//! let credit = log.prepare(&mut entries).await?; // may wait for room
//! let reservation = log.reserve(credit);         // draws the commit timestamp
//! let timestamp = reservation.timestamp();
//! // … validate; `reservation.skip()` if that fails …
//! let copied = reservation.commit(&entries);     // into the log's memory
//! // … install the versions under `timestamp` …
//! copied.installed();                            // visible, and off to the disk
//!
//! log.wait_durable(timestamp).await?;            // before anything leaves the process
//! assert!(log.installed() >= timestamp);
//! # Ok::<(), coeval_log::Error>(())
//! # }).unwrap();
//! ```

#![allow(dead_code, reason = "files and recovery follow")]

mod commit;
mod entry;
mod error;
mod frame;
mod log;
mod recovery;
mod segment;
mod settings;
mod shared;
mod space;
mod varint;
mod waiters;

pub use commit::{Copied, Credit, Reservation};
pub use entry::{Entry, EntryBuilder};
pub use error::Error;
pub use log::Log;
pub use recovery::{RecoverySummary, Replay, ReplayError};
pub use settings::Settings;
pub use shared::FatalHandler;
pub use space::SpaceWait;
