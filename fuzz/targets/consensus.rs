//! Fuzz target: arbitrary bytes as messages of consensus. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/consensus/tests/it/fuzz/mod.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
