//! Fuzz target: arbitrary bytes as messages of another node. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/peers/tests/it/fuzz.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
