//! Fuzz target: arbitrary bytes as messages of a client. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/pgwire/tests/it/fuzz.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
