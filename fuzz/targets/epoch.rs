//! Fuzz target: arbitrary bytes as messages of epochs between nodes, as requests and replies of
//! their clients, as decisions of the council, and as files of the log. See the module that it
//! runs.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/epoch/tests/it/fuzz.rs"]
mod entry;

fuzz_target!(|input: &[u8]| entry::run(input));
