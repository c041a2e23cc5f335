//! Logical ranges: where a scan finds out, at its commit, whether anybody wrote
//! between its snapshot and now.
//!
//! Each ordered space of keys (an index, or a table without a primary key in the
//! order of its RIDs) is cut into contiguous ranges, each with a [`ring`] of the
//! latest writers. A writer registers the keys it writes before it draws its
//! commit timestamp. A scan leaves a [`predicate`] for each range it touched, and
//! copies no record into the read set; at commit it looks only at the
//! registrations made since (ROCC §3.3).
//!
//! ```text
//!   keys   a ········ g ········ n ········ z
//!          [ range 1 )[ range 2 )[ range 3  )
//!   scan          d ─────────── p                three predicates:
//!                 [d,g)  [g,n)  [n,p)            the middle one covers its range,
//!                                                so no key of it is looked at
//! ```
//!
//! Inserts and deletes register like updates, so there are no phantoms; a point
//! read that found nothing leaves a predicate on just that key.
//!
//! Ranges are split and merged while all this goes on. The text promises that and leaves
//! open how; here the rooms are:
//!
//! - [`map`]: which range a key is in;
//! - [`range`](mod@range): a range's life, and why nobody is missed when it is replaced;
//! - [`ring`], [`footprint`]: registrations;
//! - [`interval`], [`predicate`]: what a scan leaves, and how it is checked;
//! - [`committer`]: for whom;
//! - [`replace`]: how ranges are replaced while commits go on;
//! - [`keeper`]: which ones, and when; [`tending`]: the task that asks it;
//! - [`reorganised`]: how often;
//! - [`account`]: what all of it takes.
//!
//! The whole story is told in `docs/internals/ranges.md`.

pub(crate) mod account;
pub(crate) mod committer;
pub(crate) mod footprint;
pub(crate) mod interval;
pub(crate) mod keeper;
pub(crate) mod map;
pub(crate) mod predicate;
mod range;
pub(crate) mod reorganised;
mod replace;
pub(crate) mod ring;
pub(crate) mod tending;

#[cfg(shuttle)]
mod faults;
#[cfg(all(test, shuttle))]
#[path = "models.rs"]
mod shuttled;
#[cfg(all(test, not(shuttle)))]
mod tests;
