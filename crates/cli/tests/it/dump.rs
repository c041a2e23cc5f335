//! `coeval dump`: what it writes, Coeval and PostgreSQL read back, and dump again.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at what another process has written"
)]

use std::path::Path;
use std::process::{Output, Stdio};

use coeval_testkit::server::with_server;
use coeval_testkit::wire::Wire;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::postgres::Postgres;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");

/// A table of every type, names that need quotes, values that need escapes.
const EVERYTHING: &[&str] = &[
    "create table \"Every Type\" (
        id bigint primary key,
        yes boolean not null default true,
        small smallint, medium integer default 7, \"large\"\"st\" bigint,
        exact numeric, money numeric(12,2) default 0.00,
        single real, double double precision,
        name text default 'it''s', short varchar(5), padded char(4),
        day date, moment timestamp, instant timestamptz default current_timestamp)",
    "insert into \"Every Type\" values
        (1, true, -32768, -2147483648, -9223372036854775808,
         123456789012345678901234567890.123456789, -0.01, 1.5, 0.1,
         'plain', 'short', 'ab', '2026-02-28', '1999-12-31 23:59:59.999999',
         '2026-11-21 12:00:00+02'),
        (2, false, 32767, 2147483647, 9223372036854775807, 'NaN', 9999999999.99,
         'NaN', 'Infinity', E'tab\\tnewline\\nreturn\\rbackslash\\\\end', '', '',
         '4713-01-01 BC', 'infinity', '-infinity'),
        (3, false, null, null, null, null, null, null, null, null, null, null, null, null, null),
        (4, true, 0, 0, 0, 0, 0, '-0', 1e-300, E'\\\\.', E'\\\\N', 'Zoë', '5874897-12-31',
         '0001-01-01 00:00:00 BC', '2000-01-01 00:00:00.000001 UTC'),
        (5, true, 0, 0, 0, 1e-20, 0, 3.4028235e38, 1.7976931348623157e308,
         'snow ☃ and ''quotes'' \"both\"; -- not a comment', 'a;b', ' x ', '0001-01-01',
         '294276-12-31 23:59:59.999999', '1970-01-01 00:00:00 UTC')",
    "create table \"select\" (\"from\" int not null, \"ORDER\" text, plain int, unique (plain))",
    "insert into \"select\" values (1, 'x', 10), (2, null, null), (3, 'y', null)",
    "create index \"Index of select\" on \"select\" (\"ORDER\" desc, \"from\")",
    "create unique index one_of_each on \"select\" (\"from\", \"ORDER\")",
    "create table pair (a int, b varchar(3), c text, primary key (b, a))",
    "insert into pair values (1, 'x', ''), (1, 'y', 'z')",
    "create table without_rows (id int primary key, note text)",
    "create table times (
        id int primary key, t time default '12:00', t3 time(3), z timetz, i interval default '36 hours',
        d interval day to second(2), m interval year to month)",
    "insert into times values
        (1, '24:00', '01:02:03.4567', '10:00-05:30', '-1 year 2 days -3:04:05.6', '1 2:03:04.567', '1-2'),
        (2, null, null, null, null, null, null),
        (3, '00:00:00.000001', '0:00', '23:59:59.999999+15:59', '-0.5 s', '-1 day +2:00', '-14 mons')",
    "create index times_i on times (i, z desc)",
    "create extension \"uuid-ossp\"",
    "create extension pgcrypto",
    "create table documents (
        id uuid primary key default gen_random_uuid(), other uuid default uuid_generate_v4(),
        b bytea default '\\x00ff', j json default '{\"a\" : 1}', d jsonb not null default '{\"a\": null, \"b\": [1, 2.50]}',
        p jsonpath, n name default 'it''s', o oid)",
    "insert into documents values
        ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', null, '', '{\"x\" :  [1,\"a\\tb\\u00e4\"],\n \"x\":2}',
         '{\"bb\": 1.50e2, \"a\": \"tab\\tquote\\\"back\\\\ä☃\", \"c\": [{}, [], \"\", -0.0]}',
         '$.\"a\"[*] ? (@ > 1 && @ like_regex \"^\\\\d\")', 'Ä \"name\"', 4294967295),
        ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '\\x5c4e0a5c00ff',
         '\"\\\\N\"', '\"\\\\.\"', 'strict $[last]', '', 0),
        ('00000000-0000-0000-0000-000000000001', null, null, null, 'null', null, null, null)",
    "create index documents_d on documents (d, b desc)",
    "create unique index documents_o on documents (o, n)",
    "create table without_columns ()",
    "insert into without_columns default values",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = coeval_env::spawn("input", async move {
        // A program that fails early does not read on.
        let _ = stdin.write_all(input.as_bytes()).await;
    });
    let output = child.wait_with_output().await.unwrap();
    writer.await.unwrap();
    output
}

