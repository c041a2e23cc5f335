//! Fuzz target: arbitrary text as a host-based access file. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/server/tests/it/fuzz/access.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
