//! The occ engine through the contract.

#[path = "../../../txn/tests/support/script.rs"]
mod script;
mod scripts;
