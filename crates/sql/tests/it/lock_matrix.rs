//! Table locks beside PostgreSQL's: which of two transactions waits for which, for 15
//! statements each (`tests/golden/locks.txt`, which `record_locks.sh` has recorded).

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use coeval_sql::session::Session;

use crate::client::{must, query, session};
use crate::engines::{database, occ};

/// Times a statement is polled before it counts as waiting. Nothing but the other
/// transaction can make one that waits go on.
const POLLS: usize = 200;

/// Pairs of statements, by their positions, that wait here and not in PostgreSQL: schema
/// changes are made one at a time.
const DIFFERENCES: [(usize, usize); 1] = [(12, 12)];

/// Polls a future until it is done; `None` if it waits.
fn poll<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    (0..POLLS).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

#[track_caller]
fn at_once<T>(future: impl Future<Output = T>) -> T {
    poll(pin!(future)).expect("nothing in its way")
}

fn of(statement: &str, number: u32) -> String {
    format!("begin; {}", statement.replace("$n", &number.to_string()))
}

#[test]
fn transactions_wait_for_table_locks_as_in_postgresql() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    let text = include_str!("../golden/locks.txt");
    let lines = |mark: &str| -> Vec<&str> {
        text.lines()
            .filter_map(|line| line.strip_prefix(mark))
            .collect()
    };
    let (statements, matrix) = (lines("s "), lines("m "));
    assert_eq!((statements.len(), matrix.len()), (15, 15));
    let database = runtime.block_on(database(occ()));
    let mut setup = session(&database);
    at_once(must(
        &mut setup,
        "create table t (a int primary key, b int); insert into t values (1, 1), (2, 2)",
    ));
    let mut first = session(&database);
    let mut second = session(&database);
    let mut different = Vec::new();
    for (row, one) in statements.iter().enumerate() {
        for (column, other) in statements.iter().enumerate() {
            at_once(must(&mut first, &of(one, 1)));
            let waits = waits(&mut second, &of(other, 2), &mut first);
            let expected = matrix[row].as_bytes()[column] == b'X';
            if waits != (expected || DIFFERENCES.contains(&(row, column))) {
                different.push(format!("{one} / {other}: waits: {waits}"));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// Whether the statement waits for the first transaction. Rolls both back.
fn waits(second: &mut Session, statement: &str, first: &mut Session) -> bool {
    let (said, waited) = {
        let mut running = pin!(query(second, statement, ""));
        let said = poll(running.as_mut());
        let waited = said.is_none();
        at_once(must(first, "rollback"));
        let said = said.unwrap_or_else(|| poll(running).expect("the lock is free"));
        (said, waited)
    };
    let failed = said.iter().any(|line| line.contains("ERROR"));
    assert!(!failed, "{statement}: {said:?}");
    at_once(must(second, "rollback"));
    waited
}
