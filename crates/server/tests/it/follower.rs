//! Reads that a follower executes on its own tables, over SQL: memory that they hold, and
//! definitions that change under them.

use std::time::Duration;

use coeval_server::{RunningServer, Settings};
use coeval_testkit::wire::{
    Answer, Wire, bind, describe, error, execute, kinds, parse, query, sync,
};

use crate::two_nodes;

/// A leader and a follower.
pub struct Pair {
    leader: RunningServer,
    pub follower: RunningServer,
}

pub fn run(change: impl Fn(Settings) -> Settings + Send, test: impl AsyncFnOnce(&Pair)) {
    two_nodes::in_runtime(async {
        let (leader, follower, _directories) = two_nodes::start(change).await;
        let pair = Pair { leader, follower };
        test(&pair).await;
        pair.follower.stop().await;
        pair.leader.stop().await;
    });
}

impl Pair {
    pub async fn writer(&self) -> Wire {
        Wire::connect(self.leader.address()).await
    }

    /// A client of the follower whose reads run there.
    pub async fn reader(&self) -> Wire {
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
pub async fn begin_report(reader: &mut Wire) {
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

/// The values of the rows among these answers.
fn values(answers: &[Answer]) -> Vec<Vec<Option<String>>> {
    let rows = answers.iter().filter(|answer| answer.kind == 'D');
    rows.map(Answer::values).collect()
}

fn row(values: &[&str]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}

#[test]
fn a_block_at_home_plans_each_query_anew_after_ddl() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            let mut reader = pair.reader().await;
            let all = "select * from t";
            // As the cache of plans takes it, with a literal; several at once; explained.
            let shapes = [
                all,
                "select * from t where a = 1",
                "select 1; select * from t",
            ];
            for begin in ["begin", "begin read only"] {
                writer
                    .rows("create table t (a int primary key, b text)")
                    .await;
                writer.rows("insert into t values (1, 'x')").await;
                reader.rows(begin).await;
                for _ in 0..2 {
                    for text in shapes {
                        let found = values(&reader.query(text).await).pop();
                        assert_eq!(found, Some(row(&["1", "x"])), "{text}");
                    }
                }
                for (change, expected) in [
                    (
                        "alter table t add column c int default 7",
                        Some(row(&["1", "x", "7"])),
                    ),
                    ("alter table t drop column b", Some(row(&["1", "7"]))),
                    ("alter table t rename column c to d", Some(row(&["1", "7"]))),
                    ("create index on t (d)", Some(row(&["1", "7"]))),
                    ("truncate t", None),
                    ("insert into t values (1, 8)", Some(row(&["1", "8"]))),
                ] {
                    let changed = writer.query(change).await;
                    assert!(
                        changed.iter().all(|answer| answer.kind != 'E'),
                        "{changed:?}"
                    );
                    for text in shapes {
                        let answers = reader.query(text).await;
                        let of_table = values(&answers).into_iter().rfind(|row| row.len() > 1);
                        assert_eq!(of_table, expected, "{begin}: {change}: {text}");
                    }
                    // In one cycle of the extended protocol as well.
                    let cycle = [
                        parse("", all, &[]),
                        bind("", "", &[]),
                        describe(b'P', ""),
                        execute("", 0),
                        sync(),
                    ];
                    let found = values(&reader.ask(&cycle).await).pop();
                    assert_eq!(found, expected, "{begin}: {change}");
                }
                writer.rows("drop table t").await;
                let gone = reader.query(all).await;
                assert_eq!(error(&gone).sqlstate(), "42P01", "{begin}");
                assert_eq!(error(&reader.query(all).await).sqlstate(), "25P02");
                reader.rows("rollback").await;
            }
        },
    );
}

