//! `coeval assess`: what it says of scripts, and its exit codes.
//!
//! `golden/assess/bank.sql` is what a pg_dump has written of `source.sql` there;
//! `bank.txt` what is said of it. `simple.sql` is one of `simple-source.sql`.
#![expect(
    clippy::disallowed_methods,
    reason = "a test writes the scripts, and reads the golden files"
)]

use std::path::Path;
use std::process::{Command, Stdio};

use coeval_testkit::server::with_server;
use coeval_testkit::wire::Wire;

use crate::postgres::Postgres;

const COEVAL: &str = env!("CARGO_BIN_EXE_coeval");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/assess");

/// Exit code, standard output and standard error.
fn assess(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    use std::io::Write;

    let mut child = Command::new(COEVAL)
        .arg("assess")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("it ends by itself");
    (code, text(output.stdout), text(output.stderr))
}

/// The report on a script: its lines of findings, without the summary.
fn findings(script: &str, options: &[&str]) -> (i32, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (code, said, complaint) = assess(folder.path(), &[options, &["-"]].concat(), script);
    // On a slow machine it says how far it is.
    let progress = |line: &str| line.starts_with("assessing: ");
    assert!(complaint.lines().all(progress), "{complaint}");
    let about = |line: &&str| line.starts_with("standard input:");
    let lines = said.lines().filter(about);
    let short = lines.map(|line| line["standard input:".len()..].to_owned());
    (code, short.collect())
}

#[test]
fn a_dump_of_postgres_is_judged_as_the_golden_file_says() {
    let (code, said, complaint) = assess(Path::new(GOLDEN), &["bank.sql"], "");
    assert_eq!((code, complaint.as_str()), (1, ""));
    let golden = format!("{GOLDEN}/bank.txt");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&golden, &said).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap();
    assert_eq!(said, expected, "UPDATE_TRANSCRIPTS=1 rewrites {golden}");

    // As JSON it says the same.
    let (code, json, _) = assess(Path::new(GOLDEN), &["--json", "bank.sql"], "");
    assert_eq!(code, 1);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    let found = json["findings"].as_array().unwrap();
    for finding in found {
        let place = format!("bank.sql:{}: ", finding["line"]);
        let state = finding["sqlstate"].as_str().unwrap();
        let line = format!("{place}{state}: {}", finding["reason"].as_str().unwrap());
        assert!(said.contains(&line), "{line}");
    }
    let of_them = found
        .iter()
        .filter(|finding| !finding["follows_from_line"].is_null());
    assert_eq!(json["of_them_following"], of_them.count());
    assert_eq!(json["would_not_run"], found.len());
    assert!(json["features"].as_array().unwrap().len() > 3);
}

#[test]
fn of_a_dump_of_what_there_is_only_its_role_is_missing() {
    let (code, said, complaint) = assess(Path::new(GOLDEN), &["simple.sql"], "");
    assert_eq!(complaint, "");
    let findings: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("simple.sql:"))
        .collect();
    // One for each table: ALTER TABLE … OWNER TO.
    assert_eq!((code, findings.len()), (1, 3), "{said}");
    let role = "42704: role \"ada\" does not exist";
    assert!(findings.iter().all(|line| line.contains(role)), "{said}");
    assert!(said.contains("3  roles that are not there"), "{said}");
    assert!(
        said.contains("7 rows of data, 0 would be refused"),
        "{said}"
    );
}

#[test]
fn what_we_dump_ourselves_runs() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create table t (id int primary key, name text default 'it''s; $$')")
            .await;
        wire.rows("insert into t values (1, E'\\\\.'), (2, null), (3, E'a\\nb')")
            .await;
        wire.rows("create role ada login password 'secret'").await;
        wire.rows("grant select on t to ada").await;
        let url = format!("postgres://eve@{address}/bank");
        let mut command = tokio::process::Command::new(COEVAL);
        command.args(["dump", "--roles", "--url", &url]);
        let dump = String::from_utf8(command.output().await.unwrap().stdout).unwrap();
        assert!(dump.contains("GRANT SELECT"), "{dump}");
        for options in [&[][..], &["--keep-rows"]] {
            assert_eq!(findings(&dump, options), (0, Vec::new()), "{dump}");
        }
    });
}