/// Runs it, and wants it to succeed without complaint.
async fn succeed(program: &str, arguments: &[&str], input: &str) -> String {
    let output = run(program, arguments, input).await;
    let complaints = text(&output.stderr);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{program} {arguments:?}: {complaints}"
    );
    text(&output.stdout)
}

async fn dump(url: &str) -> String {
    succeed(COEVAL, &["dump", "--url", url], "").await
}

fn url(address: std::net::SocketAddr) -> String {
    format!("postgres://ada@{address}/bank")
}

/// Without its head, which says who wrote it.
fn body(dump: &str) -> &str {
    let start = dump.find("CREATE EXTENSION").or(dump.find("CREATE TABLE"));
    let start = start.unwrap_or(dump.len());
    &dump[start..]
}

async fn fill(address: std::net::SocketAddr) {
    let mut wire = Wire::connect(address).await;
    for statement in EVERYTHING {
        wire.rows(statement).await;
    }
}

#[test]
fn a_dump_says_how_to_make_everything() {
    with_server(|address| async move {
        fill(address).await;
        let dump = dump(&url(address)).await;
        for part in [
            "CREATE TABLE public.\"Every Type\" (\n    id bigint NOT NULL,\n",
            "    money numeric(12,2) DEFAULT 0.00,\n",
            "    \"large\"\"st\" bigint,\n",
            "    t time without time zone DEFAULT '12:00:00'::time without time zone,\n",
            "    d interval day to second(2),\n",
            "SET IntervalStyle = 'postgres';\n",
            "CREATE EXTENSION IF NOT EXISTS pgcrypto WITH SCHEMA public;\n\n\
             CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\" WITH SCHEMA public;\n\nCREATE TABLE ",
            "    other uuid DEFAULT uuid_generate_v4(),\n",
            "    b bytea DEFAULT '\\x00ff'::bytea,\n",
            "    d jsonb DEFAULT '{\"a\": null, \"b\": [1, 2.50]}'::jsonb NOT NULL,\n",
            "00000000-0000-0000-0000-000000000001\t\\N\t\\N\t\\N\tnull\t\\N\t\\N\t\\N\n",
            "\t\\\\x5c4e0a5c00ff\t\"\\\\\\\\N\"\t\"\\\\\\\\.\"\tstrict $[last]\t\t0\n",
            "COPY public.pair (a, b, c) FROM stdin;\n1\tx\t\n1\ty\tz\n\\.\n",
            "COPY public.without_rows (id, note) FROM stdin;\n\\.\n",
            "ALTER TABLE ONLY public.pair\n    ADD CONSTRAINT pair_pkey PRIMARY KEY (b, a);\n",
            "CREATE UNIQUE INDEX one_of_each ON public.\"select\" USING btree (\"from\", \"ORDER\");\n",
        ] {
            assert!(dump.contains(part), "{part} in {dump}");
        }
        assert!(dump.ends_with("-- The dump is complete.\n"), "{dump}");
    });
}

#[test]
fn coeval_reads_a_dump_back() {
    with_server(|first| async move {
        fill(first).await;
        let original = dump(&url(first)).await;
        let again = coeval_env::spawn("second", async {
            use coeval_server::{Server, Storage};
            Server::start(coeval_testkit::server::settings(), Storage::Memory).await
        });
        let second = again.await.unwrap().unwrap();
        let target = url(second.address());
        succeed(COEVAL, &["sql", &target], &original).await;
        assert_eq!(body(&dump(&target).await), body(&original));
        // The keys are there, not just their definitions.
        let mut wire = Wire::connect(second.address()).await;
        let count = wire.value("select count(*) from pair where b = 'y' and a = 1");
        assert_eq!(count.await.as_deref(), Some("1"));
        let count = wire.value("select count(*) from documents where d = 'null'");
        assert_eq!(count.await.as_deref(), Some("1"));
        let count = wire.value("select count(*) from pg_extension where extname = 'pgcrypto'");
        assert_eq!(count.await.as_deref(), Some("1"));
        second.stop().await;
    });
}

