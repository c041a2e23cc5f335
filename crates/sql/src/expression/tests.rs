//! Tests of parameters, recursion depth and robustness, which transcript tests do not
//! cover.

use std::sync::atomic::Ordering;

use crate::expression::{Binder, Frame, Parameters, Scope};
use crate::golden::Bench;
use crate::statement::parse_expression;
use crate::value::DataType;
use crate::{Error, SqlState, Value};

fn parameter_types(bench: &Bench, sql: &str) -> Result<Vec<DataType>, Error> {
    bench.parameter_types(sql)
}

#[test]
fn parameters_take_the_type_of_their_place() {
    let mut bench = Bench::new();
    bench
        .run(
            "create table t (a int primary key, b text, c numeric(5,2), d date);",
            &[],
        )
        .unwrap();
    for (sql, types) in [
        ("select b from t where a = $1", vec![DataType::Int4]),
        ("select b from t where $1 < c", vec![DataType::Numeric]),
        (
            "select $1 + 1, $2 || 'x'",
            vec![DataType::Int4, DataType::Text],
        ),
        ("select $1::int8, $1", vec![DataType::Int8]),
        (
            "select a from t where b like $1 limit $2",
            vec![DataType::Text, DataType::Int8],
        ),
        (
            "select a from t where a in ($1, $2)",
            vec![DataType::Int4, DataType::Int4],
        ),
        (
            "select a from t where a = any($1)",
            vec![DataType::Int4Array],
        ),
        (
            "select a from t where d between $1 and $2",
            vec![DataType::Date, DataType::Date],
        ),
        (
            "select case when a = 1 then $1 else 2.5 end from t",
            vec![DataType::Numeric],
        ),
        ("select coalesce($1, 7)", vec![DataType::Int4]),
        ("select $1", vec![DataType::Text]),
        (
            "select upper($1), round($2, 1)",
            vec![DataType::Text, DataType::Numeric],
        ),
        (
            "select (select max(a) from t where c > $1)",
            vec![DataType::Numeric],
        ),
    ] {
        assert_eq!(parameter_types(&bench, sql).unwrap(), types, "{sql}");
    }
    let error = parameter_types(&bench, "select a from t where $1 is null and a = $3").unwrap_err();
    assert_eq!(error.state(), SqlState::INDETERMINATE_DATATYPE);
}

#[test]
fn parameters_are_values_at_execution() {
    let mut bench = Bench::new();
    bench
        .run("create table t (a int primary key, b text);", &[])
        .unwrap();
    bench
        .run("insert into t values (1, 'x'), (2, 'y');", &[])
        .unwrap();
    let sql = "select b from t where a = $1;";
    assert_eq!(bench.run(sql, &[Value::Int4(2)]).unwrap(), ["y"]);
    assert_eq!(bench.run(sql, &[Value::Null]).unwrap(), [""; 0]);
}

