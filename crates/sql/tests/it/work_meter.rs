//! Every loop that outside input can lengthen calls the work meter: ticks are counted,
//! never time. The list of loops is docs/internals/work-meter.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coeval_sql::expression::WorkMeter;
use coeval_sql::{Session, SessionOptions};

use crate::client::{must, query};
use crate::engines::{database, occ};

/// Bytes of work between two ticks, at most: those of a tick, and of a chunk.
const TICK: u64 = (64 + 16) << 10;

/// Rows between two ticks, at most.
const ROWS: u64 = 10_000;

/// Length in bytes of the text in table `t`.
const BYTES: u64 = 300_000;

/// Number of rows of table `r`.
const MANY: u64 = 20_000;

/// A session beside a table with a long text, and one with many rows.
struct Client {
    session: Session,
    /// Cancels the session's statement.
    cancel: Arc<AtomicBool>,
}

impl Client {
    async fn prepared() -> Self {
        let cancel = Arc::<AtomicBool>::default();
        let options = SessionOptions {
            user: "tester".to_owned(),
            database: "test".to_owned(),
            process_id: 7,
            cancel: Arc::clone(&cancel),
            ..SessionOptions::default()
        };
        let database = database(occ()).await;
        let session = Session::new(database, options).expect("sound options");
        let mut client = Self { session, cancel };
        for statement in [
            "set work_mem = '512MB'".to_owned(),
            "create table t (s text, spaces text)".to_owned(),
            format!(
                "insert into t select repeat('ab ', {}), repeat(' ', {BYTES})",
                BYTES / 3
            ),
            "create table r (n int primary key, m int)".to_owned(),
            format!("insert into r select g, g % 1000 from generate_series(1, {MANY}) g"),
        ] {
            must(&mut client.session, &statement).await;
        }
        client
    }

    fn meter(&self) -> Arc<WorkMeter> {
        Arc::clone(self.session.work_meter())
    }

    /// Ticks of a statement that succeeds.
    async fn ticks(&mut self, statement: &str) -> u64 {
        let before = self.meter().ticks();
        must(&mut self.session, statement).await;
        self.meter().ticks() - before
    }

    /// Checks that a statement ticks so often, and that it ends at the tick at which it
    /// is canceled.
    async fn ticks_and_ends(&mut self, statement: &str, least: u64) {
        let shown: String = statement.chars().take(200).collect();
        let all = self.ticks(statement).await;
        assert!(all >= least, "{shown}: {all} ticks, not {least}");
        for tick in [1, least] {
            let meter = self.meter();
            let at = meter.ticks() + tick.max(1);
            meter.cancel_at(at);
            let said = query(&mut self.session, statement, "").await;
            self.cancel.store(false, Ordering::Relaxed);
            assert!(
                said.iter().any(|line| line.contains("57014")),
                "{shown}: {tick} of {all} ticks"
            );
            assert_eq!(meter.ticks(), at, "{shown}: {tick} of {all} ticks");
        }
    }
}

#[tokio::test]
async fn functions_on_text_tick() {
    let mut client = Client::prepared().await;
    for (expression, times) in [
        ("length(s)", 1),
        ("lower(s)", 1),
        ("lower(repeat('ж', 100000))", 2),
        ("upper(s)", 1),
        ("initcap(s)", 1),
        ("btrim(spaces)", 1),
        ("ltrim(spaces, ' x')", 1),
        ("rtrim(spaces)", 1),
        ("substring(s, 299990)", 1),
        ("substring(s, 1, 299990)", 1),
        ("strpos(s, 'zz')", 1),
        ("position('zz' in s)", 1),
        ("replace(s, 'a', 'xy')", 2),
        ("translate(s, 'a', 'b')", 1),
        ("translate('a', s, 'b')", 1),
        ("overlay(s placing 'x' from 299990)", 2),
        ("left(s, 299990)", 1),
        ("left(s, -1)", 2),
        ("right(s, 5)", 2),
        ("lpad('x', 300000, 'yz')", 1),
        ("rpad(s, 600000)", 1),
        ("repeat('ab', 150000)", 1),
        ("reverse(s)", 1),
        ("split_part(s, ' ', 99999)", 1),
        ("split_part(s, ' ', -2)", 2),
        ("quote_literal(s)", 2),
        ("s like '%_zz%'", 1),
        ("s like '%a_z%'", 1),
        ("s ilike '%_ZZ%'", 2),
        ("s ~ 'zz'", 1),
        ("s ~ '(a|b| )*[ab]{0,40}c'", 1),
        ("regexp_replace(s, '(a|b)+?', 'x', 'g')", 1),
        ("regexp_replace(s, '(a)(b)', '\\2\\1', 'g')", 1),
        ("regexp_match(s, 'b$')", 1),
        ("substring(s from '(a) x')", 1),
        ("string_to_array(s, ' ')", 2),
        ("(('{' || replace(s, ' ', ',') || 'x}')::text[])[1]", 1),
    ] {
        let least = times * BYTES / TICK;
        let statement = format!("select length(({expression})::text) from t");
        client.ticks_and_ends(&statement, least).await;
    }
}

