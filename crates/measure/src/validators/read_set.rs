//! Local read-set validation (LRV), as in Silo: the validator reads every row again that
//! a scan has returned.
//!
//! ```text
//!   scan [d, p)   returns f, k, m   read set   f of 10, k of 15, m of 10
//!                                   predicate  no key appears in [d, p)
//!   commit        f, k, m again     the same versions?
//!                 appeared keys     one of them in [d, p)?
//! ```
//!
//! A row that a scan returns goes into the read set like a point read, so the validator
//! finds an update or a deletion in the row's record. The read set cannot hold a row that
//! was not there (a phantom). Silo remembers the versions of the index nodes that the
//! scan visited, which change with every insertion. Here a transaction does not keep
//! nodes from one call to the next, and garbage collection changes nodes as well; so the
//! rings of the logical ranges take the part of the node versions, and a writer registers
//! in them only the keys that *appear*: keys of new rows, and the new keys of rows whose
//! key changes. Updates register nothing.
//!
//! # Why that is enough
//!
//! Let a row be visible in the scan's bounds just before the commit, and not in the
//! snapshot. Then a writer in between made the row's entry visible: it inserted the row,
//! possibly over a deleted one, or changed a row's key to this one. Such a key appears,
//! and the writer registers it before its timestamp is assigned. A row that was visible
//! in the snapshot was returned, and is in the read set.
//!
//! This module is short because the scans note the rows, and commit selects the keys that
//! appear when it collects the keys to register.

use coeval_occ::comparators::Rival;

/// The read-set validator (LRV).
#[derive(Debug)]
pub(super) struct ReadSet;

impl Rival for ReadSet {
    fn reads_rows_again(&self) -> bool {
        true
    }

    fn registers_arrivals_only(&self) -> bool {
        true
    }
}