#[test]
fn psql_reads_a_dump_into_coeval_and_postgres() {
    with_server(|first| async move {
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        fill(first).await;
        let original = dump(&url(first)).await;
        let psql = ["-X", "-q", "-1", "-v", "ON_ERROR_STOP=1"];
        succeed("psql", &[&psql[..], &[&postgres.url()]].concat(), &original).await;
        assert_eq!(body(&dump(&postgres.url()).await), body(&original));

        let mut wire = Wire::connect(first).await;
        for table in [
            "\"Every Type\"",
            "\"select\"",
            "documents",
            "pair",
            "times",
            "without_rows",
            "without_columns",
        ] {
            wire.rows(&format!("drop table {table}")).await;
        }
        wire.rows("drop extension \"uuid-ossp\", pgcrypto").await;
        succeed("psql", &[&psql[..], &[&url(first)]].concat(), &original).await;
        assert_eq!(body(&dump(&url(first)).await), body(&original));
    });
}

#[test]
fn a_dump_shows_one_moment() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table a (n int)").await;
        wire.rows("create table b (n int)").await;
        wire.rows("insert into a values (0)").await;
        wire.rows("insert into b values (0)").await;
        // Both tables always hold the same number in one snapshot.
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let writer = coeval_env::spawn("writer", async move {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                wire.rows("begin").await;
                wire.rows("update a set n = n + 1").await;
                wire.rows("update b set n = n + 1").await;
                wire.rows("commit").await;
            }
        });
        for _ in 0..5 {
            let dump = dump(&url(address)).await;
            let numbers: Vec<&str> = dump
                .split("FROM stdin;\n")
                .skip(1)
                .map(|rows| rows.lines().next().unwrap())
                .collect();
            assert_eq!(numbers.len(), 2);
            assert_eq!(numbers[0], numbers[1], "{dump}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.await.unwrap();
    });
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    with_server(|address| async move {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.sql");
        let names = |folder: &Path| {
            let names = std::fs::read_dir(folder).unwrap();
            names
                .map(|name| name.unwrap().file_name())
                .collect::<Vec<_>>()
        };
        let path = file.to_str().unwrap();
        let dump = ["dump", "--url", &url(address), "-o", path];
        succeed(COEVAL, &dump, "").await;
        assert_eq!(names(folder.path()), ["all.sql"]);
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(written.ends_with("-- The dump is complete.\n"));
        // Nothing is written over, and a server that is not there is said to be so.
        let again = run(COEVAL, &dump, "").await;
        assert_eq!(again.status.code(), Some(1));
        assert!(text(&again.stderr).contains("is there already"));
        let nobody = ["dump", "--url", "postgres://127.0.0.1:1", "-o", "never.sql"];
        let nobody = run(COEVAL, &nobody, "").await;
        assert_eq!(nobody.status.code(), Some(1));
        assert_eq!(names(folder.path()), ["all.sql"]);
    });
}

#[test]
fn a_copy_in_a_script_that_is_refused_is_passed_over() {
    with_server(|address| async move {
        let script = "create table t (n int);\n\
                      copy nothing from stdin;\n1\n2\n\\.\n\
                      copy t from stdin; select 'behind';\n1\n\\.\n\
                      copy t from stdin;\nno number\n\\.\n\
                      select count(*) from t;\n\
                      copy t from stdin;\n5\n";
        let output = run(COEVAL, &["sql", &url(address)], script).await;
        assert_eq!(output.status.code(), Some(1));
        let (said, complaints) = (text(&output.stdout), text(&output.stderr));
        assert!(
            complaints.contains("\"nothing\" does not exist"),
            "{complaints}"
        );
        assert!(complaints.contains("no number"), "{complaints}");
        assert!(
            complaints.contains("the input ended before the data did"),
            "{complaints}"
        );
        assert!(
            said.contains("done (1 rows)") && said.contains("behind"),
            "{said}"
        );
        let mut wire = Wire::connect(address).await;
        let count = wire.value("select count(*) from t").await;
        assert_eq!(count.as_deref(), Some("1"));
    });
}

/// Roles, owners and privileges of every kind that a dump has.
const ACCESS: &[&str] = &[
    "create role \"A clerk\" login connection limit 3",
    "create role batch nologin noinherit",
    "create role eve login createrole valid until '2030-01-02 03:04:05+00'",
    "grant batch to eve with admin option",
    "create table ledger (id int primary key, n int)",
    "create table notes (n int)",
    "create table own (n int)",
    "create table open (n int)",
    "alter table ledger owner to eve",
    "alter table own owner to \"A clerk\"",
    "grant select on ledger to \"A clerk\" with grant option",
    "grant insert, update on ledger to batch",
    "set session authorization \"A clerk\"",
    "grant select on ledger to batch",
    "revoke all on own from \"A clerk\"",
    "grant select on own to \"A clerk\"",
    "reset session authorization",
    "grant select, delete on notes to public",
    "grant create on schema public to batch",
    "revoke usage on schema public from public",
    "insert into ledger values (1, 1)",
];

