//! The fuzz target `history`: arbitrary bytes as a history, in each format, and as pauses.
//!
//! The reader either rejects them with a valid position, or they form a history. That
//! history, written as lines, is read back unchanged, and as CSV where that can express
//! it. Read piece by piece, it has the same transactions, or is rejected with the
//! same words. Γ over time is told of it, or why not.

use coeval_check::gamma::{self, Options, pauses};
use coeval_check::history::{self, Format};

/// One input.
pub fn run(input: &[u8]) {
    let pauses = pauses::read(&mut &*input).ok();
    for format in [Format::Edn, Format::JsonLines, Format::Csv] {
        let read = history::read(input, format);
        let mut streamed = Vec::new();
        let end = history::stream(&mut &*input, format, &mut |transaction| {
            streamed.push(transaction);
            Ok(())
        });
        match (&read, end) {
            (Ok(history), Ok(_)) => assert_eq!(history.transactions, streamed),
            (Err(error), Err(said)) => assert_eq!(error.to_string(), said.to_string()),
            (read, end) => panic!("{format:?}: {read:?}, and piece by piece {end:?}"),
        }
        if let Ok(found) = gamma::judge(&mut &*input, format, Options::default(), pauses.clone()) {
            let told = [
                found.to_string(),
                found.json().to_string(),
                found.picture(""),
            ];
            assert!(told.iter().all(|text| !text.is_empty()));
        }
        match read {
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
                text.clear();
                // Not what CSV cannot express, nor the numbers that it reserves for texts.
                if history::write(&history, Format::Csv, &mut text).is_ok()
                    && let Ok(mut again) = history::read(&text, Format::Csv)
                {
                    let mut all = history.transactions.iter();
                    for transaction in &mut again.transactions {
                        let first = all.next().expect("as many lines as transactions");
                        transaction.read_only = first.read_only;
                        if !first.is_committed() && !first.writes() {
                            transaction.operations.clone_from(&first.operations);
                        }
                        assert_eq!(transaction, first);
                    }
                    assert_eq!(all.next(), None);
                }
            }
        }
    }
}
