//! Transaction blocks on the client's node: which begin there and which end there, when one
//! moves to the leader, and that its client sees one block all the while.

use std::sync::atomic::Ordering;
use std::time::Duration;

use coeval_testkit::wire::{
    Answer, Wire, bind, close, describe, error, execute, flush, kinds, packet, parse, query, sync,
};

use crate::home::{Two, WHO, run, who};

const CANCEL: u32 = 80_877_102;

/// The transaction status in the last ReadyForQuery.
fn status(answers: &[Answer]) -> char {
    let ready = answers.iter().rfind(|answer| answer.kind == 'Z').unwrap();
    char::from(ready.contents[0])
}

async fn tag(wire: &mut Wire, text: &str) -> (String, char) {
    let answers = wire.query(text).await;
    let done = answers.iter().rfind(|answer| answer.kind == 'C');
    let done = done.unwrap_or_else(|| panic!("{text}: {answers:?}"));
    let tag = String::from_utf8(done.contents.clone()).unwrap();
    (tag.trim_end_matches('\0').to_owned(), status(&answers))
}

async fn state(wire: &mut Wire, text: &str) -> (String, char) {
    let answers = wire.query(text).await;
    (error(&answers).sqlstate().to_owned(), status(&answers))
}

fn questions(two: &Two) -> u64 {
    two.tables.questions.load(Ordering::Relaxed)
}

#[test]
fn a_read_only_block_is_at_home_to_its_end() {
    run(async |two| {
        let mut wire = two.client().await;
        for (begin, level) in [
            ("begin read only", "read committed"),
            ("start transaction read only", "read committed"),
            (
                "begin isolation level repeatable read read only",
                "repeatable read",
            ),
            (
                "begin transaction isolation level serializable, read only, deferrable",
                "serializable",
            ),
        ] {
            assert_eq!(tag(&mut wire, begin).await.1, 'T', "{begin}");
            let asked = questions(two);
            for _ in 0..3 {
                let answers = wire.query(WHO).await;
                assert_eq!(
                    (&*who(&answers), status(&answers)),
                    ("home", 'T'),
                    "{begin}"
                );
            }
            let expected = if level == "read committed" { 3 } else { 1 };
            assert_eq!(questions(two) - asked, expected, "{begin}");
            let shown = wire.value("show transaction_isolation").await;
            assert_eq!(shown.as_deref(), Some(level));
            let shown = wire.value("show transaction_read_only").await;
            assert_eq!(shown.as_deref(), Some("on"));
            // A snapshot that lasts.
            two.put("update t set b = 'new' where a = 1").await;
            let seen = if level == "read committed" {
                "new"
            } else {
                "home"
            };
            assert_eq!(who(&wire.query(WHO).await), seen, "{begin}");
            two.put("update t set b = 'home' where a = 1").await;
            // Savepoints, and an error.
            assert_eq!(
                tag(&mut wire, "savepoint a").await,
                ("SAVEPOINT".into(), 'T')
            );
            for write in [
                "insert into t values (9, 'x')",
                "update t set b = b",
                "delete from t",
                "truncate t",
                "create table u (a int)",
                "drop table t",
                "copy t from stdin",
                "select b from t for update",
                "explain analyze delete from t",
                "create role r",
                "grant select on t to bob",
            ] {
                let refused = state(&mut wire, write).await;
                assert_eq!(refused, ("25006".into(), 'E'), "{begin}: {write}");
                assert_eq!(state(&mut wire, WHO).await, ("25P02".into(), 'E'));
                assert_eq!(
                    tag(&mut wire, "rollback to a").await,
                    ("ROLLBACK".into(), 'T')
                );
            }
            assert_eq!(state(&mut wire, "selec").await, ("42601".into(), 'E'));
            assert_eq!(state(&mut wire, "update t set b = b").await.0, "25P02");
            assert_eq!(tag(&mut wire, "rollback to savepoint a").await.1, 'T');
            assert_eq!(state(&mut wire, "select * from nothing").await.0, "42P01");
            assert_eq!(tag(&mut wire, "rollback to a").await.1, 'T');
            assert_eq!(tag(&mut wire, "release a").await, ("RELEASE".into(), 'T'));
            assert_eq!(who(&wire.query(WHO).await), "home");
            assert_eq!(
                state(&mut wire, "select 1 / 0").await,
                ("22012".into(), 'E')
            );
            assert_eq!(tag(&mut wire, "commit").await, ("ROLLBACK".into(), 'I'));
        }
        assert_eq!(who(&wire.query(WHO).await), "home");
        // Other ways to say it.
        for (before, begin, first) in [
            ("select 1", "begin", "set transaction read only"),
            (
                "select 1",
                "begin",
                "set transaction isolation level repeatable read, read only",
            ),
            (
                "set default_transaction_read_only = on",
                "begin",
                "select 1",
            ),
            (
                "set session characteristics as transaction isolation level serializable read only",
                "begin",
                "select 1",
            ),
        ] {
            wire.query(before).await;
            tag(&mut wire, begin).await;
            wire.query(first).await;
            assert_eq!(
                who(&wire.query(WHO).await),
                "home",
                "{before}; {begin}; {first}"
            );
            assert_eq!(
                state(&mut wire, "delete from t").await,
                ("25006".into(), 'E')
            );
            assert_eq!(tag(&mut wire, "rollback").await, ("ROLLBACK".into(), 'I'));
        }
        wire.rows("reset all").await;
        wire.rows("set coeval.read_from = fresh").await;
        // A chain of them.
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        two.put("update t set b = 'next' where a = 1").await;
        assert_eq!(
            tag(&mut wire, "commit and chain").await,
            ("COMMIT".into(), 'T')
        );
        assert_eq!(who(&wire.query(WHO).await), "next");
        two.put("update t set b = 'home' where a = 1").await;
        assert_eq!(who(&wire.query(WHO).await), "next");
        assert_eq!(tag(&mut wire, "rollback and chain").await.1, 'T');
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(tag(&mut wire, "end").await, ("COMMIT".into(), 'I'));
        // Warnings are PostgreSQL's.
        tag(&mut wire, "begin read only").await;
        assert_eq!(kinds(&wire.query("begin").await), "NCZ");
        tag(&mut wire, "commit").await;
        assert_eq!(kinds(&wire.query("commit").await), "NCZ");
    });
}

