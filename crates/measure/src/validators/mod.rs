//! Rival validators: alternatives to range validation (RV), the engine's own way to check
//! at commit that nothing a transaction scanned has changed. For measurements.
//!
//! | | a scan notes | a writer registers | a commit checks |
//! | --- | --- | --- | --- |
//! | [`Validator::Ranges`] | a predicate for each logical range | its keys, in their ranges | registrations in those ranges since the snapshot |
//! | [`READ_SET`] | each row returned, and such predicates | keys that appear, in their ranges | each of those rows once more, and keys that appeared |
//! | [`WRITE_LIST`] | the scanned interval, once | its keys, in one list for all | everything in the list since the snapshot |
//! | [`WHOLE_RANGES`] | the ranges it touched | its keys, in their ranges | first all that a range keeps, then as with ranges, but no key |
//!
//! All of them work on the same records, locks, snapshots and log: the engine calls a
//! rival at the moments at which it would call its own validator
//! ([`coeval_occ::comparators`], which states the invariants), and validates by ranges
//! where the rival defines no other way.
//!
//! ```
//! use coeval_measure::validators;
//! use coeval_occ::{Engine, Settings};
//!
//! let settings = Settings {
//!     validator: validators::named("gwv").expect("one of them"),
//!     sweep_interval: None,
//!     ..Settings::default()
//! };
//! assert!(Engine::ephemeral(settings).is_ok());
//! ```
//!
//! Sources: ROCC §3.2.2 and §3.3 for the first two rivals, §3.6 for the third.

mod read_set;
mod whole_ranges;
mod write_list;

use coeval_occ::Validator;
use coeval_occ::comparators::Plan;

/// Read-set validation: the validator reads every returned row again (LRV, as in Silo).
pub const READ_SET: Validator = Validator::Rival(Plan {
    name: "lrv",
    make: |_| Box::new(read_set::ReadSet),
});

/// Write-list validation: against all writers since the snapshot, from one list (GWV, as
/// in HyPer).
pub const WRITE_LIST: Validator = Validator::Rival(Plan {
    name: "gwv",
    make: |range_slots| Box::new(write_list::WriteList::new(range_slots)),
});

/// Validation by logical ranges without keys, which checks all writers of a range (MVRCC,
/// after Deuteronomy).
pub const WHOLE_RANGES: Validator = Validator::Rival(Plan {
    name: "mvrcc",
    make: |_| Box::new(whole_ranges::WholeRanges),
});

/// All validators, the engine's own first.
pub const ALL: &[Validator] = &[Validator::Ranges, READ_SET, WRITE_LIST, WHOLE_RANGES];

/// The validator with this name.
#[must_use]
pub fn named(name: &str) -> Option<Validator> {
    let mut all = ALL.iter().copied();
    all.find(|validator| validator.name() == name)
}
