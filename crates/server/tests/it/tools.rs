//! psql and pgbench, unmodified, where they are installed.

use std::net::SocketAddr;
use std::process::Output;

use coeval_testkit::server::with_server;
use coeval_testkit::wire::{Wire, error};
use tokio::process::Command;

/// Runs a PostgreSQL program against the server. `None`, and a note, when it is
/// not installed.
async fn run(program: &str, address: SocketAddr, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program)
        .args(["-h", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .args(arguments)
        .env("PGUSER", "ada")
        .env("PGDATABASE", "bank")
        .env("PGCONNECT_TIMEOUT", "10")
        .kill_on_drop(true)
        .output()
        .await;
    match output {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What psql prints for a command, which has to succeed without a word on its
/// standard error.
async fn psql(address: SocketAddr, command: &str) -> Option<String> {
    let output = run(
        "psql",
        address,
        &["-X", "-v", "ON_ERROR_STOP=1", "-c", command],
    )
    .await?;
    let complaints = text(&output.stderr);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{command}: {complaints}"
    );
    Some(text(&output.stdout))
}

/// What pg_dump of PostgreSQL 15 wrote of a schema with nothing in it that there is not
/// here; `record.sh` beside it has it written anew.
const DUMP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../cli/tests/golden/assess/simple.sql"
);

/// The statements `COPY … FROM stdin;` of a dump, each with its lines of data.
fn copies(dump: &str) -> Vec<(&str, Vec<&str>)> {
    let mut copies = Vec::new();
    let mut lines = dump.lines();
    while let Some(line) = lines.next() {
        if let Some(copy) = line.strip_suffix(" FROM stdin;") {
            let data = lines.by_ref().take_while(|line| *line != "\\.");
            copies.push((copy, data.collect()));
        }
    }
    copies
}

#[test]
#[expect(clippy::disallowed_methods, reason = "reads the golden file")]
fn psql_loads_what_pg_dump_wrote() {
    with_server(|address| async move {
        let mut wire = Wire::connect(address).await;
        wire.rows("create role ada superuser login").await;
        // In the session that has loaded it the search path is empty, and names are
        // found all the same.
        let count = "select count(*) from customer as unqualified";
        let load = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", DUMP, "-c", count];
        let Some(loaded) = run("psql", address, &load).await else {
            return;
        };
        let complaints = text(&loaded.stderr);
        assert!(loaded.status.success(), "{complaints}");
        assert_eq!(complaints, "");
        assert!(text(&loaded.stdout).contains("     4\n"), "{loaded:?}");

        // Every row is what it was, as COPY writes it.
        let dump = std::fs::read_to_string(DUMP).unwrap();
        let copies = copies(&dump);
        assert_eq!(copies.len(), 3);
        for (copy, data) in copies {
            let shown = psql(address, &format!("{copy} TO stdout")).await.unwrap();
            assert_eq!(shown.lines().collect::<Vec<_>>(), data, "{copy}");
        }
        // Keys and unique indexes hold; names are found with their schema and without.
        for (insert, index) in [
            (
                "public.customer (id, name) values (1, 'x')",
                "customer_pkey",
            ),
            (
                "customer (id, name, \"E-Mail\") values (9, 'x', '')",
                "customer_E-Mail_key",
            ),
            (
                "customer (id, name, born) values (9, 'ada', '1815-12-10')",
                "customer_name",
            ),
            ("public.purchase values (1, 2)", "purchase_pkey"),
            (
                "purchase values (9, 9, 0.1, '2026-01-01 12:00:00')",
                "one_price",
            ),
        ] {
            let refused = wire.query(&format!("insert into {insert}")).await;
            let refused = error(&refused);
            assert_eq!(refused.sqlstate(), "23505", "{insert}");
            assert_eq!(refused.field(b'n'), Some(index), "{insert}");
        }
        let owners = "select distinct tableowner from pg_tables where schemaname = 'public'";
        assert_eq!(wire.value(owners).await.as_deref(), Some("ada"));
    });
}

#[test]
fn psql_shows_tables_and_what_is_in_them() {
    with_server(|address| async move {
        let create = "create table account (id int primary key, owner varchar(20) not null, \
                      balance numeric(12,2) default 0)";
        let Some(created) = psql(address, create).await else {
            return;
        };
        assert_eq!(created, "CREATE TABLE\n");
        psql(address, "create index account_owner on account (owner)").await;
        let inserted = psql(address, "insert into account values (1, 'ada', 12.5)").await;
        assert_eq!(inserted.as_deref(), Some("INSERT 0 1\n"));
        let shown = psql(address, "select * from account").await.unwrap();
        assert!(shown.contains(" 1 | ada   |   12.50"), "{shown}");
        let tables = psql(address, "\\dt").await.unwrap();
        assert!(tables.contains("public | account | table"), "{tables}");
        let all = psql(address, "\\d").await.unwrap();
        assert!(all.contains("account"), "{all}");
        let one = psql(address, "\\d account").await.unwrap();
        for part in [
            "character varying(20)",
            "numeric(12,2)",
            "not null",
            "\"account_pkey\" PRIMARY KEY",
            "\"account_owner\" btree (owner)",
        ] {
            assert!(one.contains(part), "{part} in {one}");
        }
    });
}

#[test]
fn psql_points_at_the_mistake() {
    with_server(|address| async move {
        let Some(output) = run("psql", address, &["-X", "-c", "select nothing"]).await else {
            return;
        };
        assert!(!output.status.success());
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains("column \"nothing\" does not exist"),
            "{complaint}"
        );
        assert!(complaint.contains("LINE 1: select nothing"), "{complaint}");
        let caret = complaint.lines().last().unwrap();
        assert_eq!(
            caret.find('^'),
            Some("LINE 1: select ".len()),
            "{complaint}"
        );
    });
}

