//! Fuzz target: arbitrary text as SQL. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/sql/tests/it/fuzz.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