#[tokio::test]
async fn functions_on_bytes_and_documents_tick() {
    let mut client = Client::prepared().await;
    for (expression, times) in [
        ("md5(s)", 1),
        ("sha256(s::bytea)", 1),
        ("digest(s, 'sha1')", 1),
        ("hmac(s, 'key', 'sha512')", 1),
        ("encode(s::bytea, 'hex')", 1),
        ("encode(s::bytea, 'base64')", 1),
        ("decode(encode(s::bytea, 'base64'), 'base64')", 2),
        ("substr(s::bytea, 2)", 1),
        ("position('\\x00'::bytea in s::bytea)", 1),
        ("s::bytea || s::bytea", 2),
        ("convert_to(s, 'UTF8')", 1),
        ("to_json(s)", 1),
        ("json_build_array(s)", 1),
        ("('[' || repeat('1,', 150000) || '1]')::jsonb -> 0", 1),
        ("('[' || repeat('1,', 150000) || '1]')::json -> 0", 1),
        ("('[' || repeat('1,', 150000) || '1]')::jsonb - 0", 2),
        ("('[' || repeat('1,', 150000) || '1]')::jsonb || '2'", 2),
        ("('[' || repeat('1,', 150000) || '1]')::jsonb @> '2'", 2),
        (
            "jsonb_set(('[' || repeat('1,', 150000) || '1]')::jsonb, '{0}', '2')",
            2,
        ),
        (
            "jsonb_pretty(('[' || repeat('1,', 150000) || '1]')::jsonb)",
            2,
        ),
        (
            "jsonb_path_query_first(('[' || repeat('1,', 150000) || '1]')::jsonb, '$[*] ? (@ > 2)')",
            2,
        ),
    ] {
        let least = times * BYTES / TICK;
        let statement = format!("select length(({expression})::text) from t");
        client.ticks_and_ends(&statement, least).await;
    }
    for (statement, rows) in [
        ("select length(json_agg(n)::text) from r", 2 * MANY),
        ("select length(jsonb_agg(n)::text) from r", 2 * MANY),
        (
            "select length(json_object_agg(n, m)::text) from r",
            2 * MANY,
        ),
        (
            "select count(*) from jsonb_array_elements((select jsonb_agg(n) from r))",
            2 * MANY,
        ),
    ] {
        client.ticks_and_ends(statement, rows / ROWS).await;
    }
}

#[tokio::test]
async fn functions_on_arrays_tick() {
    let mut client = Client::prepared().await;
    let array = "(select array_agg(n) from r)";
    let baseline = client.ticks(&format!("select cardinality({array})")).await;
    for expression in [
        "array_position(a, -1)",
        "array_remove(a, 1)",
        "-1 = any(a)",
        "0 < all(a)",
        "array_to_string(a, ',')",
        "a::text",
        "a::text[]",
        "a::bigint[]",
    ] {
        let statement = format!("select length(({expression})::text) from (select {array} as a) x");
        let least = baseline + MANY / ROWS;
        client.ticks_and_ends(&statement, least).await;
    }
}

#[tokio::test]
async fn operators_on_rows_tick() {
    let mut client = Client::prepared().await;
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let list = numbers.join(", ");
    let values: Vec<String> = (0..20_000).map(|number| format!("({number})")).collect();
    let values = values.join(", ");
    for (statement, rows) in [
        ("select count(*) from r", MANY),
        ("select sum(m), avg(m) from r", MANY),
        (
            "select count(*) from (select n, count(*) from r group by n) x",
            2 * MANY,
        ),
        // Scanning, sorting in runs and merging them, and returning rows.
        (
            "select count(*) from (select n from r order by m, n offset 0) x",
            5 * MANY,
        ),
        ("select n from r order by m desc limit 20000", 2 * MANY),
        ("select count(*) from (select distinct m, n from r) x", MANY),
        (
            "select length(string_agg(n::text, ',' order by m)) from r",
            3 * MANY,
        ),
        ("select cardinality(array_agg(distinct n)) from r", 2 * MANY),
        (
            "select count(*) from r x, r y where x.n = y.m + 0",
            3 * MANY,
        ),
        (
            "select count(*) from (select n from r intersect select m from r) x",
            2 * MANY,
        ),
        (
            "select count(*) from (select n from r except all select m from r) x",
            2 * MANY,
        ),
        (
            "select count(*) from (select n from r union select m from r) x",
            2 * MANY,
        ),
        ("select count(*) from generate_series(1, 20000)", MANY),
        (
            "select count(*) from (select generate_series(1, 20000)) x",
            MANY,
        ),
        (
            "select count(*) from r where n in (select m from r)",
            2 * MANY,
        ),
        (
            "select count(*) from r where n < 400 \
             and m > all (select m from r y where y.n < 100 and y.m <> r.m)",
            MANY,
        ),
        // The hash of a full join, and the hashed form of a correlated subquery.
        (
            "select count(*) from r x full join r y on x.m = y.n + 0",
            3 * MANY,
        ),
        (
            "select count(*) from r where m < 0 or exists (select 1 from r y where y.m = r.n)",
            3 * MANY,
        ),
        (
            &format!("select count(*) from (values {values}) x (a)"),
            20_000,
        ),
        (
            &format!("select count(*) from r where n < 3 and n + 1 in ({list})"),
            MANY,
        ),
        (
            "select count(*) from (select sum(n) over (order by m), rank() over () from r) x",
            3 * MANY,
        ),
        (
            "select count(*) from (select max(n) over (order by n rows between 20 preceding \
             and 20 following exclude current row) from r) x",
            40 * MANY,
        ),
        (
            "with recursive t(n) as (select 1 union all select n + 1 from t where n < 20000) \
             select count(*) from t",
            MANY,
        ),
        (
            "with recursive t(n) as (select 1 union select (n + 1) % 20000 from t) \
             select count(*) from t",
            MANY,
        ),
        (
            "with q as (select n from r) select count(*) from q a, q b where a.n = b.n",
            2 * MANY,
        ),
        (
            "select count(*) from (select count(*) from r group by cube (n, m)) x",
            2 * MANY,
        ),
        ("update r set m = m + 1", MANY),
        ("insert into r select n + 1000000, m from r", MANY),
        ("delete from r where n > 1000", MANY - 1000),
    ] {
        client.ticks_and_ends(statement, rows / ROWS).await;
    }
}

