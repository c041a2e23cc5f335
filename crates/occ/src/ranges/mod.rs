//! Logical ranges: where a scan finds out, at its commit, whether anybody wrote
//! between its snapshot and now.
//!
//! Each ordered space of keys (an index, or a table without a primary key in the
//! order of its RIDs) is cut into contiguous ranges, each with a [`ring`] of the
//! latest writers. A writer registers the keys it writes before it draws its
//! commit timestamp. A scan leaves a [`Predicate`] for each range it touched, and
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

pub(crate) mod footprint;
pub(crate) mod map;
pub(crate) mod ring;