#[test]
fn later_statements_find_what_earlier_ones_made() {
    let script = "\
create table t (id int primary key, n int);
insert into t values (1, 2);
create index i on t (n);
set search_path = public;
select t.n from t;
create table t (id int);
drop table t;
select * from t;
create type mood as enum ('a');
create table m (id int,
  mood mood);
copy m from stdin;
1\ta
2\tb
\\.
select count(*) from m;
create table m (id int, mood text);
copy m from stdin;
1\ta
\\.
";
    let (code, found) = findings(script, &[]);
    assert_eq!(code, 1);
    assert_eq!(
        found,
        [
            "6: 42P07: relation \"t\" already exists",
            "8: 42P01: relation \"t\" does not exist",
            "9: 0A000: CREATE TYPE is not supported",
            "10: 42704: type \"mood\" does not exist; follows from line 9",
            "12: 42P01: relation \"m\" does not exist; follows from line 9",
            "16: 42P01: relation \"m\" does not exist; follows from line 9",
        ]
    );
    let folder = tempfile::tempdir().unwrap();
    let (_, said, _) = assess(folder.path(), &["-"], script);
    for part in [
        "\n14 statements, 6 would not run here, 3 of them only because of others\n",
        "\n1 rows of data, 0 would be refused; 2 lines of data not looked at\n",
        "      1  CREATE TYPE, first on line 9\n",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn transactions_are_as_the_script_has_them_and_failures_stand_alone() {
    let script = "\
begin;
create table t (id int primary key);
create materialized view v as select 1;
insert into t values (1);
savepoint a;
drop table t;
select 1 / 0;
rollback to savepoint a;
insert into t values (2);
release savepoint nothing;
vacuum;
commit;
select * from t;
begin;
create table u (id int);
rollback;
select * from u;
begin; set transaction isolation level serializable; lock table t; commit;
lock table t;
rollback to savepoint a;
";
    let (code, found) = findings(script, &[]);
    assert_eq!(code, 1);
    let places: Vec<&str> = found
        .iter()
        .map(|line| &line[..line.rfind(": ").unwrap()])
        .collect();
    assert_eq!(
        places,
        [
            "3: 0A000",
            "7: 22012",
            "10: 3B001",
            "11: 25001",
            "17: 42P01",
            "19: 25P01",
            "20: 25P01",
        ],
        "{found:#?}"
    );
}

#[test]
fn every_row_of_data_is_looked_at() {
    // More than a batch, with mistakes in several places.
    let mut script = "create table t (id int primary key, name text not null);\n\
                      copy t (id, name) from stdin;\n"
        .to_owned();
    for row in 0..60_000 {
        script.push_str(&match row {
            0 => "none\tx\n".to_owned(),
            30_000 => "30000\n".to_owned(),
            30_001 => "30001\tin\\\ntwo lines\n".to_owned(),
            30_002 => "30002\t\\N\n".to_owned(),
            59_999 => "59999\ta\tb\n".to_owned(),
            row => format!("{row}\tthis is the row with the number {row}\n"),
        });
    }
    script.push_str("\\.\nselect 'behind';\ninsert into t values (1, 'one');\n");
    script.push_str("copy t from stdin (format csv);\n1,\"two\n\nlines\"\n2,\n\\.\n");
    let (code, found) = findings(&script, &[]);
    assert_eq!(code, 1);
    assert_eq!(
        found,
        [
            "3: 22P02: invalid input syntax for type integer: \"none\"",
            "30003: 22P04: missing data for column \"name\"",
            "30006: 23502: null value in column \"name\" of relation \"t\" violates not-null constraint",
            "60003: 22P04: extra data after last expected column",
            "60008: 23502: null value in column \"name\" of relation \"t\" violates not-null constraint",
        ],
        "{found:#?}"
    );
    // Kept, rows meet each other.
    let twice = "create table t (id int);\n\
                 copy t from stdin;\n1\n2\n1\n\\.\n\
                 alter table only t add primary key (id);\n\
                 copy t from stdin;\n3\n1\n4\n\\.\n\
                 delete from t where id = 1;\n\
                 create unique index on t (id);\n";
    assert_eq!(findings(twice, &[]), (0, Vec::new()));
    let (code, found) = findings(twice, &["--keep-rows"]);
    assert_eq!(code, 1);
    assert!(
        found.len() == 1 && found[0].starts_with("7: 23505: "),
        "{found:?}"
    );
}

#[test]
fn commands_to_psql_are_known_or_said_not_to_be() {
    let script = "\
\\restrict abc
\\set ON_ERROR_STOP on
set lock_timeout = 5000;
\\connect -reuse-previous=on \"dbname='other'\"
begin;
\\c bank
show lock_timeout;
select 1 \\g
\\i more.sql
select 2 \\gexec
\\encoding latin5
\\unrestrict abc
select 1 + ;
\\q
not looked at any more;
";
    let (code, found) = findings(script, &[]);
    assert_eq!(code, 1);
    let starts = [
        "9: not judged: ",
        "10: not judged: ",
        "11: ",
        "13: 42601: syntax error",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{start}: {found}");
    }
    assert_eq!(findings("\\echo\nselect 1", &[]), (0, Vec::new()));
}

#[test]
fn passwords_are_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "alter role nobody password 'geheim';\ncreate role a password 'geheim' nonsense;\n";
    for options in [&["-"][..], &["--json", "-"]] {
        let (code, said, _) = assess(folder.path(), options, script);
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains("password …") && !said.contains("geheim"),
            "{said}"
        );
    }
}