/// PostgreSQL's answer, where a table has changed between two blocks.
#[test]
fn what_was_prepared_before_ddl_answers_as_on_the_leader() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            writer.rows("create table t (a int primary key)").await;
            writer.rows("insert into t values (1)").await;
            let mut reader = pair.reader().await;
            let execute = [bind("", "s", &[]), execute("", 0), sync()];
            reader
                .ask(&[parse("s", "select * from t", &[]), sync()])
                .await;
            for begin in ["begin", "begin read only"] {
                reader.rows(begin).await;
                assert_eq!(kinds(&reader.ask(&execute).await), "2DCZ", "{begin}");
                writer.rows("alter table t add column b int").await;
                let refused = reader.ask(&execute).await;
                assert_eq!(error(&refused).sqlstate(), "0A000", "{begin}");
                reader.rows("rollback").await;
                writer.rows("alter table t drop column b").await;
                assert_eq!(kinds(&reader.ask(&execute).await), "2DCZ", "{begin}");
            }
            writer.rows("drop table t").await;
            let refused = reader.ask(&execute).await;
            assert_eq!(error(&refused).sqlstate(), "42P01");
        },
    );
}

#[test]
fn a_block_with_one_snapshot_keeps_its_tables_under_ddl() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            let mut reader = pair.reader().await;
            let levels = ["repeatable read", "serializable"];
            for (round, level) in levels.into_iter().enumerate() {
                writer
                    .rows("create table t (a int primary key, b text)")
                    .await;
                writer
                    .rows("insert into t select g, 'x' from generate_series(1, 1000) g")
                    .await;
                reader
                    .rows(&format!("begin isolation level {level} read only"))
                    .await;
                let report = "select count(*), min(b), max(b) from t";
                let seen = vec![row(&["1000", "x", "x"])];
                assert_eq!(reader.rows(report).await, seen);
                for (step, change) in [
                    "update t set b = 'y'",
                    "alter table t add column c int default 7",
                    "create index on t (b)",
                    "alter table t drop column b",
                    "alter table t rename column a to z",
                    "truncate t",
                    "insert into t values (5000, 1)",
                    "drop table t",
                    "create table t (other int)",
                ]
                .into_iter()
                .enumerate()
                {
                    writer.rows(change).await;
                    // A fresh reader shows that this node has replayed it.
                    let mut fresh = pair.reader().await;
                    fresh.query("select * from t").await;
                    assert_eq!(reader.rows(report).await, seen, "{level}: {change}");
                    // By an index, by one that is planned for the first time, and by columns
                    // that the table has no more.
                    let a = 1 + step + 10 * round;
                    let one = format!("select * from t where a = {a} and b >= 'a'");
                    let expected = vec![row(&[&a.to_string(), "x"])];
                    assert_eq!(reader.rows(&one).await, expected, "{level}: {change}");
                    let ordered = format!("select a as of_{step} from t order by b, a limit 1");
                    assert_eq!(reader.rows(&ordered).await, [row(&["1"])], "{change}");
                    let columns = "select count(*) from information_schema.columns \
                                   where table_name = 't'";
                    assert_eq!(
                        reader.value(columns).await.as_deref(),
                        Some("2"),
                        "{change}"
                    );
                }
                reader.rows("commit").await;
                assert_eq!(reader.rows("select * from t").await.len(), 0);
                writer.rows("drop table t").await;
                pair.is_given_back().await;
            }
        },
    );
}

/// The statements of a cycle have one snapshot, but for those after a wait for a commit.
#[test]
fn what_follows_a_wait_for_a_commit_sees_it() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            writer.rows("create table t (a text)").await;
            writer.rows("insert into t values ('x')").await;
            let mut reader = pair.reader().await;
            let step =
                |text: &str| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
            let count = step("select count(*) from t");
            for begin in ["select 1", "begin", "begin read only"] {
                let commit = writer.value("select coeval.last_commit()").await.unwrap();
                let (term, offset) = commit.split_once('/').unwrap();
                let later = offset.parse::<u64>().unwrap() + 8192;
                let wait = step(&format!("select coeval.wait_for('{term}/{later}')"));
                reader.rows(begin).await;
                let cycle = [count.clone(), wait, count.clone(), sync()];
                reader.send(&cycle.concat()).await;
                let mut waiting = Box::pin(reader.until('Z'));
                // Commits until the log is so long.
                let answers = loop {
                    writer
                        .rows("insert into t values (repeat('x', 1000))")
                        .await;
                    let answered = coeval_env::timeout(Duration::from_millis(5), &mut waiting);
                    if let Ok(answers) = answered.await {
                        break answers;
                    }
                };
                drop(waiting);
                let seen = values(&answers);
                let number = |row: &Vec<Option<String>>| row[0].as_deref()?.parse::<u64>().ok();
                assert!(number(&seen[0]) < number(&seen[2]), "{begin}: {seen:?}");
                reader.rows("rollback").await;
            }
        },
    );
}

