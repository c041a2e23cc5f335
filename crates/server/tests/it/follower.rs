//! Reads that a follower executes on its own tables, over SQL: memory that they hold, and
//! definitions that change under them.

use std::time::Duration;

use coeval_server::{RunningServer, Settings};
use coeval_testkit::wire::{Answer, Wire, error, query};

use crate::two_nodes;

/// A leader and a follower.
struct Pair {
    leader: RunningServer,
    follower: RunningServer,
}

fn run(change: impl Fn(Settings) -> Settings + Send, test: impl AsyncFnOnce(&Pair)) {
    two_nodes::in_runtime(async {
        let (leader, follower, _directories) = two_nodes::start(change).await;
        let pair = Pair { leader, follower };
        test(&pair).await;
        pair.follower.stop().await;
        pair.leader.stop().await;
    });
}

impl Pair {
    async fn writer(&self) -> Wire {
        Wire::connect(self.leader.address()).await
    }

    /// A client of the follower whose reads run there.
    async fn reader(&self) -> Wire {
        let mut wire = Wire::connect(self.follower.address()).await;
        wire.rows("set coeval.read_from = fresh").await;
        loop {
            let explained = wire.rows("explain select 1").await;
            let mut lines = explained.into_iter().flatten().flatten();
            if lines.any(|line| line.contains("which follows")) {
                return wire;
            }
            // The cluster version is being raised.
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing is held on the follower.
    async fn is_given_back(&self) {
        let deadline = coeval_env::now() + Duration::from_secs(30);
        while self.follower.memory().await.accounts.old_versions > 0 {
            assert!(coeval_env::now() < deadline, "old versions stay");
            coeval_env::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Pair {
    /// Bytes of the follower's tables, once dropped ones have gone.
    async fn is_steady(&self) -> u64 {
        let bytes = async || {
            let memory = self.follower.memory().await.accounts;
            memory.rows + memory.old_versions + memory.records + memory.indexes
        };
        let mut before = bytes().await;
        loop {
            coeval_env::sleep(Duration::from_millis(100)).await;
            let now = bytes().await;
            if now == before {
                return now;
            }
            before = now;
        }
    }
}

/// Rows of a table that no client's buffers hold.
const ROWS: usize = 10_000;

async fn large_table(writer: &mut Wire) {
    writer
        .rows("create table t (a int primary key, n int, b text)")
        .await;
    let rows =
        format!("insert into t select g, 0, repeat('x', 2000) from generate_series(1, {ROWS}) g");
    writer.rows(&rows).await;
}

/// Begins a read of a large table, whose rows the client does not take yet.
async fn begin_to_read(reader: &mut Wire) {
    reader.send(&query("select a, n, b from t")).await;
    let first = reader.receive().await.expect("it is open");
    assert_eq!(first.kind, 'T', "{first:?}");
}

fn rows(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.kind == 'D').count()
}

#[test]
fn the_oldest_read_ends_at_the_budget_and_replay_goes_on() {
    let small = |settings| Settings {
        memory_limit_megabytes: 200,
        old_versions_percent: 1,
        ..settings
    };
    run(small, async |pair| {
        let mut writer = pair.writer().await;
        large_table(&mut writer).await;
        let mut reader = pair.reader().await;
        begin_to_read(&mut reader).await;
        let ended = async || pair.follower.memory().await.accounts.ended_snapshots;
        let mut updates = 0;
        while ended().await == 0 {
            updates += 1;
            assert!(updates < 1000, "{:?}", pair.follower.memory().await);
            // Commits of their own, as replay adds up once in a while.
            let update = format!("update t set n = {updates} where a % 40 = {}", updates % 40);
            writer.rows(&update).await;
        }
        let answers = reader.until('Z').await;
        let refused = error(&answers);
        assert_eq!(refused.sqlstate(), "72000");
        let hint = refused.field(b'H').unwrap_or_default();
        assert!(hint.contains("memory_limit_megabytes"), "{hint}");
        let seen = reader.value("select max(n) from t").await;
        assert_eq!(seen, Some(updates.to_string()));
        pair.is_given_back().await;
        let memory = pair.follower.memory().await.accounts;
        assert!(memory.rows > (ROWS as u64) * 2000 && memory.indexes > 0);
        assert_eq!(memory.limit, 200 << 20);
    });
}

#[test]
fn a_read_ends_well_whatever_becomes_of_its_table() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            large_table(&mut writer).await;
            let changes = [
                "alter table t add column c int default 7",
                "alter table t drop column c",
                "create index on t (n)",
                "truncate t",
                "drop table t",
            ];
            let mut readers = Vec::new();
            for change in changes {
                if change == "drop table t" {
                    let rows = format!(
                        "insert into t select g, 0, repeat('x', 2000) \
                         from generate_series(1, {ROWS}) g"
                    );
                    writer.rows(&rows).await;
                }
                let mut reader = pair.reader().await;
                begin_to_read(&mut reader).await;
                writer.rows(change).await;
                readers.push(reader);
            }
            // A fresh read finds what there is after all changes.
            let mut fresh = pair.reader().await;
            assert_eq!(
                error(&fresh.query("select 1 from t").await).sqlstate(),
                "42P01"
            );
            for (mut reader, change) in readers.into_iter().zip(changes) {
                let answers = reader.until('Z').await;
                assert_eq!(rows(&answers), ROWS, "{change}: {:?}", answers.last());
            }
            pair.is_given_back().await;
            let deadline = coeval_env::now() + Duration::from_secs(30);
            while pair.follower.memory().await.accounts.rows > 1 << 20 {
                assert!(coeval_env::now() < deadline, "dropped tables stay");
                coeval_env::sleep(Duration::from_millis(20)).await;
            }
        },
    );
}

#[test]
fn an_index_is_used_once_it_is_built_and_keeps_no_other_table_waiting() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            writer.rows("create table other (a int)").await;
            writer
                .rows("create table t (a int primary key, b int)")
                .await;
            writer
                .rows("insert into t select g, g % 1000 from generate_series(1, 50000) g")
                .await;
            let mut reader = pair.reader().await;
            writer.rows("create index of_b on t (b)").await;
            let mut inserted = 0;
            loop {
                // Every write is read at once, and every row is found, by the index or not.
                writer.rows("insert into other values (1)").await;
                inserted += 1;
                let count = reader.value("select count(*) from other").await;
                assert_eq!(count, Some(inserted.to_string()));
                let found = reader.value("select count(*) from t where b = 7").await;
                assert_eq!(found.as_deref(), Some("50"));
                let valid = "select indisvalid from pg_index i join pg_class c \
                             on c.oid = i.indexrelid where relname = 'of_b'";
                let is_valid = reader.value(valid).await.as_deref() == Some("t");
                let plan = reader.rows("explain select * from t where b = 7").await;
                let plan = format!("{plan:?}");
                assert!(plan.contains("which follows"), "{plan}");
                assert!(plan.contains("of_b") || !is_valid, "{plan}");
                if is_valid {
                    break;
                }
                assert!(inserted < 10_000, "the index is not built");
            }
            println!("{inserted} commits beside the building of the index");
        },
    );
}