#[test]
fn what_a_read_only_block_sets_and_prepares_is_the_sessions() {
    run(async |two| {
        let mut wire = two.client().await;
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        wire.rows("set local timezone = 'Asia/Tokyo'").await;
        wire.rows("lock table t in access share mode").await;
        let set = "select set_config('work_mem', '5MB', true), b from t";
        assert_eq!(wire.rows(set).await.len(), 1);
        let shown = "select b || current_setting('work_mem') from t where a = 1";
        assert_eq!(who(&wire.query(shown).await), "home5MB");
        wire.rows("set search_path = pg_catalog, public").await;
        wire.rows("prepare p as select b from t where a = 1").await;
        assert_eq!(
            wire.value("show timezone").await.as_deref(),
            Some("Asia/Tokyo")
        );
        assert_eq!(who(&wire.query("execute p").await), "home");
        wire.ask(&[parse("s", WHO, &[]), describe(b'S', "s"), sync()])
            .await;
        let run_s = [bind("", "s", &[]), execute("", 0), sync()];
        assert_eq!(who(&wire.ask(&run_s).await), "home");
        // A role for the block only; a lasting one needs the leader.
        wire.rows("set local role bob").await;
        assert_eq!(
            wire.value("select current_user::text").await.as_deref(),
            Some("bob")
        );
        wire.rows("reset role").await;
        assert_eq!(
            wire.value("select current_user::text").await.as_deref(),
            Some("ada")
        );
        tag(&mut wire, "commit").await;
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let refused = state(&mut wire, "set role readers").await;
        assert_eq!(refused, ("0A000".into(), 'E'));
        tag(&mut wire, "commit").await;
        // At home, and at the leader.
        assert_eq!(who(&wire.ask(&run_s).await), "home");
        wire.rows("begin isolation level repeatable read").await;
        assert_eq!(who(&wire.ask(&run_s).await), "leader");
        assert_eq!(who(&wire.query("execute p").await), "leader");
        let path = wire.value("show search_path").await;
        assert_eq!(path.as_deref(), Some("pg_catalog, public"));
        assert_ne!(
            wire.value("show timezone").await.as_deref(),
            Some("Asia/Tokyo")
        );
        tag(&mut wire, "commit").await;
        // What is rolled back is not: but for statements, as in PostgreSQL.
        tag(&mut wire, "begin read only").await;
        wire.rows("set search_path = public").await;
        wire.rows("deallocate p").await;
        tag(&mut wire, "rollback").await;
        let path = wire.value("show search_path").await;
        assert_eq!(path.as_deref(), Some("pg_catalog, public"));
        assert_eq!(state(&mut wire, "execute p").await.0, "26000");
    });
}