#[test]
fn what_cannot_be_read_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("archive", b"PGDMP\x01\x0e\x00");
    write("packed", b"\x1f\x8b\x08\x00");
    write("binary", b"select 1;\0");
    write(
        "cut.sql",
        b"create table t (a int);\ncopy t from stdin;\n1\n2\n",
    );
    write("open.sql", b"select 'never closed;\n");
    write("latin.sql", b"select 1;\nselect 'Zo\xeb';\nselect 2;\n");
    write("empty.sql", b"\xef\xbb\xbf");
    for (name, why) in [
        ("archive", "pg_restore"),
        ("packed", "gunzip"),
        ("binary", "is no text"),
        ("nothing.sql", "nothing.sql: "),
    ] {
        let (code, said, complaint) = assess(folder.path(), &[name], "");
        assert_eq!((code, said.as_str()), (2, ""), "{name}");
        assert!(complaint.contains(why), "{name}: {complaint}");
    }
    for (name, line, why) in [
        ("cut.sql", 2, "not judged: the file ends inside the data"),
        ("open.sql", 1, "42601: unterminated quoted string"),
        ("latin.sql", 2, "22021: invalid byte sequence"),
    ] {
        let (code, said, _) = assess(folder.path(), &[name], "");
        assert_eq!(code, 1, "{said}");
        assert!(
            said.contains(&format!("{name}:{line}: {why}")),
            "{name}: {said}"
        );
    }
    let (code, said, _) = assess(folder.path(), &["empty.sql"], "");
    assert_eq!(
        (code, said.as_str()),
        (0, "0 statements; all of them would run here\n")
    );
    // Several are one script.
    write("first.sql", b"create table t (a int);\n");
    write("second.sql", b"select a from t;\n");
    let (code, said, _) = assess(folder.path(), &["first.sql", "second.sql"], "");
    assert_eq!(code, 0, "{said}");
    assert_eq!(assess(folder.path(), &["second.sql", "first.sql"], "").0, 1);
    assert_eq!(assess(folder.path(), &[], "").0, 2);
}

#[test]
fn pg_dump_of_today_is_read() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        let source = std::fs::read_to_string(format!("{GOLDEN}/source.sql")).unwrap();
        let url = postgres.url();
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(postgres.program(program))
                .args(arguments)
                .arg(&url)
                .output()
                .unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        run(
            "psql",
            &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", &source],
        );
        let plain = run("pg_dump", &["--no-owner"]);
        let (code, found) = findings(&plain, &[]);
        assert_eq!(code, 1);
        for (reason, times) in [
            ("CREATE TYPE is not supported", 1),
            ("CREATE FUNCTION is not supported", 2),
            ("CREATE TRIGGER is not supported", 1),
            ("type \"public.mood\" does not exist; follows from", 1),
            ("follows from", 3),
        ] {
            let count = found.iter().filter(|line| line.contains(reason)).count();
            assert!(count >= times, "{reason} in {found:#?}");
        }
        // Each at its line: the statement that begins there is the one that is meant.
        let lines: Vec<&str> = plain.lines().collect();
        for finding in &found {
            let (line, rest) = finding.split_once(':').unwrap();
            let line = lines[line.parse::<usize>().unwrap() - 1];
            let first = line.split(' ').next().unwrap();
            assert!(
                first.chars().all(|c| c.is_ascii_uppercase()),
                "{line}: {rest}"
            );
        }
        // Rows as INSERTs come to the same; there is no data in it that would be refused.
        let inserts = run("pg_dump", &["--no-owner", "--inserts"]);
        let (_, of_inserts) = findings(&inserts, &[]);
        assert!(of_inserts.len() > found.len(), "{of_inserts:#?}");
        let everything = run(
            "pg_dump",
            &["--no-owner", "--no-privileges", "-t", "account"],
        );
        let (_, of_account) = findings(&everything, &[]);
        assert!(of_account.len() < 6, "{of_account:#?}");
    });
}
