//! Row locks beside PostgreSQL's: what each of 13 statements does to each of 13 others on one
//! row, as `golden/record_row_locks.sh` has recorded it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use coeval_sql::session::Session;

use crate::client::{must, query, session};
use crate::engines::{database, occ};

/// Times a session is polled before it counts as waiting.
const POLLS: usize = 200;

fn polled<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    (0..POLLS).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

/// What a statement says, as the golden file has it: its rows, its tag, or its SQLSTATE.
async fn said(session: &mut Session, statement: &str) -> String {
    let lines = query(session, statement, "").await;
    let error = lines.iter().find_map(|line| line.strip_prefix("  ERROR "));
    if let Some((state, _)) = error.and_then(|error| error.split_once(':')) {
        return format!("! {state}");
    }
    let (tag, rows) = lines.split_last().expect("a statement says something");
    match tag.trim_start().starts_with("SELECT") {
        true => {
            let rows = rows.iter().skip(1);
            let rows: Vec<_> = rows.map(|row| row.trim().replace(" | ", "|")).collect();
            rows.join(";")
        }
        false => tag.trim().to_owned(),
    }
}

async fn pair(holder: &str, wanter: &str) -> String {
    let database = database(occ()).await;
    let (mut first, mut second) = (session(&database), session(&database));
    must(
        &mut first,
        "create table t (a int primary key, b int, u int unique); insert into t values (1, 1, 1)",
    )
    .await;
    must(&mut first, "begin").await;
    query(&mut first, holder, "").await;
    let mut wants = Box::pin(said(&mut second, wanter));
    let at_once = polled(&mut wants);
    query(&mut first, "commit", "").await;
    let answer = match at_once {
        Some(said) => said,
        None => format!(
            "waits: {}",
            polled(&mut wants).expect("nothing is in the way any more")
        ),
    };
    answer.trim_end().to_owned()
}

#[tokio::test]
async fn every_pair_of_statements_does_as_in_postgresql() {
    let golden = include_str!("../golden/row_locks.txt");
    let statements: Vec<&str> = golden
        .lines()
        .filter_map(|line| line.strip_prefix("statement ")?.split_once(' '))
        .map(|(_, statement)| statement)
        .collect();
    let mut differences = Vec::new();
    let mut pairs = 0;
    for line in golden.lines() {
        let Some((numbers, expected)) = line
            .strip_prefix("pair ")
            .and_then(|pair| pair.split_once(':'))
        else {
            continue;
        };
        let numbers = numbers.split(' ').map(|number| number.parse::<usize>());
        let [holder, wanter] = numbers.collect::<Result<Vec<_>, _>>().expect("numbers")[..] else {
            panic!("two numbers in {line}");
        };
        let (holder, wanter) = (statements[holder - 1], statements[wanter - 1]);
        let found = pair(holder, wanter).await;
        if found != expected.trim() {
            differences.push(format!("{holder} / {wanter}: {found}, not {expected}"));
        }
        pairs += 1;
    }
    assert_eq!(pairs, statements.len() * statements.len());
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
