//! The occ engine through the contract.

/// Calls a macro with a name, a validator and a first seed for each validator under test;
/// the rivals are tested by the same files in their own crate.
macro_rules! validators_to_test {
    ($under:ident) => {
        $under! {
            ranges: coeval_occ::Validator::Ranges, 0;
        }
    };
}

mod backups;
mod checkpoints;
mod contention;
mod crashes;
mod following;
mod history;
mod locking;
mod memory;
mod ranges;
mod recovery;
mod row_locks;
mod schema;
#[path = "../../../txn/tests/support/script.rs"]
mod script;
mod scripts;
mod seen;
mod serializability;
mod support;
mod table_locks;
mod validators;
mod writers;
