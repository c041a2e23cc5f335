//! Fuzz target: arbitrary bytes as a history. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/check/tests/it/fuzz/history.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