/// The statements of a dump about roles and privileges.
fn access(dump: &str) -> Vec<&str> {
    let words = [
        "CREATE ROLE",
        "ALTER ROLE",
        "GRANT",
        "REVOKE",
        "SET ",
        "ALTER SCHEMA",
        "ALTER DATABASE",
    ];
    let about = |line: &&str| {
        words.iter().any(|word| line.starts_with(word)) || line.contains(" OWNER TO ")
    };
    let preamble = |line: &&str| line.starts_with("SET ") && line.contains(" = ");
    dump.lines()
        .filter(about)
        .filter(|line| !preamble(line))
        .collect()
}

#[test]
fn roles_owners_and_privileges_come_back() {
    with_server(|first| async move {
        let mut wire = Wire::connect(first).await;
        for statement in ACCESS {
            wire.rows(statement).await;
        }
        let whole = ["dump", "--roles", "--url", &url(first)];
        let original = succeed(COEVAL, &whole, "").await;
        let said = access(&original);
        for line in [
            "CREATE ROLE \"A clerk\";",
            "ALTER ROLE \"A clerk\" WITH NOSUPERUSER INHERIT NOCREATEROLE NOCREATEDB LOGIN \
             NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 3;",
            "GRANT batch TO eve WITH ADMIN OPTION;",
            "ALTER TABLE public.ledger OWNER TO eve;",
            "GRANT SELECT ON TABLE public.ledger TO \"A clerk\" WITH GRANT OPTION;",
            "SET SESSION AUTHORIZATION \"A clerk\";",
            "REVOKE ALL ON TABLE public.own FROM \"A clerk\";",
            "GRANT SELECT,DELETE ON TABLE public.notes TO PUBLIC;",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC;",
            "GRANT CREATE ON SCHEMA public TO batch;",
        ] {
            assert!(said.contains(&line), "{line} in {said:#?}");
        }
        assert!(!said.iter().any(|line| line.contains("public.open")));

        // Coeval takes it back, and so does PostgreSQL; each then tells the same.
        let again = coeval_env::spawn("second", async {
            use coeval_server::{Server, Storage};
            Server::start(coeval_testkit::server::settings(), Storage::Memory).await
        });
        let second = again.await.unwrap().unwrap();
        let target = url(second.address());
        succeed(COEVAL, &["sql", &target], &original).await;
        let copy = succeed(COEVAL, &["dump", "--roles", "--url", &target], "").await;
        assert_eq!(access(&copy), said);
        second.stop().await;

        let without = ["dump", "-O", "-x", "--url", &url(first)];
        let without = succeed(COEVAL, &without, "").await;
        assert!(access(&without).is_empty(), "{:?}", access(&without));
        let default = dump(&url(first)).await;
        assert!(!default.contains("ROLE ") && default.contains("OWNER TO eve"));
    });
}

/// Settings of roles and of the database.
const SETTINGS: &[&str] = &[
    "alter role \"A clerk\" set search_path = \"$user\", public, \"B \"\"c\"\", d\"",
    "alter role \"A clerk\" set lock_timeout = 5000",
    "alter role \"A clerk\" set my.own = E'it''s\\\\ {\"this\"}, and\nthat'",
    "alter role \"A clerk\" set datestyle = iso, dmy",
    "alter role all set statement_timeout = '1min'",
    "alter role eve in database bank set work_mem = '8MB'",
    "alter database bank set timezone = 'Europe/Berlin'",
];