#[test]
fn portals_of_a_read_only_block_stay_open() {
    run(async |two| {
        two.put("insert into t select g, 'x' from generate_series(2, 10) g")
            .await;
        let mut wire = two.client().await;
        for begin in [
            "begin read only",
            "begin isolation level serializable read only",
        ] {
            tag(&mut wire, begin).await;
            let first = [
                parse("", "select a from t order by a", &[]),
                bind("c", "", &[]),
                execute("c", 3),
                sync(),
            ];
            assert_eq!(kinds(&wire.ask(&first).await), "12DDDsZ");
            // Its snapshot is its own.
            two.put("update t set a = -a where a > 3").await;
            let next = [execute("c", 4), sync()];
            let answers = wire.ask(&next).await;
            assert_eq!(kinds(&answers), "DDDDsZ");
            assert_eq!(who(&answers), "4");
            // A client that asks for answers before its Sync.
            wire.send(&[execute("c", 1), flush()].concat()).await;
            assert_eq!(kinds(&wire.until('s').await), "Ds");
            wire.send(&[execute("c", 0), flush()].concat()).await;
            assert_eq!(kinds(&wire.until('C').await), "DDC");
            wire.send(&[close(b'P', "c"), sync()].concat()).await;
            assert_eq!(kinds(&wire.until('Z').await), "3Z");
            // An error skips messages until Sync.
            let wrong = [execute("c", 0), flush()];
            wire.send(&wrong.concat()).await;
            assert_eq!(error(&wire.until('E').await).sqlstate(), "34000");
            wire.send(&[query(WHO), sync()].concat()).await;
            let answers = wire.until('Z').await;
            assert_eq!((&*kinds(&answers), status(&answers)), ("Z", 'E'));
            assert_eq!(tag(&mut wire, "commit").await.0, "ROLLBACK");
            two.put("update t set a = -a where a < 0").await;
        }
        // Cut in bytes, in one cycle and over several.
        let all = [
            query("begin read only"),
            parse("", "select a from t order by a", &[]),
            bind("c", "", &[]),
            execute("c", 2),
            flush(),
            execute("c", 2),
            sync(),
            query("commit"),
        ];
        for byte in all.concat() {
            wire.send(&[byte]).await;
        }
        assert_eq!(kinds(&wire.until('Z').await), "CZ");
        assert_eq!(kinds(&wire.until('Z').await), "12DDsDDsZ");
        assert_eq!(kinds(&wire.until('Z').await), "CZ");
    });
}

