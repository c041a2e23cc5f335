//! How many transactions work at once: who waits, and who never does.

use coeval_server::Settings;
use coeval_testkit::server::{settings, with_running};
use coeval_testkit::wire::{Wire, error, packet, query};

const CANCEL: u32 = 80_877_102;

/// A number of rows that no server counts in the available time.
const ENDLESS: &str = "select count(*) from generate_series(1, 1000000000000)";

fn one_at_a_time() -> Settings {
    Settings {
        max_running_transactions: 1,
        worker_threads: 2,
        ..settings()
    }
}

#[test]
fn those_who_rest_keep_nobody_out() {
    with_running(one_at_a_time(), async |server| {
        let address = server.address();
        let mut holder = Wire::connect(address).await;
        holder
            .rows("create table t (id int primary key, n int)")
            .await;
        holder.rows("insert into t values (1, 0)").await;
        // One rests for its client, others for its lock, more of them than places.
        holder.rows("begin").await;
        holder.rows("update t set n = n + 1").await;
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let mut waiter = Wire::connect(address).await;
            waiter.send(&query("update t set n = n + 1")).await;
            waiters.push(waiter);
        }
        let mut other = Wire::connect(address).await;
        assert_eq!(other.value("select n from t").await.as_deref(), Some("0"));
        // Those that were let in before go on, places or not.
        holder.rows("update t set n = n + 1").await;
        holder.rows("commit").await;
        for waiter in &mut waiters {
            assert_eq!(waiter.until('Z').await[0].tag(), "UPDATE 1");
        }
        assert_eq!(other.value("select n from t").await.as_deref(), Some("5"));
        let counts = server.admission();
        assert_eq!((counts.places, counts.working, counts.waiting), (1, 0, 0));
        assert!(counts.lapsed > 0 && counts.waited > 0, "{counts:?}");
    });
}

#[test]
fn one_that_works_keeps_its_place_and_others_can_give_up() {
    with_running(one_at_a_time(), async |server| {
        let address = server.address();
        let mut setup = Wire::connect(address).await;
        setup.rows("create table t (id int primary key)").await;
        let mut worker = Wire::connect(address).await;
        worker.send(&query(ENDLESS)).await;
        while server.admission().working == 0 {
            coeval_env::yield_now().await;
        }
        // Waits at the door for longer than it may, or until it is canceled.
        let mut limited = Wire::connect(address).await;
        limited.rows("set statement_timeout = '250ms'").await;
        let answers = limited.query("select id from t").await;
        assert_eq!(error(&answers).sqlstate(), "57014");
        let mut canceled = Wire::connect(address).await;
        canceled.send(&query("select id from t")).await;
        while server.admission().waiting == 0 {
            coeval_env::yield_now().await;
        }
        let cancel = |key: Vec<u8>| async move {
            Wire::open(address).await.send(&packet(CANCEL, &key)).await;
        };
        // Others see what it waits for.
        let mut watcher = Wire::connect_as(address, "coeval").await;
        let asked = "select wait_event_type, wait_event from pg_stat_activity \
             where query = 'select id from t' and state = 'active'";
        let waits = watcher.rows(asked).await;
        assert_eq!(
            waits,
            [["IPC", "Admission"].map(|name| Some(name.to_owned()))]
        );
        cancel(canceled.key.clone()).await;
        assert_eq!(error(&canceled.until('Z').await).sqlstate(), "57014");
        // One that goes away leaves the queue.
        let mut gone = Wire::connect(address).await;
        gone.send(&query("select id from t")).await;
        while server.admission().waiting == 0 {
            coeval_env::yield_now().await;
        }
        drop(gone);
        while server.admission().waiting > 0 {
            coeval_env::yield_now().await;
        }
        // A statement without a transaction needs no slot, and a superuser never needs
        // one.
        assert_eq!(
            canceled.value("show server_encoding").await.as_deref(),
            Some("UTF8")
        );
        let mut superuser = Wire::connect_as(address, "coeval").await;
        superuser.rows("select id from t").await;
        cancel(worker.key.clone()).await;
        assert_eq!(error(&worker.until('Z').await).sqlstate(), "57014");
        limited.rows("select id from t").await;
    });
}
