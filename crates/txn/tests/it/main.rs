//! What the contract promises, asked of the serial engine.

#[path = "../support/script.rs"]
mod script;
mod serial;