#[test]
fn an_undeclared_block_moves_when_it_has_to() {
    run(async |two| {
        let mut wire = two.client().await;
        for first in [
            "update t set a = a",
            "select b from t for update",
            "select txid_current()",
            "set local work_mem = '5MB'",
            "savepoint a",
            "lock table t in access share mode",
            "prepare q as select 1",
            "create table u (a int)",
            "select count(*) from pg_settings",
        ] {
            tag(&mut wire, "begin").await;
            let now = wire.value("select now()").await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{first}");
            coeval_env::sleep(Duration::from_millis(2)).await;
            let answers = wire.query(first).await;
            assert_eq!(status(&answers), 'T', "{first}: {answers:?}");
            assert_eq!(who(&wire.query(WHO).await), "leader", "{first}");
            assert_eq!(wire.value("select now()").await, now, "{first}");
            assert_eq!(tag(&mut wire, "rollback").await, ("ROLLBACK".into(), 'I'));
            wire.query("deallocate all").await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{first}");
        }
        // The modes move along.
        tag(
            &mut wire,
            "begin isolation level read committed not deferrable read write",
        )
        .await;
        wire.rows("select 1").await;
        tag(&mut wire, "update t set b = 'written' where a = 1").await;
        assert_eq!(tag(&mut wire, "commit").await, ("COMMIT".into(), 'I'));
        let mut leader = Wire::connect(two.leader.address()).await;
        assert_eq!(who(&leader.query(WHO).await), "written");
        leader.rows("update t set b = 'leader'").await;
        // What it has written is rolled back with it.
        tag(&mut wire, "begin").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        tag(&mut wire, "update t set b = 'lost'").await;
        assert_eq!(
            state(&mut wire, "select 1 / 0").await,
            ("22012".into(), 'E')
        );
        assert_eq!(tag(&mut wire, "commit").await, ("ROLLBACK".into(), 'I'));
        assert_eq!(who(&leader.query(WHO).await), "leader");
        // In the extended protocol, in one cycle and in several, with one that is unnamed.
        let step = |text: &str| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
        assert_eq!(kinds(&wire.ask(&[step("begin"), sync()]).await), "12CZ");
        assert_eq!(who(&wire.ask(&[step(WHO), sync()]).await), "home");
        let again = [bind("", "", &[]), execute("", 0), sync()];
        assert_eq!(who(&wire.ask(&again).await), "home");
        wire.ask(&[parse("n", "update t set a = a", &[]), sync()])
            .await;
        assert_eq!(who(&wire.ask(&again).await), "leader");
        assert_eq!(kinds(&wire.ask(&[step("commit"), sync()]).await), "12CZ");
        let whole = [step("begin"), step(WHO), step("commit"), sync()];
        assert_eq!(who(&wire.ask(&whole).await), "home");
        let whole = [
            step("begin"),
            step(WHO),
            step("update t set a = a"),
            step("commit"),
            sync(),
        ];
        assert_eq!(who(&wire.ask(&whole).await), "leader");
        // A portal that would stay open goes to the leader.
        tag(&mut wire, "begin").await;
        let some = [
            parse("", WHO, &[]),
            bind("", "", &[]),
            execute("", 1),
            sync(),
        ];
        assert_eq!(who(&wire.ask(&some).await), "leader");
        tag(&mut wire, "commit").await;
        // Pipelined.
        let pipeline = [
            query("begin"),
            query(WHO),
            query("update t set a = a"),
            query(WHO),
            query("commit"),
        ];
        wire.send(&pipeline.concat()).await;
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(wire.until('Z').await);
        }
        assert_eq!((&*who(&seen[1]), &*who(&seen[3])), ("home", "leader"));
        assert_eq!(
            seen.iter().map(|each| status(each)).collect::<String>(),
            "TTTTI"
        );
        // Levels that give the block a snapshot are the leader's from BEGIN on.
        tag(&mut wire, "begin isolation level repeatable read").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        tag(&mut wire, "commit").await;
        tag(&mut wire, "begin").await;
        tag(&mut wire, "set transaction isolation level serializable").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        let shown = wire.value("show transaction_isolation").await;
        assert_eq!(shown.as_deref(), Some("serializable"));
        tag(&mut wire, "commit").await;
    });
}

#[test]
fn an_undeclared_block_that_has_failed_stays_so() {
    run(async |two| {
        let mut wire = two.client().await;
        tag(&mut wire, "begin").await;
        assert_eq!(
            state(&mut wire, "select 1 / (a - 1) from t").await,
            ("22012".into(), 'E')
        );
        let begun = two.begun();
        for text in [
            WHO,
            "update t set a = a",
            "savepoint a",
            "begin",
            "set timezone = 'UTC'",
        ] {
            assert_eq!(
                state(&mut wire, text).await,
                ("25P02".into(), 'E'),
                "{text}"
            );
        }
        let steps = [
            parse("x", WHO, &[]),
            bind("", "x", &[]),
            execute("", 0),
            sync(),
        ];
        let answers = wire.ask(&steps).await;
        assert_eq!(
            (error(&answers).sqlstate(), status(&answers)),
            ("25P02", 'E')
        );
        assert_eq!(kinds(&wire.ask(&[sync()]).await), "Z");
        assert_eq!(two.begun(), begun);
        assert_eq!(tag(&mut wire, "commit").await, ("ROLLBACK".into(), 'I'));
        assert_eq!(who(&wire.query(WHO).await), "home");
        // In one query, nothing after the error runs.
        let answers = wire
            .query("begin; select b from t; select 1 / (a - 1) from t")
            .await;
        assert_eq!(
            (error(&answers).sqlstate(), status(&answers)),
            ("22012", 'E')
        );
        assert_eq!(tag(&mut wire, "rollback").await, ("ROLLBACK".into(), 'I'));
    });
}

