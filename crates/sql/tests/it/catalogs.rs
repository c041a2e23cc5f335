//! What clients ask the system tables, and what PostgreSQL 15 answers.
//!
//! `tests/clients` has the queries that psql's commands, its completion, pgbench
//! and some drivers send, word for word, each with PostgreSQL's answer for the
//! tables of `schema.sql`:
//!
//! ```text
//! ### \d orders (2)            where it comes from
//! # …                          why the answer is not PostgreSQL's, if it is not
//! SELECT … WHERE c.oid = '{orders}';
//! ===
//! relname | relkind            names of columns
//! orders | r                   rows
//! ```
//!
//! A table's name in braces stands for its number. Rows of queries without ORDER
//! BY are compared in any order.

use coeval_sql::session::{Session, SessionOptions};

use crate::client::{must, query};
use crate::engines;

const SCHEMA: &str = include_str!("../clients/schema.sql");
const RELATIONS: [&str; 13] = [
    "orders",
    "orders_pkey",
    "orders_code_key",
    "orders_note",
    "orders_placed",
    "Odd Name",
    "pgbench_accounts",
    "pgbench_accounts_pkey",
    "pgbench_branches",
    "pgbench_branches_pkey",
    "pgbench_history",
    "pgbench_tellers",
    "pgbench_tellers_pkey",
];

struct Question<'a> {
    title: &'a str,
    text: String,
    answer: String,
}

fn questions(file: &str) -> impl Iterator<Item = Question<'_>> {
    file.split("### ").skip(1).map(|block| {
        let (title, rest) = block.split_once('\n').expect("a title has a line");
        let (text, answer) = rest
            .split_once("\n===\n")
            .expect("a question has an answer");
        Question {
            title,
            text: text
                .lines()
                .skip_while(|line| line.starts_with("# "))
                .collect::<Vec<_>>()
                .join("\n"),
            answer: answer.trim_end_matches('\n').to_owned(),
        }
    })
}

/// Whether it is the row of a schema that PostgreSQL does not have.
fn is_ours(line: &str) -> bool {
    line == "coeval"
}

/// What a query says, in the form of the files.
async fn ask(session: &mut Session, text: &str) -> String {
    let mut said = query(session, text, "").await;
    if said
        .last()
        .is_some_and(|line| line.starts_with("  SELECT "))
    {
        said.pop();
    }
    let lines: Vec<&str> = said
        .iter()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .filter(|line| !is_ours(line))
        .collect();
    lines.join("\n")
}

fn in_any_order(answer: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = answer.lines().collect();
    lines.sort_unstable();
    lines
}

async fn answers_are_postgresqls(file: &str) {
    let database = engines::database(engines::serial()).await;
    let options = SessionOptions {
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        ..SessionOptions::default()
    };
    let mut session = Session::new(database, options).expect("sound options");
    must(&mut session, SCHEMA).await;
    let mut numbers = Vec::new();
    for name in RELATIONS {
        let said = ask(&mut session, &format!("select '\"{name}\"'::regclass::oid")).await;
        let number = said.lines().last().unwrap_or_default().to_owned();
        assert!(number.parse::<u32>().is_ok(), "{name}: {said}");
        numbers.push((format!("{{{name}}}"), number));
    }
    let with_numbers = |text: &str| {
        numbers
            .iter()
            .fold(text.to_owned(), |text, (name, number)| {
                text.replace(name, number)
            })
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for question in questions(file) {
        count += 1;
        let text = with_numbers(&question.text);
        let expected = with_numbers(&question.answer);
        let said = ask(&mut session, &text).await;
        let same = if text.to_lowercase().contains("order by") {
            said == expected
        } else {
            in_any_order(&said) == in_any_order(&expected)
        };
        if !same {
            wrong.push(format!(
                "### {}\n{text}\n--- expected\n{expected}\n--- said\n{said}\n",
                question.title
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} answers differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn psql_commands() {
    answers_are_postgresqls(include_str!("../clients/psql.txt")).await;
}

#[tokio::test]
async fn psql_completion() {
    answers_are_postgresqls(include_str!("../clients/completion.txt")).await;
}

#[tokio::test]
async fn drivers_and_tools() {
    answers_are_postgresqls(include_str!("../clients/drivers.txt")).await;
}