/// The line of EXPLAIN ANALYZE that says how fresh a read was.
async fn freshness(reader: &mut Wire, options: &str) -> String {
    let explained = reader
        .rows(&format!("explain ({options}) select count(*) from t"))
        .await;
    let mut lines = explained.into_iter().flatten().flatten();
    let line = lines.find(|line| line.starts_with("Read: "));
    line.unwrap_or_default()
}

#[test]
fn explain_analyze_says_how_fresh_a_read_was_and_what_it_waited_for() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            writer.rows("create table t (a int primary key)").await;
            let mut reader = pair.reader().await;
            let line = freshness(&mut reader, "analyze").await;
            let words: Vec<_> = line.split([' ', '/']).collect();
            let number = |at: usize| words[at].trim_end_matches(',').parse::<f64>();
            assert_eq!(words.len(), 13, "{line}");
            assert_eq!(
                (words[0], words[1], words[3], words[4]),
                ("Read:", "node", "up", "to"),
                "{line}"
            );
            assert!(["asked", "shared"].contains(&words[7]), "{line}");
            assert_eq!((words[9], words[10], words[12]), ("ms,", "waited", "ms"));
            let _ = [2, 5, 6, 8, 11].map(|at| number(at).unwrap());
            let line = freshness(&mut reader, "analyze, timing off").await;
            assert!(
                line.ends_with("asked") || line.ends_with("shared"),
                "{line}"
            );
            assert_eq!(freshness(&mut reader, "timing off").await, "");
            // Its own commit, which the node shows in time.
            reader.rows("insert into t values (1)").await;
            reader.rows("set coeval.read_from = session").await;
            let line = freshness(&mut reader, "analyze").await;
            assert!(line.ends_with(", session"), "{line}");
            assert_eq!(
                reader.value("select count(*) from t").await.as_deref(),
                Some("1")
            );
            reader.rows("set coeval.read_from = any").await;
            let line = freshness(&mut reader, "analyze").await;
            assert!(line.ends_with(", none"), "{line}");
            // The leader's own reads have nothing to say.
            assert_eq!(freshness(&mut writer, "analyze").await, "");
        },
    );
}

