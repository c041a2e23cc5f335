//! Tests of the transaction contract, with the serial engine.

#[path = "../support/script.rs"]
mod script;
mod serial;