#[test]
fn what_is_not_there_is_named() {
    let mut bench = Bench::new();
    bench
        .run("create table t (a int primary key);", &[])
        .unwrap();
    for (sql, feature) in [
        ("select t from t;", "a whole row as a value"),
        ("select '1'::money;", "the type money"),
        ("select '<a/>'::xml;", "the type xml"),
        ("select a from t tablesample system (10);", "TABLESAMPLE"),
        (
            "with recursive r(n) as (select 1 union all select n from r) \
             search depth first by n set o select * from r;",
            "SEARCH",
        ),
        ("select 'a' collate \"de_DE\";", "the collation"),
    ] {
        let error = bench.run(sql, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        let message = &error.report().message;
        assert!(message.contains(feature), "{sql}: {message}");
    }
}

#[test]
fn depth_is_no_danger() {
    // As deep as the statement parser admits, on a thread with the stack size of the
    // server's threads.
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    #[expect(clippy::disallowed_methods, reason = "a small stack is the point")]
    let handle = thread.spawn(|| {
        let mut bench = Bench::new();
        let sum = format!("select 1{};", " + 1".repeat(2_000));
        assert_eq!(bench.run(&sum, &[]).unwrap(), ["2001"]);
        let deeper = format!("select 1{};", " + 1".repeat(500_000));
        let error = bench.run(&deeper, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
        let or = format!("select false{} or true;", " or 1 = 2".repeat(1_500));
        assert_eq!(bench.run(&or, &[]).unwrap(), ["t"]);
        let concatenated = format!("select length(''{});", " || 'a'".repeat(900));
        assert_eq!(bench.run(&concatenated, &[]).unwrap(), ["900"]);
        let brackets = format!("select {}1{};", "(".repeat(900), ")".repeat(900));
        assert_eq!(bench.run(&brackets, &[]).unwrap(), ["1"]);
        let signs = format!("select {}1;", "- ".repeat(900));
        assert_eq!(bench.run(&signs, &[]).unwrap(), ["1"]);
        let nested = |open: &str, inner: &str, close: &str, times: usize| {
            format!(
                "select {}{inner}{};",
                open.repeat(times),
                close.repeat(times)
            )
        };
        let joins: String = (0..100)
            .map(|number| format!(" cross join generate_series(1, 1) g{number})"))
            .collect();
        for (deep, answer) in [
            (nested("(select ", "1", ")", 150), "1"),
            (nested("case when true then ", "1", " end", 900), "1"),
            (nested("not ", "true", "", 900), "t"),
            (nested("abs(", "1", ")", 900), "1"),
            (nested("", "1", "::int", 900), "1"),
            (nested("1 + (", "1", ")", 450), "451"),
            (
                format!(
                    "select 1 from {}generate_series(1, 1) g{joins};",
                    "(".repeat(100)
                ),
                "1",
            ),
            (
                format!(
                    "with w as ({}) select * from w;",
                    nested("- ", "1", "", 900).trim_end_matches(';')
                ),
                "1",
            ),
        ] {
            assert_eq!(bench.run(&deep, &[]).unwrap(), [answer], "{:.60}", deep);
        }
        let row = |fields: usize| format!("(1{})", ", 1".repeat(fields - 1));
        for (fields, expected) in [(1_000, Some("f")), (60_000, None)] {
            let rows = format!("select {0} < {0};", row(fields));
            let answer = bench.run(&rows, &[]);
            match expected {
                Some(expected) => assert_eq!(answer.unwrap(), [expected]),
                None => {
                    let error = answer.unwrap_err();
                    assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
                }
            }
        }
        // What is nested is counted together.
        let joined = format!(
            "select count(*) from {}generate_series(1, 1) a{};",
            format!("(select 1 from {}", "(".repeat(100)).repeat(40),
            format!("{joins}) s").repeat(40)
        );
        let error = bench.run(&joined, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
        // Columns that each level uses twice do not double the plan at each.
        let doubled = format!(
            "select x from {}(select 0 as x) s{};",
            "(select x + x as x from ".repeat(60),
            ") s".repeat(60)
        );
        assert_eq!(bench.run(&doubled, &[]).unwrap(), ["0"]);
        let filtered = format!(
            "select x from {}(select 0 as x) s{} where x = 0;",
            "(select x + x as x from ".repeat(60),
            " group by x) s".repeat(60)
        );
        assert_eq!(bench.run(&filtered, &[]).unwrap(), ["0"]);
        let unions = format!("select 1{};", " union select 1".repeat(10_000));
        let error = bench.run(&unions, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX);
        let union = format!(
            "select count(*) from (select 1{}) t;",
            " union all select 1".repeat(200)
        );
        assert_eq!(bench.run(&union, &[]).unwrap(), ["201"]);
    });
    handle.unwrap().join().unwrap();
}

/// Binds a list of `items` numbers, with memory reserved for `foreseen` bytes of plan.
fn bind_list(bench: &Bench, items: u64, foreseen: u64) -> Result<(), Error> {
    let catalog = bench.catalog();
    let locate = |_| None;
    let mut binder = Binder::new(&catalog, &bench.session, &locate, Parameters::default());
    binder.foresee(foreseen);
    let frame = Frame::outermost();
    let scope = Scope::empty(&frame);
    let numbers: Vec<String> = (0..items).map(|number| number.to_string()).collect();
    let list = parse_expression(&format!("0 in ({})", numbers.join(", ")))?;
    binder.bind(&list, &scope).map(drop)
}

#[test]
fn planning_ends_when_somebody_asks_for_it() {
    let bench = Bench::new();
    bind_list(&bench, 10_000, u64::MAX).unwrap();
    bench.session.cancel.store(true, Ordering::Relaxed);
    let error = bind_list(&bench, 10_000, u64::MAX).unwrap_err();
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    // The binder does not check memory for a short list.
    bind_list(&bench, 100, u64::MAX).unwrap();
}

#[test]
fn planning_takes_no_memory_that_is_not_there() {
    let bench = Bench::new();
    bench.session.around.budget().ask(Box::new(|| 1000));
    bind_list(&bench, 10_000, 10_000_000).unwrap();
    let error = bind_list(&bench, 10_000, 1_000_000).unwrap_err();
    assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
}

#[test]
fn values_are_as_long_as_there_is_memory_for_them() {
    let mut bench = Bench::new();
    for too_long in [
        "select length(repeat('x', 300000000));",
        "select length(lpad('ä', 100000000));",
        "select length(replace(repeat('a', 100000), 'a', repeat('b', 3000)));",
        "select length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 3000), 'g'));",
        "select length(format(repeat('%1$s', 3000), repeat('b', 100000)));",
        "select cardinality(string_to_array(repeat(',', 10000000), ','));",
        "select length((('[' || repeat('1,', 20000000) || '1]')::jsonb)::text);",
        "select length(encode(repeat('x', 200000000)::bytea, 'hex'));",
    ] {
        let error = bench.run(too_long, &[]).unwrap_err();
        assert_eq!(
            error.state(),
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            "{too_long}"
        );
    }
    bench.session.around.budget().ask(Box::new(|| 3 << 20));
    for too_much in [
        "select length(repeat('x', 4000000));",
        "select length(repeat('x', 1700000) || repeat('x', 1700000));",
        "select length(concat(repeat('x', 1040000), repeat('x', 1040000), repeat('x', 1100000)));",
        "select length(string_agg('x', repeat('y', 1000000))) from generate_series(1, 4);",
        "select length(array_to_string(array_agg(g), repeat('y', 200000))) from generate_series(1, 20) g;",
        "select cardinality(array_agg(g) || array_agg(g)) from generate_series(1, 60000) g;",
        "select cardinality(('{' || repeat('1,', 150000) || '1}')::int[]);",
        "select length(array_agg(repeat('x', 100000))::text) from generate_series(1, 20) g;",
        "select length(quote_literal(repeat('''', 1600000)));",
        "select length(('[' || repeat('1,', 400000) || '1]')::jsonb::text);",
        "select length(json_agg(repeat('x', 100000))::text) from generate_series(1, 20) g;",
        "select length(repeat('x', 1700000)::bytea || repeat('x', 1700000)::bytea);",
    ] {
        let error = bench.run(too_much, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{too_much}");
    }
    // The budget gets the memory of one value back before the next one is made.
    for each in [
        "select max(length(repeat('x', 2000000 + g))) from generate_series(1, 9) g;",
        "select length(repeat('x', 2000000 + g)) from generate_series(1, 9) g order by g desc limit 1;",
        "select max(length(repeat('x', 2000000 + i))) from (values (1), (2), (9)) v(i);",
        "select greatest(length(repeat('x', 2000009)), length(repeat('y', 2000008)));",
    ] {
        assert_eq!(bench.run(each, &[]).unwrap(), ["2000009"], "{each}");
    }
    let long = "select sum(length(repeat('x', 500000) || repeat('y', 500000))) from generate_series(1, 9);";
    assert_eq!(bench.run(long, &[]).unwrap(), ["9000000"]);
}

#[test]
fn conditions_must_be_truths() {
    let bench = Bench::new();
    let catalog = bench.catalog();
    let locate = |_| None;
    let mut binder = Binder::new(&catalog, &bench.session, &locate, Parameters::default());
    let frame = Frame::outermost();
    let scope = Scope::empty(&frame);
    let number = parse_expression("1").unwrap();
    let error = binder.bind_condition(&number, &scope, "WHERE").unwrap_err();
    assert_eq!(error.state(), SqlState::DATATYPE_MISMATCH);
    assert_eq!(
        error.report().message,
        "argument of WHERE must be type boolean, not type integer"
    );
}