/// Begins a block with one snapshot at the follower, once the cluster lets blocks begin there.
async fn begin_report(reader: &mut Wire) {
    loop {
        reader
            .rows("begin isolation level repeatable read read only")
            .await;
        let explained = reader.rows("explain select count(*) from t").await;
        let mut lines = explained.into_iter().flatten().flatten();
        if lines.any(|line| line.contains("which follows")) {
            return;
        }
        reader.rows("rollback").await;
        coeval_env::sleep(Duration::from_millis(20)).await;
    }
}

/// Rows of the tables that a report reads.
const REPORTED: u64 = 500;

#[test]
fn a_report_at_one_snapshot_ends_well_beside_writes_and_definitions() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            let fill = |table: &str| {
                format!("insert into {table} select g, 1 from generate_series(1, {REPORTED}) g")
            };
            for table in ["t", "u", "v"] {
                writer
                    .rows(&format!("create table {table} (a int primary key, n int)"))
                    .await;
                writer.rows(&fill(table)).await;
            }
            let mut reader = pair.reader().await;
            let all = "select (select sum(n) from t), (select count(*) from u), \
                       (select count(*) from v)";
            let mut taken = Vec::new();
            for round in 0..12 {
                begin_report(&mut reader).await;
                let before = reader.rows(all).await;
                let count = Some(REPORTED.to_string());
                assert_eq!(before[0][1..], [count.clone(), count], "round {round}");
                for change in [
                    "update t set n = n + 1",
                    "update t set n = n + 1",
                    "alter table t add column c int",
                    "create index of_n on t (n)",
                    "truncate u",
                    "drop table v",
                ] {
                    writer.rows(change).await;
                    // The report goes on, with its rows as of its snapshot.
                    let seen = reader.rows(all).await;
                    assert_eq!(seen, before, "round {round}: {change}");
                }
                reader.rows("commit").await;
                let refused = reader.query(all).await;
                assert_eq!(error(&refused).sqlstate(), "42P01", "round {round}");
                for change in [
                    "drop index of_n",
                    "alter table t drop column c",
                    "create table v (a int primary key, n int)",
                ] {
                    writer.rows(change).await;
                }
                writer.rows(&fill("u")).await;
                writer.rows(&fill("v")).await;
                let sum = reader.value("select sum(n) from t").await;
                assert_eq!(sum, Some((REPORTED * (2 * round + 3)).to_string()));
                pair.is_given_back().await;
                taken.push(pair.is_steady().await);
            }
            // The memory of the tables after a report is that of before it.
            let (first, last) = (taken[3], *taken.last().unwrap());
            assert!(last <= first + first / 20, "{taken:?}");
        },
    );
}
