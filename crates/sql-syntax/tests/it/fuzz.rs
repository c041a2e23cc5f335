//! The fuzz target `syntax`: arbitrary text through the parser and the printer.
//!
//! No text makes either panic or run out of stack, and what is read and printed is read
//! again as the same.
//!
//! A target of the folder `fuzz` includes this file; the test below replays the corpus of its
//! runs and the golden statements.

use coeval_sql_syntax::{Limits, parse, print};

/// Depth of a text. What the printer adds in brackets fits within the default.
const DEPTH: u32 = 200;

/// Parses, prints, and parses again.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let limits = Limits {
        depth: DEPTH,
        ..Limits::default()
    };
    let Ok(statements) = parse(text, &limits) else {
        return;
    };
    for statement in &statements {
        let printed = print::statement(statement);
        let again = match parse(&printed, &Limits::default()) {
            Ok(again) => again,
            Err(error) => panic!("{error}, of {printed}"),
        };
        assert_eq!(again.len(), 1, "{printed}");
        assert_eq!(print::statement(&again[0]), printed);
    }
}

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;

/// The statements of the golden files.
#[cfg(test)]
pub(crate) fn statements() -> impl Iterator<Item = &'static str> {
    const FILES: &[&str] = &[
        include_str!("statements/tokens.txt"),
        include_str!("statements/expressions.txt"),
        include_str!("statements/queries.txt"),
        include_str!("statements/changes.txt"),
        include_str!("statements/definitions.txt"),
        include_str!("statements/utilities.txt"),
        include_str!("statements/errors.txt"),
    ];
    let lines = FILES.iter().flat_map(|file| file.lines());
    lines.filter(|line| {
        !line.is_empty() && !["= ", "! ", "# "].iter().any(|mark| line.starts_with(mark))
    })
}

#[cfg(test)]
#[test]
fn corpus() {
    replay::replay("syntax", run);
    for line in statements() {
        run(line.replace('⏎', "\n").as_bytes());
    }
}
