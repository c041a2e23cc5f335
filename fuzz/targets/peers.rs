//! Arbitrary bytes as what another node says. See the module it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/leader/tests/it/fuzz.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
