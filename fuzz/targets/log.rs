//! Fuzz target: arbitrary bytes as the contents of a log. See the module that it runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[expect(dead_code, reason = "it has another target's, too")]
#[path = "../../crates/log/tests/it/fuzz/mod.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::log::run(input));
