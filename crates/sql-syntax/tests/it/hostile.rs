//! Texts that are long, or nested deeply: those that are permitted are read, all others are
//! refused by their SQLSTATE, without more work than their tokens and without the stack's end.

use coeval_sql_syntax::tree::{Body, ExprKind, StatementKind, Target};
use coeval_sql_syntax::{Fault, Limits, SyntaxError, parse, print};

fn read(text: &str) -> Result<usize, SyntaxError> {
    let statements = parse(text, &Limits::default())?;
    // What is read can be printed, read again, compared, copied and freed.
    let printed: Vec<String> = statements.iter().map(print::statement).collect();
    let again = parse(&printed.join(";"), &Limits::default())?;
    for (printed, again) in printed.iter().zip(&again) {
        assert_eq!(*printed, print::statement(again));
    }
    assert_eq!(statements, statements.clone());
    Ok(statements.len())
}

/// `open` and `close` around 1, as often as `count` says.
fn nested(open: &str, close: &str, count: usize) -> String {
    format!("SELECT {}1{}", open.repeat(count), close.repeat(count))
}

const NESTS: [(&str, &str); 8] = [
    ("(", ")"),
    ("NOT ", ""),
    ("- ", "::x"),
    ("@ ", ""),
    ("CASE WHEN ", " THEN 1 END"),
    ("(SELECT ", ")"),
    ("f(", ")"),
    ("ARRAY[", "]"),
];

#[test]
fn what_is_permitted_is_read() {
    for (open, close) in NESTS {
        assert_eq!(read(&nested(open, close, 300)), Ok(1), "{open}");
    }
    assert_eq!(
        read(&format!("SELECT 1{}", " OR x = 1".repeat(1500))),
        Ok(1)
    );
    assert_eq!(read(&format!("SELECT 1{}", " + 1".repeat(2000))), Ok(1));
    assert_eq!(
        read(&format!("SELECT 1{}", " UNION SELECT 1".repeat(2000))),
        Ok(1)
    );
    assert_eq!(
        read(&format!("SELECT FROM a{}", " NATURAL JOIN a".repeat(2000))),
        Ok(1)
    );
    assert_eq!(
        read(&format!("VALUES (1){}", ", (1)".repeat(20_000))),
        Ok(1)
    );
    assert_eq!(read(&"SELECT 1;".repeat(1000)), Ok(1000));
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    for (open, close) in NESTS {
        for count in [1001, 100_000] {
            let error = read(&nested(open, close, count)).expect_err(open);
            assert_eq!(error.fault, Fault::TooDeep, "{open}");
            assert_eq!(error.fault.sqlstate(), "54001");
        }
    }
    let nests = [
        format!("SELECT 1{}", "::x".repeat(100_000)),
        format!("SELECT 1{}", " IS NULL".repeat(100_000)),
        format!("SELECT FROM {}a", "(".repeat(100_000)),
        format!("SELECT FROM a{}", " JOIN a".repeat(100_000)),
        format!(
            "SELECT FROM t GROUP BY {}",
            "GROUPING SETS (".repeat(100_000)
        ),
        "EXPLAIN ".repeat(100_000) + "SELECT 1",
        "WITH a AS (".repeat(100_000),
        "CREATE SCHEMA a ".repeat(100_000),
    ];
    for text in nests {
        let error = read(&text).expect_err(&text[..20]);
        let known = matches!(error.fault, Fault::TooDeep | Fault::Syntax);
        assert!(known, "{}: {error}", &text[..20]);
    }
}

/// A text whose parts would be read twice on every level takes 2^40 steps if they are.
#[test]
fn nothing_is_read_again_on_every_level() {
    let offsets = format!("{}1{}", "SELECT 1 OFFSET (".repeat(40), ") ROWS".repeat(40));
    assert_eq!(read(&offsets), Ok(1));
    let brackets = format!("SELECT {}SELECT 1{}", "(".repeat(300), ") + 1".repeat(300));
    assert_eq!(read(&brackets), Ok(1));
    let tables = format!(
        "SELECT FROM {}SELECT 1{}",
        "(".repeat(300),
        ") x JOIN t ON true".repeat(299) + ") x"
    );
    assert_eq!(read(&tables), Ok(1));
}

/// Each sign is an operator of its own. A lexer that reads the rest of the run for each takes
/// 2 × 10^10 steps.
#[test]
fn a_run_of_signs_is_read_once() {
    for sign in ["+", "-+"] {
        let fault = read(&nested(sign, "", 200_000)).unwrap_err().fault;
        assert_eq!(fault, Fault::TooDeep, "{sign}");
    }
}

#[test]
fn a_tree_is_no_deeper_than_its_text_is_nested() {
    let text = format!("SELECT 1{}", " + 2 * 3".repeat(5000));
    let statements = parse(&text, &Limits::default()).expect("a long sum");
    let StatementKind::Query(query) = &statements[0].kind else {
        panic!("no query");
    };
    let Body::Select(select) = &query.body else {
        panic!("no SELECT");
    };
    let Target::Expr(sum, _) = &select.targets[0] else {
        panic!("no expression");
    };
    assert!(matches!(&sum.kind, ExprKind::Binary(_, steps) if steps.len() == 5000));
}

#[test]
fn limits_are_limits() {
    let limits = Limits {
        bytes: 20,
        tokens: 6,
        depth: 3,
    };
    let fault = |text: &str| parse(text, &limits).map_err(|error| error.fault).err();
    assert_eq!(fault("SELECT 1, 2"), None);
    assert_eq!(fault("SELECT 1, 2, 3"), Some(Fault::TooLong));
    assert_eq!(fault("SELECT          10000"), Some(Fault::TooLong));
    assert_eq!(fault("SELECT((((1"), Some(Fault::TooDeep));
}

#[test]
fn positions_are_told_in_characters() {
    let text = "SELECT 'é', FROM";
    let error = parse(text, &Limits::default()).expect_err("no target");
    assert_eq!((error.at, error.character(text)), (13, 13));
}

#[test]
fn trees_are_sent_between_threads() {
    fn is_send<T: Send + Sync + 'static>(_: &T) {}
    is_send(&parse("SELECT 1", &Limits::default()).expect("a query"));
}