#[test]
fn psql_copies_from_its_side() {
    with_server(|address| async move {
        if psql(address, "create table t (id int primary key, name text)")
            .await
            .is_none()
        {
            return;
        }
        let copied = psql(
            address,
            "\\copy t from program 'printf \"1\\tone\\n2\\ttwo\\n\"'",
        )
        .await;
        assert_eq!(copied.as_deref(), Some("COPY 2\n"));
        let shown = psql(address, "\\copy (select name from t order by id) to stdout").await;
        if let Some(shown) = shown {
            assert_eq!(shown, "one\ntwo\n");
        }
    });
}

#[test]
fn pgbench_runs_in_every_mode_without_a_failure() {
    with_server(|address| async move {
        let initialized = run("pgbench", address, &["-i", "-s", "1", "-q"]).await;
        let Some(output) = initialized else {
            return;
        };
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut transactions = 0;
        for arguments in [
            ["-M", "simple", "-N"],
            ["-M", "simple", "-S"],
            ["-M", "simple", "-n"],
            ["-M", "extended", "-n"],
            ["-M", "prepared", "-n"],
        ] {
            let common = ["-n", "-c", "4", "-j", "2", "-t", "100"];
            let output = run("pgbench", address, &[&common[..], &arguments].concat()).await;
            let output = output.expect("it was there just now");
            let report = text(&output.stdout);
            assert!(
                output.status.success(),
                "{arguments:?}: {}",
                text(&output.stderr)
            );
            assert!(
                report.contains("number of failed transactions: 0 "),
                "{arguments:?}: {report}"
            );
            let processed = "number of transactions actually processed: ";
            let processed = report.lines().find_map(|line| line.strip_prefix(processed));
            let processed = processed.and_then(|counts| counts.split('/').next());
            let processed: u64 = processed.unwrap().parse().unwrap();
            assert!(processed > 0, "{arguments:?}: {report}");
            if arguments[2] == "-n" {
                transactions += processed;
            }
        }
        // Money is neither made nor lost.
        let mut wire = Wire::connect(address).await;
        let mut sums = Vec::new();
        for (column, table) in [("abalance", "accounts where aid > 0"), ("delta", "history")] {
            let sum = format!("select coalesce(sum({column}), 0) from pgbench_{table}");
            sums.push(wire.value(&sum).await);
        }
        assert_eq!(sums[0], sums[1]);
        let count = wire.value("select count(*) from pgbench_history").await;
        let count: u64 = count.unwrap().parse().unwrap();
        assert!(count >= transactions, "{count} of {transactions}");
    });
}

#[test]
fn psql_shows_roles_and_privileges() {
    with_server(|address| async move {
        let create = "create role readers; create role app login superuser in role readers";
        if psql(address, create).await.is_none() {
            return;
        }
        psql(address, "create table account (id int)").await;
        psql(address, "grant select, insert on account to readers").await;
        let roles = psql(address, "\\du").await.unwrap();
        for part in ["app       | Superuser", "{readers}", "Cannot login"] {
            assert!(roles.contains(part), "{part} in {roles}");
        }
        let privileges = psql(address, "\\dp").await.unwrap();
        for part in ["ada=arwdDxt/ada", "readers=ar/ada"] {
            assert!(privileges.contains(part), "{part} in {privileges}");
        }
        let schemas = psql(address, "\\dn+").await.unwrap();
        assert!(schemas.contains("ada=UC/ada"), "{schemas}");
        // psql hashes what it is told, and sends that.
        let verifier = "alter role app password 'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
                        WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU='";
        psql(address, verifier).await;
        let login = Command::new("psql")
            .args(["-X", "-A", "-t", "-c", "select current_user"])
            .arg(format!("postgres://app:pencil@{address}/bank"))
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        assert_eq!(text(&login.stdout), "app\n", "{login:?}");
    });
}