/// Definitions change all the time, while blocks read: whatever falls between the plan of a
/// query and its execution.
#[test]
fn a_storm_of_ddl_fails_no_query_of_a_block() {
    run(
        |settings| settings,
        async |pair| {
            let mut writer = pair.writer().await;
            writer.rows("create table t (a int primary key)").await;
            writer.rows("insert into t values (1)").await;
            let mut readers = [pair.reader().await, pair.reader().await];
            let stop = std::sync::atomic::AtomicBool::new(false);
            let storm = async {
                let mut columns = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    writer
                        .rows("alter table t add column b int default 7")
                        .await;
                    writer.rows("alter table t drop column b").await;
                    columns += 1;
                }
                columns
            };
            let reads = async {
                let [one, two] = &mut readers;
                let simple = async {
                    for number in 0..150 {
                        let begin = ["begin", "begin read only"][number % 2];
                        one.rows(begin).await;
                        for text in ["select * from t", "select * from t where a = 1"] {
                            let answers = one.query(text).await;
                            let found = values(&answers);
                            assert_eq!(found.len(), 1, "{number}: {answers:?}");
                            let described = answers[0].contents[1];
                            assert_eq!(usize::from(described), found[0].len());
                        }
                        one.rows("commit").await;
                    }
                };
                let extended = async {
                    for number in 0..150 {
                        two.rows("begin").await;
                        let cycle = [
                            parse("", "select * from t", &[]),
                            bind("", "", &[]),
                            describe(b'P', ""),
                            execute("", 0),
                            sync(),
                        ];
                        for _ in 0..2 {
                            let answers = two.ask(&cycle).await;
                            assert_eq!(kinds(&answers), "12TDCZ", "{number}: {answers:?}");
                        }
                        two.rows("commit").await;
                    }
                };
                tokio::join!(simple, extended);
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            };
            let (changes, ()) = tokio::join!(storm, reads);
            assert!(changes > 0);
        },
    );
}

#[test]
fn a_followers_metrics_of_the_log_are_those_of_its_copy() {
    const WRITTEN: &str = "coeval_log_written_bytes_total";
    const SYNCS: &str = "coeval_log_sync_seconds_count";
    const END: &str = "coeval_log_end_bytes";
    let with_admin = |settings| Settings {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..settings
    };
    run(with_admin, async |pair| {
        let of = async |server: &RunningServer| {
            let admin = server.admin_address().expect("it was asked for");
            coeval_testkit::http::metrics(admin).await
        };
        let mut writer = pair.writer().await;
        writer.rows("create table t (a int, b text)").await;
        let before = of(&pair.follower).await;
        writer
            .rows("insert into t select g, repeat('x', 1000) from generate_series(1, 1000) g")
            .await;
        // Of two members both have what is acknowledged.
        let after = of(&pair.follower).await;
        let grown = |name: &str| after[name] - before[name];
        assert!(grown(WRITTEN) >= 1_000_000.0, "{}", grown(WRITTEN));
        assert!(grown(SYNCS) >= 1.0);
        assert!(grown(END) >= 1_000_000.0, "{}", grown(END));
        assert!(after["coeval_log_replay_bytes"] >= 1_000_000.0);
        assert!(after["coeval_log_kept_bytes"] >= after["coeval_log_replay_bytes"]);
        // It ends where the leader's does, once there is nothing more to send.
        loop {
            let (ours, theirs) = (of(&pair.follower).await, of(&pair.leader).await);
            let is_synced = ours["coeval_log_undurable_bytes"] == 0.0;
            if is_synced && ours[END] == theirs[END] {
                break;
            }
            coeval_env::sleep(Duration::from_millis(10)).await;
        }
        // It commits nothing of its own.
        assert_eq!(after["coeval_log_commits_total"], 0.0);
        assert_eq!(after["coeval_log_group_commits_count"], 0.0);
    });
}
