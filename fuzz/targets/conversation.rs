//! Fuzz target: arbitrary bytes as a client of a whole server. See the module that it
//! runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/server/tests/it/fuzz/conversation.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
