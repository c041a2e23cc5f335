//! The fuzz target `history`: arbitrary bytes as a history, in either format.
//!
//! The reader either rejects them with a valid position, or they form a history. That
//! history, written as lines, is read back unchanged.

use coeval_check::history::{self, Format};

/// One input.
pub fn run(input: &[u8]) {
    for format in [Format::Edn, Format::JsonLines] {
        match history::read(input, format) {
            Err(error) => {
                let lines = input.split(|byte| *byte == b'\n').count();
                assert!((1..=lines).contains(&error.line), "{error}");
                assert!(error.column >= 1 && !error.problem.is_empty(), "{error}");
            }
            Ok(history) => {
                let mut text = Vec::new();
                history::write(&history, Format::JsonLines, &mut text)
                    .expect("memory can be written to");
                let again = history::read(&text, Format::JsonLines);
                assert_eq!(again.as_ref(), Ok(&history), "{format:?}");
            }
        }
    }
}
