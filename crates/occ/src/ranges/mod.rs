//! Logical ranges: the data structure by which a committing scan finds out whether
//! another transaction wrote in the scanned keys after the scan's snapshot.
//!
//! Each ordered key space (an index, or a table without a primary key in RID order) is
//! divided into contiguous ranges, each with a [`ring`] of its latest writers. A writer
//! registers the keys it writes before it is assigned its commit timestamp. A scan leaves
//! a [`predicate`] for each range it touched, and copies no record into the read set; at
//! commit the validator checks only the registrations made since (ROCC §3.3).
//!
//! ```text
//!   keys   a ········ g ········ n ········ z
//!          [ range 1 )[ range 2 )[ range 3  )
//!   scan          d ─────────── p                three predicates:
//!                 [d,g)  [g,n)  [n,p)            the middle one covers its range,
//!                                                so no key of it is compared
//! ```
//!
//! Inserts and deletes register like updates, so there are no phantoms; a point read that
//! found no row leaves a predicate on just that key.
//!
//! Ranges are split and merged while transactions commit. ROCC states that this is
//! possible and leaves open how; here these modules do it:
//!
//! - [`map`]: which range a key is in;
//! - [`range`](mod@range): a range's life cycle, and why no writer is missed when it is
//!   replaced;
//! - [`ring`], [`footprint`]: registrations;
//! - [`interval`], [`predicate`]: what a scan leaves, and how a validator checks it;
//! - [`committer`]: the transaction that validates;
//! - [`replace`]: how ranges are replaced while transactions commit;
//! - [`balancer`]: the range balancer; [`maintenance`]: the background task that runs it;
//! - [`reorganised`]: counters of splits and merges;
//! - [`account`]: memory accounting.
//!
//! `docs/internals/ranges.md` describes the whole design.

pub(crate) mod account;
pub(crate) mod balancer;
pub(crate) mod committer;
pub(crate) mod footprint;
pub(crate) mod interval;
pub(crate) mod maintenance;
pub(crate) mod map;
pub(crate) mod predicate;
mod range;
pub(crate) mod reorganised;
mod replace;
pub(crate) mod ring;

#[cfg(shuttle)]
mod faults;
#[cfg(all(test, shuttle))]
#[path = "models.rs"]
mod shuttled;
#[cfg(all(test, not(shuttle)))]
mod tests;
