//! The occ engine through the contract.

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
mod schema;
#[path = "../../../txn/tests/support/script.rs"]
mod script;
mod scripts;
mod seen;
mod serializability;
mod support;
mod validators;
mod writers;
