//! Tests of access paths and of limits on memory and planning.

use crate::SqlState;
use crate::golden::Bench;

fn bench() -> Bench {
    let mut bench = Bench::new();
    for sql in [
        "create table a (id int primary key, x int, y text);",
        "create index a_x on a (x, y);",
        "create table b (a int, n int, primary key (a, n));",
    ] {
        bench.run(sql, &[]).unwrap();
    }
    bench
}

#[test]
fn rows_are_found_by_the_index_that_fixes_most() {
    let bench = bench();
    for (sql, plan) in [
        (
            "select * from a where id = $1",
            "Index Lookup using a_pkey on a",
        ),
        (
            "select * from a where 7 = id and x = 1",
            "Index Lookup using a_pkey on a",
        ),
        (
            "select * from a where x = 1 and y = 'z'",
            "Index Scan using a_index on a",
        ),
        ("select * from a where y = 'z'", "Seq Scan on a"),
        (
            "select * from b where a = 1 and n > 3",
            "Index Scan using b_pkey on b",
        ),
        (
            "select * from a where id in (1, 2)",
            "Index Scan using a_pkey on a",
        ),
        (
            "select * from a where id = any($1)",
            "Index Scan using a_pkey on a",
        ),
        (
            "select * from b where a in (1, 2)",
            "Index Scan using b_pkey on b",
        ),
        (
            "select * from b where a = 7 and n in (1, 2)",
            "Index Cond: ((a = 7) AND (n = ANY (ARRAY[1, 2])))",
        ),
        (
            "select * from a order by id",
            "Index Scan using a_pkey on a",
        ),
        (
            "select * from a order by id desc limit 1",
            "Index Scan Backward using a_pkey on a",
        ),
        (
            "select * from b where a = 3 order by n desc",
            "Index Scan Backward using b_pkey on b",
        ),
        ("select * from a order by y", "Sort"),
    ] {
        let lines = bench.explain(sql);
        assert!(
            lines.iter().any(|line| line.contains(plan)),
            "{sql}\n{}",
            lines.join("\n")
        );
    }
    let sorts = |sql: &str| bench.explain(sql).iter().any(|line| line.contains("Sort"));
    assert!(!sorts("select * from a order by id"));
    assert!(!sorts("select * from b where a = 3 order by n"));
    assert!(!sorts("select * from b where a = 3 order by a, n"));
    assert!(sorts("select * from b order by n"));
    assert!(sorts("select * from b order by a, n desc"));
}

#[test]
fn joins_look_up_or_hash() {
    let bench = bench();
    let plan = bench
        .explain("select * from b join a on a.id = b.a")
        .join("\n");
    assert!(plan.contains("Index Lookup using a_pkey on a"), "{plan}");
    let plan = bench
        .explain("select * from a join b on b.n = a.x")
        .join("\n");
    assert!(plan.contains("Hash"), "{plan}");
    let plan = bench
        .explain("select * from a, b where b.n < a.x")
        .join("\n");
    assert!(
        !plan.contains("Hash") && !plan.contains("Materialize"),
        "{plan}"
    );
}

#[test]
fn collecting_more_than_allowed_is_an_error_with_a_hint() {
    let mut bench = Bench::new();
    bench.session.work_memory = 64 * 1024;
    for sql in [
        "select n from generate_series(1, 100000) as g(n) order by n desc;",
        "select n, count(*) from generate_series(1, 100000) as g(n) group by n;",
        "select distinct n from generate_series(1, 100000) as g(n);",
        "select array_agg(n) from generate_series(1, 100000) as g(n);",
        "select 1 where 1 in (select n from generate_series(2, 100000) as g(n));",
        "select sum(n) over () from generate_series(1, 100000) as g(n);",
        "select array_agg(n) over (order by n) from generate_series(1, 300) as g(n);",
        "with recursive t(n) as (select 1 union select n + 1 from t) select count(*) from t;",
        "with recursive t(n) as (select 1 union all select n from t, generate_series(1, 2)) select count(*) from t;",
        "with q as (select n from generate_series(1, 100000) as g(n)) select 1 from q a, q b where a.n + b.n = 0;",
        "select count(*) from generate_series(1, 100000) as g(n) group by cube (n, n % 7);",
    ] {
        let error = bench.run(sql, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{sql}");
        assert!(error.report().hint.is_some());
    }
    let top = "select n from generate_series(1, 100000) as g(n) order by n desc limit 2;";
    assert_eq!(bench.run(top, &[]).unwrap(), ["100000", "99999"]);
    for count in [
        "select count(*) from generate_series(1, 100000) as g(n);",
        // One reader takes the rows as they are made.
        "with q as materialized (select n from generate_series(1, 100000) as g(n)) select count(*) from q;",
        // Two steps' rows are kept.
        "with recursive t(n) as (select 1 union all select n + 1 from t where n < 100000) select count(*) from t;",
    ] {
        assert_eq!(bench.run(count, &[]).unwrap(), ["100000"], "{count}");
    }
}

#[test]
fn a_join_that_does_not_fit_is_read_again_instead() {
    let mut bench = Bench::new();
    bench.session.work_memory = 64 * 1024;
    bench.run("create table t (a int, b int);", &[]).unwrap();
    let values: Vec<String> = (0..2000).map(|n| format!("({n}, {})", n % 7)).collect();
    bench
        .run(&format!("insert into t values {};", values.join(", ")), &[])
        .unwrap();
    let sql = "select count(*) from (values (1), (2)) v(n) join t on t.b = v.n;";
    assert_eq!(bench.run(sql, &[]).unwrap(), ["572"]);
}

#[test]
fn a_canceled_query_ends() {
    let mut bench = Bench::new();
    bench
        .session
        .cancel
        .store(true, std::sync::atomic::Ordering::Relaxed);
    for sql in [
        "select count(*) from generate_series(1, 1000000000);",
        "select (select count(*) from generate_series(1, 1000000000));",
    ] {
        let error = bench.run(sql, &[]).unwrap_err();
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
    }
}

#[test]
fn long_scans_go_through_many_chunks() {
    let mut bench = Bench::new();
    bench
        .run("create table t (id int primary key, x int);", &[])
        .unwrap();
    for start in 0..10 {
        let values: Vec<String> = (0..500)
            .map(|n| start * 500 + n)
            .map(|n| format!("({n}, {})", n % 10))
            .collect();
        bench
            .run(&format!("insert into t values {};", values.join(", ")), &[])
            .unwrap();
    }
    assert_eq!(
        bench
            .run("select count(*), sum(id) from t where x = 3;", &[])
            .unwrap(),
        ["500|1249000"]
    );
    assert_eq!(
        bench
            .run(
                "select id from t order by id desc limit 2 offset 4000;",
                &[]
            )
            .unwrap(),
        ["999", "998"]
    );
    assert_eq!(
        bench
            .run("select count(*) from t a join t b on b.id = a.id + 1;", &[])
            .unwrap(),
        ["4999"]
    );
}
