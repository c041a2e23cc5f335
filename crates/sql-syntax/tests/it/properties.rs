//! Properties over generated texts: nothing panics, and what is read and printed is read
//! again as the same.

use coeval_sql_syntax::{Limits, parse, print};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Words and symbols that statements are made of, some of them unfinished.
const TOKENS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "(",
    ")",
    ",",
    "a",
    "b.c",
    "*",
    "1",
    "2.5",
    "'x'",
    "E'\\n'",
    "$1",
    "+",
    "-",
    "=",
    "<",
    "||",
    "::",
    "int",
    "numeric(3)",
    "NOT",
    "AND",
    "OR",
    "IS",
    "NULL",
    "ISNULL",
    "IN",
    "LIKE",
    "BETWEEN",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "AS",
    "x",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "UNION",
    "ALL",
    "WITH",
    "VALUES",
    "INSERT",
    "INTO",
    "UPDATE",
    "SET",
    "DELETE",
    "MERGE",
    "USING",
    "ON",
    "JOIN",
    "LEFT",
    "CROSS",
    "NATURAL",
    "ARRAY",
    "[",
    "]",
    ":",
    ".",
    ";",
    "ROW",
    "EXISTS",
    "ANY",
    "f",
    "OVER",
    "PARTITION",
    "CREATE",
    "TABLE",
    "INDEX",
    "VIEW",
    "PRIMARY",
    "KEY",
    "REFERENCES",
    "DEFAULT",
    "ALTER",
    "ADD",
    "DROP",
    "COLUMN",
    "TYPE",
    "GRANT",
    "TO",
    "FUNCTION",
    "RETURNS",
    "LANGUAGE",
    "$$ $$",
    "TRIGGER",
    "EXECUTE",
    "BEGIN",
    "COMMIT",
    "COPY",
    "STDIN",
    "FETCH",
    "FIRST",
    "ROWS",
    "ONLY",
    "interval",
    "DAY",
    "TIME",
    "ZONE",
    "AT",
    "COLLATE",
    "OPERATOR",
    "\"q\"",
    "U&'\\0041'",
    "'open",
    "/*",
    "--",
];

fn check(text: &str) -> Result<(), TestCaseError> {
    let limits = Limits {
        depth: 100,
        ..Limits::default()
    };
    let Ok(statements) = parse(text, &limits) else {
        return Ok(());
    };
    // Brackets that the printer adds may nest more deeply than the text does.
    let limits = Limits::default();
    for statement in &statements {
        let printed = print::statement(statement);
        let again = match parse(&printed, &limits) {
            Ok(again) => again,
            Err(error) => return Err(TestCaseError::fail(format!("{error}: {text} => {printed}"))),
        };
        prop_assert_eq!(again.len(), 1, "{} => {}", text, printed);
        prop_assert_eq!(print::statement(&again[0]), printed);
    }
    Ok(())
}

proptest! {
    // The same inputs at every run; the fuzz target `syntax` searches for others.
    #![proptest_config(ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(15),
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_tokens(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40)) {
        check(&tokens.join(" "))?;
    }

    #[test]
    fn random_expressions(tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..12)) {
        check(&format!("SELECT a {}", tokens.join(" ")))?;
    }

    #[test]
    fn random_characters(text in "\\PC{0,60}") {
        check(&text)?;
    }

    /// Statements that are right but for one token that is missing, doubled or another's.
    #[test]
    fn damaged_statements(at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
            token in prop::sample::select(TOKENS), how in 0..3_u8) {
        let lines: Vec<&str> = crate::fuzz::statements().collect();
        let line = lines[at.index(lines.len())].replace('⏎', "\n");
        let mut words: Vec<&str> = line.split(' ').collect();
        let place = cut.index(words.len());
        match how {
            0 => { words.remove(place); }
            1 => words.insert(place, token),
            _ => words[place] = token,
        }
        check(&words.join(" "))?;
    }
}

#[test]
fn every_statement_of_the_golden_files_is_printed_as_a_fixed_point() {
    for line in crate::fuzz::statements() {
        check(&line.replace('⏎', "\n")).expect(line);
    }
}