#[tokio::test]
async fn numbers_tick() {
    let mut client = Client::prepared().await;
    for statement in [
        "select length((power(repeat('9', 1000)::numeric, 60) + m)::text) from r where n < 9",
        "select count(*) from r where (repeat('9', 30000)::numeric * repeat('8', 30000)::numeric) > n and n < 20",
    ] {
        client.ticks_and_ends(statement, 3).await;
    }
}

#[tokio::test]
async fn planning_ticks() {
    let mut client = Client::prepared().await;
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let statement = format!(
        "select n from r where n in ({}) limit 1",
        numbers.join(", ")
    );
    client.ticks_and_ends(&statement, 2).await;
}

#[tokio::test]
async fn copying_ticks() {
    let mut client = Client::prepared().await;
    must(&mut client.session, "create table c (n int)").await;
    let mut data = String::new();
    for number in 0..20_000 {
        data += &format!("{number}\n");
    }
    let before = client.meter().ticks();
    let said = query(&mut client.session, "copy c from stdin", &data).await;
    assert_eq!(said, ["  COPY 20000"]);
    let all = client.meter().ticks() - before;
    assert!(all >= 20_000 / ROWS, "{all}");
    let meter = client.meter();
    meter.cancel_at(meter.ticks() + 2);
    let said = query(&mut client.session, "copy c from stdin", &data).await;
    assert!(said.iter().any(|line| line.contains("57014")), "{said:?}");
}

/// A step gives way without the clock, after so many ticks.
#[tokio::test]
async fn a_long_step_gives_way() {
    let mut client = Client::prepared().await;
    for statement in [
        "select length(lpad('x', 20000000, 'yz')) from t",
        "select length(repeat(s, 20)) from t",
        "select length(regexp_replace(repeat(s, 8), '(a|b)+?', 'x', 'g')) from t",
    ] {
        let before = client.meter().ways_given();
        must(&mut client.session, statement).await;
        assert!(client.meter().ways_given() > before, "{statement}");
    }
}

/// Memory of a subquery is given back when its execution ends: each of these sorts few
/// rows, many times.
#[tokio::test]
async fn subqueries_give_their_memory_back() {
    let mut client = Client::prepared().await;
    must(&mut client.session, "set work_mem = '256kB'").await;
    for (statement, rows) in [
        (
            "select count(*) from r cross join lateral \
             (select y.n from r y where y.n between r.n and r.n + 2 order by m desc limit 1) o \
             where r.n <= 5000",
            "  5000",
        ),
        (
            "select count(x) from (select (select y.n from r y \
             where y.n between r.n and r.n + 2 order by m desc limit 1) x from r where n <= 5000) t",
            "  5000",
        ),
        (
            "select count(*) from r where n <= 5000 and exists \
             (select distinct m from r y where y.n between r.n and r.n + 2)",
            "  5000",
        ),
        (
            "select sum(cardinality(x)) from (select array(select y.m from r y \
             where y.n between r.n and r.n + 2 group by y.m) x from r where n <= 5000) t",
            "  15000",
        ),
        (
            "select count(*) from r cross join lateral (select y.n from r y \
             where y.n between r.n and r.n + 2 intersect select r.n) o where r.n <= 5000",
            "  5000",
        ),
        (
            "select count(x) from (select (with recursive t(n) as (select r.n union \
             select n + 1 from t where n < r.n + 3) select count(*) from t a, t b) x \
             from r where n <= 5000) t",
            "  5000",
        ),
        (
            "select count(x) from (select (select sum(y.n) over (order by y.m) from r y \
             where y.n between r.n and r.n + 2 limit 1) x from r where n <= 5000) t",
            "  5000",
        ),
    ] {
        let said = must(&mut client.session, statement).await;
        assert_eq!(said[1], rows, "{statement}");
    }
}