#[test]
fn a_function_of_the_leader_moves_a_block_or_is_an_error() {
    run(async |two| {
        let mut wire = two.client().await;
        // As its first statement, in either.
        for begin in [
            "begin read only",
            "begin isolation level serializable read only",
        ] {
            tag(&mut wire, begin).await;
            assert_eq!(status(&wire.query("select txid_current() > 0").await), 'T');
            assert_eq!(who(&wire.query(WHO).await), "leader");
            assert_eq!(
                state(&mut wire, "delete from t").await,
                ("25006".into(), 'E')
            );
            tag(&mut wire, "rollback").await;
        }
        // Later, in one that is READ COMMITTED.
        tag(&mut wire, "begin read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        wire.rows("select txid_current()").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        tag(&mut wire, "rollback").await;
        // In one that has a snapshot.
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let refused = state(&mut wire, "select txid_current()").await;
        assert_eq!(refused, ("0A000".into(), 'E'));
        tag(&mut wire, "rollback").await;
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let unnamed = [
            parse("", "select txid_current()", &[]),
            bind("", "", &[]),
            execute("", 0),
        ];
        let answers = wire.ask(&[unnamed.concat(), sync()]).await;
        assert_eq!(
            (error(&answers).sqlstate(), status(&answers)),
            ("0A000", 'E')
        );
        let answers = wire.query("rollback").await;
        assert_eq!(status(&answers), 'I');
    });
}

#[test]
fn a_block_outlives_what_it_needs_not() {
    run(async |two| {
        let mut wire = two.client().await;
        // Without answers, a block that can moves; one that cannot waits, or has what it needs.
        tag(&mut wire, "begin").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        two.tables.loses.store(true, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "leader");
        tag(&mut wire, "commit").await;
        two.tables.loses.store(false, Ordering::Relaxed);
        tag(&mut wire, "begin isolation level repeatable read read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        two.tables.loses.store(true, Ordering::Relaxed);
        assert_eq!(who(&wire.query(WHO).await), "home");
        tag(&mut wire, "commit").await;
        two.tables.loses.store(false, Ordering::Relaxed);
        tag(&mut wire, "begin read only").await;
        tag(&mut wire, "savepoint a").await;
        two.tables.loses.store(true, Ordering::Relaxed);
        wire.send(&query(WHO)).await;
        coeval_env::sleep(Duration::from_millis(120)).await;
        two.tables.loses.store(false, Ordering::Relaxed);
        assert_eq!(who(&wire.until('Z').await), "home");
        tag(&mut wire, "commit").await;
        // This node has other tables by now: a block reads those that it began with.
        for begin in ["begin", "begin isolation level repeatable read read only"] {
            tag(&mut wire, begin).await;
            assert_eq!(who(&wire.query(WHO).await), "home", "{begin}");
            two.follower.read_from(None);
            assert_eq!(who(&wire.query(WHO).await), "home", "{begin}");
            tag(&mut wire, "commit").await;
            assert_eq!(who(&wire.query(WHO).await), "leader", "{begin}");
            two.follower.read_from(Some(two.tables.clone() as _));
            assert_eq!(who(&wire.query(WHO).await), "home", "{begin}");
        }
        // They are gone before the block has read them.
        two.tables.is_retired.store(true, Ordering::Relaxed);
        tag(&mut wire, "begin isolation level serializable read only").await;
        assert_eq!(who(&wire.query(WHO).await), "leader");
        tag(&mut wire, "commit").await;
        two.tables.is_retired.store(false, Ordering::Relaxed);
    });
}

#[test]
fn silence_and_cancel_end_a_block_as_elsewhere() {
    run(async |two| {
        let mut wire = two.client().await;
        wire.rows("set idle_in_transaction_session_timeout = '50ms'")
            .await;
        tag(&mut wire, "begin").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(error(&wire.until('E').await).sqlstate(), "25P03");
        let mut wire = two.client().await;
        wire.rows("set transaction_timeout = '60ms'").await;
        tag(&mut wire, "begin read only").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        assert_eq!(error(&wire.until('E').await).sqlstate(), "25P04");
        // A limit on silence outside of blocks does not end a client that reads.
        let mut wire = two.client().await;
        wire.rows("set idle_session_timeout = '300ms'").await;
        for _ in 0..8 {
            assert_eq!(who(&wire.query(WHO).await), "home");
            coeval_env::sleep(Duration::from_millis(60)).await;
        }
        tag(&mut wire, "begin").await;
        coeval_env::sleep(Duration::from_millis(350)).await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        tag(&mut wire, "commit").await;
        tag(&mut wire, "update t set a = a").await;
        assert_eq!(error(&wire.until('E').await).sqlstate(), "57P05");
        // Statements are canceled, and end their block.
        let mut wire = two.client().await;
        let endless = "select count(*) from generate_series(1, 1000000000)";
        for begin in ["begin", "begin isolation level serializable read only"] {
            tag(&mut wire, begin).await;
            assert_eq!(who(&wire.query(WHO).await), "home");
            wire.send(&query(endless)).await;
            coeval_env::sleep(Duration::from_millis(50)).await;
            let mut canceler = Wire::open(two.follower.address()).await;
            canceler.send(&packet(CANCEL, &wire.key)).await;
            let answers = wire.until('Z').await;
            assert_eq!(
                (error(&answers).sqlstate(), status(&answers)),
                ("57014", 'E')
            );
            assert_eq!(state(&mut wire, WHO).await.0, "25P02");
            tag(&mut wire, "rollback").await;
        }
        wire.rows("set statement_timeout = '50ms'").await;
        tag(&mut wire, "begin").await;
        assert_eq!(state(&mut wire, endless).await, ("57014".into(), 'E'));
        tag(&mut wire, "rollback").await;
        two.tables.hangs.store(true, Ordering::Relaxed);
        tag(&mut wire, "begin").await;
        assert_eq!(state(&mut wire, WHO).await, ("57014".into(), 'E'));
        two.tables.hangs.store(false, Ordering::Relaxed);
        assert_eq!(state(&mut wire, WHO).await, ("25P02".into(), 'E'));
        tag(&mut wire, "rollback").await;
        // The block is listed.
        tag(&mut wire, "begin").await;
        assert_eq!(who(&wire.query(WHO).await), "home");
        let mut watcher = two.client().await;
        watcher.rows("select 1").await;
        let shown = "select count(*) from pg_stat_activity where state = 'idle in transaction'";
        assert_eq!(watcher.value(shown).await.as_deref(), Some("1"));
    });
}

/// What comes after the end of a block is a cycle like any other, in the same Query or in the
/// same packet.
#[test]
fn what_follows_the_end_of_a_block_is_fresh_and_may_write() {
    const REPORT: &str = "begin isolation level repeatable read read only";
    run(async |two| {
        let mut wire = two.client().await;
        for (begin, within, after) in [
            (REPORT, WHO, format!("commit; {WHO}")),
            (REPORT, WHO, format!("commit and chain; {WHO}")),
            ("begin", "select 1/0", format!("rollback; {WHO}")),
        ] {
            wire.query(begin).await;
            wire.query(within).await;
            let asked = questions(two);
            let answers = wire.query(&after).await;
            assert_eq!(who(&answers), "home", "{after}");
            assert!(questions(two) > asked, "{after}");
            wire.query("rollback").await;
        }
        for (begin, within, end) in [(REPORT, WHO, "commit"), ("begin", "select 1/0", "rollback")] {
            let asked = questions(two);
            wire.send(&[begin, within, end, WHO].map(query).concat())
                .await;
            let mut last = Vec::new();
            for _ in 0..4 {
                last = wire.until('Z').await;
            }
            assert_eq!(who(&last), "home", "{begin}");
            let own = u64::from(begin == REPORT);
            assert!(questions(two) - asked > own, "{begin}");

            let write = "update t set b = b where a = 1";
            wire.send(&[begin, within, end, write].map(query).concat())
                .await;
            for _ in 0..4 {
                last = wire.until('Z').await;
            }
            assert_eq!(kinds(&last), "CZ", "{begin}: {last:?}");
            assert_eq!(status(&last), 'I', "{begin}");
        }
    });
}

/// An unnamed portal that has nothing more to return does not keep its block from moving.
#[test]
fn a_portal_that_has_ended_keeps_no_block_here() {
    run(async |two| {
        let mut wire = two.client().await;
        let steps = |text: &str| [parse("", text, &[]), bind("", "", &[]), execute("", 0)].concat();
        for begin in ["begin", "begin read only"] {
            for (text, expected) in [
                ("copy t to stdout", "12HdcCZ"),
                ("", "12IZ"),
                ("-- nothing", "12IZ"),
                ("explain select b from t", "12DDCZ"),
            ] {
                tag(&mut wire, begin).await;
                let answers = wire.ask(&[steps(text), sync()]).await;
                assert_eq!(
                    (&*kinds(&answers), status(&answers)),
                    (expected, 'T'),
                    "{text}"
                );
                let moves = "select b from t where txid_current() > 0";
                assert_eq!(who(&wire.query(moves).await), "leader", "{begin}: {text}");
                tag(&mut wire, "commit").await;
            }
        }
        // A portal of COPY runs once; one of an empty statement as often as it is asked to.
        let twice = [steps("copy t to stdout"), execute("", 0), sync()];
        let answers = wire.ask(&twice).await;
        assert_eq!(error(&answers).sqlstate(), "55000");
        let twice = [steps(""), execute("", 0), sync()];
        assert_eq!(kinds(&wire.ask(&twice).await), "12IIZ");
    });
}
