//! Functions that wait, in simulated time: sleeps, and advisory locks beside the engine's.

use std::sync::Arc;
use std::time::Duration;

use coeval_env::sim::World;
use coeval_sql::Database;
use coeval_sql::session::{Session, SessionOptions};

use crate::client::{must, query};
use crate::engines;

/// A session with a number of its own, by which the engine's waits name it.
fn session(database: &Arc<Database>, process_id: i32) -> Session {
    let options = SessionOptions {
        user: "tester".to_owned(),
        database: "test".to_owned(),
        process_id,
        ..SessionOptions::default()
    };
    Session::new(Arc::clone(database), options).expect("sound options")
}

/// Runs a test in a world of its own; the seconds that it took there.
fn seconds<F>(test: impl FnOnce(Arc<Database>) -> F + 'static) -> u64
where
    F: Future<Output = ()> + 'static,
{
    let world = World::new(1);
    let node = world.node();
    let done = world.run(node, async move {
        let database = engines::database(engines::occ()).await;
        let began = coeval_env::now();
        test(database).await;
        began.elapsed().as_secs()
    });
    done.expect("the test ends")
}

/// Runs a statement beside the test; what it says.
fn beside(
    mut session: Session,
    text: &'static str,
) -> coeval_env::JoinHandle<(Session, Vec<String>)> {
    coeval_env::spawn("beside", async move {
        let said = query(&mut session, text, "").await;
        (session, said)
    })
}

#[test]
fn a_sleep_takes_its_time_and_no_thread() {
    let took = seconds(|database| async move {
        let sleeper = beside(session(&database, 1), "select pg_sleep(2), pg_sleep(0), 7");
        let mut other = session(&database, 2);
        coeval_env::sleep(Duration::from_millis(500)).await;
        let shown = must(
            &mut other,
            "select wait_event_type, wait_event from pg_stat_activity where pid = 1",
        )
        .await;
        assert_eq!(shown[1], "  Timeout | PgSleep");
        assert!(!sleeper.is_finished());
        let (_, said) = sleeper.await.expect("no panic");
        assert_eq!(said[1..], ["   |  | 7", "  SELECT 1"]);
        must(&mut other, "select pg_sleep(-1), pg_sleep('nan')").await;
        must(&mut other, "select pg_sleep_until(clock_timestamp())").await;
    });
    assert_eq!(took, 2);
}

#[test]
fn each_row_sleeps() {
    let took = seconds(|database| async move {
        let mut session = session(&database, 1);
        let said = must(
            &mut session,
            "select n, pg_sleep(1) is null from generate_series(1, 3) n",
        )
        .await;
        assert_eq!(said.len(), 5);
        must(&mut session, "select * from pg_sleep(1)").await;
        must(&mut session, "select (select pg_sleep(1)) is null").await;
        must(&mut session, "select pg_sleep_for('2 seconds')").await;
        must(&mut session, "select pg_sleep_for('-1 month')").await;
        // A condition over the rows of a hash join.
        let joined = "select count(*) from generate_series(1, 2) a(n) join \
                      generate_series(2, 3) b(n) on a.n = b.n and pg_sleep(1) is not null";
        must(&mut session, joined).await;
    });
    assert_eq!(took, 8);
}

#[test]
fn a_timeout_ends_a_sleep_and_a_wait_for_a_lock() {
    let took = seconds(|database| async move {
        let (mut holder, mut waiter) = (session(&database, 1), session(&database, 2));
        must(&mut holder, "select pg_advisory_lock(1)").await;
        must(&mut waiter, "set statement_timeout = '1s'").await;
        for sleep in ["select pg_sleep(100)", "select pg_advisory_lock(1)"] {
            let said = query(&mut waiter, sleep, "").await;
            let expected = "  ERROR 57014: canceling statement due to statement timeout";
            assert!(said.iter().any(|line| line == expected), "{said:?}");
        }
        must(&mut waiter, "set statement_timeout = 0").await;
        must(&mut waiter, "set lock_timeout = '1s'").await;
        let said = query(&mut waiter, "select pg_advisory_lock(1)", "").await;
        let expected = "  ERROR 55P03: canceling statement due to lock timeout";
        assert!(said.iter().any(|line| line == expected), "{said:?}");
        // Nothing of the waits is left.
        let said = must(&mut holder, "select count(*) from pg_locks").await;
        assert_eq!(said[1], "  1");
    });
    assert_eq!(took, 3);
}

#[test]
fn a_deadlock_of_an_advisory_lock_and_a_row_is_found() {
    let took = seconds(|database| async move {
        let (mut one, mut two) = (session(&database, 1), session(&database, 2));
        must(&mut one, "create table t (id int primary key, a int)").await;
        must(&mut one, "insert into t values (1, 1)").await;
        must(&mut one, "begin").await;
        must(&mut one, "update t set a = 2 where id = 1").await;
        must(&mut two, "begin").await;
        must(&mut two, "select pg_advisory_xact_lock(1)").await;
        let one = beside(one, "select pg_advisory_lock(1)");
        coeval_env::sleep(Duration::from_millis(10)).await;
        let two = beside(two, "update t set a = 3 where id = 1");
        let (one, said) = one.await.expect("no panic");
        assert!(
            said.iter()
                .any(|line| line == "  ERROR 40P01: deadlock detected"),
            "{said:?}"
        );
        drop(one);
        let (_, said) = two.await.expect("no panic");
        assert_eq!(said, ["  UPDATE 1"]);
    });
    assert!((1..=3).contains(&took), "{took} seconds");
}

#[test]
fn the_end_of_a_session_frees_its_locks() {
    seconds(|database| async move {
        let (mut holder, mut other) = (session(&database, 1), session(&database, 2));
        must(
            &mut holder,
            "select pg_advisory_lock(1), pg_advisory_lock_shared(2, 3)",
        )
        .await;
        must(&mut holder, "begin").await;
        must(&mut holder, "select pg_advisory_xact_lock(4)").await;
        let said = must(&mut other, "select pg_blocking_pids(2)").await;
        assert_eq!(said[1], "  {}");
        let waiter = beside(session(&database, 3), "select pg_advisory_lock(4)");
        coeval_env::sleep(Duration::from_millis(10)).await;
        let said = must(
            &mut other,
            "select pg_blocking_pids(3), count(*) filter (where granted), \
             count(*) filter (where not granted and waitstart is not null) from pg_locks",
        )
        .await;
        assert_eq!(said[1], "  {1} | 3 | 1");
        drop(holder);
        let (waiter, said) = waiter.await.expect("no panic");
        assert_eq!(said.last().map(String::as_str), Some("  SELECT 1"));
        drop(waiter);
        let said = must(&mut other, "select count(*) from pg_locks").await;
        assert_eq!(said[1], "  0");
    });
}
