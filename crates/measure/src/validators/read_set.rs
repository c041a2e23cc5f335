//! By reading every row again that a scan has shown (local read-set validation, LRV):
//! what Silo does.
//!
//! ```text
//!   scan [d, p)   shows f, k, m     read set   f of 10, k of 15, m of 10
//!                                   predicate  no key comes to [d, p)
//!   commit        f, k, m again     the same versions?
//!                 keys that came    one of them in [d, p)?
//! ```
//!
//! A row that a scan shows goes into the read set like a point read, so an update or a
//! deletion of it is found in its record. What the read set cannot hold is a row that
//! was not there. Silo remembers the versions of the index nodes that it came through,
//! which change with every insertion. Here a transaction does not keep nodes from one
//! call to the next, and a node also changes when garbage leaves it; so the part of the
//! node versions is played by the rings of the logical ranges, in which a writer then
//! registers only the keys that *come*: of new rows, and the new ones of rows whose key
//! changes. Updates register nothing.
//!
//! # Why that is enough
//!
//! Let a row be visible in the scan's bounds just before the commit, and not in the
//! snapshot. Then someone between made its entry one of a visible row: it inserted the
//! row, also over a deleted one, or changed its key to this one. Both come, and are
//! registered before the timestamp is drawn. A row that was visible in the snapshot was
//! shown, and is in the read set.
//!
//! There is little code here: rows are noted by the scans, arrivals are sorted out where a
//! commit collects its keys.

use coeval_occ::comparators::Rival;

/// By reading every row again.
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
