//! Sessions on threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{must, query, session};
use crate::engines::{database, occ};

/// Between finding a row in the way and locking it, the row may give the key up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_conflict_updates_only_a_row_that_has_the_key() {
    let database = database(occ()).await;
    let mut first = session(&database);
    must(
        &mut first,
        "create table t (a int primary key, u int unique); insert into t values (1, 1)",
    )
    .await;
    let done = Arc::new(AtomicBool::new(false));
    let moving = {
        let (database, done) = (Arc::clone(&database), Arc::clone(&done));
        coeval_env::spawn("moving", async move {
            let mut session = session(&database);
            while !done.load(Ordering::Relaxed) {
                // Refused while the other's row has the key.
                query(&mut session, "update t set u = 3 - u where a = 1", "").await;
                coeval_env::yield_now().await;
            }
        })
    };
    for _ in 0..1000 {
        let upsert =
            "insert into t values (2, 1) on conflict (u) do update set a = t.a returning u";
        let said = query(&mut first, upsert, "").await;
        // It may also be the one that gives way in a deadlock.
        assert!(!said.iter().any(|line| line == "  2"), "{said:?}");
        must(&mut first, "delete from t where a = 2").await;
    }
    done.store(true, Ordering::Relaxed);
    moving.await.expect("no panic");
}
