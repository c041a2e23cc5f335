//! Statements with what is read from them: a file for each part of the grammar, under
//! `statements/`. A line is a statement (`⏎` is a line's end in it), and the line below says
//! how it is printed (`= …`), or which error it is: SQLSTATE, position, message (`! …`).
//!
//! After a change that is meant to change them: `UPDATE_TRANSCRIPTS=1 cargo test -p
//! coeval-sql-syntax golden`, and read the difference. `cargo xtask grammar` compares what is
//! printed with PostgreSQL's grammar, for these files too.

use std::fmt::Write;
use std::path::Path;

use coeval_sql_syntax::{Limits, parse, print};

fn answer(line: &str) -> String {
    let text = line.replace('⏎', "\n");
    match parse(&text, &Limits::default()) {
        Ok(statements) => {
            let printed: Vec<String> = statements.iter().map(print::statement).collect();
            format!("= {}", printed.join("; ").replace('\n', "⏎"))
        }
        Err(error) => {
            let (state, at) = (error.fault.sqlstate(), error.character(&text));
            format!("! {state} {at} {}", error.message.replace('\n', "⏎"))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the statements are files beside us"
)]
fn run(name: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/statements/{name}.txt"));
    let expected = std::fs::read_to_string(&path).expect("a file of statements");
    let mut found = String::new();
    let mut count = 0;
    for line in expected.lines() {
        let is_answer = line.starts_with("= ") || line.starts_with("! ");
        if is_answer {
            continue;
        }
        writeln!(found, "{line}").expect("a string takes all");
        if !line.is_empty() && !line.starts_with('#') {
            count += 1;
            writeln!(found, "{}", answer(line)).expect("a string takes all");
        }
    }
    assert!(count > 0, "{name} has no statements");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &found).expect("a file that can be written");
        return;
    }
    for (expected, found) in expected.lines().zip(found.lines()) {
        assert_eq!(expected, found, "in {name}");
    }
    assert_eq!(
        expected.lines().count(),
        found.lines().count(),
        "{name} lacks answers"
    );
}

#[test]
fn tokens() {
    run("tokens");
}

#[test]
fn expressions() {
    run("expressions");
}

#[test]
fn queries() {
    run("queries");
}

#[test]
fn changes() {
    run("changes");
}

#[test]
fn definitions() {
    run("definitions");
}

#[test]
fn utilities() {
    run("utilities");
}

#[test]
fn errors() {
    run("errors");
}
