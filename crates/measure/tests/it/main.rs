//! Tests that the rivals in measurements work as documented.

/// Each rival validator, for the files of the engine's tests.
macro_rules! validators_to_test {
    ($under:ident) => {
        $under! {
            read_set: coeval_measure::validators::READ_SET, 10_000;
            write_list: coeval_measure::validators::WRITE_LIST, 20_000;
            whole_ranges: coeval_measure::validators::WHOLE_RANGES, 30_000;
        }
    };
}

mod frs;
#[path = "../../../occ/tests/it/history.rs"]
mod history;
mod jumps;
mod model;
#[path = "../../../occ/tests/it/validators.rs"]
mod scans;
#[path = "../../../txn/tests/support/script.rs"]
#[allow(dead_code, reason = "the engine's own tests use all of it")]
mod script;
#[path = "../../../occ/tests/it/serializability.rs"]
mod serializability;
#[path = "../../../occ/tests/it/support.rs"]
#[allow(dead_code, reason = "the engine's own tests use all of it")]
mod support;
mod validators;