#[test]
fn settings_of_roles_and_of_the_database_come_back() {
    with_server(|first| async move {
        let mut wire = Wire::connect(first).await;
        for statement in ACCESS.iter().chain(SETTINGS) {
            wire.rows(statement).await;
        }
        let whole = ["dump", "--roles", "--url", &url(first)];
        let original = succeed(COEVAL, &whole, "").await;
        for line in [
            "ALTER ROLE \"A clerk\" SET search_path TO '$user', 'public', 'B \"c\", d';",
            "ALTER ROLE \"A clerk\" SET lock_timeout TO '5000';",
            "ALTER ROLE \"A clerk\" SET \"DateStyle\" TO 'iso, dmy';",
            "ALTER ROLE ALL SET statement_timeout TO '1min';",
            "ALTER ROLE eve IN DATABASE bank SET work_mem TO '8MB';",
            "ALTER DATABASE bank SET \"TimeZone\" TO 'Europe/Berlin';",
        ] {
            assert!(original.contains(line), "{line} in {original}");
        }
        let kept = "select setdatabase, coalesce(rolname::text, ''), setconfig::text \
            from pg_db_role_setting left join pg_roles on pg_roles.oid = setrole order by 1, 2";
        let settings = wire.rows(kept).await;
        assert_eq!(settings.len(), 4);
        let again = coeval_env::spawn("second", async {
            use coeval_server::{Server, Storage};
            Server::start(coeval_testkit::server::settings(), Storage::Memory).await
        });
        let second = again.await.unwrap().unwrap();
        succeed(COEVAL, &["sql", &url(second.address())], &original).await;
        let mut copy = Wire::connect(second.address()).await;
        assert_eq!(copy.rows(kept).await, settings);
        second.stop().await;

        // PostgreSQL takes them, and tells the same, but for the number of the database.
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        let psql = ["-X", "-q", "-v", "ON_ERROR_STOP=1"];
        let server = postgres.url();
        let server = server.trim_end_matches("postgres");
        let of = |database: &str| format!("{server}{database}");
        let create = ["-c", "create database bank"];
        succeed(
            "psql",
            &[&psql[..], &create, &[&of("postgres")]].concat(),
            "",
        )
        .await;
        succeed(
            "psql",
            &[&psql[..], &["-1", &of("bank")]].concat(),
            &original,
        )
        .await;
        let query = kept.replace("setdatabase,", "case setdatabase when 0 then 0 else 5 end,");
        let ask = [
            "-At",
            "-F",
            "\u{1}",
            "-R",
            "\u{2}",
            "-c",
            &query,
            &of("bank"),
        ];
        let told = succeed("psql", &[&psql[..], &ask].concat(), "").await;
        let rows = settings.iter().map(|row| {
            let values = row.iter().map(|value| value.as_deref().unwrap_or_default());
            values.collect::<Vec<_>>().join("\u{1}")
        });
        assert_eq!(told.trim_end(), rows.collect::<Vec<_>>().join("\u{2}"));
    });
}

#[test]
fn postgres_takes_roles_and_privileges() {
    with_server(|first| async move {
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        let mut wire = Wire::connect(first).await;
        for statement in ACCESS {
            wire.rows(statement).await;
        }
        let original = succeed(COEVAL, &["dump", "--roles", "--url", &url(first)], "").await;
        let psql = ["-X", "-q", "-1", "-v", "ON_ERROR_STOP=1"];
        succeed("psql", &[&psql[..], &[&postgres.url()]].concat(), &original).await;
        let copy = ["dump", "--roles", "--url", &postgres.url()];
        let copy = succeed(COEVAL, &copy, "").await;
        assert_eq!(access(&copy), access(&original));
    });
}

#[test]
fn passwords_are_for_superusers() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create role app login password 'geheim'").await;
        wire.rows("create role plain login").await;
        let all = ["dump", "--roles", "--url", &url(address)];
        let all = succeed(COEVAL, &all, "").await;
        assert!(all.contains("PASSWORD 'SCRAM-SHA-256$4096:"), "{all}");
        let plain = format!("postgres://plain@{address}/bank");
        let some = succeed(COEVAL, &["dump", "--roles", "--url", &plain], "").await;
        assert!(some.contains("CREATE ROLE app;"), "{some}");
        assert!(!some.contains("PASSWORD '"), "{some}");
        assert!(some.contains("only superusers may read"), "{some}");

        // The password goes along, and with it who is let in.
        wire.rows("alter role coeval password 'all'").await;
        let target = coeval_env::spawn("second", async {
            use coeval_server::{Server, Storage};
            Server::start(coeval_testkit::server::settings(), Storage::Memory).await
        });
        let second = target.await.unwrap().unwrap();
        let original = "dump --roles".split(' ');
        let root = format!("postgres://coeval:all@{address}/bank");
        let original: Vec<&str> = original.chain(["--url", &root]).collect();
        let original = succeed(COEVAL, &original, "").await;
        // It says that the database is open, until it is not.
        let loaded = run(COEVAL, &["sql", &url(second.address())], &original).await;
        assert!(loaded.status.success(), "{loaded:?}");
        let again = format!("postgres://coeval:all@{}/bank", second.address());
        let copy = succeed(COEVAL, &["dump", "--roles", "--url", &again], "").await;
        assert_eq!(access(&copy), access(&original));
        let closed = run(
            COEVAL,
            &["sql", &url(second.address()), "-c", "select 1"],
            "",
        )
        .await;
        assert!(
            text(&closed.stderr).contains("password missing"),
            "{closed:?}"
        );
        second.stop().await;
    });
}
